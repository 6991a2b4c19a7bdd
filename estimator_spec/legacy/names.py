# SPDX-License-Identifier: Apache-2.0
"""Assembles the table of restored names: places and present location of each.

`install()`, docs/legacy_names.md and the tests read it. A row is one name; a `Library` stands for
all names of a module.
"""

from __future__ import annotations

import importlib.util

from estimator_spec.legacy import (
    canned_names,
    contrib_learn_names,
    contrib_names,
    estimator_names,
    head_names,
    tpu_names,
    version_0_names,
)
from estimator_spec.legacy.module_spellings import spellings
from estimator_spec.legacy.name_rows import Row, When

__all__ = ["LIBRARIES", "Row", "When", "libraries_by_module", "rows"]

LIBRARIES = contrib_names.LIBRARIES


def rows() -> tuple[Row, ...]:
    """Returns every removed name of the tables."""
    return (
        *estimator_names.ESTIMATOR,
        *estimator_names.EXPORT,
        *estimator_names.HOOKS,
        *estimator_names.EXTENDERS,
        *estimator_names.PRIVATE,
        *canned_names.CANNED,
        *head_names.HEADS,
        *tpu_names.TPU,
        *tpu_names.EMBEDDINGS,
        *tpu_names.CONTRIB_TPU,
        *contrib_names.CONTRIB,
        *contrib_names.MOVED,
        *contrib_learn_names.CONTRIB_LEARN,
        *version_0_names.VERSION_0,
        *tpu_names.ON_HOST,
        *tpu_names.SPARSE_CORE,
        *contrib_names.SUMMARIES,
    )


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
