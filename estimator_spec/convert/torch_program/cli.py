# SPDX-License-Identifier: Apache-2.0
"""Command line of `to-torch`, which takes a script or `-m MODULE`, its arguments and `--output`.

Exit status: 0 if the written program was compared and agrees, or wasn't compared because there is
no torch here, 1 if they differ, 2 for an error, with the reason on standard error and nothing
written, 130 if interrupted.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from estimator_spec.convert.keras_program import cli
from estimator_spec.core.common import command_line, quiet_start

_EPILOG = """\
Runs the unedited program until it first uses a canned estimator (or one with feature columns), and
writes into DIR, which must be new or empty:
  model.py               the torch.nn.Module, its optimizers
  reading.py             reads raw features by NumPy and pyfarmhash
  weights.safetensors    the trained model
  optimizer.safetensors  the optimizers' slots and step
  train.py               trains on, of TFRecords or arrays
  serve.py               predicts TFRecord files, exports ONNX
  check.py, check.npz    what the estimator gave, and the comparison with it
  report.md, report.html how each column became layers, what isn't equal, the comparison
This needs no torch. Where torch is installed, or --python names a Python with torch, numpy and
pyfarmhash, check.py runs there.

examples:
  to-torch census.py --model_dir=/models/census --output census_torch
  to-torch -m trainer.task --job-dir=/models/census --output census_torch
  to-torch --saved-model /models/census/export/1589 --output census_torch
  to-torch --saved-model exports/17 --output census_torch
  to-torch census.py --python torchenv/bin/python --output census_torch

Options of the command may come before SCRIPT or after the program's arguments. All that the program
does before it uses the estimator happens, such as the removal of an old model_dir: --checkpoint
keeps the files that it names.
exit status: 0 they agree, or weren't compared, 1 they differ, 2 error, 130 interrupted
"""


def main(arguments: Sequence[str]) -> int:
    """Writes the program, compares it, and returns the exit status.

    Args:
        arguments: the command line after `python -m estimator_spec to-torch`.
    """
    own, of_program = command_line.split_arguments(arguments)
    options, rest = _parser().parse_known_args(own)
    # `--help` and wrong options don't wait for TensorFlow.
    quiet_start.import_tensorflow()
    from estimator_spec.convert.keras_program import command
    from estimator_spec.convert.torch_program import target

    return command.run(target.TorchTarget(), options, [*options.run_option, *rest, *of_program])


def _parser() -> argparse.ArgumentParser:
    description = "Writes the PyTorch program of an Estimator program, and compares the two."
    usage = (
        "python -m estimator_spec to-torch [options] SCRIPT [ARGS...] --output DIR\n"
        "       python -m estimator_spec to-torch [options] -m MODULE [ARGS...] --output DIR\n"
        "       python -m estimator_spec to-torch [options] --saved-model DIR --output DIR"
    )
    parser = cli.new_parser("to-torch", description, _EPILOG, usage)
    parser.add_argument("--python", metavar="PATH", help="a Python with torch, to run check.py by")
    parser.set_defaults(tolerance=[])  # check.py has its own
    return parser
