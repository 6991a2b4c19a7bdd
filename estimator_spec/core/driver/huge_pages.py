# SPDX-License-Identifier: Apache-2.0
"""Moves large variables to huge pages of the system's memory.

A step reads and writes rows all over its tables. With pages of 4 KiB the processor finds most of
their addresses only in the page tables, which takes about as long as reading a row. Linux gives
huge pages to programs that ask for them, where its setting is `madvise`, as it usually is; with
`always` a program has them anyway. TensorFlow doesn't ask.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import tensorflow as tf

from estimator_spec.core.cores import stacked_tables
from estimator_spec.core.driver.hooks import StopAtStep
from tpu_columns import engine
from tpu_columns.kernels import calls, devices

tf1 = tf.compat.v1

SETTINGS = Path("/sys/kernel/mm/transparent_hugepage")
"""Linux's; tests have others."""
MIN_STEPS = 100
"""Fewest steps of a training that moves its variables: shorter ones are trials, as of a program."""


class Move(NamedTuple):
    """The ops that move the variables of a graph.

    Attributes:
        num_bytes: how many bytes of each variable are on huge pages afterwards, scalars.
        global_step: of the graph.
        ends: hooks that end the training at a step.
    """

    num_bytes: Sequence[Any]
    global_step: Any
    ends: Sequence[StopAtStep]

    def run(self, session: tf1.Session) -> None:
        """Moves the variables, which no other thread may use meanwhile, unless few steps follow.

        Args:
            session: has initialized or restored them.
        """
        step = int(session.run(self.global_step))
        if any(end.steps_after(step) < MIN_STEPS for end in self.ends):
            return
        moved = sum(session.run(list(self.num_bytes)))
        if moved:
            tf1.logging.info("%d MiB of tables and slot variables use huge pages.", moved >> 20)


def build(graph: tf.Graph, hooks: Sequence[Any]) -> Move | None:
    """Adds the ops that move the large float32 variables of a graph that are on the CPU.

    Args:
        graph: the finished graph of a training in this process alone.
        hooks: the training's, among which are those that end it.

    Returns:
        The ops; None if the graph has no native ops (adding one would make its `.meta` file
        unreadable without our library), if the system has no huge pages to ask for, or if no
        variable fills one.
    """
    page_bytes = _page_bytes()
    if not page_bytes or engine.found_in(graph) != "kernels":
        return None
    num_bytes = []
    for _, origin in stacked_tables.large_variables(graph, page_bytes):
        if origin.get_attr("dtype") != tf.float32 or not devices.is_on_cpu(origin):
            continue
        with graph.as_default(), tf1.device(origin.device), tf1.control_dependencies(None):
            value = origin.outputs[0]
            if origin.type == "VarHandleOp":
                value = tf.raw_ops.ReadVariableOp(resource=value, dtype=tf.float32)
            num_bytes.append(calls.use_huge_pages(value, page_bytes))
    ends = [hook for hook in hooks if isinstance(hook, StopAtStep)]
    return Move(num_bytes, tf1.train.get_global_step(graph), ends) if num_bytes else None


def _page_bytes() -> int:
    """Returns the size of the huge pages that a program has to ask for; 0: there are none."""
    try:
        if "[madvise]" not in (SETTINGS / "enabled").read_text():
            return 0
        return int((SETTINGS / "hpage_pmd_size").read_text())
    except (OSError, ValueError):  # another system, or a kernel without them
        return 0
