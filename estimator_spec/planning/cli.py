# SPDX-License-Identifier: Apache-2.0
"""Command line: `python -m estimator_spec plan …`.

Exit status: 0 if the tables fit; 1 if they don't; 2 for an error, with the reason on standard
error.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence

from estimator_spec.core.common import command_line, quiet_start

_EXAMPLES = """\
examples:
  plan train.py:spec
  plan train.py:make_spec --hosts 8 --hbm 32 --html plan.html -- --data_dir=data
  plan my_package.model:spec --input-batches 8 --input-fn train_input_fn --batch-size 4096
  plan my_package.model:spec --hardware cpu --hosts 4 --json
"""

# Bytes of a unit; a number without one is in GiB.
_UNITS = {"": 1 << 30, "GiB": 1 << 30, "GB": 10**9, "TiB": 1 << 40, "TB": 10**12, "MiB": 1 << 20}


def main(arguments: Sequence[str]) -> int:
    """Plans the spec that a command line names, and returns the exit status.

    Args:
        arguments: the command line after `python -m estimator_spec plan`.
    """
    own, program = command_line.split_arguments(arguments)
    options = _parser().parse_args(own)
    # `--help` and wrong options don't wait for TensorFlow.
    quiet_start.import_tensorflow()
    from estimator_spec.planning import command

    return command.run(options, program)


def _parser() -> argparse.ArgumentParser:
    description = "Says before a training what memory its tables need, and what doesn't fit."
    parser = command_line.new_parser("plan", description, _EXAMPLES)
    add = parser.add_argument
    add(
        "spec",
        metavar="SCRIPT_OR_MODULE:SPEC",
        help="an EmbeddingConfigSpec, or a function that makes it: one that needs arguments is "
        "called by the program, which runs until then; what follows -- are the program's own flags",
    )
    unit = "a number without a unit is in GiB"
    for option, kind, metavar, text in (
        ("--hosts", int, "N", "hosts (default: 1)"),
        ("--cores", int, "M", "cores a host (default: 8)"),
        ("--hbm", _size, "SIZE", "of a core (default: 16GiB)"),
        ("--host-memory", _size, "SIZE", f"of a host (default: 128GiB); {unit}"),
        ("--reserved", float, None, "fraction (default: 0.15)"),
        ("--sparse-cores", int, None, "of a core (default: 4)"),
    ):
        # Fields of `System`: those that aren't given have its defaults.
        add(option, type=kind, default=argparse.SUPPRESS, metavar=metavar, help=text)
    add("--hardware", choices=("tpu", "cpu"), default="tpu")
    add(
        "--serving-dtype",
        default="float32",
        metavar="DTYPE",
        help="of exported tables: float32, float16 or int8",
    )
    add("--model-slots", type=int, default=2, help="slots of the model's optimizer (default: 2)")
    add("--input-batches", type=int, metavar="K", help="batches of the input to sample ids from")
    add(
        "--input-fn",
        default="input_fn",
        metavar="NAME",
        help="beside the spec (default: input_fn)",
    )
    add("--batch-size", type=int, default=1024, help="params['batch_size'] (default: 1024)")
    add("--json", action="store_true", help="print JSON")
    add("--html", metavar="FILE", help="write a page with pictures")
    add("--dry-run", action="store_true", help="don't write the page")
    return parser


def _size(text: str) -> int:
    """Returns the bytes of a size such as '16', '16GiB' or '340GB'."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([A-Za-z]*)", text)
    if match is None or match[2] not in _UNITS:
        units = ", ".join(filter(None, _UNITS))
        raise argparse.ArgumentTypeError(f"{text!r} is no size: a number, alone or with {units}")
    return int(float(match[1]) * _UNITS[match[2]])
