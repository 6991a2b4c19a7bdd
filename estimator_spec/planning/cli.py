# SPDX-License-Identifier: Apache-2.0
"""Command line: `python -m estimator_spec plan …`.

Exit status: 0 if the tables fit; 1 if they don't; 2 for an error, with the reason on standard
error.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import re
import sys
from collections.abc import Sequence

import tensorflow as tf
from absl import flags

from estimator_spec import legacy
from estimator_spec.common import command_line, legacy_keras
from estimator_spec.embedding import program_objects
from estimator_spec.planning.data import to_data
from estimator_spec.planning.page import make_page
from estimator_spec.planning.planner import plan
from estimator_spec.planning.results import Plan
from estimator_spec.planning.samples import IdSample
from estimator_spec.planning.sampling import sample_ids
from estimator_spec.planning.system import GIB, System
from tpu_columns import Hardware
from tpu_columns.kernels import libraries
from tpu_columns.storage import DTYPES

_EXAMPLES = """\
examples:
  plan train.py:spec
  plan train.py:make_spec --hosts 8 --hbm 32 --html plan.html -- --data_dir=data
  plan my_package.model:spec --input-batches 8 --input-fn train_input_fn --batch-size 4096
  plan my_package.model:spec --hardware cpu --hosts 4 --json
"""

_UNITS = {"": GIB, "GiB": GIB, "GB": 10**9, "TiB": 1 << 40, "TB": 10**12, "MiB": 1 << 20}


def main(arguments: Sequence[str]) -> int:
    """Plans the spec that a command line names, and returns the exit status.

    Args:
        arguments: the command line after `python -m estimator_spec plan`.
    """
    own, program = command_line.split_arguments(arguments)
    options = _parser().parse_args(own)
    # Before the program's first import, as `python -m estimator_spec run` does.
    legacy_keras.select_legacy_keras()
    try:
        with legacy.install(replace=True):
            found = _plan(options, program)
        _write(options, found)
    except (OSError, TypeError, ValueError, flags.Error, tf.errors.OpError) as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    return 0 if found.fits else 1


def _parser() -> argparse.ArgumentParser:
    description = "Says before a training what memory its tables need, and what doesn't fit."
    parser = command_line.new_parser("plan", description, _EXAMPLES)
    default = System()
    add = parser.add_argument
    add(
        "spec",
        metavar="SCRIPT_OR_MODULE:SPEC",
        help="an EmbeddingConfigSpec, or a function without arguments that makes it; what follows "
        "-- are the program's own flags",
    )
    add("--hosts", type=int, default=default.hosts, metavar="N", help="hosts (default: 1)")
    add("--cores", type=int, default=default.cores, metavar="M", help="cores a host (default: 8)")
    add("--hbm", type=_size, default=default.hbm, metavar="SIZE", help="of a core (default: 16GiB)")
    add(
        "--host-memory",
        type=_size,
        default=default.host_memory,
        metavar="SIZE",
        help="of a host (default: 128GiB); a number without a unit is in GiB",
    )
    add("--reserved", type=float, default=default.reserved, help="fraction (default: 0.15)")
    add("--sparse-cores", type=int, default=default.sparse_cores, help="of a core (default: 4)")
    add("--hardware", choices=[h.value for h in Hardware], default=default.hardware.value)
    add("--serving-dtype", choices=DTYPES, default="float32", help="of exported tables")
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


def _plan(options: argparse.Namespace, program: list[str]) -> Plan:
    sizes = {field.name: getattr(options, field.name) for field in dataclasses.fields(System)}
    system = System(**{**sizes, "hardware": Hardware(options.hardware)})
    file = options.spec.rpartition(":")[0]
    found = program_objects.load_object(options.spec, "plan")
    if not flags.FLAGS.is_parsed():
        # The program's main function, which would parse them, doesn't run.
        flags.FLAGS([file, *program])
    spec = program_objects.make_spec(found, options.spec, "plan")
    sample: IdSample | None = None
    if options.input_batches is not None:
        input_fn = program_objects.load_object(f"{file}:{options.input_fn}", "--input-fn")
        sample = sample_ids(spec, input_fn, options.input_batches, batch_size=options.batch_size)
    return plan(
        spec,
        system,
        sample=sample,
        serving_dtype=options.serving_dtype,
        model_slots=options.model_slots,
    )


def _write(options: argparse.Namespace, found: Plan) -> None:
    """Prints the plan, and writes its page."""
    engine = libraries.describe_engine(tf.__version__)
    if options.json:
        sys.stdout.write(json.dumps({**to_data(found), "engine": engine}, indent=1) + "\n")
    else:
        sys.stdout.write(f"{found}\n\nWith this Python, tables are trained on a CPU by {engine}\n")
    if options.html is None:
        return
    page = make_page(found, options.spec)
    if options.dry_run:
        size = len(page.render().encode())
        sys.stderr.write(f"would be written: {options.html}, {size:,} bytes\n")
        return
    page.write(options.html)
    sys.stderr.write(f"written: {options.html}\n")
