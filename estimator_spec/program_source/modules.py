# SPDX-License-Identifier: Apache-2.0
"""Follows names from one module of a program to another."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping

from estimator_spec.common import program_files
from estimator_spec.common.program_files import Files, Source
from estimator_spec.program_source import flow
from estimator_spec.program_source.names import Export, Names


class Modules:
    """The names of a program's modules.

    Args:
        files: the program's files.
    """

    def __init__(self, files: Files) -> None:
        self.files = files
        self._sources = {source.path: source for source in files.read}
        self._names: dict[str, Names] = {}
        self._reading: set[str] = set()

    def names(self, source: Source) -> Names:
        """Returns the names of a file of the program."""
        if source.path not in self._names:
            self._reading.add(source.path)
            neighbours = Neighbours(self, source.package)
            self._names[source.path] = flow.read(source.tree, neighbours)
            self._reading.discard(source.path)
        return self._names[source.path]

    def all(self) -> Iterator[tuple[Source, Names]]:
        """Yields the files, the main one first, and their names."""
        for source in self.files.read:
            yield source, self.names(source)

    def of_module(self, module: str) -> Names | None:
        """Returns the names of a module; None if it isn't known, or imports itself by others."""
        source = self._sources.get(self.files.modules.get(module, ""))
        if source is None or source.path in self._reading:
            return None
        return self.names(source)


class Neighbours:
    """The modules of a program, as one of them imports the others.

    Args:
        modules: the modules.
        package: the package that relative imports start from; '' if there is none.
    """

    def __init__(self, modules: Modules, package: str) -> None:
        self._modules = modules
        self._package = package

    def find(self, level: int, module: str) -> str | None:
        """Returns the full name of an imported module; None if it isn't the program's."""
        name = program_files.absolute(level, module, self._package)
        return name if name in self._modules.files.modules else None

    def exports(self, module: str) -> Mapping[str, Export]:
        """Returns the names that a module of the program binds."""
        names = self._modules.of_module(module)
        return {} if names is None else names.exports

    def starred(self, module: str) -> Iterable[str]:
        """Returns the names that `from module import *` binds."""
        names = self._modules.of_module(module)
        if names is None:
            return ()
        listed = _listed(names.tree)
        if listed is not None:
            return [name for name in names.exports if name in listed]
        return [name for name in names.exports if not name.startswith("_")]


def _listed(tree: ast.Module) -> set[str] | None:
    """Returns the names that `__all__` lists; None without a list of strings."""
    for statement in tree.body:
        if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "__all__":
            try:
                return set(map(str, ast.literal_eval(statement.value)))
            except (ValueError, TypeError):
                return None
    return None
