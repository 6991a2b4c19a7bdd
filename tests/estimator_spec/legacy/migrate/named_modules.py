# SPDX-License-Identifier: Apache-2.0
"""Modules in place of TensorFlow and this project that only know their names.

`tf.estimator.ModeKeys` is an object whose name is 'tensorflow.estimator.ModeKeys'.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
import types
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from estimator_spec.legacy.old_names import Fate, find
from estimator_spec.legacy.tensorflow_names import is_only_in_tf1

PACKAGES = ("tensorflow", "tensorflow_estimator", "estimator_spec", "tpu_columns")


def is_gone(full: str) -> bool:
    """Returns whether today's TensorFlow lacks a name that `install()` would put back."""
    root, _, name = full.partition(".")
    return find(full, False) is not None or (root == "tensorflow" and is_only_in_tf1(name))


class Named(types.ModuleType):
    """A module, class or function that knows its full name, and has every attribute."""

    __path__: Sequence[str] = ()
    today = False  # whether old names are missing, as without `install()`

    def __getattr__(self, name: str) -> Any:
        full = f"{self.__name__}.{name}"
        if name.startswith("__") or (self.today and is_gone(full)):
            raise AttributeError(name)
        if self.__name__ == "estimator_spec" and name == "restored":
            return _restored
        if name in ("select_legacy_keras", "disable_v2_behavior"):
            return lambda: None
        return type(self)(full)

    def __repr__(self) -> str:
        return present_name(self.__name__)


class Today(Named):
    """The same, without the names that TensorFlow has removed."""

    today = True


def _restored(name: str) -> Named:
    return Named(name)


def present_name(full: str) -> str:
    """Returns the present name of an old one, the same for all versions of TensorFlow's API."""
    old = find(full)
    if old is not None and old.fate in (Fate.PUBLIC, Fate.ON_TPU):
        full = ".".join([old.module, old.name, *full.split(".")[old.length :]])
    return full.replace(".compat.v1", "").replace(".compat.v2", "")


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds every module of the packages, or those that are left."""

    def __init__(self, kind: type[Named]) -> None:
        self._kind = kind

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        if name.split(".")[0] not in PACKAGES:
            return None
        if self._kind.today and is_gone(name):
            raise ModuleNotFoundError(f"No module named {name!r}")
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: Any) -> Any:
        return self._kind(spec.name)

    def exec_module(self, module: Any) -> None:
        pass


@contextmanager
def named_modules(kind: type[Named] = Named) -> Iterator[None]:
    """Replaces the packages by modules that only know their names."""
    real = {name: module for name, module in sys.modules.items() if name.split(".")[0] in PACKAGES}
    finder = Finder(kind)
    for name in real:
        del sys.modules[name]
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        for name in [name for name in sys.modules if name.split(".")[0] in PACKAGES]:
            del sys.modules[name]
        sys.modules.update(real)


def values(source: str, kind: type[Named] = Named, **names: Any) -> list[str]:
    """Returns what a program records."""
    recorded: list[str] = []

    def record(*args: Any, **kwargs: Any) -> None:
        for value in [*args, *kwargs.values()]:
            known = not callable(value) or isinstance(value, Named)
            recorded.append(repr(value) if known else "a function")

    with named_modules(kind):
        exec(compile(source, "program", "exec"), {"record": record, "__name__": "program", **names})
    return recorded
