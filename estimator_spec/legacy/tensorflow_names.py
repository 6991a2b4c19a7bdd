# SPDX-License-Identifier: Apache-2.0
"""Knows which names TensorFlow had in some of its versions, without importing it.

`tensorflow_names.z` has the public names of TensorFlow 1.15, 2.8, 2.15 and 2.21, with Keras 2 as
`tf.keras`, and all names of their private modules. `tests/data/make_tensorflow_names.py` records
them.
"""

from __future__ import annotations

import functools
import importlib.metadata
import os
import zlib
from collections.abc import Mapping
from typing import NamedTuple

from packaging.version import InvalidVersion, Version

from estimator_spec.legacy.module_spellings import prefixes
from estimator_spec.legacy.version_0_names import VERSION_0

VERSIONS = ("1.15.5", "2.8.4", "2.15.1", "2.21.0")
NEWEST = VERSIONS[-1]
# Distributions that provide the module `tensorflow`.
DISTRIBUTIONS = ("tensorflow", "tensorflow-cpu", "tf-nightly", "tf-nightly-cpu")
_FILE = os.path.join(os.path.dirname(__file__), "tensorflow_names.z")
_ANY = "*"
# Parts of TensorFlow that don't belong to an API version, and what all versions of the API lost.
_NOT_BY_API = ("compat", "contrib", "core", "estimator", "lite", "python", "tools", "tsl")
# Packages that can be imported, and that the module `tensorflow` has no attributes for.
IMPORTED_ONLY = ("core", "python")


class _RecordedPlace(NamedTuple):
    """A module, or a class that has lost members.

    Attributes:
        is_module: whether it is a module.
        versions: the versions that have it, as bits.
        names: the versions that have each of its names, as bits; of a class, only names that the
            newest version lacks.
    """

    is_module: bool
    versions: int
    names: Mapping[str, int]


@functools.cache
def _lines() -> dict[str, str]:
    """Returns the recorded line of each module and class."""
    with open(_FILE, "rb") as file:
        lines = zlib.decompress(file.read()).decode().split("\n")
    if tuple(lines[0].split()) != VERSIONS:
        raise RuntimeError(f"{_FILE} has the versions {lines[0]}; expected {' '.join(VERSIONS)}.")
    return {line.split(" ", 2)[1]: line for line in lines[1:]}


@functools.cache
def _place(name: str) -> _RecordedPlace | None:
    """Returns the module or class of a name; None if there is none in any version."""
    line = _lines().get(name)
    if line is None:
        return None
    start, *groups = line.split(":")
    kind, _, versions = start.split()
    names = {}
    for group in groups:
        mask, *members = group.split()
        names.update(dict.fromkeys(members, int(mask, 16)))
    return _RecordedPlace(kind == "module", int(versions, 16), names)


def _module(name: str, bit: int) -> _RecordedPlace | None:
    """Returns the module of a name; None if the version of a bit has none."""
    place = _place(name)
    return place if place is not None and place.is_module and place.versions & bit else None


def exists(name: str, version: str = NEWEST, is_recorded: bool = False) -> bool:
    """Returns whether a version of TensorFlow has a name, as far as is known.

    Attributes of functions and objects aren't known, and count as existing.

    >>> exists("tensorflow.Session", "1.15.5"), exists("tensorflow.Session")
    (True, False)
    >>> exists("tensorflow.core.framework.summary_pb2.Summary")
    True

    Args:
        name: the full dotted name, which begins with 'tensorflow'.
        version: one of `VERSIONS`.
        is_recorded: names of modules whose names aren't recorded don't count.
    """
    bit = 1 << VERSIONS.index(version)
    parts = _without_nested_api(name)
    at = parts[0]
    for part in parts[1:]:
        place = _place(at)
        if part.startswith("__") and part.endswith("__"):
            return True  # such as `__version__`, of each module
        if place is None:
            return True  # `at` is in a module that has it
        if not place.versions & bit:
            return not is_recorded
        at = f"{at}.{part}"
        if _module(at, bit) is not None:
            continue
        if place.names.get(_ANY, 0) & bit:
            return not is_recorded
        if not place.names.get(part, 0 if place.is_module else bit) & bit:
            return False
    return True


def _without_nested_api(name: str) -> list[str]:
    """Returns the parts of a name, without an API version in another one."""
    parts = name.split(".")
    while parts[1:2] == parts[3:4] == ["compat"]:
        del parts[1:3]
    return parts


def versions_of(name: str) -> tuple[str, ...]:
    """Returns the recorded versions that have a name.

    >>> versions_of("tensorflow.contrib.seq2seq.LuongAttention")
    ('1.15.5',)
    >>> versions_of("tensorflow.summary.value")  # in 2.15 TensorBoard's module
    ()
    """
    return tuple(version for version in VERSIONS if exists(name, version, is_recorded=True))


def is_module(name: str, version: str = NEWEST) -> bool:
    """Returns whether a version of TensorFlow has a module.

    >>> is_module("tensorflow.contrib.slim", "1.15.5"), is_module("tensorflow.nn.relu")
    (True, False)
    """
    full = ".".join(_without_nested_api(name))
    return _module(full, 1 << VERSIONS.index(version)) is not None


def names_in(module: str, version: str = NEWEST) -> tuple[str, ...]:
    """Returns the names that a module has in a version, its submodules among them; else ()."""
    bit = 1 << VERSIONS.index(version)
    place = _module(module, bit)
    if place is None:
        return ()
    return tuple(name for name, mask in place.names.items() if mask & bit and name != _ANY)


def modules(version: str = NEWEST, root: str = "tensorflow") -> tuple[str, ...]:
    """Returns the full names of a module and of all modules in it, in a version."""
    within = (name for name in _lines() if f"{name}.".startswith(f"{root}."))
    return tuple(name for name in within if is_module(name, version))


def is_only_in_tf1(name: str, version: str = NEWEST) -> bool:
    """Returns whether only TensorFlow 1 has a name of `tensorflow`, or 0.x had.

    TensorFlow 1's names are in `tensorflow.compat.v1` now.

    >>> is_only_in_tf1("Session"), is_only_in_tf1("metrics.auc"), is_only_in_tf1("nn.relu")
    (True, True, False)

    Args:
        name: relative to `tensorflow`.
        version: one of `VERSIONS`, other than 1.15's.
    """
    if name.split(".")[0] in _NOT_BY_API:
        return False  # the same in both
    if not of_version_0().isdisjoint(prefixes(f"tensorflow.{name}")):
        return True
    in_tf1 = exists(f"tensorflow.compat.v1.{name}", version)
    return in_tf1 and not exists(f"tensorflow.{name}", version)


@functools.cache
def of_version_0() -> frozenset[str]:
    """Returns the full names that TensorFlow 0.x had, and that 1.0 renamed."""
    return frozenset(f"{module}.{row.name}" for row in VERSION_0 for module in row.modules())


@functools.cache
def installed() -> str | None:
    """Returns the version of the installed TensorFlow, by its metadata; None if there is none."""
    for name in DISTRIBUTIONS:
        try:
            return importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return None


def recorded(version: str | None) -> str:
    """Returns the recorded version that stands for a version: the same, the next one or the last.

    TensorFlow lost its Estimator between 2.15 and 2.16.

    >>> recorded("2.15.0"), recorded("2.16.2"), recorded(None)
    ('2.15.1', '2.21.0', '2.21.0')
    """
    try:
        release = Version(version or NEWEST).release[:2]
    except InvalidVersion:
        return NEWEST
    later = [each for each in VERSIONS if Version(each).release[:2] >= release]
    return later[0] if later else NEWEST
