# SPDX-License-Identifier: Apache-2.0
"""Prepares a Python process for the old names; Python imports this module when it starts.

It imports nothing large: the names are restored at the first import of TensorFlow. A
`sitecustomize` that this one hides runs as well.
"""

from __future__ import annotations

import builtins
import importlib.abc
import importlib.machinery
import importlib.util
import json
import os
import sys
from typing import Any

_HERE = os.path.dirname(os.path.realpath(__file__))
_PACKAGES = ("tensorflow", "tensorflow_estimator", "estimator_spec", "tpu_columns")


class _Loaded(importlib.abc.Loader):
    """Loader of a module that is in `sys.modules`."""

    def __init__(self, module: Any) -> None:
        self._module = module

    def exec_module(self, module: Any) -> None:
        """Restores the entry of `sys.modules`, which the import system returns."""
        sys.modules[module.__name__] = self._module


class _FirstImport(importlib.abc.MetaPathFinder):
    """Restores the names before the first import of a package that has some.

    Programs of TensorFlow 1 need a replacement of `__import__`, which must be there before their
    first `import tensorflow` runs; `importlib.import_module` only calls finders.
    """

    def __init__(self, values: dict[str, Any]) -> None:
        self._values = values
        self._import = builtins.__import__
        builtins.__import__ = self._import_module  # type: ignore
        sys.meta_path.insert(0, self)

    def _import_module(
        self, name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0
    ) -> Any:
        if level == 0 and name.split(".")[0] in _PACKAGES:
            self._activate()
            return builtins.__import__(name, globals, locals, fromlist, level)
        return self._import(name, globals, locals, fromlist, level)

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        """Returns the spec of a package that is being imported, with its names restored."""
        del path, target
        if fullname not in _PACKAGES:
            return None
        self._activate()
        module = sys.modules.get(fullname)
        loader = _Loaded(module)
        return module and importlib.machinery.ModuleSpec(fullname, loader)

    def _activate(self) -> None:
        if self not in sys.meta_path:
            return
        sys.meta_path.remove(self)
        if builtins.__import__ == self._import_module:
            builtins.__import__ = self._import
        root = os.path.dirname(os.path.dirname(os.path.dirname(_HERE)))
        if importlib.util.find_spec("estimator_spec") is None:
            sys.path.append(root)
        importlib.import_module("estimator_spec.legacy.child_processes").activate(self._values)


def _prepare() -> None:
    """Prepares this process, unless it is of another Python, or runs `estimator_spec` itself."""
    try:
        values = json.loads(os.environ.get("TPU_COLUMNS_RUN", ""))
    except ValueError:
        return
    same = values["prefix"] == sys.prefix and values["version"] == list(sys.version_info[:2])
    if same and sys.orig_argv[1:3] != ["-m", "estimator_spec"]:
        _FirstImport(values)


def _run_hidden() -> None:
    """Runs the `sitecustomize` that Python would have found without this one."""
    path = [folder for folder in sys.path if os.path.realpath(folder) != _HERE]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", path)
    if spec is not None and spec.loader is not None:
        module = importlib.util.module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


_prepare()
_run_hidden()
