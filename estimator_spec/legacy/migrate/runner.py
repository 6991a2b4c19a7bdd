# SPDX-License-Identifier: Apache-2.0
"""Migrates files, in several processes on request."""

from __future__ import annotations

import ast
import concurrent.futures
import contextlib
import dataclasses
import gc
import multiprocessing
import os
import sys
from collections.abc import Iterator, Sequence

from estimator_spec.legacy.migrate import files, migration, notebook_text, notebooks
from estimator_spec.legacy.migrate.migration import MigrationOptions
from estimator_spec.legacy.migrate.program import ROOTS
from estimator_spec.legacy.migrate.programs import Programs
from estimator_spec.legacy.migrate.results import Changed, Failed, Result, Skipped, Unchanged
from estimator_spec.legacy.migrate.syntax import SourceError
from estimator_spec.legacy.program_source import syntax_advice
from estimator_spec.legacy.program_source.expressions import last_name, split_attributes
from estimator_spec.legacy.program_source.program_files import Sources


def migrate_file(path: str, options: MigrationOptions) -> Result:
    """Returns the migration of a module or a notebook; the file stays as it is."""
    try:
        source = files.SourceFile(path).text
    except (OSError, SyntaxError, UnicodeDecodeError) as error:
        return Failed(path, f"can't be read: {error}")
    if migration.SKIP in source:
        return Skipped(path, f"it has the comment `{migration.SKIP}`")
    try:
        migrate = notebooks.migrate_notebook if path.endswith(".ipynb") else migration.migrate
        done = migrate(source, options)
    except notebook_text.OtherLanguageError as error:
        return Skipped(path, str(error))
    except notebook_text.NotebookError as error:
        return Failed(path, str(error))
    except SourceError as error:
        return Failed(path, _reason(path, error))
    except Exception as error:  # A fault of a rule must not end the run of the other files.
        return Failed(path, f"a rule failed, please report it: {type(error).__name__}: {error}")
    if done.source == source:
        return Unchanged(path, done.findings)
    return Changed(path, source, done.source, done.rewrites, done.findings)


def _reason(path: str, error: SourceError) -> str:
    """Returns why a module can't be parsed: the line, and the next step."""
    found = error.__cause__
    if not isinstance(found, SyntaxError):
        return f"isn't Python 3: {error}"
    return f"isn't Python 3, line {found.lineno or 1}: {syntax_advice.explain(found, path)}"


def imported_names(paths: Sequence[str], sources: Sources) -> frozenset[str]:
    """Returns the names that files import from, or read of, modules other than TensorFlow's.

    A module of the program may get such a name from an import of its own.

    Args:
        paths: the files; those that can't be parsed are left out.
        sources: parses them, once.
    """
    found: set[str] = set()
    for path in paths:
        try:
            tree = sources.parse(os.path.realpath(path))
        except (OSError, SyntaxError, RecursionError):
            continue
        nodes = list(ast.walk(tree))
        modules: set[str] = set()
        for node in nodes:
            if isinstance(node, ast.ImportFrom):
                if node.level or _may_be_own(node.module or ""):
                    found.update(alias.name for alias in node.names)
                    modules.update(alias.asname or alias.name for alias in node.names)
            elif isinstance(node, ast.Import):
                names = [alias for alias in node.names if _may_be_own(alias.name)]
                modules.update(alias.asname or alias.name.split(".")[0] for alias in names)
        for node in nodes:
            if isinstance(node, ast.Attribute):
                root, _ = split_attributes(node)
                if last_name(root) in modules:
                    found.add(node.attr)
    return frozenset(found)


def _may_be_own(module: str) -> bool:
    """Returns whether a module may be the program's."""
    return module.split(".")[0] not in (*ROOTS, *sys.stdlib_module_names)


def _notebooks(paths: Sequence[str]) -> dict[str, ast.Module]:
    """Returns the syntax trees of the code of notebooks; those that can't be read are left out."""
    found = {}
    for path in paths:
        if path.endswith(".ipynb"):
            with contextlib.suppress(OSError, SyntaxError, ValueError):
                found[path] = ast.parse(notebooks.python_source(files.SourceFile(path).text))
    return found


def migrate_files(
    paths: Sequence[str], options: MigrationOptions, jobs: int = 1
) -> Iterator[Result]:
    """Yields the migrations of files, in their order.

    Args:
        paths: modules and notebooks.
        options: the rules to apply.
        jobs: number of processes.
    """
    modules = [path for path in paths if not path.endswith(".ipynb")]
    sources = Sources()
    imported = imported_names(modules, sources)
    options = dataclasses.replace(options, exported=options.exported | imported)
    programs = Programs(paths, _notebooks(paths), sources)
    each = [dataclasses.replace(options, place=programs.place(path)) for path in paths]
    if jobs == 1 or len(paths) < 2:
        yield from map(migrate_file, paths, each)
        return
    # Not by fork: the caller may have threads.
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(
        min(jobs, len(paths)), context, initializer=_start_worker
    ) as pool:
        chunk = max(1, min(16, len(paths) // (4 * jobs)))
        yield from pool.map(_migrate_in_worker, paths, each, chunksize=chunk)


def _migrate_in_worker(path: str, options: MigrationOptions) -> Result:
    result = migrate_file(path, options)
    gc.collect(0)
    return result


def _start_worker() -> None:
    # Syntax trees have many objects and few cycles; the collector took a fifth of the time.
    gc.set_threshold(200_000, 20, 20)
