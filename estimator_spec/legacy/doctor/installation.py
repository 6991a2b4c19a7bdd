# SPDX-License-Identifier: Apache-2.0
"""Reads what is installed for this Python, from the distributions' metadata."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import os
import platform
from collections.abc import Mapping
from typing import Any

from packaging.utils import canonicalize_name
from packaging.version import Version

from estimator_spec.legacy import tensorflow_names

OWN = "tpu-columns"
# Distributions with the same modules under the name of their nightly builds.
_NIGHTLIES = {"keras-nightly": "keras", "tf-keras-nightly": "tf-keras"}
# What the table shows, and whose requirements are checked.
SHOWN = (
    *("tensorflow", "tf-keras", "keras", "keras-rs", "protobuf", "numpy", "tensorboard"),
    *("tensorflow-estimator", "tensorflow-recommenders", "tf-slim", OWN),
)


@dataclasses.dataclass(frozen=True)
class Installation:
    """An environment's Python, distributions and environment variables.

    Attributes:
        python: version of Python.
        versions: versions by canonical name; any distribution of TensorFlow as 'tensorflow', and
            nightly builds under the names of the releases.
        tensorflows: names of the distributions that provide `tensorflow`.
        requirements: requirements by the name of the distribution that has them.
        variables: environment variables.
    """

    python: str
    versions: Mapping[str, str]
    tensorflows: tuple[str, ...] = ()
    requirements: Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)
    variables: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def release(self, name: str) -> tuple[int, int] | None:
        """Returns major and minor version of a distribution; None if it isn't installed."""
        if name not in self.versions:
            return None
        version = Version(self.versions[name])
        return version.major, version.minor

    def has(self, name: str, least: tuple[int, int], below: tuple[int, int] = (99, 0)) -> bool:
        """Returns whether a distribution is installed with a version in [least, below)."""
        release = self.release(name)
        return release is not None and least <= release < below


def read_installation() -> Installation:
    """Returns what is installed for this Python."""
    versions: dict[str, str] = {}
    requirements: dict[str, tuple[str, ...]] = {}
    tensorflows = []
    for distribution in importlib.metadata.distributions():
        metadata: Any = distribution.metadata
        if metadata is None or metadata["Name"] is None:  # left over from a broken installation
            continue
        name = str(canonicalize_name(metadata["Name"]))
        if name in tensorflow_names.DISTRIBUTIONS:
            tensorflows.append(name)
            name = "tensorflow"
        name = _NIGHTLIES.get(name, name)
        if name not in versions:  # the first on the path is the one that is imported
            versions[name] = distribution.version
            requirements[name] = tuple(distribution.requires or ())
    return Installation(
        platform.python_version(),
        versions,
        tuple(sorted(set(tensorflows))),
        {name: requirements[name] for name in SHOWN if name in requirements},
        dict(os.environ),
    )
