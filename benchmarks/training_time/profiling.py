# SPDX-License-Identifier: Apache-2.0
"""Sums TensorFlow's trace of some steps by kind of op."""

from __future__ import annotations

import collections
import re
from typing import Any

import tensorflow as tf

FIRST, COUNT = 60, 5  # after the first pass, which makes the batches


class TraceHook(tf.compat.v1.train.SessionRunHook):
    """Hook that traces some steps.

    Tracing takes time by itself, some microseconds an op: compare sums of one trace.
    """

    def __init__(self) -> None:
        self._step = 0
        self.traced = 0
        self.microseconds: collections.Counter[str] = collections.Counter()
        self.count: collections.Counter[str] = collections.Counter()

    def before_run(self, run_context: Any) -> Any:
        """Requests a trace of this step if it is due."""
        self._step += 1
        if not FIRST <= self._step < FIRST + COUNT:
            return None
        options = tf.compat.v1.RunOptions(trace_level=tf.compat.v1.RunOptions.FULL_TRACE)
        return tf.compat.v1.train.SessionRunArgs([], options=options)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Adds the trace to the sums."""
        if run_values.run_metadata is None or not FIRST <= self._step < FIRST + COUNT:
            return
        self.traced += 1
        for device in run_values.run_metadata.step_stats.dev_stats:
            for node in device.node_stats:
                kind = kind_of(node.timeline_label) or node.node_name
                self.count[kind] += 1
                self.microseconds[kind] += node.op_end_rel_micros - node.op_start_rel_micros

    def profile(self) -> list[list[Any]]:
        """Returns kind of op, microseconds and count a step, the most expensive first."""
        steps = max(1, self.traced)
        return [
            [kind, round(total / steps), round(self.count[kind] / steps)]
            for kind, total in self.microseconds.most_common()
        ]


def kind_of(label: str) -> str:
    """Returns the op of a timeline label.

    >>> kind_of("network/MatMul_1 = MatMul(network/Relu, network/last/read)")
    'MatMul'
    """
    found = re.search(r" = (\w+)\(", label)
    return found.group(1) if found else ""
