# SPDX-License-Identifier: Apache-2.0
"""Runs `python -m estimator_spec plan`, once its options are read."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from collections.abc import Mapping
from typing import Any

import tensorflow as tf
from absl import flags

from estimator_spec import legacy
from estimator_spec.core.common import legacy_keras
from estimator_spec.core.embedding import program_objects
from estimator_spec.planning import running
from estimator_spec.planning.data import to_data
from estimator_spec.planning.page import make_page
from estimator_spec.planning.planner import plan
from estimator_spec.planning.results import Plan
from estimator_spec.planning.samples import IdSample
from estimator_spec.planning.sampling import sample_ids
from estimator_spec.planning.system import System
from tpu_columns.kernels import libraries
from tpu_columns.placement import Hardware


def run(options: argparse.Namespace, program: list[str]) -> int:
    """Plans a spec, and prints or writes the plan; returns the exit status.

    Args:
        options: the command's options; fields of `System` that aren't given have its defaults.
        program: arguments of the program that has the spec.
    """
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


def _plan(options: argparse.Namespace, program: list[str]) -> Plan:
    fields = [field.name for field in dataclasses.fields(System)]
    given = {name: getattr(options, name) for name in fields if hasattr(options, name)}
    system = System(**{**given, "hardware": Hardware(options.hardware)})
    file = options.spec.rpartition(":")[0]
    params: Mapping[str, Any] | None = None
    if running.needs_arguments(options.spec):
        spec, names, params = running.find_spec(options.spec, program)
    else:
        found = program_objects.load_object(options.spec, "plan")
        if not flags.FLAGS.is_parsed():
            # The program's main function, which would parse them, doesn't run.
            flags.FLAGS([file, *program])
        spec, names = program_objects.make_spec(found, options.spec, "plan"), {}
    sample: IdSample | None = None
    if options.input_batches is not None:
        input_fn = names.get(options.input_fn) or program_objects.load_object(
            f"{file}:{options.input_fn}", "--input-fn"
        )
        batches = options.input_batches
        sample = sample_ids(spec, input_fn, batches, batch_size=options.batch_size, params=params)
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
