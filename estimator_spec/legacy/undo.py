# SPDX-License-Identifier: Apache-2.0
"""Records changes to modules and to `sys.modules`, and undoes them."""

from __future__ import annotations

import contextlib
import sys
import types
from collections.abc import Iterable
from typing import Any

from estimator_spec.legacy.module_spellings import prefixes

_ABSENT = object()


class ReversibleChanges:
    """Changes to modules, undone in reverse order."""

    def __init__(self) -> None:
        self._undo = contextlib.ExitStack()

    def set_attribute(self, module: types.ModuleType, name: str, value: Any) -> None:
        """Sets an attribute of a module."""
        # Not getattr: that would load what TensorFlow loads lazily, Keras for one.
        before = vars(module).get(name, _ABSENT)
        setattr(module, name, value)
        if before is _ABSENT:
            self._undo.callback(delattr, module, name)
        else:
            self._undo.callback(setattr, module, name, before)

    def set_module(self, name: str, module: types.ModuleType) -> None:
        """Makes `import name` return this module."""
        if name in sys.modules:
            self._undo.callback(sys.modules.__setitem__, name, sys.modules[name])
        else:
            self._undo.callback(sys.modules.pop, name, None)
        sys.modules[name] = module

    def clear_modules(self, names: Iterable[str]) -> None:
        """Removes modules and their submodules from `sys.modules`, now and again on undo."""
        roots = frozenset(names)
        before = _modules_within(roots)
        for name in before:
            del sys.modules[name]

        def restore() -> None:
            for name in _modules_within(roots):
                del sys.modules[name]
            sys.modules.update(before)

        self._undo.callback(restore)

    def add_finder(self, finder: Any, first: bool = False) -> None:
        """Adds a finder to `sys.meta_path`, behind or before all others."""
        sys.meta_path.insert(0 if first else len(sys.meta_path), finder)
        self._undo.callback(sys.meta_path.remove, finder)

    def undo(self) -> None:
        """Undoes all changes, the last one first."""
        self._undo.close()


def _modules_within(roots: frozenset[str]) -> dict[str, types.ModuleType]:
    """Returns the imported modules that are one of `roots` or inside one."""
    modules = list(sys.modules.items())
    return {name: module for name, module in modules if not roots.isdisjoint(prefixes(name))}
