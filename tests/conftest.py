# SPDX-License-Identifier: Apache-2.0
"""Settings that must stand before TensorFlow is imported."""

from __future__ import annotations

import os
from importlib.metadata import PackageNotFoundError, version

from hypothesis import settings

try:
    TENSORFLOW = version("tensorflow")
except PackageNotFoundError:
    TENSORFLOW = version("tensorflow-cpu")

# Graph-mode model functions are programs of Keras 2, which TensorFlow has built in up to 2.15.
if tuple(map(int, TENSORFLOW.split(".")[:2])) >= (2, 16):
    os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

# A first call builds a graph, and the machine may be busy: how long an example took says nothing.
settings.register_profile("patient", parent=settings.default, deadline=None)
settings.load_profile("patient")
