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

from estimator_spec.migrate import files
from estimator_spec.migrate.results import Changed


def compare_command(
    old: str, new: str, arguments: Sequence[str], options: Sequence[str]
) -> list[str]:
    """Returns the command that compares two programs.

    Args:
        old: path of the program before the migration.
        new: path of the program after it.
        arguments: the program's arguments.
        options: options of `compare`.
    """
    command = [sys.executable, "-m", "estimator_spec", "compare", old, new, *options]
    return [*command, "--", *arguments] if arguments else command


def verify(command: str, changed: Sequence[Changed], root: str, options: str = "") -> int:
    """Runs a program as it was and as it is rewritten, and compares the two runs.

    Args:
        command: the program's path, below `root`, and its arguments, as in a shell.
        changed: the rewritten files.
        root: the directory with the program and the modules that it imports.
        options: options of `compare`, as in a shell.

    Returns:
        The exit status of `compare`: 0 if the two agree, 1 if they differ, 2 for an error.

    Raises:
        ValueError: the command names no file below `root`.
    """
    script, *arguments = shlex.split(command) or [""]
    relative = os.path.relpath(os.path.abspath(script), os.path.abspath(root))
    if not os.path.isfile(script) or relative.startswith(os.pardir):
        raise ValueError(f"--verify {command!r}: {script!r} is no program below {root!r}.")
    with tempfile.TemporaryDirectory(prefix="migrate_") as home:
        trees = {name: os.path.join(home, name) for name in ("old", "new")}
        for tree in trees.values():
            shutil.copytree(root, tree, ignore=shutil.ignore_patterns(".*", "__pycache__"))
        for result in changed:
            place = os.path.relpath(os.path.abspath(result.path), os.path.abspath(root))
            if place.startswith(os.pardir):
                continue
            for tree, text in ((trees["old"], result.old), (trees["new"], result.new)):
                data = files.SourceFile(result.path).encode(text)
                files.write(os.path.join(tree, place), data, like=result.path)
        old, new = (os.path.join(tree, relative) for tree in trees.values())
        comparison = compare_command(old, new, arguments, shlex.split(options))
        return subprocess.run(comparison, check=False).returncode
