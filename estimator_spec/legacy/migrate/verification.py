# SPDX-License-Identifier: Apache-2.0
"""Compares a program before and after its migration, by `python -m estimator_spec compare`."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence

from estimator_spec.legacy.migrate import files
from estimator_spec.legacy.migrate.results import Changed
from estimator_spec.legacy.program_source.program_files import StartedProgram


def compare_command(
    programs: Sequence[str], arguments: Sequence[str], options: Sequence[str]
) -> list[str]:
    """Returns the command that compares two programs.

    Args:
        programs: what names them: two scripts, or '-m', a module and two directories.
        arguments: the programs' arguments.
        options: options of `compare`.
    """
    command = [sys.executable, "-m", "estimator_spec", "compare", *programs, *options]
    return [*command, "--", *arguments] if arguments else command


def verify(command: str, changed: Sequence[Changed], root: str, options: str = "") -> int:
    """Runs a program as it was and as it is rewritten, and compares the two runs.

    Both run in copies of `root`: a directory of PYTHONPATH below `root` is replaced by its copies,
    and a module that is loaded from `root` itself is an error.

    Args:
        command: the program's path, or -m and its module; and its arguments, as in a shell.
        changed: the rewritten files.
        root: the directory with the program and the modules that it imports.
        options: options of `compare`, as in a shell.

    Returns:
        The exit status of `compare`: 0 if the two agree, 1 if they differ, 2 for an error.

    Raises:
        ValueError: the command names no program below `root`.
    """
    name, *arguments = shlex.split(command) or [""]
    is_module = name == "-m" and bool(arguments)
    program = StartedProgram(arguments.pop(0) if is_module else name, is_module, root)
    file = program.file()
    if file is None or not files.is_below(file, root):
        raise ValueError(f"--verify {command!r}: {program.name!r} is no program below {root!r}.")
    outside = [result.path for result in changed if not files.is_below(result.path, root)]
    if outside:
        sys.stderr.write(
            f"note: --verify compares what is below {root!r}; rewritten files elsewhere aren't "
            f"compared: {', '.join(outside)}. Give a --root that has them, too.\n"
        )
    with tempfile.TemporaryDirectory(prefix="migrate_") as home:
        trees = {name: os.path.join(home, name) for name in ("old", "new")}
        for tree in trees.values():
            shutil.copytree(root, tree, ignore=shutil.ignore_patterns(".*", "__pycache__"))
        for result in changed:
            if result.path in outside:
                continue
            for tree, text in ((trees["old"], result.old), (trees["new"], result.new)):
                data = files.SourceFile(result.path).encode(text)
                files.write(_copy_of(result.path, root, tree), data, like=result.path)
        if is_module:
            programs = ["-m", program.name, *trees.values()]
        else:
            programs = [_copy_of(file, root, tree) for tree in trees.values()]
        added = ["--never-from", os.path.abspath(root)]
        for side, tree in trees.items():
            added += [f"--{side}-path", _python_path(root, tree)]
        comparison = compare_command(programs, arguments, [*shlex.split(options), *added])
        return subprocess.run(comparison, check=False).returncode


def _copy_of(path: str, root: str, tree: str) -> str:
    relative = os.path.relpath(os.path.abspath(path), os.path.abspath(root))
    return os.path.normpath(os.path.join(tree, relative))


def _python_path(root: str, tree: str) -> str:
    """Returns PYTHONPATH with the copies of the directories below `root`."""
    entries = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    return os.pathsep.join(
        _copy_of(entry, root, tree) if files.is_below(entry, root) else entry for entry in entries
    )
