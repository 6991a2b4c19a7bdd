# SPDX-License-Identifier: Apache-2.0
"""Finds the names of TensorFlow that the source of a program uses, without running it."""

from __future__ import annotations

import ast
import importlib.machinery
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

_ROOTS = ("tensorflow", "tensorflow_estimator")


class Use(NamedTuple):
    """A place where a program imports or uses a name.

    Attributes:
        line: its line.
        name: the full dotted name.
        is_import: whether the line only imports it, or assigns it to another name.
        from_tensorflow: whether it is reached from the module `tensorflow`, which `run --tf1`
            replaces, rather than from an imported part, such as `tensorflow.compat.v1`.
    """

    line: int
    name: str
    is_import: bool = False
    from_tensorflow: bool = False


def uses(tree: ast.Module) -> Iterator[Use]:
    """Yields the names of TensorFlow that a program imports, and those that it uses.

    Names are followed through imports, `as` and assignments such as `slim = tf.contrib.slim`.
    """
    bound: dict[str, tuple[str, bool]] = {}  # full name, and `from_tensorflow`
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if _is_known(alias.name):
                    yield Use(node.lineno, alias.name, True)
                    name = alias.name if alias.asname else alias.name.split(".")[0]
                    bound[alias.asname or name] = (name, name == "tensorflow")
        elif isinstance(node, ast.ImportFrom) and not node.level and _is_known(node.module):
            for alias in node.names:
                full = f"{node.module}.{alias.name}".removesuffix(".*")
                yield Use(node.lineno, full, True, node.module == "tensorflow")
                bound[alias.asname or alias.name] = (full, node.module == "tensorflow")
    assigned = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            found = _full_name(node.value, bound)
            if found is not None:
                bound.setdefault(node.targets[0].id, found)
                assigned.add(id(node.value))
    inner = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    for node in ast.walk(tree):
        if isinstance(node, (ast.Attribute, ast.Name)) and isinstance(node.ctx, ast.Load):
            found = None if id(node) in inner else _full_name(node, bound)
            if found is not None and found[0] not in _ROOTS:
                yield Use(node.lineno, found[0], id(node) in assigned, found[1])


def _is_known(module: str | None) -> bool:
    return str(module).split(".")[0] in _ROOTS


def _full_name(node: ast.AST, bound: Mapping[str, tuple[str, bool]]) -> tuple[str, bool] | None:
    """Returns the full name of an expression such as `tf.contrib.slim`, as `bound` has it."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name) or node.id not in bound:
        return None
    first, from_tensorflow = bound[node.id]
    return ".".join([first, *reversed(parts)]), from_tensorflow


def module_file(name: str, path: Sequence[str]) -> str | None:
    """Returns the file that runs under `python -m NAME`, without importing its packages.

    Args:
        name: the module's full name; a package runs its `__main__`.
        path: the directories to search.
    """
    spec = None
    where: Sequence[str] = path
    parts = name.split(".")
    for end in range(1, len(parts) + 1):
        spec = importlib.machinery.PathFinder.find_spec(".".join(parts[:end]), list(where))
        if spec is None:
            return None
        where = list(spec.submodule_search_locations or ())
    if spec is not None and spec.submodule_search_locations is not None:
        return module_file(f"{name}.__main__", path)
    return spec.origin if spec is not None and spec.has_location else None


def local_files(script: str, root: str) -> Iterator[str]:
    """Yields a script and the files that it imports from the directory `root`, each once."""
    todo, seen = [os.path.realpath(script)], set()
    while todo:
        file = todo.pop(0)
        if file in seen:
            continue
        seen.add(file)
        yield file
        try:
            tree = parse(file)
        except SyntaxError:
            continue
        package = os.path.relpath(os.path.dirname(file), root).replace(os.sep, ".")
        for module in _imports(tree, "" if package == "." else package):
            for path in _candidates(module, root):
                if os.path.isfile(path):
                    todo.append(os.path.realpath(path))
                    break


def parse(path: str) -> ast.Module:
    """Parses a file.

    Raises:
        OSError: it can't be read.
        SyntaxError: it isn't valid Python 3.
    """
    with open(path, "rb") as file:
        try:
            return ast.parse(file.read(), path)
        except ValueError as error:  # null bytes
            raise SyntaxError(str(error)) from None


def _imports(tree: ast.Module, package: str) -> Iterator[str]:
    """Yields the full names of the modules that a file may import."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = package.split(".") if package else []
                above = above[: len(above) - node.level + 1]
                base = ".".join([*above, *([base] if base else [])])
            if base:
                yield base
            yield from (f"{base}.{alias.name}".lstrip(".") for alias in node.names)


def _candidates(module: str, root: str) -> Iterator[str]:
    path = os.path.join(root, *module.split("."))
    yield path + ".py"
    yield os.path.join(path, "__init__.py")
