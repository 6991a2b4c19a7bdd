# SPDX-License-Identifier: Apache-2.0
"""Lets one process at a time update, or save, a variable and its slots on a parameter server.

TensorFlow's ops change the elements of a variable one by one, and other ops may do so, or read
them, at the same time. If two processes update one row at once, an element's update may be lost; a
save reads a table and its slots one after the other, between which rows change. So each variable (a
whole one, or one shard) and its slots have a mutex on their server, which others may share:

    gradients, ids (received) ─▶ lock ─▶ read rows, compute, write ─▶ unlock ─▶ end of the step
                                 lock ─▶ read variable and slots ──▶ unlock ─▶ write a file

The lock is taken when all that an update needs has arrived, so that nobody holds one while waiting
for another lock or for another machine. TensorFlow releases it also if the step fails.
"""

from __future__ import annotations

import collections
import re
import zlib
from collections.abc import Collection, Container, Iterable, Iterator
from typing import Any, NamedTuple

import tensorflow as tf

from estimator_spec.core._tensorflow import graph_surgery
from estimator_spec.core.updates import dependencies, native_ops
from tpu_columns import graphs, partition, shared_state, storage
from tpu_columns.kernels import loading

tf1 = tf.compat.v1

# In the types of ops that write rows of a variable.
_BY_ROWS = re.compile(f"Scatter|Sparse|{loading.PREFIX}")
# Locks of a server: few, as each costs two ops a step; and several, as a save holds one as long as
# it copies all variables that have it.
_STRIPES = 4
_UNLOCKED = (
    "Updates of %s have no lock, because one of them awaits another: if several processes train, "
    "rows in a checkpoint may disagree with their slots. Update each variable once a step."
)


class _LockedGroup(NamedTuple):
    """Variables and their slots, which are updated and saved under one lock.

    Attributes:
        name: name of the lock, the same in the graphs of all processes.
        variables: the ops that hold them.
    """

    name: str
    variables: frozenset[Any]

    @property
    def device(self) -> str:
        """Device of the variables and of the lock."""
        return str(next(iter(self.variables)).device)


def lock_updates(graph: tf.Graph, train_op: Any) -> Any:
    """Makes the updates of each variable that has slots, and of each table, exclude each other.

    Args:
        graph: the finished graph of one of several training processes; it is changed.
        train_op: the op of a training step, or any other object.

    Returns:
        The op to run instead of `train_op`.
    """
    step = dependencies.collect_ancestors(train_op)
    stripes: dict[tuple[str, int], list[tuple[_LockedGroup, frozenset[Any]]]] = {}
    for found in _find_groups(graph, step):
        number = zlib.crc32(found[0].name.encode()) % _STRIPES  # the same in all processes
        stripes.setdefault((found[0].device, number), []).append(found)
    locked: list[_LockedGroup] = []
    for members in stripes.values():
        for group, writers in [_join(members)] if _can_lock(*_join(members)) else members:
            if _can_lock(group, writers):
                end = _lock_section(graph, group, writers)
                locked.append(group)
                if getattr(train_op, "op", train_op) in writers:
                    train_op = end
            else:
                tf1.logging.warning(_UNLOCKED, ", ".join(sorted(v.name for v in group.variables)))
    graph.get_collection_ref(shared_state.LOCKED_VARIABLES)[:] = locked
    count = sum(len(group.variables) for group in locked)
    tf1.logging.info("Updates and saves of %d variables have %d locks.", count, len(locked))
    return train_op


def saved_variables(graph: tf.Graph) -> Iterator[tuple[Any, int, Any]]:
    """Yields the ops of a graph that write checkpoints, an input of each, and its variable's op.

    Args:
        graph: a graph with savers that are built.
    """
    for op in graph.get_operations():
        for position, value in enumerate(op.inputs if op.type == "SaveV2" else ()):
            origin = _origin(value)
            if origin.type in storage.VARIABLE_OPS:
                yield op, position, origin


def lock_reads(graph: tf.Graph) -> None:
    """Makes all saves read each variable and its slots at one moment, between updates.

    Args:
        graph: a graph with locked updates, whose savers are built; it is changed.
    """
    group_of = {
        op: group
        for group in graph.get_collection(shared_state.LOCKED_VARIABLES)
        for op in group.variables
    }
    found: dict[tuple[Any, _LockedGroup], list[tuple[Any, int, Any]]] = {}
    for op, position, variable in list(saved_variables(graph)):
        if variable in group_of:
            group = group_of[variable]
            found.setdefault((op, group), []).append((op, position, variable))
    for (_, group), places in found.items():
        with graph.as_default(), tf1.device(group.device), tf1.name_scope("read_locked"):
            lock = _take(group)
            with tf.control_dependencies([lock]):
                values = [_copy(variable) for _, _, variable in places]
            with tf.control_dependencies(values):
                end = tf.raw_ops.ConsumeMutexLock(mutex_lock=lock)
        for (op, position, _), value in zip(places, values, strict=True):
            graph_surgery.replace_input(op, value, position)
            graph_surgery.add_control_input(op, end)


def _take(group: _LockedGroup) -> Any:
    mutex = tf.raw_ops.MutexV2(shared_name=f"estimator_spec/{group.name}")
    return tf.raw_ops.MutexLock(mutex=mutex)


def _copy(variable: Any) -> Any:
    """Returns the value of a variable, which later updates don't change."""
    handle = variable.outputs[0]
    if variable.type == "VarHandleOp":
        return tf.raw_ops.ReadVariableOp(resource=handle, dtype=variable.get_attr("dtype"))
    return tf.raw_ops.DeepCopy(x=handle)


def _origin(value: Any) -> Any:
    """Returns the op of the variable whose value a tensor is; else some other op."""
    op = value.op
    while op.type in ("Identity", "ReadVariableOp"):
        op = op.inputs[0].op
    return op


def _find_groups(
    graph: tf.Graph, step: Collection[Any]
) -> Iterator[tuple[_LockedGroup, frozenset[Any]]]:
    """Yields variables with their slots, and the ops that update them."""
    saved = graph.get_collection(tf1.GraphKeys.GLOBAL_VARIABLES)
    variables = [graph.get_operation_by_name(variable.op.name) for variable in saved]
    writers = {
        op: [each for each in dependencies.writers(op.outputs[0]) if each in step]
        for op in variables
        if op.type in storage.VARIABLE_OPS and _shape(op).rank
    }
    owners = {_name_of_whole(op): op for op in writers}
    # Of a variable the ops that write it, and the variable of which it is a slot; and vice versa.
    linked: dict[Any, list[Any]] = collections.defaultdict(list)
    for op, each in writers.items():
        for other in filter(None, [*each, _owner_of_slot(op, owners)]):
            linked[op].append(other)
            linked[other].append(op)
    left = dict(writers)
    while left:
        found = frozenset(graphs.walk([next(iter(left))], linked.__getitem__))
        group, updates = found.intersection(left), found.difference(left)
        for op in group:
            del left[op]
        by_rows = any(_BY_ROWS.search(op.type) for op in updates)
        is_simple = all(graph_surgery.control_flow_context(op) is None for op in updates)
        devices = {_device(op) for op in [*group, *updates]}
        if (by_rows or len(group) > 1) and is_simple and len(devices) == 1:
            name = min((op.name for op in group), key=lambda name: (len(name), name))
            yield _LockedGroup(name, group), updates


def _shape(variable: Any) -> tf.TensorShape:
    return tf.TensorShape(variable.get_attr("shape"))


def _name_of_whole(variable: Any) -> tuple[str, int | None]:
    """Returns the name of a variable without that of its shard, and the shard's number."""
    found = partition.shard_name(variable.name)
    return (found.whole, found.shard) if found else (variable.name, None)


def _owner_of_slot(variable: Any, owners: dict[tuple[str, int | None], Any]) -> Any:
    """Returns the variable of which another one is a slot, by its name; None if there is none."""
    name, number = _name_of_whole(variable)
    while "/" in name:
        name = name.rpartition("/")[0]
        owner = owners.get((name, number))
        if owner is not None and _shape(owner)[:1] == _shape(variable)[:1]:
            return owner
    return None


def _join(
    members: list[tuple[_LockedGroup, frozenset[Any]]],
) -> tuple[_LockedGroup, frozenset[Any]]:
    """Returns several groups of a server as one, and all ops that update them."""
    name = min(group.name for group, _ in members)
    variables = frozenset(op for group, _ in members for op in group.variables)
    return _LockedGroup(name, variables), frozenset(op for _, writers in members for op in writers)


def _can_lock(group: _LockedGroup, writers: frozenset[Any]) -> bool:
    """Returns whether a lock can be taken: no update of a group waits for what follows another."""
    section = _find_section(group, writers)
    inputs = {value.op for op in section for value in op.inputs}
    waits = inputs.union(*(op.control_inputs for op in section)) - section
    return not _followers(section) & waits


def _lock_section(graph: tf.Graph, group: _LockedGroup, writers: frozenset[Any]) -> Any:
    """Puts the ops of a group's updates between taking and releasing its lock.

    Returns:
        The op that releases it.
    """
    section = _find_section(group, writers)
    waits: dict[Any, None] = {}
    remote: list[tuple[Any, int, Any]] = []
    for op in section:
        for position, value in enumerate(op.inputs):
            if value.op in section or value.op.type in storage.VARIABLE_OPS:
                continue
            if _device(value.op) == group.device:
                waits[value.op] = None
            else:
                remote.append((op, position, value))
        waits |= dict.fromkeys(other for other in op.control_inputs if other not in section)
    received: dict[str, Any] = {}
    with graph.as_default(), tf1.device(group.device), tf1.name_scope(f"lock/{group.name}"):
        with tf.control_dependencies(None):
            for op, position, value in remote:
                if value.name not in received:
                    received[value.name] = tf.identity(value)
                graph_surgery.replace_input(op, received[value.name], position)
        with tf.control_dependencies([*waits, *received.values()]):
            lock = _take(group)
        users = {user for op in section for user in graph_surgery.find_users(op)} - section
        with tf.control_dependencies(list(section)):
            end = tf.raw_ops.ConsumeMutexLock(mutex_lock=lock)
    for op in section:
        if not any(value.op in section for value in op.inputs):
            graph_surgery.add_control_input(op, lock.op)
    for user in users:
        graph_surgery.add_control_input(user, end)
    return end


def _device(op: Any) -> str:
    """Returns the device of an op; that of its variable if it has none of its own."""
    if op.device or not op.inputs or op.inputs[0].dtype != tf.resource:
        return str(op.device)
    return str(op.inputs[0].op.device)


def _find_section(group: _LockedGroup, writers: frozenset[Any]) -> frozenset[Any]:
    """Returns the ops that write a group's variables, and those that compute what they write.

    The latter are the ops on the same device that depend on values of the group.
    """

    def before(op: Any) -> list[Any]:
        # A native update awaits the lookups of its table, whose rows go to other machines.
        waits = [other for other in op.control_inputs if not native_ops.is_lookup(other)]
        return [each for each in [*(value.op for value in op.inputs), *waits] if is_inside(each)]

    def is_inside(op: Any) -> bool:
        return _device(op) == group.device and op.type not in storage.VARIABLE_OPS

    inside = frozenset(graphs.walk(filter(is_inside, writers), before))
    return writers | _followers([*group.variables, *writers], inside)


def _followers(ops: Iterable[Any], within: Container[Any] | None = None) -> set[Any]:
    """Returns all ops that depend on some ops, by way of ops of `within` only."""

    def users(op: Any) -> list[Any]:
        return [each for each in graph_surgery.find_users(op) if within is None or each in within]

    return set(graphs.walk([user for op in ops for user in users(op)], users))
