# SPDX-License-Identifier: Apache-2.0
"""Follows names from one module of a program to another."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from estimator_spec.legacy.program_source import flow, program_files
from estimator_spec.legacy.program_source import names as names_
from estimator_spec.legacy.program_source.names import ModuleNames, Summary
from estimator_spec.legacy.program_source.program_files import Files, Source
from estimator_spec.legacy.program_source.scopes import Scopes


class Modules:
    """The names of a program's modules.

    Args:
        files: the program's files.
        summaries: what is known of files already, by path; others are added.
    """

    def __init__(self, files: Files, summaries: dict[str, Summary] | None = None) -> None:
        self.files = files
        self._sources = {source.path: source for source in files.read}
        self._summaries = {} if summaries is None else summaries
        self._names: dict[str, ModuleNames] = {}

    def names(self, source: Source, neighbours: names_.Neighbours | None = None) -> ModuleNames:
        """Returns the names of a file of the program.

        Args:
            source: the file.
            neighbours: the other modules as it imports them, if not those of `neighbours`.
        """
        if source.path not in self._names:
            # A module that imports itself by others finds nothing in itself.
            self._summaries.setdefault(source.path, Summary())
            others = neighbours or self.neighbours(source)
            try:
                names = flow.read(source.tree, others)
            except RecursionError:  # deep nesting
                names = ModuleNames(source.tree, Scopes(source.tree), others)
            self._names[source.path] = names
            self._summaries[source.path] = Summary(names.exports, tuple(_starred(names)))
        return self._names[source.path]

    def neighbours(self, source: Source) -> ProgramNeighbours:
        """Returns the other modules as a file imports them."""
        return ProgramNeighbours(self, source.package)

    def all(self) -> Iterator[tuple[Source, ModuleNames]]:
        """Yields the files, the main one first, and their names."""
        for source in self.files.read:
            yield source, self.names(source)

    def summary(self, module: str) -> Summary:
        """Returns what is known of a module."""
        path = self.files.modules.get(module, "")
        if path not in self._summaries and path in self._sources:
            self.names(self._sources[path])
        return self._summaries.get(path, Summary())


class ProgramNeighbours:
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

    def summary(self, module: str) -> Summary:
        """Returns the names of a module of the program, by its full name."""
        return self._modules.summary(module)


def _starred(names: ModuleNames) -> list[str]:
    """Returns the names that `from module import *` binds."""
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
