# SPDX-License-Identifier: Apache-2.0
"""Measures whether TensorFlow's ops or ours are faster on this machine.

Each op type and size of table is measured once per process.
"""

from __future__ import annotations

import inspect
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from estimator_spec._tensorflow import private
from estimator_spec.updates import kernels, variables
from tpu_columns import combining

tf1 = tf.compat.v1

# Speed-up from which our ops are used: noise shouldn't decide which ops a program runs.
CLEARLY = 1.15

# Several updates at once, as in a step: the sum of the cores' work counts.
_UPDATES, _IDS, _WARM_UP, _ROUNDS = 2, 1024, 1, 9
# No cache holds a table of this many elements, so larger ones take the same time.
_MAX_ELEMENTS = 1 << 23
_measured: dict[tuple[str, int, int], bool] = {}
_ATTRIBUTES = frozenset(
    {"name", "use_locking", "use_nesterov", "update_slots", "multiply_linear_by_lr"}
)


def formula_is_faster(op: Any, session_config: Any) -> bool:
    """Returns whether the formula of a kernel is clearly faster than the kernel.

    Args:
        op: an update of rows.
        session_config: `ConfigProto` of later sessions. The first session of a process determines
            the number of threads of all, so the measurement must use their configuration.

    Returns:
        True if the kernel takes more than 1.15 times as long. False, without a measurement, if
        gradients aren't float32, their width isn't known, or TensorFlow's ops are deterministic:
        the two sides differ in the last digit, and the faster one may change from run to run.
    """
    found = kernels.inputs_by_name(op)
    return _is_faster(op.type, found["grad"], found["var"], _kernel_and_formula, session_config)


def product_is_faster(gradient: Any, session_config: Any) -> bool:
    """Returns whether `combining.sum_rows` is clearly faster than `UnsortedSegmentSum`.

    Args:
        gradient: the summands, [N, D].
        session_config: as for `formula_is_faster`.

    Returns:
        True if TensorFlow's sum takes more than 1.15 times as long; else as `formula_is_faster`.
    """
    return _is_faster("UnsortedSegmentSum", gradient, None, _sum_and_product, session_config)


def _is_faster(
    kind: str,
    gradient: Any,
    table: Any,
    sides: Callable[[str, int, int], list[list[Any]]],
    session_config: Any,
) -> bool:
    width = gradient.shape.as_list()[1] if gradient.shape.rank == 2 else None
    if width is None or gradient.dtype != tf.float32 or private.is_op_determinism_enabled():
        return False
    # Time depends on the width in steps: all rows up to a cache line (16 floats) take the same.
    width = _power_of_two(max(16, int(width)))
    rows = min(_power_of_two(max(_IDS, _rows_of(table))), _MAX_ELEMENTS // width)
    if (kind, width, rows) not in _measured:
        faster = _speed_up(kind, width, rows, sides, session_config) > CLEARLY
        _measured[kind, width, rows] = faster
    return _measured[kind, width, rows]


def _power_of_two(number: int) -> int:
    """Returns the smallest power of two that is at least `number`."""
    return 1 << (number - 1).bit_length()


def _rows_of(table: Any) -> int:
    """Returns the number of rows of a table; 0 if it isn't known."""
    shape = None if table is None else variables.static_shape(table)
    return int(shape[0] or 0) if shape is not None and shape.rank else 0


def _speed_up(
    kind: str,
    width: int,
    rows: int,
    sides: Callable[[str, int, int], list[list[Any]]],
    session_config: Any,
) -> float:
    """Returns the median time of TensorFlow's ops divided by that of ours, of alternating runs."""
    config = tf1.ConfigProto()
    if session_config is not None:
        config.CopyFrom(session_config)
    # Grappler would take longer than the measurement.
    config.graph_options.rewrite_options.disable_meta_optimizer = True
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
            times = [[_seconds(call) for call in calls] for _ in range(_WARM_UP + _ROUNDS)]
    theirs, ours = (statistics.median(column) for column in zip(*times[_WARM_UP:], strict=True))
    tf1.logging.info(
        "%s, %d rows of %d: %.0f µs, our ops instead: %.0f µs.",
        *(kind, rows, width, theirs / _UPDATES * 1e6, ours / _UPDATES * 1e6),
    )
    return theirs / ours


def _kernel_and_formula(kind: str, width: int, rows: int) -> list[list[Any]]:
    variables = {
        name: tf1.Variable(
            tf.ones([rows, width]), use_resource=kind.startswith("Resource"), trainable=False
        )
        for name in kernels.variables_of(kind)
    }
    gradient = tf.constant(np.random.default_rng(0).normal(size=(_IDS, width)), tf.float32)
    both: list[list[Any]] = [[], []]
    for _ in range(_UPDATES):
        for by_formula, ops in enumerate(both):
            op = _example(kind, variables, _unique_ids(rows), gradient)
            ops.append(kernels.apply_formula(op, kernels.inputs_by_name(op)) if by_formula else op)
    return both


def _unique_ids(rows: int) -> Any:
    """Returns ids that differ in each run, as in training: the last run's rows are in a cache."""
    start = tf1.random_uniform([], 0, rows, tf.int64)
    # An odd stride visits all rows of a power of two once.
    stride = 1 + 2 * tf1.random_uniform([], rows // 4, rows // 2, tf.int64)
    return (start + stride * tf.range(_IDS, dtype=tf.int64)) % rows


def _sum_and_product(kind: str, width: int, rows: int) -> list[list[Any]]:
    rng = np.random.default_rng(0)
    # Variables prevent constant folding.
    summands = tf1.Variable(tf.ones([_IDS, width]), use_resource=True, trainable=False)
    both: list[list[Any]] = [[], []]
    for _ in range(_UPDATES):
        numbers = rng.integers(0, _IDS // 2, _IDS)
        segments = tf1.Variable(numbers, use_resource=True, trainable=False)
        places = tf.range(_IDS, dtype=tf.int64)
        both[0].append(tf.math.unsorted_segment_sum(summands, segments, _IDS // 2))
        both[1].append(combining.sum_rows(summands, places, segments, _IDS // 2))
    return both


def _example(kind: str, variables: dict[str, Any], ids: Any, gradient: Any) -> Any:
    """Returns an op of a type, for a measurement."""
    make = getattr(tf.raw_ops, kind)
    arguments = [name for name in inspect.signature(make).parameters if name not in _ATTRIBUTES]
    values: dict[str, Any] = {"indices": ids, "grad": gradient, "lr_power": tf.constant(-0.5)}
    for name in map(kernels.canonical_name, arguments):
        if name in variables:
            variable = variables[name]
            values[name] = variable.handle if kind.startswith("Resource") else variable
        elif name not in values:
            values[name] = tf.constant(0.01)
    made = make(**{name: values[kernels.canonical_name(name)] for name in arguments})
    return getattr(made, "op", made)


def _seconds(call: Any) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start
