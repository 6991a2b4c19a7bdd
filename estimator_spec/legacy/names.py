# SPDX-License-Identifier: Apache-2.0
"""Assembles the table of restored names: places and present location of each.

`install()`, docs/legacy_names.md and the tests read it. A row is one name. A `Group` holds rows
with the same places and the same present module; a `Library` stands for all names of a module.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator

from estimator_spec.legacy import (
    canned_names,
    contrib_names,
    estimator_names,
    extender_names,
    head_names,
    tpu_names,
)
from estimator_spec.legacy.module_spellings import spellings
from estimator_spec.legacy.name_rows import Row, When

__all__ = ["GROUPS", "LIBRARIES", "Row", "When", "libraries_by_module", "rows"]

GROUPS = (
    *estimator_names.ESTIMATOR,
    *estimator_names.EXPORT,
    *estimator_names.HOOKS,
    *estimator_names.PRIVATE,
    *extender_names.EXTENDERS,
    *canned_names.CANNED,
    *head_names.HEADS,
    *tpu_names.TPU,
    *tpu_names.EMBEDDINGS,
    *tpu_names.CONTRIB_TPU,
    *contrib_names.CONTRIB,
    *contrib_names.MOVED,
    *tpu_names.ON_HOST,
    *contrib_names.SUMMARIES,
)
LIBRARIES = contrib_names.LIBRARIES


def rows() -> Iterator[Row]:
    """Every removed name of the table."""
    for group in GROUPS:
        for name in group.names.split():
            old, _, new = name.partition("=")
            yield Row(old, tuple(group.places.split()), f"{group.home}.{new or old}", group.when)


def libraries_by_module() -> dict[str, tuple[str, ...]]:
    """Returns the modules of installed libraries that have the names of each removed module."""
    return {
        module: homes
        for library in LIBRARIES
        if is_installed((homes := tuple(library.homes.split()))[0])
        for place in library.places.split()
        for module in spellings(place)
    }


def is_installed(module: str) -> bool:
    """Returns whether the package of a module is installed, without importing it."""
    return importlib.util.find_spec(module.partition(".")[0]) is not None
