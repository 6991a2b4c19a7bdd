# SPDX-License-Identifier: Apache-2.0
"""Sends tensors between the tasks of a cluster together.

TensorFlow sends each tensor by a call of its own, which takes more time than the bytes of most: a
step of 26 tables with a shard on each of four servers makes 312 calls, for ids, rows and gradients.
The rewrite joins those that a task sends to another at the same stage of a step:

    ids of table 1 ─┐                             ┌─▶ gather from table 1
    ids of table 2 ─┼─▶ concat ──▶ (send) ──▶ split ─▶ gather from table 2
    ids of table 3 ─┘                             └─▶ gather from table 3

A tensor's stage is the largest number of such tensors, one after the other, before it. A tensor
that depends on what the receiver of another one computes has a higher stage, so joining those of a
stage makes no cycle.
"""

from __future__ import annotations

import functools
import graphlib
from collections.abc import Collection
from typing import Any, NamedTuple

import tensorflow as tf

from estimator_spec.core._tensorflow import graph_surgery
from estimator_spec.core.updates import dependencies

tf1 = tf.compat.v1

# Of fewer tensors, joining and splitting them costs as much as sending them.
_MIN_TENSORS = 4
# More are sent in several parts: the first can be on its way while the last is computed. It bounds
# the number of tensors, not their bytes: a message of gRPC has at most 2 GiB.
_MAX_TENSORS = 32


class _Transfer(NamedTuple):
    """A tensor that a task sends to another.

    Attributes:
        value: the tensor.
        readers: the ops that read it, each with the position among its inputs.
    """

    value: Any
    readers: list[tuple[Any, int]]


class _TransferKey(NamedTuple):
    """Key that groups the tensors to send together."""

    sender: str
    receiver: str
    dtype: Any
    widths: tuple[int, ...]
    stage: int


def join_transfers(graph: tf.Graph, train_op: Any) -> None:
    """Joins the tensors that tasks send to each other in a training step; values stay the same.

    Tensors with an unknown number of rows are joined: ids, rows of tables and their gradients. In
    graphs with loops of TF1 all tensors are sent one by one.

    Args:
        graph: the finished graph, with ops placed on tasks; it is changed.
        train_op: the op of a training step.
    """
    step = dependencies.collect_ancestors(train_op)
    if any(op.type == "NextIteration" for op in step):
        return
    tasks = {op: _task_of(op.device) for op in step}
    transfers = _find_transfers(step, tasks)
    if len(transfers) < _MIN_TENSORS:
        return
    parts = _group(transfers, _count_stages(step, transfers, tasks), tasks)
    for part in parts:
        received = _send_together(graph, part)
        for transfer, value in zip(part, received, strict=True):
            for op, position in transfer.readers:
                graph_surgery.replace_input(op, value, position)
    if parts:
        count = sum(map(len, parts))
        tf1.logging.info("Joined the tensors of %d transfers to %d.", count, len(parts))


def _find_transfers(
    step: Collection[Any], tasks: dict[Any, str]
) -> dict[tuple[str, str], _Transfer]:
    """Returns the tensors that can be joined with others, by name and receiving task."""
    found: dict[tuple[str, str], _Transfer] = {}
    for op in sorted(step, key=lambda op: op.name):
        for position, value in enumerate(op.inputs):
            if _is_joinable(value, op, tasks):
                transfer = found.setdefault((value.name, tasks[op]), _Transfer(value, []))
                transfer.readers.append((op, position))
    return found


def _group(
    transfers: dict[tuple[str, str], _Transfer], stages: dict[Any, int], tasks: dict[Any, str]
) -> list[list[_Transfer]]:
    """Returns the transfers to join, each list of them by one."""
    groups: dict[_TransferKey, list[_Transfer]] = {}
    for (_, receiver), transfer in sorted(transfers.items(), key=lambda item: item[0]):
        value = transfer.value
        widths = tuple(value.shape.as_list()[1:])
        group = _TransferKey(tasks[value.op], receiver, value.dtype, widths, stages[value.op])
        groups.setdefault(group, []).append(transfer)
    parts = []
    for members in groups.values():
        if len(members) >= _MIN_TENSORS:
            count = -(-len(members) // _MAX_TENSORS)
            parts += [members[start::count] for start in range(count)]
    return parts


def _is_joinable(value: Any, reader: Any, tasks: dict[Any, str]) -> bool:
    """Returns whether an op reads a tensor of another task that can be joined with others."""
    sender, receiver = tasks[value.op], tasks[reader]
    if not sender or not receiver or sender == receiver:
        return False
    if not value.shape.rank:
        return False
    rows, *widths = value.shape.as_list()
    return (
        rows is None
        and None not in widths
        and (value.dtype.is_integer or value.dtype.is_floating)
        and value.dtype == value.dtype.base_dtype  # no reference
        and graph_surgery.control_flow_context(value.op) is None
        and graph_surgery.control_flow_context(reader) is None
    )


@functools.lru_cache(maxsize=1024)
def _task_of(name: str) -> str:
    """Returns the task of a device, as job and index; an empty text if the device names none."""
    device = tf.DeviceSpec.from_string(name)
    if device.job is None or device.task is None:
        return ""
    return f"/job:{device.job}/task:{device.task}"


def _count_stages(
    step: Collection[Any], transfers: Collection[tuple[str, str]], tasks: dict[Any, str]
) -> dict[Any, int]:
    """Counts the transfers, one after the other, that each op of a step has to wait for.

    Args:
        step: the ops, without a cycle.
        transfers: name and receiving task of each transfer.
        tasks: task of each op.
    """
    stages: dict[Any, int] = {}
    before = {op: [*(value.op for value in op.inputs), *op.control_inputs] for op in step}
    for op in graphlib.TopologicalSorter(before).static_order():
        sent = {value.op for value in op.inputs if (value.name, tasks[op]) in transfers}
        stages[op] = max((stages[other] + (other in sent) for other in before[op]), default=0)
    return stages


def _send_together(graph: tf.Graph, transfers: list[_Transfer]) -> list[Any]:
    """Returns the tensors as they arrive at the receiver."""
    values = [transfer.value for transfer in transfers]
    rank = values[0].shape.rank
    with graph.as_default(), tf.control_dependencies(None), tf1.name_scope("joined_transfers"):
        with tf1.device(values[0].op.device):
            together = tf.concat(values, 0)
            sizes = tf.concat(tf.shape_n(values), 0)[::rank]
        reader, _ = transfers[0].readers[0]
        with tf1.device(reader.device):
            received = tf.split(together, sizes, 0, num=len(values))
    for value, part in zip(values, received, strict=True):
        part.set_shape(value.shape)
    return list(received)
