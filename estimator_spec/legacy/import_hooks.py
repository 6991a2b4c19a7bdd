# SPDX-License-Identifier: Apache-2.0
"""Changes modules of other libraries when a program imports them; none is imported for it."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
import types
from collections.abc import Callable, Sequence
from typing import Any

from estimator_spec.legacy.undo import ReversibleChanges

_Action = Callable[[types.ModuleType], None]


def when_imported(name: str, act: _Action, changes: ReversibleChanges) -> None:
    """Calls a function with a module, now or when it is imported.

    Args:
        name: the module's full name.
        act: the function.
        changes: undoes the waiting.
    """
    if name in sys.modules:
        act(sys.modules[name])
    else:
        changes.add_finder(_Finder(name, act), first=True)


class _Finder(importlib.abc.MetaPathFinder):
    """Import finder for one module."""

    def __init__(self, name: str, act: _Action) -> None:
        self._name = name
        self._act = act

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: types.ModuleType | None = None,
    ) -> importlib.machinery.ModuleSpec | None:
        """See `importlib.abc.MetaPathFinder`."""
        if fullname != self._name:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader, self._act)
        return spec


class _Loader(importlib.abc.Loader):
    """Loader of a module that calls a function after the module has run."""

    def __init__(self, loader: Any, act: _Action) -> None:
        self._loader = loader
        self._act = act

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType | None:
        """See `importlib.abc.Loader`."""
        return self._loader.create_module(spec)  # type: ignore[no-any-return]

    def exec_module(self, module: types.ModuleType) -> None:
        """Runs the module, and calls the function."""
        self._loader.exec_module(module)
        self._act(module)
