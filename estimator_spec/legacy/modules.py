# SPDX-License-Identifier: Apache-2.0
"""Creates modules in place of those that TensorFlow removed; their names load on first use."""

from __future__ import annotations

import functools
import importlib
import importlib.abc
import importlib.machinery
import sys
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from estimator_spec.legacy import call_sites, library_names, stand_ins, unsupported_names
from estimator_spec.legacy.module_spellings import MOVED

# tensorflow.python.layers.normalization, which tf_slim uses, imports a name that tf_keras lacks.
_MOVED = {"tf_keras.legacy_tf_layers": "tf_keras.src.legacy_tf_layers", **MOVED}


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
        libraries: modules of installed libraries that have the rest of its names, imported on
            first use.
    """

    def __init__(
        self, name: str, names: Mapping[str, Callable[[], Any]], libraries: Sequence[str] = ()
    ) -> None:
        super().__init__(name, f"{name}, installed by estimator_spec.install().")
        self.__spec__ = importlib.machinery.ModuleSpec(name, None, is_package=True)
        # A package without files: imports of unknown submodules reach `Finder`.
        self.__path__: list[str] = []
        self._legacy_names = dict(names)
        self._libraries = tuple(libraries)

    def __getattr__(self, name: str) -> Any:
        if name == "__all__":
            return [name for name in dir(self) if not name.startswith("_")]
        get = self._legacy_names.get(name) or self._in_library(name)
        if get is None:
            return stand_ins.missing(self.__name__, name, call_sites.caller(), self)
        value = get()
        setattr(self, name, value)
        return value

    def __setattr__(self, name: str, value: Any) -> None:
        # Importing a submodule sets it: after that `hasattr` would be true.
        if not isinstance(value, stand_ins.StandIn):
            super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        rest = [
            name for library in self._libraries for name in library_names.exported_names(library)
        ]
        return sorted({*super().__dir__(), *self._legacy_names, *rest})

    def find_module(self, name: str) -> types.ModuleType | None:
        """Returns the module that an import of a submodule gives, or None."""
        for library in self._libraries:
            # Not by attribute: a package may have a function of the submodule's name.
            if name in library_names.submodules(library):
                return importlib.import_module(f"{library}.{name}")
        found = getattr(self, name, None)
        return found if isinstance(found, types.ModuleType) else None

    def _in_library(self, name: str) -> Callable[[], Any] | None:
        """Returns a function that returns a library's object of a name, or None."""
        if not name.startswith("__"):
            for library in self._libraries:
                if name in library_names.public_names(library):
                    return functools.partial(_read, library, name)
        return None


def _read(library: str, name: str) -> Any:
    # Not by the library's attributes: `tf_slim.layers` is tf_slim.layers.layers there.
    module = importlib.import_module(library)
    found = getattr(module, name, None)
    return importlib.import_module(f"{library}.{name}") if found is None else found


class _Alias(importlib.abc.Loader):
    """Loader that returns an existing module for an import of another name."""

    def __init__(self, module: types.ModuleType) -> None:
        self._module = module

    def exec_module(self, module: types.ModuleType) -> None:
        # The import system returns the entry of sys.modules after this.
        sys.modules[module.__name__] = self._module


class Finder(importlib.abc.MetaPathFinder):
    """Import finder for a `LegacyModule`: finds aliases of modules, and stand-ins.

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
        if fullname in _MOVED:
            return _spec(fullname, importlib.import_module(_MOVED[fullname]))
        parent, _, name = fullname.rpartition(".")
        module = sys.modules.get(parent)
        if isinstance(module, LegacyModule):
            found = module.find_module(name)
            if found is not None:
                return _spec(fullname, found)
            if hasattr(module, name):
                return None
        restored = isinstance(module, (LegacyModule, stand_ins.StandIn))
        if not restored and not unsupported_names.is_listed(parent, name):
            return None
        stand_in = stand_ins.missing_module(parent, name, restored)
        return None if stand_in is None else _spec(fullname, stand_in)


def _spec(name: str, module: types.ModuleType) -> importlib.machinery.ModuleSpec:
    return importlib.machinery.ModuleSpec(name, _Alias(module))
