# SPDX-License-Identifier: Apache-2.0
"""Command line: `python -m estimator_spec to-keras SCRIPT [ARGS...] --output DIR`.

Exit status: 0 if the written model agrees with the estimator, 1 if they differ, 2 for an error,
with the reason on standard error and nothing written, 130 if interrupted.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from collections.abc import Sequence

import tensorflow as tf

from estimator_spec.checkpoints.bundle import Checkpoint
from estimator_spec.common import command_line, local_files
from estimator_spec.common.terminal import format_table
from estimator_spec.compare.comparison import Comparison
from estimator_spec.compare.stages import Tolerance, parse_rule
from estimator_spec.legacy import run
from estimator_spec.to_keras import batches, first_use, proof, report, written

_EPILOG = """\
Runs the unedited program until it first uses a canned estimator (or one with feature columns), and
writes into DIR, which must be new or empty:
  model.py       preprocess, build_model, compile_model: Keras 3, no import of this project
  weights.keras  the trained model, with the optimizer's slots
  vocabularies/  words of long vocabularies
  serve.py       exports a SavedModel of tf.Examples
  report.md      how each column became layers, what isn't equal, the comparison
  report.html    the same with pictures

examples:
  to-keras census.py --model_dir=/models/census --output census_keras
  to-keras --checkpoint /models/census/model.ckpt-900 --output census_keras census.py
  to-keras --run-option=--cpu --output out -- train.py --steps=100

Options of the command may come before SCRIPT or after the program's arguments. All that the program
does before it uses the estimator happens, such as the removal of an old model_dir: --checkpoint
keeps the files that it names.
exit status: 0 they agree, 1 they differ, 2 error, 130 interrupted
"""


def main(arguments: Sequence[str]) -> int:
    """Writes the program, compares it, and returns the exit status.

    Args:
        arguments: the command line after `python -m estimator_spec to-keras`.
    """
    own, of_program = command_line.split_arguments(arguments)
    options, rest = _parser().parse_known_args(own)
    program = [*options.run_option, *rest, *of_program]
    try:
        if not program:
            raise ValueError("The name of a script is missing: to-keras SCRIPT --output DIR.")
        result = _convert(options, program)
    except (OSError, ValueError, ImportError, RuntimeError, run.UsageError) as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    except KeyboardInterrupt:
        sys.stderr.write("interrupted: nothing was written.\n")
        return 130
    sys.stdout.write(f"{result.headline}\n\n")
    rows = report.compared_rows(result)
    header = ("compared", "outcome", "largest difference", "relative")
    sys.stdout.write(format_table(header, rows) + "\n" if rows else "Nothing was compared.\n")
    sys.stdout.write(f"\nwritten: {options.output}\n")
    return 0 if result.agrees else 1


def _parser() -> argparse.ArgumentParser:
    description = "Writes the Keras 3 program of an Estimator program, and compares the two."
    usage = "python -m estimator_spec to-keras [options] SCRIPT [ARGS...] --output DIR"
    parser = command_line.new_parser("to-keras", description, _EPILOG, usage)
    parser.allow_abbrev = False
    add = parser.add_argument
    add("--output", required=True, metavar="DIR", help="new directory of the written program")
    add("--checkpoint", metavar="PATH", help="the trained model (default: the latest in model_dir)")
    add("--estimator", type=int, default=1, metavar="N", help="the program's N-th (default: 1)")
    add("--batches", type=int, default=2, metavar="N", help="of the program's input (default: 2)")
    add(
        "--tolerance",
        action="append",
        default=[],
        metavar="PATTERN=REL[,ABS]",
        help="as of `compare`: forward-pass/*, predictions/*, metrics/*",
    )
    add(
        "--run-option",
        action="append",
        default=[],
        metavar="OPTION",
        help="option of `estimator_spec run`, such as --cpu",
    )
    return parser


def _convert(options: argparse.Namespace, program: list[str]) -> Comparison:
    rules = [parse_rule(text) for text in options.tolerance]
    output = os.path.abspath(options.output)
    if os.path.exists(output) and (not os.path.isdir(output) or os.listdir(output)):
        raise ValueError(f"--output {options.output!r} isn't an empty directory. Name a new one.")
    with tempfile.TemporaryDirectory() as folder:
        checkpoint = None
        if options.checkpoint is not None:
            checkpoint = _kept(options.checkpoint, folder)
        use = first_use.find_use(program, options.estimator)
        shown = options.checkpoint or use.estimator.model_dir
        return _write(use, checkpoint or shown, program, output, options, rules, shown)


def _kept(checkpoint: str, folder: str) -> str:
    """Returns the prefix of the same checkpoint in a folder, which the program can't remove."""
    with Checkpoint(checkpoint) as opened:
        prefix = opened.prefix
    for path in tf.io.gfile.glob(f"{prefix}.*"):
        name = os.path.join(folder, os.path.basename(path))
        try:
            os.link(path, name)  # no copy of a large table
        except OSError:
            tf.io.gfile.copy(path, name)
    return os.path.join(folder, os.path.basename(prefix))


def _write(
    use: first_use.Use,
    checkpoint: str,
    program: list[str],
    output: str,
    options: argparse.Namespace,
    rules: list[tuple[str, Tolerance]],
    shown: str,
) -> Comparison:
    script = next((word for word in program if not word.startswith("-")), program[0])
    sources = written.plan_program(use, checkpoint, os.path.basename(script), shown)
    found = batches.read_batches(use, options.batches)
    if found:
        found.append(batches.edge_batch(found[0], _words(use, sources)))
    os.makedirs(os.path.dirname(output), exist_ok=True)
    temporary = tempfile.mkdtemp(
        prefix=f".{os.path.basename(output)}.", dir=os.path.dirname(output)
    )
    try:
        module, model = written.write_program(sources, temporary)
        result = proof.compare(use, sources, module, model, found, rules)
        text = report.markdown(use, sources, result)
        local_files.write_atomically(os.path.join(temporary, "report.md"), text.encode())
        report.make_page(sources, result).write(os.path.join(temporary, "report.html"))
        os.chmod(temporary, 0o755)
        os.replace(temporary, output)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    return result


def _words(use: first_use.Use, sources: written.Sources) -> dict[str, list[object]]:
    """Returns the words of vocabulary columns by key of their feature."""
    columns = list(use.columns)
    for part in use.model.parts if use.model is not None else ():
        columns += part.columns
    found: dict[str, list[object]] = {}
    for column in columns:
        while hasattr(column, "categorical_column"):
            column = column.categorical_column
        if hasattr(column, "vocabulary_list"):
            found[column.key] = list(column.vocabulary_list)
    del sources
    return found
