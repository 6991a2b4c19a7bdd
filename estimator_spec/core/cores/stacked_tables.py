# SPDX-License-Identifier: Apache-2.0
"""Stores several tables of the host's embedding core in one variable, and each slot in another.

    table a   rows 0 to 4     ─┐                        checkpoint entries a, a/Adagrad
    table b   rows 5 to 7     ─┴─▶ variable [8, D] ◀─▶  and b, b/Adagrad, as of single tables

Checkpoints hold single tables under their own names: a saver finds the slices in the graph
collection SAVEABLE_OBJECTS. The variables themselves are in no collection of variables, as a saver
would save them, too; they are initialized, and reported if they aren't, as resources.
"""

from __future__ import annotations

import functools
import inspect
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from estimator_spec.core._tensorflow import private
from estimator_spec.core.embedding import optimizers
from tpu_columns import callables, graphs, initializers, shared_state
from tpu_columns.optimizations import Optimization
from tpu_columns.partition import RowPartition

tf1 = tf.compat.v1


class Member(NamedTuple):
    """A table of a stack.

    Attributes:
        name: name of its variable, and of its entry in checkpoints.
        layout: order of its rows.
        initializer: initializer of its rows, in the order of the layout.
    """

    name: str
    layout: RowPartition
    initializer: Callable[..., Any]


class _Resource(NamedTuple):
    """Initialization of a variable, in the form of TensorFlow's collection of resources.

    Attributes:
        handle: the variable's resource.
        create: op that initializes it.
        is_initialized: bool, scalar.
        name: name of an op of the graph; stands for the object in exported meta graphs.
    """

    handle: Any
    create: Any
    is_initialized: Any
    name: str


class StackedTable:
    """Variables of a stack in the default graph.

    Args:
        members: the tables.
        width: elements of a row.
        parameters: the optimizer of all tables.

    Attributes:
        members: the tables.
        variable: rows of all tables one after the other, float32 [V, D].
        slots: slot variables by slot, [V, D] each.
        slices: values of the tables and their slots, by name.
        in_savers: names of those that a saver restores.
    """

    def __init__(
        self,
        members: Sequence[Member],
        width: int,
        parameters: optimizers.OptimizationParameters,
    ) -> None:
        self.members = tuple(members)
        self._sizes = [member.layout.num_rows for member in members]
        self._width = width
        self.slices: dict[str, Any] = {}
        self.in_savers: set[str] = set()
        self.variable = self._create("rows", self._initial_rows)
        self._add([member.name for member in members], self.variable)
        values = optimizers.slot_initial_values(parameters)
        names = [optimizers.slot_names(parameters, member.name) for member in members]
        self.slots = {}
        for slot, value in values.items():
            variable = self._create(slot, functools.partial(self._constant, value))
            self._add([each[slot] for each in names], variable)
            self.slots[slot] = variable
        _stacks(tf1.get_default_graph()).append(self)

    @property
    def offsets(self) -> list[int]:
        """First row of each table in the variable."""
        return [sum(self._sizes[:place]) for place in range(len(self._sizes))]

    def _initial_rows(self) -> Any:
        """Returns the initial values of all tables."""
        parts = []
        for kind, group in itertools.groupby(self.members, _elementwise_kind):
            members = list(group)
            if kind is None:
                parts += [_initial_value(each, self._width) for each in members]
            else:
                num_rows = sum(each.layout.num_rows for each in members)
                parts.append(members[0].initializer([num_rows, self._width], dtype=tf.float32))
        return tf.concat(parts, 0)

    def _constant(self, value: float) -> Any:
        return tf1.constant_initializer(value)([sum(self._sizes), self._width], tf.float32)

    def _create(self, name: str, initial_value: Callable[[], Any]) -> Any:
        """Creates a variable that is initialized with the model's, and that no saver saves."""
        variable = tf1.Variable(
            initial_value,
            trainable=False,
            dtype=tf.float32,
            name=f"stacked_tables/{name}",
            use_resource=True,
            collections=[],
        )
        create = variable.initializer
        resource = _Resource(
            variable.handle, create, variable.is_initialized(), variable.handle.op.name
        )
        tf1.add_to_collection(tf1.GraphKeys.RESOURCES, resource)
        return variable

    def _add(self, names: list[str], variable: Any) -> None:
        """Adds the tables' slices of a variable, for savers and `slices`."""
        with tf.init_scope(), tf.name_scope("slices_of_tables"):
            parts = tf.split(variable.read_value(), self._sizes)
        found = dict(zip(names, parts, strict=True))
        self.slices |= found

        def restore(restored: Sequence[Any]) -> Any:
            self.in_savers |= set(found)
            # A table of another size must not move the rows of others.
            checked = [
                tf.ensure_shape(value, found[name].shape, f"restore_table/{name}")
                for name, value in zip(names, restored, strict=True)
            ]
            return variable.assign(tf.concat(checked, 0), read_value=False)

        saveable = private.saveable_tensors(variable.handle, found, restore)
        tf1.add_to_collection(tf1.GraphKeys.SAVEABLE_OBJECTS, saveable)


# Initializers that draw each element alike, and independently if they have no seed of their own.
_ELEMENTWISE = (
    tf1.truncated_normal_initializer,
    tf1.random_normal_initializer,
    tf1.random_uniform_initializer,
    tf1.zeros_initializer,
    tf1.ones_initializer,
)


def _elementwise_kind(member: Member) -> Any:
    """Returns what tables have in common whose rows may be drawn by one op; None: draw alone."""
    initializer = member.initializer
    if type(initializer) not in _ELEMENTWISE or getattr(initializer, "seed", None) is not None:
        return None
    return callables.equality_key(initializer)


def _initial_value(member: Member, width: int) -> Any:
    """Calls a table's initializer as `tf.compat.v1.get_variable` does."""
    initializer: Any = member.initializer
    if inspect.isclass(initializer):
        initializer = initializer()
    shape = (member.layout.num_rows, width)
    arguments: dict[str, Any] = {"dtype": tf.float32}
    if "partition_info" in inspect.signature(initializer).parameters:
        arguments["partition_info"] = None
    with initializers.explain_errors(member.name, shape, initializer):
        return tf.ensure_shape(initializer(list(shape), **arguments), shape)


def slices(graph: tf.Graph) -> dict[str, Any]:
    """Returns the values of the stacked tables and slots of a graph, as tensors by name.

    Args:
        graph: a graph of training.
    """
    return {name: part for stack in _stacks(graph) for name, part in stack.slices.items()}


def check_saver(saver: Any) -> None:
    """Checks that the first saver of the default graph saves the stacked tables.

    Args:
        saver: a program's own; one that isn't built yet, or is none of TF1's, isn't checked.

    Raises:
        ValueError: it saves none of some tables.
    """
    if not isinstance(saver, tf1.train.Saver) or saver.as_saver_def() is None:
        return
    stacks = _stacks(tf1.get_default_graph())
    missing = sorted(name for each in stacks for name in set(each.slices) - each.in_savers)
    if missing:
        raise ValueError(
            f"The saver of the Scaffold doesn't save table {missing[0]!r} and {len(missing) - 1} "
            "others: tables that share a variable aren't in tf.compat.v1.global_variables(). Make "
            "the saver without var_list, or let each table have a variable of its own: "
            "TPUEstimator(..., stacked_tables=False), or "
            f"{Optimization.STACKED_TABLES.value}=0 in the environment."
        )


def variables(graph: tf.Graph) -> list[Any]:
    """Returns the variables of the stacks of a graph, which are in no other collection.

    Args:
        graph: a graph of training.
    """
    return [each for stack in _stacks(graph) for each in (stack.variable, *stack.slots.values())]


def _stacks(graph: tf.Graph) -> list[StackedTable]:
    return graph.get_collection_ref(shared_state.STACKED_TABLES)


def saved_variables(graph: tf.Graph) -> list[Any]:
    """Returns the variables that a checkpoint holds: global ones, and those of the stacks.

    Args:
        graph: a graph of training.
    """
    return [*graph.get_collection(tf1.GraphKeys.GLOBAL_VARIABLES), *variables(graph)]


def large_variables(graph: tf.Graph, num_bytes: int) -> Iterator[tuple[Any, Any]]:
    """Yields `saved_variables` of a size, each with the op that makes it or its handle.

    Args:
        graph: a graph of training.
        num_bytes: the least size.
    """
    for variable in saved_variables(graph):
        # By name: a mirrored variable's `op` is none of the graph.
        origin = graph.get_operation_by_name(variable.op.name)
        if graphs.is_variable(origin):
            elements = tf.TensorShape(origin.get_attr("shape")).num_elements() or 0
            if elements * origin.get_attr("dtype").size >= num_bytes:
                yield variable, origin
