# SPDX-License-Identifier: Apache-2.0
"""Imports public names of a package at their first use, so that its import is fast.

Command lines read their arguments without TensorFlow that way.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable, Mapping
from typing import Any


def make_getattr(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """Returns the `__getattr__` of a package that imports names and modules at their first use.

    A program that uses a name of `estimator_spec` or `tpu_columns` uses the project: from then on
    TensorFlow's log is without what `log_messages` filters. An import alone changes no log.

    Args:
        package: full name of the package.
        homes: the public names by the module that defines them, separated by spaces. A module that
            begins with a dot is in the package; `new=old` is a name that the module calls `old`.
    """
    places = {
        name.partition("=")[0]: (module, name.rpartition("=")[2])
        for module, names in homes.items()
        for name in names.split()
    }

    def __getattr__(name: str) -> Any:  # it becomes the package's
        if name in places:
            module, there = places[name]
            found = getattr(importlib.import_module(module, package), there)
            setattr(sys.modules[package], name, found)
            if "." not in package and "tensorflow" in sys.modules:
                importlib.import_module("tpu_columns.log_messages").install()
            return found
        full = f"{package}.{name}"
        if not name.startswith("_") and importlib.util.find_spec(full) is not None:
            return importlib.import_module(full)
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return __getattr__


def make_dir(package: str, *names: str) -> Callable[[], list[str]]:
    """Returns the `__dir__` of a package: its public names, imported or not, and special ones.

    Args:
        package: full name of the package.
        *names: its public names, and those of its public modules.
    """

    def __dir__() -> list[str]:  # it becomes the package's
        special = (name for name in vars(sys.modules[package]) if name.startswith("__"))
        return sorted({*names, *special})

    return __dir__
