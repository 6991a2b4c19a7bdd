# SPDX-License-Identifier: Apache-2.0
"""Looks up and updates all tables of the host's embedding core by a native op each.

    ids of all features ─▶ LookUpTables ─▶ layer [B, 300·D] ─▶ model ─▶ gradient of the layer
                                │                                           │
                       rows that were read ─────────▶ UpdateTables ◀────────┘

The lookup writes sums to their columns of the model's layer, in place of the model's concatenation;
the update reads gradients in theirs. They compute what `host` and `host_updates` do
for a table, up to rounding where several features have a row. Of several replicas each has features
of its own. With pipelining a queue holds what an update needs until the next step's lookup.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from estimator_spec.core._tensorflow import graph_surgery
from estimator_spec.core.cores import delayed_updates
from estimator_spec.core.cores.enqueue import Enqueued
from estimator_spec.core.updates import dependencies
from tpu_columns import graphs, lookup_errors
from tpu_columns.kernels import calls


class _Layer(NamedTuple):
    """A concatenation of the model.

    Attributes:
        concat: the op.
        uses: numbers of the uses among its inputs, by position.
    """

    concat: Any
    uses: dict[int, int]


class NativeTables:
    """Tables that native ops look up and update.

    Order of calls: `add` for each variable; `look_up` when the model is built; in training `update`
    or `delay_update`.
    """

    def __init__(self) -> None:
        self._tables: list[Any] = []  # variables
        self._trained: list[calls.TrainedTable] = []
        self._uses: list[Enqueued] = []
        self._variables: list[int] = []  # number of each use's variable
        self._rows: Any = None  # those that the lookup read

    def add(
        self,
        variable: Any,
        uses: Sequence[Enqueued],
        trained: calls.TrainedTable | None = None,
    ) -> None:
        """Adds a variable.

        Args:
            variable: rows of one or several tables, float32 [V, D].
            uses: features of the tables.
            trained: how it is trained; None in evaluation and prediction.
        """
        self._variables += [len(self._tables)] * len(uses)
        self._uses += uses
        self._tables.append(variable)
        self._trained += [trained] if trained else []

    def look_up(self, step: Any) -> None:
        """Creates the lookup of all tables, and connects the activations.

        Args:
            step: tensor to read before.
        """
        if not self._tables:
            return
        layers = _find_layers(self._uses)
        columns = dict.fromkeys(range(len(self._uses)), 0)
        place_of_layer = dict.fromkeys(range(len(self._uses)), 0)
        widths: list[int] = []
        others: list[calls.Other] = []
        for layer in layers:
            begin = 0
            for position, value in enumerate(_parts(layer.concat)):
                width = _num_columns(value)
                if position in layer.uses:
                    use = layer.uses[position]
                    place_of_layer[use], columns[use] = len(widths), begin
                else:
                    others.append(calls.Other(value, len(widths), begin, width))
                begin += width
            widths.append(begin)
        joined = {use for layer in layers for use in layer.uses.values()}
        for use in range(len(self._uses)):
            if use not in joined:
                place_of_layer[use] = len(widths)
                widths.append(self._width(use))
        features = [
            _feature(use, self._variables[i], place_of_layer[i], columns[i])
            for i, use in enumerate(self._uses)
        ]
        with tf.name_scope("look_up_tables"), tf.control_dependencies([step]):
            outputs, self._rows = calls.look_up_tables(
                self._tables, features, widths, others, trained=bool(self._trained)
            )
        # The outputs behind those of layers are single features.
        for layer, output in zip(layers, outputs, strict=False):
            output.set_shape(layer.concat.outputs[0].shape)
            self._connect_layer(layer, output)
        for use in range(len(self._uses)):
            if use not in joined:
                activation = self._uses[use].activation
                value = _with_shape(outputs[place_of_layer[use]], activation)
                graph_surgery.replace_input(activation.op, value)

    def update(self, gradient_of: Callable[[str, int], Any], factor: Any, step: Any) -> list[Any]:
        """Returns the ops that train the tables once, one for each update rule.

        Args:
            gradient_of: returns the gradient of the activation of a feature on a replica, or None
                for zeros.
            factor: scalar that multiplies gradients, or None for 1.
            step: global step, scalar.
        """
        gradients = self._find_gradients(gradient_of)
        return calls.update_tables(
            *(self._trained, self._variables, gradients, self._rows, _or_one(factor), step)
        )

    def delay_update(self, gradient_of: Callable[[str, int], Any], factor: Any, step: Any) -> Any:
        """Returns the op that delays this step's update; see `delayed_updates.delay`.

        Args:
            gradient_of: as for `update`.
            factor: as for `update`.
            step: as for `update`.
        """
        gradients = self._find_gradients(gradient_of)
        matrices = list({value.name: value for value, _ in gradients.values()}.values())
        number_of = {value.name: number for number, value in enumerate(matrices)}
        rates = [table.rate for table in self._trained]
        pending = [self._rows, _or_one(factor), tf.cast(step, tf.float32), *rates, *matrices]

        def apply(rows: Any, factor: Any, step: Any, *others: Any) -> list[Any]:
            trained = [
                table._replace(rate=rate)
                for table, rate in zip(self._trained, others, strict=False)
            ]
            found = {
                place: (others[len(trained) + number_of[value.name]], column)
                for place, (value, column) in gradients.items()
            }
            return calls.update_tables(trained, self._variables, found, rows, factor, step)

        return delayed_updates.delay(pending, apply, [self._rows])

    def _find_gradients(self, gradient_of: Callable[[str, int], Any]) -> dict[int, tuple[Any, int]]:
        """Returns the matrix with a use's gradient, and its first column, by the use's number."""
        gradients = [gradient_of(use.key, use.replica) for use in self._uses]
        for place, use in enumerate(self._uses):
            if gradients[place] is None and self._trained[self._variables[place]].needs_zeros:
                gradients[place] = tf.zeros_like(use.activation)
        widths: dict[Any, list[Any]] = {}
        return {
            place: _find_columns(gradient, widths)
            for place, gradient in enumerate(gradients)
            if gradient is not None
        }

    def _width(self, use: int) -> int:
        return _num_columns(self._tables[self._variables[use]])

    def _connect_layer(self, layer: _Layer, output: Any) -> None:
        """Replaces a concatenation by an output, and its activations by slices of that.

        Nothing runs the slices unless another op of the model, or a hook, reads an activation.
        """
        widths = [_num_columns(value) for value in _parts(layer.concat)]
        slices = tf.split(output, widths, 1)
        graph_surgery.replace_output(layer.concat.outputs[0], output)
        for position, use in layer.uses.items():
            graph_surgery.replace_input(self._uses[use].activation.op, slices[position])


def _or_one(factor: Any) -> Any:
    return tf.constant(1.0) if factor is None else factor


def _feature(use: Enqueued, variable: int, layer: int, column: int) -> calls.LookupFeature:
    """Returns what the lookup has of a feature."""
    ids, weights, steps = _ids(use)
    layout = use.layout
    assert layout is not None
    return calls.LookupFeature(
        variable,
        ids,
        weights,
        use.combiner,
        lookup_errors.LookupNames(use.key, use.key),
        layout.num_rows,
        first_row=use.first_row,
        num_shards=1 if layout.in_row_order else layout.num_shards,
        num_steps=steps,
        layer=layer,
        column=column,
    )


def _ids(use: Enqueued) -> tuple[Any, tf.SparseTensor | None, int]:
    """Returns a feature's ids, a matrix or a SparseTensor, its weights, and a sequence's steps."""
    if use.max_sequence_length and use.weights is None:
        matrix = use.matrix
        steps = use.ids if matrix is None or matrix.shape.rank != 2 else matrix
        return _supported(steps), None, use.max_sequence_length
    if use.padded is not None:
        return _supported(use.padded), None, 0
    ids, weights = use.rows
    return _supported(ids), weights, 0


def _supported(ids: Any) -> Any:
    """Returns integers, dense or sparse, as a type that the native ops have."""
    return ids if ids.dtype in (tf.int32, tf.int64) else tf.cast(ids, tf.int64)


def _with_shape(value: Any, activation: Any) -> Any:
    """Returns sums in the shape of an activation, which may be that of a sequence."""
    if activation.shape.rank == 2:
        value.set_shape(activation.shape)
        return value
    return tf.reshape(value, [-1, *activation.shape.as_list()[1:]])


def _find_layers(uses: Sequence[Enqueued]) -> list[_Layer]:
    """Returns the concatenations of columns of activations that a lookup can write to.

    An activation is in one of them at most. Other parts must not depend on activations, nor on
    variables: the lookup waits for them, and should not wait for a part of the model.
    """
    activations = {use.activation.op for use in uses}
    # Numbers of uses by the tensor that a concatenation reads, by concatenation.
    read: dict[Any, dict[str, int]] = {}
    for number, use in enumerate(uses):
        for concat, value in _concatenations(use.activation):
            read.setdefault(concat, {})[value.name] = number
    found = {
        concat: {
            place: numbers[value.name]
            for place, value in enumerate(_parts(concat))
            if value.name in numbers
        }
        for concat, numbers in read.items()
        if _joins_columns(concat)
    }
    layers: list[_Layer] = []
    taken: set[int] = set()
    for concat, places in found.items():
        numbers = set(places.values())
        if len(numbers) < len(places) or numbers & taken:
            continue
        others = [value for i, value in enumerate(_parts(concat)) if i not in places]
        before = [op for value in others for op in dependencies.collect_ancestors(value)]
        if not any(op in activations or graphs.is_variable(op) for op in before):
            layers.append(_Layer(concat, places))
            taken |= numbers
    return layers


def _concatenations(activation: Any) -> Iterator[tuple[Any, Any]]:
    """Yields the ops that concatenate an activation with other tensors, and the part it is.

    There may be ops in between that don't change its shape.
    """
    for user in activation.consumers():
        if user.type == "ConcatV2":
            yield user, activation
        elif _keeps_columns(user) and user.inputs[0] is activation:
            yield from _concatenations(user.outputs[0])


def _joins_columns(concat: Any) -> bool:
    parts = _parts(concat)
    return (
        _is_plain(concat)
        and tf.get_static_value(concat.inputs[-1]) in (1, -1)
        and all(value.dtype == tf.float32 for value in parts)
        and all(value.shape.rank == 2 and _num_columns(value) for value in parts)
    )


def _parts(concat: Any) -> list[Any]:
    return list(concat.inputs)[:-1]


def _find_columns(gradient: Any, widths: dict[Any, list[Any]]) -> tuple[Any, int]:
    """Returns the tensor that a gradient is a part of, [B, W], and the gradient's first column.

    Args:
        gradient: gradient of an activation.
        widths: widths of parts by op, which are added: a layer of 1,000 columns is searched once.
    """
    value, column = gradient, 0
    while True:
        while _keeps_columns(value.op):
            value = value.op.inputs[0]
        before = _columns_before(value, widths)
        if before is None:
            return value, column
        value, column = value.op.inputs[0], column + before


def _columns_before(part: Any, known: dict[Any, list[Any]]) -> int | None:
    """Returns the first column of a part of a concatenation's gradient; None for other tensors.

    TensorFlow splits the gradient of many parts, and slices that of a few.
    """
    op = part.op
    if op.type not in ("SplitV", "Slice") or not _is_plain(op) or op.inputs[0].shape.rank != 2:
        return None
    source = part if op.type == "SplitV" else op.inputs[1]
    if source.op not in known:
        known[source.op] = _widths_of_parts(source.op)
    widths = known[source.op]
    # If they were parts of the other axis, each would have all columns.
    is_of_columns = None not in widths and sum(widths) == _num_columns(op.inputs[0])
    return sum(widths[: source.value_index]) if is_of_columns else None


def _widths_of_parts(op: Any) -> list[Any]:
    """Returns the number of columns of each part of a gradient, or None where it isn't known.

    Args:
        op: the op that splits the gradient, or that gives the slices' offsets.
    """
    if op.type == "ConcatOffset":
        return [_last_element(shape) for shape in list(op.inputs)[1:]]
    if op.type != "SplitV":
        return [None]
    widths = [_num_columns(output) for output in op.outputs]
    # Of parts with an unknown number of rows, the gradient takes the widths from their shapes.
    op = op.inputs[1].op
    while op.type in ("Squeeze", "Slice"):
        op = op.inputs[0].op
    return [_last_element(shape) for shape in op.inputs] if op.type == "Pack" else widths


def _last_element(shape: Any) -> Any:
    """Returns the last element of the shape of a matrix, or None if it isn't known."""
    if shape.op.type in ("Shape", "ShapeN"):
        return _num_columns(shape.op.inputs[shape.value_index])
    value = tf.get_static_value(shape)
    return None if value is None else int(value[-1])


def _keeps_columns(op: Any) -> bool:
    """Returns whether an op returns its first input, with the same rows and columns."""
    if not _is_plain(op) or op.type not in ("Identity", "Reshape"):
        return False
    before, after = (_num_columns(value) for value in (op.inputs[0], op.outputs[0]))
    return op.type == "Identity" or (before is not None and before == after)


def _num_columns(matrix: Any) -> Any:
    """Returns the number of columns of a matrix, or None if it isn't known."""
    return matrix.shape.as_list()[1] if matrix.shape.rank == 2 else None


def _is_plain(op: Any) -> bool:
    """Returns whether an op may be bypassed: it is outside of control flow, and orders nothing.

    `tf.gradients` puts a NoOp behind the gradients of an op, for which each of them waits, also
    behind slices of one tensor. Such control inputs may be bypassed, too.
    """
    inputs = {value.op for value in op.inputs}
    sources = {value.name for other in inputs for value in other.inputs[:1]}

    def is_ready(other: Any) -> bool:
        is_slice = other.type == "Slice" and other.inputs[0].name in sources
        return other in inputs or (is_slice and not other.control_inputs)

    return graph_surgery.control_flow_context(op) is None and all(
        gate.type == "NoOp" and all(map(is_ready, gate.control_inputs))
        for gate in op.control_inputs
    )
