# SPDX-License-Identifier: Apache-2.0
"""Reads which names the modules of an installed library export, without importing it."""

from __future__ import annotations

import ast
import functools
import pkgutil
import sys
from collections.abc import Iterator

from estimator_spec.legacy.program_source import program_files, scopes

# TensorFlow's libraries remove the names that the second one lacks.
_LISTS = ("__all__", "_allowed_symbols")
_NOT_EXPORTED = ("__future__", "tensorflow")


def public_names(library: str) -> frozenset[str]:
    """Returns the names that a library's module exports, and its submodules.

    >>> "OrderedDict" in public_names("collections"), "abc" in public_names("collections")
    (True, True)
    """
    return exported_names(library) | submodules(library)


@functools.cache
def exported_names(library: str) -> frozenset[str]:
    """Returns the names in a module's `__all__`, or those that it binds, other than modules."""
    module = program_files.find_module(library, sys.path)
    if module is None or module.file is None:
        return frozenset()
    try:
        tree = program_files.parse(module.file)
    except (OSError, SyntaxError):
        return frozenset()
    return scopes.names_listed(tree, _LISTS) or frozenset(
        name for name in _bound(tree, module) if not name.startswith("_")
    )


def _bound(tree: ast.Module, module: program_files.Module) -> Iterator[str]:
    """Yields the functions, classes and values that a module's statements bind."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and node in tree.body:
            yield node.name
        elif isinstance(node, ast.Assign) and node in tree.body:
            yield from (target.id for target in node.targets if isinstance(target, ast.Name))
        elif isinstance(node, ast.ImportFrom):
            base = program_files.absolute(node.level, node.module or "", module.package)
            if base.split(".")[0] in _NOT_EXPORTED:
                continue
            for alias in node.names:
                if alias.name == "*":
                    yield from exported_names(base)
                elif program_files.find_module(f"{base}.{alias.name}", sys.path) is None:
                    yield alias.asname or alias.name


@functools.cache
def submodules(library: str) -> frozenset[str]:
    """Returns the names of the modules in a library's package."""
    module = program_files.find_module(library, sys.path)
    folders = (module.folders if module is not None else None) or ()
    return frozenset(found.name for found in pkgutil.iter_modules(folders))
