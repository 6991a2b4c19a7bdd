# SPDX-License-Identifier: Apache-2.0
"""Finds the files of a program: follows its imports as Python would, without running it.

The program's own files are read; modules of Python's library and installed packages only have to
exist. `run`, `run --check`, `doctor`, `migrate` and `compare` take a program's files from here.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import importlib
import importlib.metadata
import importlib.util
import os
import site
import sys
import sysconfig
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.machinery import PathFinder
from typing import NamedTuple

from estimator_spec.legacy.program_source import syntax_advice

# Packages that a command provides, whatever the path has, with the names that they lack today.
PROVIDED = (
    *("tensorflow", "tensorflow_estimator", "tensorflow_model_analysis"),
    *("estimator_spec", "tpu_columns"),
)


@dataclass(frozen=True)
class StartedProgram:
    """A program, as a command line names it.

    Attributes:
        name: path of a script or of a directory with a `__main__.py`, or full name of a module.
        is_module: whether `name` is a module's, as after `python -m`.
        directory: the directory in which Python would be started: the first place where a module
            is looked for.
    """

    name: str
    is_module: bool = False
    directory: str = "."

    @property
    def root(self) -> str:
        """The directory that Python puts first on the path."""
        if self.is_module:
            return os.path.realpath(self.directory)
        real = os.path.realpath(self.name)
        return real if os.path.isdir(real) else os.path.dirname(real)

    def path(self, python_path: str | None = None) -> list[str]:
        """Returns the directories in which the program looks for modules.

        Args:
            python_path: value of PYTHONPATH. None: this process's.
        """
        # The first entry is that of the command that is running, unless Python has no such entry.
        safe = bool(getattr(sys.flags, "safe_path", False))
        rest = sys.path if safe else sys.path[1:]
        if python_path is not None:
            ours = {os.path.abspath(entry) for entry in _entries(os.environ.get("PYTHONPATH"))}
            rest = [entry for entry in rest if os.path.abspath(entry) not in ours]
            rest = [*_entries(python_path), *rest]
        return list(rest) if safe else [self.root, *rest]

    def file(self) -> str | None:
        """Returns the file that runs, or None if there is none."""
        if not self.is_module:
            inner = os.path.join(self.name, "__main__.py")
            file = inner if os.path.isdir(self.name) else self.name
            return file if os.path.isfile(file) else None
        main = self.main()
        return None if main is None else main.file

    def main(self) -> Module | None:
        """Returns the module that runs; a package runs its `__main__`."""
        if not self.is_module:
            file = self.file()
            return None if file is None else Module("__main__", file)
        importlib.invalidate_caches()
        found = find_module(self.name, self.path())
        if found is not None and found.folders is not None:
            found = find_module(f"{self.name}.__main__", self.path())
        return found


class Module(NamedTuple):
    """A module on the path.

    Attributes:
        name: its full name.
        file: its file; None for a namespace package.
        folders: the directories of a package; None for another module.
    """

    name: str
    file: str | None
    folders: tuple[str, ...] | None = None

    @property
    def package(self) -> str:
        """The package that relative imports start from; '' if there is none."""
        return self.name if self.folders is not None else self.name.rpartition(".")[0]


class Unread(NamedTuple):
    """A module of a program that wasn't read.

    Attributes:
        place: file and line of its import, or of the error.
        name: the module; '' for one whose name isn't known.
        reason: why.
        stops: whether the program needs it to start: it is imported outside of functions, `if` and
            `try`, by a module that is.
    """

    place: str
    name: str
    reason: str
    stops: bool


class Source(NamedTuple):
    """A file of a program.

    Attributes:
        path: its real path.
        tree: its syntax tree.
        package: the package that its relative imports start from; '' if there is none.
    """

    path: str
    tree: ast.Module
    package: str = ""


@dataclass(frozen=True)
class Files:
    """The files of a program.

    Attributes:
        read: the program's own files, the main one first, each once.
        unread: modules that weren't found or couldn't be read.
        modules: the files of the program's modules and packages by the names that they are
            imported by; '' for a package without a file.
    """

    read: tuple[Source, ...]
    unread: tuple[Unread, ...]
    modules: Mapping[str, str] = field(default_factory=dict)


def find_module(name: str, path: Sequence[str]) -> Module | None:
    """Returns a module, without importing its packages; None if there is none on the path.

    Args:
        name: its full name.
        path: the directories to search.
    """
    folders: tuple[str, ...] | None = tuple(path)
    file: str | None = None
    for part in name.split("."):
        # By the last part alone: for the full name of a namespace package it would have to be
        # imported. In a module that isn't a package there is nothing.
        spec = None if folders is None else PathFinder.find_spec(part, folders)
        if spec is None:
            return None
        inside = spec.submodule_search_locations
        file, folders = spec.origin, None if inside is None else tuple(inside)
    return Module(name, file, folders)


def _entries(python_path: str | None) -> list[str]:
    return [entry for entry in (python_path or "").split(os.pathsep) if entry]


@functools.cache
def library_directories() -> tuple[str, ...]:
    """Returns the directories of Python's library and of installed packages, each with a slash."""
    names = ("stdlib", "platstdlib", "purelib", "platlib")
    found = [sysconfig.get_path(name) for name in names]
    found += [*site.getsitepackages(), site.getusersitepackages()]
    return tuple(dict.fromkeys(os.path.join(os.path.realpath(path), "") for path in found))


def is_own(file: str) -> bool:
    """Returns whether a file is a program's, not of Python's library or an installed package.

    A package is installed, too, where `pip install --target` has put it.
    """
    path = os.path.realpath(file)
    if path.startswith(library_directories()):
        return False
    while path != os.path.dirname(path):
        path, name = os.path.split(path)
        if name in _installed_in(path):
            return False
    return True


@functools.cache
def _installed_in(folder: str) -> frozenset[str]:
    """Returns the entries of a directory that belong to distributions installed in it."""
    found: set[str] = set()
    with contextlib.suppress(OSError):
        for entry in os.scandir(folder):
            if entry.name.endswith(".dist-info"):
                distribution = importlib.metadata.Distribution.at(entry.path)
                found.update(file.parts[0] for file in distribution.files or ())
    return frozenset(found)


def parse(path: str) -> ast.Module:
    """Parses a file.

    Raises:
        OSError: it can't be read.
        SyntaxError: it isn't valid Python 3.
    """
    with open(path, "rb") as file:
        try:
            return ast.parse(file.read(), path)
        except (ValueError, RecursionError) as error:  # null bytes; deep nesting
            raise SyntaxError(str(error)) from None


class Sources:
    """Parsed files, for the files of several programs that share some."""

    _NUM_TREES = 256  # a tree takes some megabytes

    def __init__(self) -> None:
        self._trees: dict[str, ast.Module] = {}
        self._imports: dict[tuple[str, str], tuple[_FoundImport, ...]] = {}
        self._changes: dict[str, int] = {}

    def add(self, path: str, tree: ast.Module) -> None:
        """Adds the tree of a file that isn't a module, such as a notebook."""
        self._trees[path] = tree

    def parse(self, path: str) -> ast.Module:
        """Parses a file; see `parse`."""
        if path not in self._trees:
            while len(self._trees) >= self._NUM_TREES:
                del self._trees[next(iter(self._trees))]
            self._trees[path] = parse(path)
        return self._trees[path]

    def imports(self, source: Source, module: Module) -> tuple[_FoundImport, ...]:
        """Returns the modules that a file may import."""
        key = (source.path, module.package)
        if key not in self._imports:
            self._imports[key] = tuple(_imports(source.tree, module))
        return self._imports[key]

    def line_that_changes_path(self, source: Source) -> int:
        """Returns the first line that changes `sys.path`; 0 if none does."""
        if source.path not in self._changes:
            self._changes[source.path] = _line_that_changes_path(source.tree)
        return self._changes[source.path]


def as_modules(program: StartedProgram) -> Iterator[StartedProgram]:
    """Yields the modules that a script is for each directory above it, the current one first."""
    file = program.file()
    if program.is_module or file is None or not file.endswith(".py"):
        return
    file = os.path.realpath(file)
    here, folder = os.path.realpath("."), os.path.dirname(file)
    around = []
    while folder != os.path.dirname(folder):
        folder = os.path.dirname(folder)
        around.append(folder)
    for folder in sorted(around, key=lambda each: each != here):
        parts = os.path.relpath(file, folder)[:-3].split(os.sep)
        module = StartedProgram(".".join(parts), True, folder)
        if all(part.isidentifier() for part in parts) and module.file() is not None:
            yield module


def find_files_as_started(program: StartedProgram, sources: Sources) -> Files:
    """Returns the files of a program, started as a script or as the module that finds most of them.

    Args:
        program: a script.
        sources: the files that other programs have.
    """
    best = find_files(program, sources=sources)
    missing = _not_found(best)
    for module in as_modules(program):
        if not missing:
            break
        if "" in missing or any(_has_module(module.directory, name) for name in missing):
            files = find_files(module, sources=sources)
            if len(_not_found(files)) < len(missing):
                best, missing = files, _not_found(files)
    return best


def _not_found(files: Files) -> set[str]:
    """Returns the first parts of the modules that weren't found; '' for relative imports."""
    return {each.name.split(".")[0] for each in files.unread if each.name}


def _has_module(folder: str, name: str) -> bool:
    path = os.path.join(folder, name)
    return os.path.isdir(path) or os.path.isfile(f"{path}.py")


def find_files(
    program: StartedProgram, python_path: str | None = None, sources: Sources | None = None
) -> Files:
    """Returns the files of a program.

    Args:
        program: the program.
        python_path: value of PYTHONPATH in its process. None: this one's.
        sources: the files that other programs have.
    """
    importlib.invalidate_caches()
    main = program.main()
    if main is None or main.file is None:
        reason = f"There is no {'module' if program.is_module else 'file'} {program.name!r}."
        return Files((), (Unread(program.name, program.name, reason, True),))
    return _FileFinder(program, program.path(python_path), sources or Sources()).read(main)


class _FoundImport(NamedTuple):
    """An import of a module in a source.

    Attributes:
        line: its line.
        name: full name of the module.
        optional: whether it may be another thing than a module, a name in its package.
        stops: whether it is made whenever the source runs, and nothing handles its failure.
    """

    line: int
    name: str
    optional: bool
    stops: bool


class _FileFinder:
    """Follows the imports of a program."""

    def __init__(self, program: StartedProgram, path: Sequence[str], sources: Sources) -> None:
        self._root = program.root
        self._sources = sources
        self._path = path
        self._read: dict[str, Source] = {}
        self._unread: dict[tuple[str, str], Unread] = {}
        self._modules: dict[str, str] = {}
        self._done: set[tuple[str, str]] = set()
        # What the program needs to start comes first: of two imports of a module that one counts.
        self._needed: deque[Module] = deque()
        self._others: deque[Module] = deque()
        self._changes_path = ""
        self._find = functools.cache(lambda name: find_module(name, self._path))

    def read(self, main: Module) -> Files:
        """Returns the files of the program with this main module."""
        self._needed.append(main)
        parents = main.name.split(".")[:-1]
        if parents:
            self._follow(_FoundImport(1, ".".join(parents), False, True), main.name, True)
        while self._needed or self._others:
            stops = bool(self._needed)
            self._read_module((self._needed or self._others).popleft(), stops)
        unread = list(self._unread.values())
        if self._changes_path:
            text = f" {self._changes_path} changes sys.path, which isn't followed."
            unread = [
                each._replace(reason=each.reason + text, stops=False)
                if each.reason.startswith(_NOT_FOUND)
                else each
                for each in unread
            ]
        return Files(tuple(self._read.values()), tuple(unread), self._modules)

    def _read_module(self, module: Module, stops: bool) -> None:
        file = os.path.realpath(str(module.file))
        if (file, module.package) in self._done:
            return
        self._done.add((file, module.package))
        shown = os.path.relpath(file, self._root)
        if file not in self._read:
            if not file.endswith(".py") and module.name != "__main__":
                self._add(Unread(shown, module.name, "It is compiled, not Python source.", False))
                return
            try:
                self._read[file] = Source(file, self._sources.parse(file), module.package)
            except SyntaxError as error:
                reason = f"This isn't Python 3: {syntax_advice.explain(error, shown)}"
                self._add(Unread(f"{shown}:{error.lineno}", shown, reason, stops))
                return
            except OSError as error:
                self._add(Unread(shown, shown, f"It can't be read: {error.strerror}.", stops))
                return
        source = self._read[file]
        line = self._sources.line_that_changes_path(source)
        if line and not self._changes_path:
            self._changes_path = f"{shown}:{line}"
        for each in self._sources.imports(source, module):
            self._follow(each, f"{shown}:{each.line}", stops and each.stops)

    def _add(self, unread: Unread) -> None:
        self._unread.setdefault((unread.place, unread.name), unread)

    def _follow(self, found: _FoundImport, place: str, stops: bool) -> None:
        """Queues the modules of an import: the packages on the way, and the module itself."""
        if found.name.startswith("."):
            reason = (
                f"The relative import leads out of the package {found.name[1:]}."
                if found.name != "."
                else "A script has no package that a relative import starts from: run it by -m."
            )
            self._add(Unread(place, ".", reason, stops))
            return
        if not found.name:
            self._add(Unread(place, "", "The name of the module is computed.", False))
            return
        parts = found.name.split(".")
        if parts[0] in PROVIDED or parts[0] in sys.stdlib_module_names:
            return
        for end in range(1, len(parts) + 1):
            name = ".".join(parts[:end])
            module = self._find(name)
            if module is None:
                if end == 1 and _is_found_otherwise(name):
                    return
                if not (found.optional and end == len(parts) > 1):
                    self._add(Unread(place, name, f"{_NOT_FOUND} on the path.", stops))
                return
            folders = module.folders or ()
            own = is_own(module.file) if module.file else any(is_own(each) for each in folders)
            if not own:
                return
            self._modules[name] = os.path.realpath(module.file) if module.file else ""
            if module.file:
                (self._needed if stops else self._others).append(module)


_NOT_FOUND = "There is no such module"


def _is_found_otherwise(name: str) -> bool:
    """Returns whether a finder that doesn't read the path has a module: editable installs."""
    for finder in sys.meta_path:
        if finder is not PathFinder:
            find_spec = getattr(finder, "find_spec", None)
            if find_spec is not None and find_spec(name, None) is not None:
                return True
    return False


# Fields of statements that run only in some cases.
_MAYBE = {
    ast.If: ("body", "orelse"),
    ast.For: ("body", "orelse"),
    ast.While: ("body", "orelse"),
    ast.Try: ("body", "handlers", "orelse"),
    ast.Match: ("cases",),
    ast.FunctionDef: ("body",),
    ast.AsyncFunctionDef: ("body",),
    ast.Lambda: ("body",),
    ast.IfExp: ("body", "orelse"),
}


def _nodes(node: ast.AST, stops: bool) -> Iterator[tuple[ast.AST, bool]]:
    """Yields the nodes in a node, and whether each runs whenever the node does."""
    todo = deque([(node, stops)])
    while todo:
        node, stops = todo.popleft()
        yield node, stops
        suppresses = isinstance(node, ast.With) and any(
            "suppress" in ast.unparse(item.context_expr) for item in node.items
        )
        maybe = ("body",) if suppresses else _MAYBE.get(type(node), ())
        for name, value in ast.iter_fields(node):
            for child in value if isinstance(value, list) else (value,):
                if isinstance(child, ast.AST):
                    todo.append((child, stops and name not in maybe))


def _imports(tree: ast.Module, module: Module) -> Iterator[_FoundImport]:
    """Yields the modules that a source may import."""
    package = module.package
    for node, stops in _nodes(tree, True):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield _FoundImport(node.lineno, alias.name, False, stops)
        elif isinstance(node, ast.ImportFrom):
            base = absolute(node.level, node.module or "", package)
            yield _FoundImport(node.lineno, base, False, stops)
            if not base.startswith("."):
                for alias in node.names:
                    if alias.name != "*":
                        yield _FoundImport(node.lineno, f"{base}.{alias.name}", True, stops)
        elif isinstance(node, ast.Call):
            function = ast.unparse(node.func).rpartition(".")[2]
            if function in ("import_module", "__import__") and node.args:
                argument = node.args[0]
                name = argument.value if isinstance(argument, ast.Constant) else ""
                name = name if isinstance(name, str) else ""
                level = len(name) - len(name.lstrip("."))
                yield _FoundImport(
                    node.lineno, absolute(level, name[level:], package), False, stops
                )


def absolute(level: int, name: str, package: str) -> str:
    """Returns the full name of an import; '.' and the package if it leads out of that."""
    try:
        return importlib.util.resolve_name("." * level + name, package)
    except ImportError:
        return f".{package}"


def _line_that_changes_path(tree: ast.Module) -> int:
    """Returns the first line that changes `sys.path`; 0 if none does."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            target = node.func.value
        elif isinstance(node, ast.Assign | ast.AugAssign):
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            target = target.value if isinstance(target, ast.Subscript) else target
        else:
            continue
        if ast.unparse(target) in ("sys.path", "site"):
            return node.lineno
    return 0
