# SPDX-License-Identifier: Apache-2.0
"""Returns removed names one by one, for programs that don't call `install()`.

`python -m estimator_spec migrate` writes calls of `restored` for names that have no public
replacement.
"""

from __future__ import annotations

import functools
import types
from typing import Any

from estimator_spec.legacy import installation, modules, names, stand_ins, unsupported_names
from estimator_spec.legacy.guide_pages import find_page
from estimator_spec.legacy.module_spellings import MOVED, is_removed, prefixes
from estimator_spec.legacy.name_rows import When


def restored(name: str) -> Any:
    """Returns what `install()` puts under a removed name, without installing anything.

    >>> import estimator_spec
    >>> hparam = estimator_spec.restored("tensorflow.contrib.training.python.training.hparam")
    >>> hparam.HParams(units=8).units
    8

    Args:
        name: the full name of a removed module, class or function, in any spelling: a name of
            `tf.contrib` begins with `tensorflow.contrib`.

    Returns:
        A module with the restored names, or our class or function, on TensorFlow 2.15 too. For a
        removed name that isn't restored it is a stand-in, which raises an error with advice when
        it is called.

    Raises:
        ValueError: TensorFlow didn't remove this name.
    """
    found = _modules(frozenset(installation.cases()))
    for module in prefixes(name):
        if module in MOVED:
            return modules.resolve(f"{MOVED[module]}{name.removeprefix(module)}")
        rest = name[len(module) + 1 :]
        if module in found and (is_removed(module) or rest):
            return _attribute(found[module], module, rest.split(".") if rest else [])
    raise ValueError(
        f"{name!r} isn't a name that TensorFlow removed; expected a full name such as "
        f"'tensorflow.contrib.training.HParams'. {find_page('docs/legacy_names.md')} lists them."
    )


def _attribute(value: Any, name: str, rest: list[str]) -> Any:
    """Returns an attribute of an attribute of a module."""
    for part in rest:
        owner, name = name, f"{name}.{part}"
        if isinstance(value, stand_ins.StandIn):
            value = stand_ins.StandIn(name)
            continue
        try:
            value = getattr(value, part)
        except AttributeError:
            if not is_removed(name) and not unsupported_names.is_listed(owner, part):
                raise ValueError(f"{name!r} isn't a name that TensorFlow removed.") from None
            value = stand_ins.StandIn(name)
    return value


@functools.cache
def _modules(cases: frozenset[When]) -> dict[str, Any]:
    """Returns the modules that have restored names, by their full names."""
    table = installation.getters_by_module(installation.State(True, cases))
    libraries = names.libraries_by_module()
    # Parents come first. Modules that TensorFlow still has get theirs, too: only names of the
    # table are read from them.
    found: dict[str, Any] = {
        name: modules.LegacyModule(name, getters, libraries.get(name, ()))
        for name, getters in table.items()
        if is_removed(name) or getters
    }
    for name, module in found.items():
        parent, _, last = name.rpartition(".")
        if isinstance(found.get(parent), types.ModuleType) and is_removed(name):
            setattr(found[parent], last, module)
    return found
