# SPDX-License-Identifier: Apache-2.0
"""Assembles the table of restored names: places and present location of each.

`install()`, docs/legacy_names.md and the tests read it. A row is one name; a `ModuleHome` stands
for all names of a module.
"""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Iterator

from estimator_spec.legacy import (
    canned_names,
    contrib_learn_names,
    contrib_names,
    estimator_names,
    head_names,
    model_analysis_names,
    tensorflow_names,
    tpu_names,
    version_0_names,
)
from estimator_spec.legacy.module_spellings import spellings
from estimator_spec.legacy.name_rows import ModuleHome, Row, When


@functools.cache
def rows() -> tuple[Row, ...]:
    """Returns every removed name of the tables, and of the modules in `contrib_names.MODULES`."""
    return (
        *estimator_names.ESTIMATOR,
        *canned_names.CANNED,
        *head_names.HEADS,
        *tpu_names.TPU,
        *contrib_names.CONTRIB,
        *contrib_names.MOVED,
        *contrib_learn_names.CONTRIB_LEARN,
        *version_0_names.VERSION_0,
        *tpu_names.ON_HOST,
        *tpu_names.SPARSE_CORE,
        *contrib_names.SUMMARIES,
        *model_analysis_names.MODEL_ANALYSIS,
        *rows_of_modules(),
    )


@functools.cache
def rows_of_modules() -> tuple[Row, ...]:
    """Returns the names of the modules in `contrib_names.MODULES` that their new homes have."""
    return tuple(row for library in contrib_names.MODULES for row in _rows_of(library))


def _rows_of(library: ModuleHome) -> Iterator[Row]:
    """Yields the names of a module and of the modules in it."""
    tf1, (home,) = tensorflow_names.VERSIONS[0], library.homes
    members: dict[str, dict[str, None]] = {}  # by the path of their module from `places` on
    for root in (module for place in library.places for module in spellings(place)):
        for module in tensorflow_names.modules(tf1, root):
            path = module.removeprefix(root)
            names = tensorflow_names.names_in(module, tf1)
            members.setdefault(path, {}).update(dict.fromkeys(names))
    for path, found in members.items():
        for name in found:
            ours = f"{home}{path}.{name}"
            if f"{path}.{name}" not in members and tensorflow_names.exists(ours):
                yield Row(
                    name, tuple(f"{place}{path}" for place in library.places), ours, When.ALWAYS
                )


@functools.cache
def homes_by_module() -> dict[str, tuple[str, ...]]:
    """Returns the modules of libraries that have the names of each removed module."""
    return {
        module: library.homes
        for library in contrib_names.LIBRARIES
        for place in library.places
        for module in spellings(place)
    }


def libraries_by_module() -> dict[str, tuple[str, ...]]:
    """Returns the modules of installed libraries that have the names of each removed module."""
    return {module: homes for module, homes in homes_by_module().items() if is_installed(homes[0])}


def is_installed(module: str) -> bool:
    """Returns whether the package of a module is installed, without importing it."""
    return importlib.util.find_spec(module.partition(".")[0]) is not None
