# SPDX-License-Identifier: Apache-2.0
"""Chooses the Keras that a graph-mode program needs, while there is still a choice.

From TensorFlow 2.16 on `tf.keras` is Keras 3, which can't build v1 graphs; `tf_keras` can, and
TensorFlow takes it if TF_USE_LEGACY_KERAS is set at the first use of `tf.keras`.
"""

from __future__ import annotations

import importlib.util
import os
import sys

import tensorflow as tf

from estimator_spec._tensorflow import private

VARIABLE = "TF_USE_LEGACY_KERAS"


def _release() -> tuple[int, int]:
    major, minor = tf.__version__.split(".")[:2]
    return int(major), int(minor)


def prefer() -> bool:
    """Makes `tf.keras` and `tf.compat.v1.layers` come from tf_keras, if that is still open.

    Nothing happens if the variable is set (to whatever value), `tf.keras` was used already,
    tf_keras isn't installed, or TensorFlow is older than 2.16 (its Keras is the legacy one).

    Returns:
        Whether this call chose it.
    """
    if VARIABLE in os.environ or _release() < (2, 16) or private.keras_is_loaded():
        return False
    if importlib.util.find_spec("tf_keras") is None:
        return False
    os.environ[VARIABLE] = "1"
    private.prefer_keras_package("tf_keras")
    return True


def forget_layer_names() -> None:
    """Makes Keras name layers from the beginning: each replica of a model has the same names."""
    for package in ("tf_keras", "keras"):
        backend = getattr(sys.modules.get(package), "backend", None)
        reset = getattr(backend, "reset_uids", None)
        if reset is not None:  # Keras 3 has none, and no part in TF1's graphs
            reset()
