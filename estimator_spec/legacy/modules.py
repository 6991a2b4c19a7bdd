# SPDX-License-Identifier: Apache-2.0
"""Stands in for modules that TensorFlow removed, and loads their names on first use."""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import sys
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from estimator_spec.legacy import errors, unsupported_names


def resolve(target: str) -> Any:
    """Returns the object of a full dotted name.

    >>> resolve('os.path.basename')('a/b')
    'b'

    Attributes are tried before imports: importing a part of TensorFlow's API by its public name
    would load it a second time.

    Raises:
        AttributeError: there is no such name.
    """
    first, *parts = target.split(".")
    name, found = first, importlib.import_module(first)
    for part in parts:
        name = f"{name}.{part}"
        try:
            found = getattr(found, part)
        except AttributeError:
            try:
                found = importlib.import_module(name)
            except ModuleNotFoundError:
                raise AttributeError(f"There is no {name}, of {target}.") from None
    return found


class LegacyModule(types.ModuleType):
    """Replacement of a removed module.

    Args:
        name: the module's full name.
        names: a function for each of its names that returns the object. Called on first use, so
            that creating the module loads nothing.
    """

    def __init__(self, name: str, names: Mapping[str, Callable[[], Any]]) -> None:
        super().__init__(name, f"{name}, installed by estimator_spec.install().")
        self.__spec__ = importlib.machinery.ModuleSpec(name, None, is_package=True)
        # A package without files: imports of unknown submodules reach `Finder`.
        self.__path__: list[str] = []
        self.__all__ = sorted(names)
        self._legacy_names = dict(names)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        get = self._legacy_names.get(name)
        if get is None:
            raise errors.LegacyAttributeError(
                errors.message(self.__name__, name), name=name, obj=self
            )
        value = get()
        setattr(self, name, value)
        return value

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self._legacy_names})


class _Alias(importlib.abc.Loader):
    """Loader that returns an existing module for an import of another name."""

    def __init__(self, module: types.ModuleType) -> None:
        self._module = module

    def exec_module(self, module: types.ModuleType) -> None:
        # The import system returns the entry of sys.modules after this.
        sys.modules[module.__name__] = self._module


class Finder(importlib.abc.MetaPathFinder):
    """Import finder for a `LegacyModule`: finds aliases of modules, or raises with advice.

    It is the last finder, so it hides no module.
    """

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: types.ModuleType | None = None,
    ) -> importlib.machinery.ModuleSpec | None:
        """See `importlib.abc.MetaPathFinder`."""
        del path, target
        parent, _, name = fullname.rpartition(".")
        module = sys.modules.get(parent)
        if not isinstance(module, LegacyModule):
            if unsupported_names.is_listed(parent, name):
                raise errors.LegacyImportError(errors.message(parent, name), name=parent)
            return None
        try:
            found = getattr(module, name)
        except errors.LegacyAttributeError as error:
            # Named after the parent: `from parent import name` swallows errors named after both.
            raise errors.LegacyImportError(str(error), name=parent) from None
        if isinstance(found, types.ModuleType):
            return importlib.machinery.ModuleSpec(fullname, _Alias(found))
        return None
