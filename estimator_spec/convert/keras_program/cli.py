# SPDX-License-Identifier: Apache-2.0
"""Command line of `to-keras`, which takes a script or `-m MODULE`, its arguments and `--output`.

Exit status: 0 if the written model agrees with the estimator, 1 if they differ, 2 for an error,
with the reason on standard error and nothing written, 130 if interrupted.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from estimator_spec.core.common import command_line, quiet_start

_EPILOG = """\
Runs the unedited program until it first uses a canned estimator (or one with feature columns), and
writes into DIR, which must be new or empty:
  model.py       preprocess, build_model, compile_model: Keras 3, no import of this project
  weights.keras  the trained model, with the optimizer's slots
  vocabularies/  words of long vocabularies
  serve.py       exports a SavedModel of tf.Examples
  report.md      how each column became layers, what isn't equal, the comparison
  report.html    the same with pictures
With --without-tensorflow model.py reads features by NumPy, serve.py predicts TFRecord files, and
there are records.py, which reads those, and check.py, which compares with the estimator anew.

examples:
  to-keras census.py --model_dir=/models/census --output census_keras
  to-keras -m trainer.task --job-dir=/models/census --output census_keras
  to-keras --checkpoint /models/census/model.ckpt-900 --output census_keras census.py
  to-keras ctr.py --embeddings distributed --output ctr_keras
  to-keras census.py --without-tensorflow --output census_torch
  to-keras --saved-model /models/census/export/1589 --output census_keras
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
    # `--help` and wrong options don't wait for TensorFlow.
    quiet_start.import_tensorflow()
    from estimator_spec.convert.keras_program import command, target

    return command.run(target.KerasTarget(), options, [*options.run_option, *rest, *of_program])


def _parser() -> argparse.ArgumentParser:
    description = "Writes the Keras 3 program of an Estimator program, and compares the two."
    usage = (
        "python -m estimator_spec to-keras [options] SCRIPT [ARGS...] --output DIR\n"
        "       python -m estimator_spec to-keras [options] -m MODULE [ARGS...] --output DIR\n"
        "       python -m estimator_spec to-keras [options] --saved-model DIR --output DIR"
    )
    parser = new_parser("to-keras", description, _EPILOG, usage)
    add = parser.add_argument
    add(
        "--embeddings",
        choices=("layers", "distributed"),
        default="layers",
        help="tpu_columns' embeddings: a layer each, or one keras_rs.layers.DistributedEmbedding",
    )
    add(
        "--without-tensorflow",
        action="store_true",
        help="write a program for Keras on torch or JAX, which needs no TensorFlow",
    )
    add(
        "--tolerance",
        action="append",
        default=[],
        metavar="PATTERN=REL[,ABS]",
        help="as of `compare`: forward-pass/*, predictions/*, metrics/*, losses/*, "
        "trained-values/*",
    )
    return parser


def new_parser(name: str, description: str, epilog: str, usage: str) -> argparse.ArgumentParser:
    """Returns a parser of the options that all commands have which write a program."""
    parser = command_line.new_parser(name, description, epilog, usage)
    parser.allow_abbrev = False
    add = parser.add_argument
    add("--output", required=True, metavar="DIR", help="new directory of the written program")
    add("--saved-model", metavar="DIR", help="in place of SCRIPT, the SavedModel of an estimator")
    add("--tag", help="of the SavedModel's graph (default: 'serve', or the only one)")
    add("--checkpoint", metavar="PATH", help="the trained model (default: the latest in model_dir)")
    add("--estimator", type=int, default=1, metavar="N", help="the program's N-th (default: 1)")
    positive = command_line.number_from(1)
    add("--batches", type=positive, default=2, metavar="N", help="of its input (default: 2)")
    add("--no-training", action="store_true", help="leave out the 50 further steps of training")
    add(
        "--run-option",
        action="append",
        default=[],
        metavar="OPTION",
        help="option of `estimator_spec run`, such as --cpu",
    )
    return parser
