# SPDX-License-Identifier: Apache-2.0
"""Imports public names of a package at their first use, so that its import is fast.

Command lines read their arguments without TensorFlow that way.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterator
from typing import Any

from tpu_columns import folded_signatures


def attach(
    package: str, *modules: str
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Returns `__getattr__`, `__dir__` and `__all__` of a package that imports names when used.

    The package's file lists its public names once, as imports that only type checkers run:

        if TYPE_CHECKING:
            # isort: off
            from package.module import name as name
        else:
            __getattr__, __dir__, __all__ = lazy_names.attach(__name__)

    Type checkers take only `name as name` for public. Without the comment, ruff makes an import
    statement for each of these.

    A program that uses a name of `estimator_spec` or `tpu_columns` uses the project: from then on
    TensorFlow's log is without what `log_messages` filters. An import alone changes no log.

    Args:
        package: full name of the package, whose file is being imported.
        *modules: names of its modules that `dir` lists, but `import *` doesn't import.

    Raises:
        ImportError: the package was installed without its source.
    """
    module = sys.modules[package]
    source = module.__spec__.loader.get_source(package)  # type: ignore[union-attr]
    if source is None:
        raise ImportError(
            f"{package} reads its public names in its source file, which isn't there: install the "
            ".py files beside the compiled ones"
        )
    homes = dict(_imports_for_type_checkers(source))

    def __getattr__(name: str) -> Any:  # it becomes the package's
        if name in homes:
            found = getattr(importlib.import_module(homes[name]), name)
            folded_signatures.fold(found)
            setattr(module, name, found)
            if "." not in package and "tensorflow" in sys.modules:
                importlib.import_module("tpu_columns.log_messages").install()
            return found
        full = f"{package}.{name}"
        if not name.startswith("_") and importlib.util.find_spec(full) is not None:
            return importlib.import_module(full)
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return __getattr__, public_dir(package, *homes, *modules), [*homes]


def public_dir(package: str, *names: str) -> Callable[[], list[str]]:
    """Returns the `__dir__` of a package: its public names, without what its file imports.

    Args:
        package: full name of the package.
        *names: its public names; without any, those of its `__all__`.
    """
    module = sys.modules[package]

    def __dir__() -> list[str]:
        special = (name for name in vars(module) if name.startswith("__"))
        return sorted({*(names or module.__all__), *special})

    return __dir__


def _imports_for_type_checkers(source: str) -> Iterator[tuple[str, str]]:
    """Yields the public names that a file imports for type checkers, and their modules."""
    for block in ast.parse(source).body:
        if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING":
            for node in block.body:
                if isinstance(node, ast.ImportFrom):
                    public = (alias.name for alias in node.names if alias.name == alias.asname)
                    yield from ((name, node.module or "") for name in public)
