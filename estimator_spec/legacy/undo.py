# SPDX-License-Identifier: Apache-2.0
"""Changes to modules and to `sys.modules` that can all be taken back."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Iterable
from typing import Any

_ABSENT = object()


class Changes:
    """A list of changes, taken back last one first."""

    def __init__(self) -> None:
        self._steps: list[Callable[[], None]] = []

    def set_attribute(self, module: types.ModuleType, name: str, value: Any) -> None:
        """Sets an attribute of a module."""
        # Not getattr: that would load what TensorFlow loads lazily, Keras for one.
        before = vars(module).get(name, _ABSENT)
        setattr(module, name, value)
        if before is _ABSENT:
            self._steps.append(lambda: delattr(module, name))
        else:
            self._steps.append(lambda: setattr(module, name, before))

    def set_module(self, name: str, module: types.ModuleType) -> None:
        """Makes `import name` give this module."""
        before = sys.modules.get(name)
        sys.modules[name] = module
        self._steps.append(lambda: _restore({name: before}))

    def clear_modules(self, names: Iterable[str]) -> None:
        """Forgets imported modules and all inside them, now and once more when taken back."""
        roots = frozenset(names)
        before = _within(roots)
        for name in before:
            del sys.modules[name]

        def back() -> None:
            for name in _within(roots):
                del sys.modules[name]
            sys.modules.update(before)

        self._steps.append(back)

    def add_finder(self, finder: Any) -> None:
        """Asks a finder for the modules that no other one knows."""
        sys.meta_path.append(finder)
        self._steps.append(lambda: sys.meta_path.remove(finder))

    def undo(self) -> None:
        """Takes everything back."""
        while self._steps:
            self._steps.pop()()


def _within(roots: frozenset[str]) -> dict[str, types.ModuleType]:
    found = {}
    for name, module in list(sys.modules.items()):
        parts = name.split(".")
        if any(".".join(parts[:end]) in roots for end in range(1, len(parts) + 1)):
            found[name] = module
    return found


def _restore(before: dict[str, types.ModuleType | None]) -> None:
    for name, module in before.items():
        if module is None:
            sys.modules.pop(name, None)
        else:
            sys.modules[name] = module
