# SPDX-License-Identifier: Apache-2.0
"""Measures what each optimization gains, by turning it off.

    python benchmarks/optimizations.py                       # all, a quarter of an hour
    python benchmarks/optimizations.py --only FAST_LOOKUPS --rounds 5

Trains (or evaluates) a workload in which the optimization matters, in turn with and without it,
each time in a fresh process with the TensorFlow of this interpreter. Prints a Markdown table:
medians with it, and the median of the rounds' ratios, without it to with it. `PLAIN` turns all off.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
from typing import Any

import training
from training_time import pages, sides, workloads

from tpu_columns.optimizations import Optimization

PREFIX = "TPU_COLUMNS_"
# Workloads by switch; with reference variables, as programs of TensorFlow 1 have, except on the
# host core.
WORKLOADS = {
    Optimization.LOOKUPS.value: "serve/10ids",
    Optimization.NATIVE_KERNELS.value: "grid/10ids-dense-1e6",
    Optimization.UPDATES.value: "adam/1id-dense-1e5",
    Optimization.MEMORY.value: "grid/1id-dense-1e6",
    Optimization.HUGE_PAGES.value: "grid/1id-dense-1e6",
    Optimization.SKIPPED_HOOKS.value: "huge/1id",
    Optimization.STACKED_TABLES.value: "small-300",
    "TPU_COLUMNS_PLAIN": "grid/10ids-dense-1e5",
}
HOST_ONLY = {Optimization.STACKED_TABLES.value}
FIGURES = {
    "ms": "ms a step",
    "cpu_ms": "CPU ms a step",
    "first_step_s": "first step, s",
    "peak_mib": "peak memory, MiB",
}


def measure(name: str, on: bool, seconds: float, side: sides.Side) -> dict[str, float]:
    """Returns the figures of one process with an optimization on or off."""
    is_plain = name.endswith("PLAIN")
    os.environ[name] = str(int(on != is_plain))
    workload = workloads.by_name(WORKLOADS[name])
    figures, error = training.measure(sys.executable, side, workload, seconds)
    del os.environ[name]
    if error:
        sys.exit(f"error: {name}: {error}")
    return {key: _median(figures[key]) for key in FIGURES if key in figures}


def _median(value: Any) -> float:
    return statistics.median(value) if isinstance(value, list) else float(value)


def row(name: str, runs: list[tuple[dict[str, float], dict[str, float]]]) -> list[str]:
    """Returns the cells of one optimization from its rounds, (with, without) each."""
    cells = [f"`{name}`", WORKLOADS[name]]
    for key in FIGURES:
        if key not in runs[0][0]:
            cells.append("–")
            continue
        median = statistics.median(with_it[key] for with_it, _ in runs)
        ratio = statistics.median(without[key] / with_it[key] for with_it, without in runs)
        cells.append(f"{pages.number(median)} · {ratio:.2f}")
    return cells


def main() -> None:
    """Measures the chosen optimizations and prints the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", help="switches, without TPU_COLUMNS_, by commas")
    parser.add_argument("--rounds", type=int, default=3, help="pairs of processes")
    parser.add_argument("--quick", action="store_true", help="a tenth of the steps")
    parser.add_argument("--side", default="default-v1", help="of benchmarks/training.py")
    parser.add_argument("--timeout", type=float, default=600, help="seconds for a process")
    options = parser.parse_args()
    if options.quick:
        os.environ["TRAINING_TIME_QUICK"] = "1"
    side = sides.SIDES[options.side]
    chosen = (
        options.only.split(",") if options.only else [n.removeprefix(PREFIX) for n in WORKLOADS]
    )
    rows = []
    for name in (PREFIX + word for word in chosen):
        runs = []
        for number in range(options.rounds):
            # Alternating order: the machine's speed drifts.
            order = (True, False) if number % 2 == 0 else (False, True)
            on_side = sides.SIDES["host"] if name in HOST_ONLY else side
            found = {on: measure(name, on, options.timeout, on_side) for on in order}
            runs.append((found[True], found[False]))
        rows.append(row(name, runs))
        print(" | ".join(rows[-1]), flush=True)
    print("\n" + pages.grid(["off", "workload", *FIGURES.values()], rows))


if __name__ == "__main__":
    main()
