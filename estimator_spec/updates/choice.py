# SPDX-License-Identifier: Apache-2.0
"""Which ops are faster here, TensorFlow's or ours: measured, once in a process for each kind."""

from __future__ import annotations

import inspect
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from estimator_spec.updates import kernels
from tpu_columns import combining

tf1 = tf.compat.v1

# Ours must win clearly: noise shouldn't decide which ops a program runs.
CLEARLY = 1.15

_ROWS, _IDS, _ROUNDS = 32768, 8192, 6
_measured: dict[tuple[str, int], bool] = {}
_ATTRIBUTES = frozenset(
    {"name", "use_locking", "use_nesterov", "update_slots", "multiply_linear_by_lr"}
)


def formula_is_faster(op: Any, session_config: Any) -> bool:
    """Whether the formula of a kernel clearly beats the kernel, on this machine and TensorFlow.

    Args:
      op: an update of rows.
      session_config: of the sessions to come. The first session of a process settles how many
        threads all have, so the one that measures must be of their kind.
    """
    return _is_faster(op.type, kernels.inputs(op)["grad"], _kernel_and_formula, session_config)


def product_is_faster(gradient: Any, session_config: Any) -> bool:
    """Whether `sum_rows`, a product of matrices, clearly beats `UnsortedSegmentSum`.

    Args:
      gradient: what is summed, [N, D].
      session_config: as for `formula_is_faster`.
    """
    return _is_faster("UnsortedSegmentSum", gradient, _sum_and_product, session_config)


def _is_faster(
    kind: str, gradient: Any, sides: Callable[[str, int], list[Any]], session_config: Any
) -> bool:
    width = gradient.shape[1] if gradient.shape.rank == 2 else None
    if width is None or gradient.dtype != tf.float32:
        return False
    # Costs depend on the width in steps only: rows shorter than a cache line cost the same.
    width = max(16, 1 << (int(width) - 1).bit_length())
    if (kind, width) not in _measured:
        _measured[kind, width] = _speed_up(kind, width, sides, session_config) > CLEARLY
    return _measured[kind, width]


def _speed_up(
    kind: str, width: int, sides: Callable[[str, int], list[Any]], session_config: Any
) -> float:
    """Time of what TensorFlow does divided by ours, medians of runs in turn."""
    config = tf1.ConfigProto()
    if session_config is not None:
        config.CopyFrom(session_config)
    # Optimizing the graph would take longer than running it.
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    with tf.Graph().as_default():
        ops = sides(kind, width)
        with tf1.Session(config=config) as session:
            session.run(tf1.global_variables_initializer())
            calls = [session.make_callable(op) for op in ops]
            times = [[_seconds(call) for call in calls] for _ in range(_ROUNDS)]
    theirs, ours = (statistics.median(column) for column in zip(*times[1:], strict=True))
    tf1.logging.info("%s: %.0f µs, our ops instead: %.0f µs.", kind, theirs * 1e6, ours * 1e6)
    return theirs / ours


def _kernel_and_formula(kind: str, width: int) -> list[Any]:
    op = _example(kind, width)
    return [op, kernels.by_formula(op, kernels.inputs(op))]


def _sum_and_product(kind: str, width: int) -> list[Any]:
    rng = np.random.default_rng(0)
    # Variables, so that nothing is folded.
    rows = tf1.Variable(tf.ones([_IDS, width]), use_resource=True, trainable=False)
    segments = tf1.Variable(rng.integers(0, _IDS // 2, _IDS), use_resource=True, trainable=False)
    places = tf.range(_IDS, dtype=tf.int64)
    sums = [
        tf.math.unsorted_segment_sum(rows, segments, _IDS // 2),
        combining.sum_rows(rows, places, segments, _IDS // 2),
    ]
    return [value[0, 0] for value in sums]


def _example(kind: str, width: int) -> Any:
    """An op of a kind on a table of its own."""
    rng = np.random.default_rng(0)
    make = getattr(tf.raw_ops, kind)
    arguments = [name for name in inspect.signature(make).parameters if name not in _ATTRIBUTES]
    names = [kernels.argument(name) for name in arguments]
    variables = kernels.variables_of(kind)
    use_resource = kind.startswith("Resource")
    values: dict[str, Any] = {
        "indices": tf.constant(rng.permutation(_ROWS)[:_IDS], tf.int64),
        "grad": tf.constant(rng.normal(size=(_IDS, width)), tf.float32),
        "lr_power": tf.constant(-0.5),
    }
    for name in names:
        if name in variables:
            initial = tf.ones([_ROWS, width])
            variable = tf1.Variable(initial, use_resource=use_resource, trainable=False)
            values[name] = variable.handle if use_resource else variable
        elif name not in values:
            values[name] = tf.constant(0.01)
    made = make(**{name: values[kernels.argument(name)] for name in arguments})
    return getattr(made, "op", made)


def _seconds(call: Any) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start
