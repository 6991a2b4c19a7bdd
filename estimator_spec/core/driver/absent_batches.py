# SPDX-License-Identifier: Apache-2.0
"""Leaves replicas without a batch out of the metrics in the last step of an evaluation.

The number of a dataset's batches is seldom a multiple of the number of replicas. In the last step
a replica for which no batch is left computes on a copy of another one's, and the ops that would
write its metrics don't run: like the ops in a branch of `tf.compat.v1.cond`, each waits for an op
that runs only if the batch is there.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

import tensorflow as tf

from estimator_spec.core._tensorflow import graph_surgery
from estimator_spec.core.driver.replica_inputs import ReplicaBatch
from estimator_spec.core.updates import dependencies

tf1 = tf.compat.v1


def update_where_present(updates: Sequence[Any], batches: Sequence[ReplicaBatch]) -> None:
    """Makes the metrics' updates of each replica depend on its batch being there.

    An update that reads other replicas' batches, too, needs all of these.

    Args:
        updates: the op that updates the metrics, by replica.
        batches: the inputs of the replicas; if one has a batch, all before it have one.
    """
    tensors = [_flatten(batch) for batch in batches]
    owners = {tensor.ref(): number for number, flat in enumerate(tensors) for tensor in flat}
    inputs = _ancestors([tensor for flat in tensors for tensor in flat])
    gates = [_gate(batch, flat) for batch, flat in zip(batches, tensors, strict=True)]
    seen: set[Any] = set()
    for number, update in enumerate(updates):
        ops = dependencies.collect_ancestors(update, inputs)
        needed = max([number, *_read_batches(ops, owners, len(batches))])
        if needed > number:
            tf1.logging.warning(
                "A metric of replica %d is computed from batches of other replicas: it leaves out "
                "a last step without a batch for each of them.",
                number,
            )
        # Those that an earlier replica needs, too, run for that one.
        for op in sorted(ops - seen, key=lambda op: op.name):
            if dependencies.changes_state(op) and not graph_surgery.is_in_loop(op):
                graph_surgery.add_control_input(op, gates[needed])
        seen |= ops


def _flatten(batch: ReplicaBatch) -> list[Any]:
    """Returns the dense tensors of a replica's input."""
    flat = tf.nest.flatten((batch.features, batch.labels), expand_composites=True)
    return [tensor for tensor in flat if tensor is not None]


def _ancestors(values: Iterable[Any]) -> set[Any]:
    """Returns all ops that some tensors and ops depend on, their own included."""
    found: set[Any] = set()
    for value in values:
        found |= dependencies.collect_ancestors(value, found)
    return found


def _gate(batch: ReplicaBatch, tensors: list[Any]) -> Any:
    """Returns an op that runs after a replica got its batch, and only then."""
    with tf.control_dependencies(tensors):
        present = batch.weight > 0
        switch = tf.raw_ops.Switch(data=present, pred=present)
        return tf.identity(switch.output_true).op


def _read_batches(ops: Collection[Any], owners: dict[Any, int], count: int) -> list[int]:
    """Returns the numbers of the replicas whose batches some ops read."""
    if any(op.type.startswith("Collective") for op in ops):  # no edge of the graph shows of whom
        return list(range(count))
    return [owners[value.ref()] for op in ops for value in op.inputs if value.ref() in owners]
