# SPDX-License-Identifier: Apache-2.0
"""Finds the programs that files belong to, and what `run` would decide for each of them.

A main file is one that is run: it tests `__name__`, or does something at its top and no other file
imports it, or is a notebook. A module has the API of the programs that reach it, also of main files
beside it that aren't among the files. Where no main file does, the others around it decide; without
any, all files together are the program.
"""

from __future__ import annotations

import ast
import contextlib
import os
import re
import tokenize
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from estimator_spec.legacy import program_api, program_names
from estimator_spec.legacy.migrate.program import ModuleApi
from estimator_spec.legacy.program_source import program_files
from estimator_spec.legacy.program_source.modules import Modules
from estimator_spec.legacy.program_source.names import ModuleNames, Recorded, Summary
from estimator_spec.legacy.program_source.program_files import Sources, StartedProgram

_EAGER = ("tensorflow.enable_eager_execution", "tensorflow.enable_v2_behavior")


@dataclass(frozen=True)
class ProgramPlace:
    """A module's place in its program.

    Attributes:
        api: the API that its programs are written for. None: it is the whole program.
        mains: the main files that reach it, by the API that they are written for.
        starts: whether it switches to TensorFlow 1's behaviour, where it has that API.
        left: the modules that it imports which aren't among the files.
        neighbours: the modules that it imports.
    """

    api: ModuleApi | None = None
    mains: Mapping[ModuleApi, tuple[str, ...]] = field(default_factory=dict)
    starts: bool = True
    left: frozenset[str] = frozenset()
    neighbours: Recorded | None = None


@dataclass
class _File:
    """Facts of a source file that decide which program it is part of.

    Attributes:
        is_of_tf1: whether it uses names that only TensorFlow 1 had.
        is_eager: whether it switches eager execution on.
        imports_tensorflow: whether it imports the module `tensorflow`.
        tests_name: whether it tests `__name__`.
        does_something: whether it does more at its top than definitions.
        neighbours: the modules that it imports.
        imports: the files of these by their names.
    """

    is_of_tf1: bool
    is_eager: bool
    imports_tensorflow: bool
    tests_name: bool
    does_something: bool
    neighbours: Recorded
    imports: Mapping[str, str]


class Programs:
    """The programs that files belong to.

    Args:
        paths: the files.
        notebooks: the syntax trees of those that are notebooks.
        sources: parses the files.
    """

    def __init__(
        self, paths: Sequence[str], notebooks: Mapping[str, ast.Module], sources: Sources
    ) -> None:
        self._shown = {os.path.realpath(path): path for path in paths}
        self._sources = sources
        self._summaries: dict[str, Summary] = {}
        self._files: dict[str, _File] = {}
        self._reached: dict[str, frozenset[str]] = {}  # by each given file as the main one
        notebooks = {os.path.realpath(path): tree for path, tree in notebooks.items()}
        for path in self._shown:
            if path in notebooks:
                self._sources.add(path, notebooks[path])
            if path in notebooks or not path.endswith(".ipynb"):
                self._read(path)
        for path in _beside(self._shown):
            self._read(path)
        imported = {path for main, found in self._reached.items() for path in found if path != main}
        self._mains = {
            path: self._api(found)
            for path, found in self._reached.items()
            if path in notebooks or self._is_main(path, imported)
        }

    def _read(self, path: str) -> None:
        """Reads the program whose main file is a file."""
        files = program_files.find_files_as_started(StartedProgram(path), self._sources)
        modules = Modules(files, self._summaries)
        for source in files.read:
            if source.path not in self._files:
                neighbours = Recorded(modules.neighbours(source))
                names = modules.names(source, neighbours)
                self._files[source.path] = _file(names, neighbours, files.modules)
                neighbours.close()
        if files.read:
            self._reached[path] = frozenset(source.path for source in files.read)

    def _is_main(self, path: str, imported: set[str]) -> bool:
        file = self._files[path]
        return file.tests_name or (file.does_something and path not in imported)

    def _api(self, files: Iterable[str]) -> ModuleApi:
        is_of_tf1 = any(self._files[path].is_of_tf1 for path in files)
        return ModuleApi.TF1 if is_of_tf1 else ModuleApi.TF2

    def place(self, path: str) -> ProgramPlace:
        """Returns the place of a file."""
        path = os.path.realpath(path)
        file = self._files.get(path)
        if file is None:
            return ProgramPlace()
        mains = [main for main in self._mains if path in self._reached[main]]
        if not mains and self._api(self._reached[path]) is ModuleApi.TF2:
            mains = self._around(path)
        mains = mains or [path]
        by_api = {
            api: tuple(
                self._shown.get(main) or os.path.relpath(main)
                for main in mains
                if self._mains.get(main) is api
            )
            for api in (ModuleApi.TF1, ModuleApi.TF2)
        }
        apis = {self._mains.get(main) or self._api(self._reached[main]) for main in mains}
        if not self._mains:
            apis = {self._api(self._reached.keys() & self._shown.keys())}
        api = ModuleApi.EITHER if len(apis) > 1 else apis.pop()
        left = {name for name, path in file.imports.items() if path and path not in self._shown}
        return ProgramPlace(
            api, by_api, self._starts(path, mains), frozenset(left), file.neighbours
        )

    def _around(self, path: str) -> list[str]:
        """Returns the main files of the smallest directory around a file that has one."""
        folder = os.path.dirname(path)
        while True:
            start = os.path.join(folder, "")
            found = [main for main in self._mains if main.startswith(start) and main in self._shown]
            if found or folder == os.path.dirname(folder):
                return found
            folder = os.path.dirname(folder)

    def _starts(self, path: str, mains: Sequence[str]) -> bool:
        """Returns whether a module switches to TensorFlow 1's behaviour.

        Each may be the first that runs; but not after a program has switched to eager execution.
        """
        return path in mains or not any(
            self._files[main].imports_tensorflow
            and any(self._files[each].is_eager for each in self._reached[main])
            for main in mains
        )


def _beside(paths: Collection[str]) -> Iterator[str]:
    """Yields other modules of the directories of files which mention one of these by its name."""
    by_folder: dict[str, set[str]] = {}
    for path in paths:
        name, suffix = os.path.splitext(os.path.basename(path))
        if suffix == ".py" and name not in ("__init__", "__main__"):
            by_folder.setdefault(os.path.dirname(path), set()).add(name)
    for folder, names in by_folder.items():
        pattern = re.compile(rf"^\s*(from|import)\b.*\b({'|'.join(map(re.escape, names))})\b", re.M)
        for name in sorted(os.listdir(folder)):
            path = os.path.realpath(os.path.join(folder, name))
            if not name.endswith(".py") or path in paths:
                continue
            with contextlib.suppress(OSError, SyntaxError, UnicodeDecodeError):
                with tokenize.open(path) as file:
                    text = file.read()
                if pattern.search(text):
                    yield path


def _file(names: ModuleNames, neighbours: Recorded, modules: Mapping[str, str]) -> _File:
    uses = list(program_names.uses(names))
    body = names.tree.body
    return _File(
        program_api.is_of_tf1(names),
        any(use.name in _EAGER and use.from_tensorflow for use in uses),
        any(use.name == "tensorflow" for use in uses),
        any(_tests_name(statement) for statement in body),
        any(_does_something(statement) for statement in body),
        neighbours,
        {name: modules[name] for name in neighbours.found()},
    )


def _tests_name(statement: ast.stmt) -> bool:
    if not isinstance(statement, ast.If):
        return False
    nodes = ast.walk(statement.test)
    return any(isinstance(node, ast.Name) and node.id == "__name__" for node in nodes)


def _does_something(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.Expr):
        return isinstance(statement.value, ast.Call)
    return isinstance(statement, ast.For | ast.While | ast.With)
