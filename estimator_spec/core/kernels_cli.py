# SPDX-License-Identifier: Apache-2.0
"""Command line: `python -m estimator_spec kernels build | info | clean`.

Exit status: 0, or 1 if a library can't be built or there is none, with the reason on standard
error; 2 for an error in the command line; 3 if there is no compiler to build it with.
"""

from __future__ import annotations

import importlib.metadata
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from estimator_spec.core.common import command_line
from tpu_columns.kernels import building, libraries
from tpu_columns.kernels.libraries import UnusableError

_NO_COMPILER = 3


def main(arguments: Sequence[str]) -> int:
    """Runs the command and returns the exit status.

    Args:
        arguments: the command line after `python -m estimator_spec kernels`.
    """
    parser = command_line.new_parser(
        "kernels",
        "Builds the C++ ops that look up and update tables, for the installed TensorFlow, and says "
        "which are used.",
        "exit status: 0, or 1 if a library can't be built or there is none; 2 error; 3 if there is "
        "no compiler",
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    build = commands.add_parser("build", help="build them, unless they are built")
    build.add_argument(
        "--timeout",
        type=float,
        default=building.TIMEOUT_S,
        metavar="S",
        help=f"seconds that the compiler may take (default: {building.TIMEOUT_S})",
    )
    build.add_argument(
        "--unpacked",
        type=Path,
        metavar="DIR",
        help="for a TensorFlow whose wheel is unpacked there, and isn't installed; with --output",
    )
    build.add_argument("--output", type=Path, metavar="DIR", help="with --unpacked: its place")
    commands.add_parser("info", help="say which library a training loads, or why none")
    clean = commands.add_parser("clean", help="remove libraries of other versions")
    clean.add_argument("--all", action="store_true", help="remove those of this version, too")
    options = parser.parse_args(list(arguments))
    if options.command == "build" and (options.unpacked is None) != (options.output is None):
        parser.error("--unpacked and --output belong together")
    # So that a compiler is ended with this command.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        if options.command == "build":
            return _build(options.timeout, options.unpacked, options.output)
        return _inform() if options.command == "info" else _clean(options.all)
    except (building.BuildError, UnusableError) as error:
        sys.stderr.write(f"error: {error}\n")
        return _NO_COMPILER if isinstance(error, building.NoCompilerError) else 1


def _build(timeout: float, unpacked: Path | None, output: Path | None) -> int:
    def begin() -> None:
        sys.stderr.write(f"Compiling the ops: some 15 s; ended after {timeout:g} s (--timeout).\n")

    if unpacked is None or output is None:
        library, is_new = building.build_for_user(timeout, begin)
    else:
        library, is_new = building.build_for_wheel(unpacked, output, timeout, begin)
    sys.stdout.write(f"{'built' if is_new else 'already built'}: {library}\n")
    return 0


def _installed_tensorflow() -> str:
    """Returns the version of TensorFlow, which isn't started for it."""
    providers = importlib.metadata.packages_distributions().get("tensorflow")
    if not providers:
        raise UnusableError("TensorFlow isn't installed")
    return importlib.metadata.version(providers[0])


def _inform() -> int:
    version = _installed_tensorflow()
    library, reasons = libraries.find(version)
    lines = [f"TensorFlow {version}", f"  in training: {libraries.describe_engine(version)}"]
    if library is not None:
        lines += [f"  not: {reason}" for reason in reasons]
    sys.stdout.write("\n".join(lines) + "\n")
    return 0 if library is not None else 1


def _clean(everything: bool) -> int:
    directory = libraries.cache_directory()
    removed = building.clean(directory, everything)
    sys.stdout.write("".join(f"removed: {path}\n" for path in removed) or "nothing to remove\n")
    return 0
