# SPDX-License-Identifier: Apache-2.0
"""Which is faster here, a kernel or its formula: measured, once in a process for each kind."""

from __future__ import annotations

import inspect
import statistics
import time
from typing import Any

import numpy as np
import tensorflow as tf

from estimator_spec.updates import kernels

tf1 = tf.compat.v1

# A formula must win clearly: noise shouldn't decide which ops a program runs.
CLEARLY = 1.15

_ROWS, _IDS, _ROUNDS = 32768, 8192, 9
_measured: dict[tuple[str, int], float] = {}
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
    gradient = kernels.inputs(op)["grad"]
    width = gradient.shape[1] if gradient.shape.rank == 2 else None
    if width is None or gradient.dtype != tf.float32:
        return False
    # Costs depend on the width in steps only: rows shorter than a cache line cost the same.
    kind = op.type, max(16, 1 << (int(width) - 1).bit_length())
    if kind not in _measured:
        _measured[kind] = _speed_up(*kind, session_config)
    return _measured[kind] > CLEARLY


def _speed_up(kind: str, width: int, session_config: Any) -> float:
    """Time of a kernel divided by that of its formula, medians of runs in turn."""
    with tf.Graph().as_default():
        op = _example(kind, width)
        formula = kernels.by_formula(op, kernels.inputs(op))
        with tf1.Session(config=session_config) as session:
            session.run(tf1.global_variables_initializer())
            sides = [session.make_callable(op), session.make_callable(formula)]
            times = [[_seconds(side) for side in sides] for _ in range(_ROUNDS)]
    kernel, by_formula = (statistics.median(column) for column in zip(*times[2:], strict=True))
    tf1.logging.info(
        "%s: the kernel takes %.0f µs, its formula %.0f µs.", kind, kernel * 1e6, by_formula * 1e6
    )
    return kernel / by_formula


def _example(kind: str, width: int) -> Any:
    """An op of a kind on a table of its own."""
    rng = np.random.default_rng(0)
    make = getattr(tf.raw_ops, kind)
    names = [name for name in inspect.signature(make).parameters if name not in _ATTRIBUTES]
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
    made = make(**{name: values[name] for name in names})
    return getattr(made, "op", made)


def _seconds(call: Any) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start
