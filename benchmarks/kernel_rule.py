# SPDX-License-Identifier: Apache-2.0
"""Measures update kernels of TensorFlow against their formulas; writes or checks the rule.

    python benchmarks/kernel_rule.py            # prints the times' ratios
    python benchmarks/kernel_rule.py --write    # writes the rule into the package's table
    python benchmarks/kernel_rule.py --check    # fails where the table's choice is clearly slower

`estimator_spec/updates/kernel_choice.py` decides by that table. Each run measures the TensorFlow
of its interpreter, in a minute or two, and `--write` replaces the entry of that version only.
"""

from __future__ import annotations

import argparse
import datetime
import inspect
import statistics
import sys
import time
from pathlib import Path
from pprint import pformat
from typing import Any

import numpy as np
import tensorflow as tf
from training_time import results

from estimator_spec.updates import kernel_choice, kernel_table, kernels
from tpu_columns import combining

tf1 = tf.compat.v1

TABLE = Path(kernel_table.__file__)
SUM = "UnsortedSegmentSum"
KINDS = (SUM, *sorted(kernels.kinds()))
WIDTHS = (16, 32, 64, 128)
ROWS = (1 << 10, 1 << 13, 1 << 16, 1 << 18)
# Speed-up from which our ops are used: they round differently, which needs a reason.
CLEARLY = 1.15
# Slow-down of the table's choice that `--check` reports: another machine has other caches.
MUCH = 1.6

# Several updates at once, as in a step: the sum of the cores' work counts.
UPDATES, IDS, WARM_UP = 2, 1024, 2
_ATTRIBUTES = frozenset(
    {"name", "use_locking", "use_nesterov", "update_slots", "multiply_linear_by_lr"}
)


def speed_up(kind: str, width: int, rows: int, rounds: int) -> float:
    """Returns the time of TensorFlow's ops divided by that of ours; lower quartiles, by turns.

    Args:
        kind: op type, without the prefix of resource variables.
        width: columns of the table, or of the summands of `UnsortedSegmentSum`.
        rows: rows of the table.
        rounds: pairs of alternating runs.
    """
    config = tf1.ConfigProto()
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    sides = sum_and_product if kind == SUM else kernel_and_formula
    with tf.Graph().as_default() as graph:
        ops = sides(kind, width, rows)
        steps = [tf.group(*side) for side in ops]
        initializer = tf1.global_variables_initializer()
        # `tf.group` changes attributes of its inputs, which TensorFlow forbids after a session ran.
        graph.finalize()
        with tf1.Session(config=config) as session:
            session.run(initializer)
            # The first sparse update of a variable copies its buffer. TensorFlow 2.15 takes no lock
            # for that: two concurrent first updates free the old buffer twice.
            session.run(ops[0][0])
            calls = [session.make_callable(step) for step in steps]
            times = [[seconds(call) for call in calls] for _ in range(WARM_UP + rounds)]
    # The lower quartile, not the median: other processes only add time.
    columns = zip(*times[WARM_UP:], strict=True)
    theirs, ours = (statistics.quantiles(column, n=4)[0] for column in columns)
    return theirs / ours


def kernel_and_formula(kind: str, width: int, rows: int) -> list[list[Any]]:
    """Returns updates by a kernel, and the same by its formula."""
    variables = {
        name: tf1.Variable(tf.ones([rows, width]), use_resource=True, trainable=False)
        for name in kernels.variables_of(kind)
    }
    gradient = tf.constant(np.random.default_rng(0).normal(size=(IDS, width)), tf.float32)
    both: list[list[Any]] = [[], []]
    for _ in range(UPDATES):
        for by_formula, ops in enumerate(both):
            op = example(kind, variables, unique_ids(rows), gradient)
            ops.append(kernels.apply_formula(op, kernels.inputs_by_name(op)) if by_formula else op)
    return both


def unique_ids(rows: int) -> Any:
    """Returns ids that differ in each run, as in training: the last run's rows are in a cache."""
    start = tf1.random_uniform([], 0, rows, tf.int64)
    # An odd stride visits all rows of a power of two once.
    stride = 1 + 2 * tf1.random_uniform([], rows // 4, rows // 2, tf.int64)
    return (start + stride * tf.range(IDS, dtype=tf.int64)) % rows


def sum_and_product(kind: str, width: int, rows: int) -> list[list[Any]]:
    """Returns sums by segment by TensorFlow's op, and the same by a sparse matrix product."""
    rng = np.random.default_rng(0)
    # Variables prevent constant folding.
    summands = tf1.Variable(tf.ones([IDS, width]), use_resource=True, trainable=False)
    both: list[list[Any]] = [[], []]
    for _ in range(UPDATES):
        numbers = rng.integers(0, IDS // 2, IDS)
        segments = tf1.Variable(numbers, use_resource=True, trainable=False)
        places = tf.range(IDS, dtype=tf.int64)
        both[0].append(tf.math.unsorted_segment_sum(summands, segments, IDS // 2))
        both[1].append(combining.sum_rows(summands, places, segments, IDS // 2))
    return both


def example(kind: str, variables: dict[str, Any], ids: Any, gradient: Any) -> Any:
    """Returns an op of a type that updates resource variables."""
    make = getattr(tf.raw_ops, "Resource" + kind)
    arguments = [name for name in inspect.signature(make).parameters if name not in _ATTRIBUTES]
    values: dict[str, Any] = {"indices": ids, "grad": gradient, "lr_power": tf.constant(-0.5)}
    for name in map(kernels.canonical_name, arguments):
        if name in variables:
            values[name] = variables[name].handle
        elif name not in values:
            values[name] = tf.constant(0.01)
    made = make(**{name: values[kernels.canonical_name(name)] for name in arguments})
    return getattr(made, "op", made)


def seconds(call: Any) -> float:
    """Returns the wall time of a call."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def measure(rounds: int) -> dict[str, list[list[float]]]:
    """Returns the speed-ups of each kind, by width and rows; prints them."""
    found = {}
    print(f"TensorFlow {tf.__version__}: TensorFlow's time / ours, by rows {ROWS}")
    for kind in KINDS:
        found[kind] = [
            [speed_up(kind, width, rows, rounds) for rows in (ROWS[:1] if kind == SUM else ROWS)]
            for width in WIDTHS
        ]
        for width, ratios in zip(WIDTHS, found[kind], strict=True):
            print(f"{kind:28}{width:4}:", *(f"{ratio:5.2f}" for ratio in ratios), flush=True)
    return found


def minimum(ratios: list[float]) -> int | None:
    """Returns the rows from which on all speed-ups are clear; 0 if all are, None if none is.

    >>> minimum([1.0, 1.3, 1.4, 1.5]), minimum([1.2] * 4), minimum([1.5, 1.5, 1.5, 1.0])
    (8192, 0, None)
    """
    slow = [place for place, ratio in enumerate(ratios) if ratio <= CLEARLY]
    first = max(slow, default=-1) + 1
    if first == len(ratios):
        return None
    return ROWS[first] if first else 0


def slower_choices(found: dict[str, list[list[float]]]) -> list[str]:
    """Returns descriptions of the cells where the table's choice is much slower."""
    wrong = []
    for kind, by_width in found.items():
        for width, ratios in zip(WIDTHS, by_width, strict=True):
            least = kernel_choice.minimum_rows(tf.__version__, kind, width)
            for rows, ratio in zip(ROWS, ratios, strict=False):
                ours = least is not None and rows >= least
                if (1 / ratio if ours else ratio) > MUCH:
                    side = "our ops" if ours else "TensorFlow's op"
                    wrong.append(f"{kind}, {rows} x {width}: {side} chosen; speed-up {ratio:.2f}")
    return wrong


def write(found: dict[str, list[list[float]]]) -> None:
    """Replaces this version's entry of the package's table."""
    version = tuple(map(int, tf.__version__.split(".")[:2]))
    rule = {kind: tuple(map(minimum, by_width)) for kind, by_width in found.items()}
    minimum_rows = dict(sorted({**kernel_table.MINIMUM_ROWS, version: rule}.items()))
    text = f"{tf.__version__} on {datetime.date.today()}, {results.machine()}"
    measured = dict(sorted({**kernel_table.MEASURED, version: text}.items()))
    head = TABLE.read_text(encoding="utf-8").partition("WIDTHS = ")[0]
    body = (
        f"WIDTHS = {WIDTHS}\n\n"
        f"MEASURED = {pformat(measured, width=98)}\n\n"
        "MINIMUM_ROWS: dict[tuple[int, int], dict[str, tuple[int | None, ...]]] = "
        f"{pformat(minimum_rows, sort_dicts=False, width=90)}\n"
    )
    TABLE.write_text(head + body, encoding="utf-8")


def main() -> None:
    """Measures, and writes or checks the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=41, help="pairs of alternating runs")
    action = parser.add_mutually_exclusive_group()
    action.add_argument("--write", action="store_true", help="write the table")
    action.add_argument("--check", action="store_true", help="compare with the table")
    options = parser.parse_args()
    found = measure(options.rounds)
    if options.write:
        write(found)
        print(f"wrote {TABLE}")
    if options.check and (wrong := slower_choices(found)):
        sys.exit("\n".join(wrong))


if __name__ == "__main__":
    main()
