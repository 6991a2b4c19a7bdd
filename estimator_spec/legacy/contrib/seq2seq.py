# SPDX-License-Identifier: Apache-2.0
"""Reimplements the decoding loop of `tensorflow.contrib.seq2seq`, without attention and beams."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

tf1 = tf.compat.v1
_map = tf.nest.map_structure


def sequence_loss(
    logits: Any,
    targets: Any,
    weights: Any,
    average_across_timesteps: bool = True,
    average_across_batch: bool = True,
    sum_over_timesteps: bool = False,
    sum_over_batch: bool = False,
    softmax_loss_function: Callable[..., Any] | None = None,
    name: str | None = None,
) -> Any:
    """Returns the weighted cross-entropy of sequences of logits.

    Args:
        logits: floats of shape [batch size, time, classes].
        targets: class ids of shape [batch size, time].
        weights: floats of shape [batch size, time].
        average_across_timesteps: whether losses are added over the time and divided by the sum of
            their weights.
        average_across_batch: the same over the batch.
        sum_over_timesteps: whether losses are added over the time and divided by the number of
            weights that aren't 0.
        sum_over_batch: the same over the batch.
        softmax_loss_function: takes `labels` and `logits`, returns a loss for each. None: softmax.
        name: name of the ops' scope.

    Raises:
        ValueError: a shape has another rank, or an axis is both summed and averaged.
    """
    ranks = {"Logits": (logits, 3), "Targets": (targets, 2), "Weights": (weights, 2)}
    for what, (tensor, rank) in ranks.items():
        if len(tensor.shape) != rank:
            raise ValueError(f"{what} must have {rank} dimensions; the shape is {tensor.shape}")
    averaged = _positions(average_across_batch, average_across_timesteps)
    summed = _positions(sum_over_batch, sum_over_timesteps)
    if set(averaged) & set(summed):
        raise ValueError("An axis, timesteps or batch, can't be both averaged and summed over.")
    with tf1.name_scope(name, "sequence_loss"):
        loss_function = softmax_loss_function or tf.nn.sparse_softmax_cross_entropy_with_logits
        flat = tf.reshape(logits, [-1, tf.shape(logits)[2]])
        losses = loss_function(labels=tf.reshape(targets, [-1]), logits=flat)
        losses = tf.reshape(losses * tf.reshape(weights, [-1]), tf.shape(logits)[:2])
        if not averaged and not summed:
            return losses
        counts = weights if averaged else tf.cast(tf.not_equal(weights, 0), losses.dtype)
        axes = averaged or summed
        return tf.math.divide_no_nan(tf.reduce_sum(losses, axes), tf.reduce_sum(counts, axes))


def _positions(*chosen: bool) -> list[int]:
    return [axis for axis, is_chosen in enumerate(chosen) if is_chosen]


def tile_batch(t: Any, multiplier: int, name: str | None = None) -> Any:
    """Repeats each example of a batch, `multiplier` times one after the other.

    Args:
        t: a tensor of shape [batch size, ...], or a structure of such tensors.
        multiplier: how often.
        name: name of the ops' scope.

    Raises:
        ValueError: a tensor has no batch, or a rank that isn't known.
    """

    def tile(tensor: Any) -> Any:
        tensor = tf.convert_to_tensor(tensor)
        if not tensor.shape.rank:
            raise ValueError(f"t must have a known rank of 1 or more; the shape is {tensor.shape}")
        return tf.repeat(tensor, multiplier, axis=0)

    with tf1.name_scope(name, "tile_batch"):
        return _map(tile, t)


class Helper:
    """Base of what gives a decoder its inputs.

    A subclass has the methods `initialize(name=None)`, which returns which sequences are finished
    at the start and the first inputs, and `next_inputs(time, outputs, state, sample_ids,
    name=None)`, which returns which are finished then, the next inputs and the state.

    Attributes:
        batch_size: number of sequences.
        sample_ids_shape: shape of a sequence's sample in a step.
        sample_ids_dtype: dtype of samples.
    """

    batch_size: Any
    sample_ids_shape: Any = tf.TensorShape([])
    sample_ids_dtype: Any = tf.int32
    initialize: Callable[..., Any]
    next_inputs: Callable[..., Any]

    def sample(self, time: Any, outputs: Any, state: Any = None, name: str | None = None) -> Any:
        """Returns the ids with the largest outputs."""
        return tf.argmax(outputs, -1, output_type=tf.int32)


class TrainingHelper(Helper):
    """Gives a decoder the expected sequences as inputs.

    Args:
        inputs: tensor of shape [batch size, time, ...].
        sequence_length: length of each sequence, of shape [batch size].
        time_major: whether `inputs` have the time first.
        name: name of the ops' scope.

    Raises:
        ValueError: the lengths aren't a vector.
    """

    def __init__(
        self, inputs: Any, sequence_length: Any, time_major: bool = False, name: str | None = None
    ) -> None:
        with tf1.name_scope(name, "TrainingHelper"):
            self.inputs = tf.convert_to_tensor(inputs)
            self.sequence_length = tf.convert_to_tensor(sequence_length)
            if self.sequence_length.shape.rank != 1:
                shape = self.sequence_length.shape
                raise ValueError(f"Expected sequence_length to be a vector; its shape is {shape}")
            by_time = self.inputs if time_major else _transpose(self.inputs)
            size, shape = tf.shape(by_time)[0], by_time.shape[1:]
            steps = tf.TensorArray(by_time.dtype, size, element_shape=shape)
            self._steps = steps.unstack(by_time)
            self._zeros = tf.zeros_like(by_time[0])
            self.batch_size = tf.size(self.sequence_length)

    def initialize(self, name: str | None = None) -> Any:
        """Returns which sequences are empty, and the inputs of the first step."""
        return self._at(tf.constant(0))

    def next_inputs(
        self, time: Any, outputs: Any, state: Any, sample_ids: Any = None, name: str | None = None
    ) -> Any:
        """Returns which sequences end with this step, the next inputs, and the state."""
        return *self._at(time + 1), state

    def _at(self, time: Any) -> tuple[Any, Any]:
        """Returns which sequences are over, and the inputs of a step."""
        finished = time >= tf.cast(self.sequence_length, tf.int32)
        all_finished = tf.reduce_all(finished)
        read = tf1.cond(all_finished, lambda: self._zeros, lambda: self._steps.read(time))
        return finished, read


class GreedyEmbeddingHelper(Helper):
    """Gives a decoder the embeddings of the ids that had the largest outputs a step before.

    Args:
        embedding: the embeddings, of shape [ids, ...], or a function of ids.
        start_tokens: id of each sequence's first input, of shape [batch size].
        end_token: id that ends a sequence.

    Raises:
        ValueError: `start_tokens` isn't a vector, or `end_token` not a scalar.
    """

    def __init__(self, embedding: Any, start_tokens: Any, end_token: Any) -> None:
        def look_up(ids: Any) -> Any:
            return tf1.nn.embedding_lookup(embedding, ids)

        self._look_up = embedding if callable(embedding) else look_up
        self._start_tokens = tf.convert_to_tensor(start_tokens, tf.int32)
        self._end_token = tf.convert_to_tensor(end_token, tf.int32)
        for what, tensor, rank in (
            ("start_tokens must be a vector", self._start_tokens, 1),
            ("end_token must be a scalar", self._end_token, 0),
        ):
            if tensor.shape.rank != rank:
                raise ValueError(f"{what}; its shape is {tensor.shape}")
        self.batch_size = tf.size(self._start_tokens)
        self._start_inputs = self._look_up(self._start_tokens)

    def initialize(self, name: str | None = None) -> Any:
        """Returns that no sequence is finished, and the embeddings of the start."""
        return tf.fill([self.batch_size], False), self._start_inputs

    def next_inputs(
        self, time: Any, outputs: Any, state: Any, sample_ids: Any = None, name: str | None = None
    ) -> Any:
        """Returns which sequences end with this step, the next inputs, and the state."""
        finished = tf.equal(sample_ids, self._end_token)
        all_finished = tf.reduce_all(finished)
        inputs = tf1.cond(
            all_finished, lambda: self._start_inputs, lambda: self._look_up(sample_ids)
        )
        return finished, inputs, state


class Decoder:
    """Base of what `dynamic_decode` runs, a step at a time.

    A subclass has the methods `initialize(name=None)`, which returns which sequences are finished
    at the start, the first inputs and the state; `step(time, inputs, state, name=None)`, which
    returns outputs, the next state, the next inputs and which sequences are finished; and, if it
    changes them, `finalize(outputs, final_state, sequence_lengths)`, which returns the outputs and
    the state after the last step.

    Attributes:
        batch_size: number of sequences.
        output_size: structure of the shapes of a step's outputs, without the batch.
        output_dtype: structure of their dtypes.
        tracks_own_finished: whether `step` returns all finished sequences, and not only new ones.
    """

    batch_size: Any
    output_size: Any
    output_dtype: Any
    tracks_own_finished = False
    initialize: Callable[..., Any]
    step: Callable[..., Any]


class BasicDecoderOutput(NamedTuple):
    """Outputs of a cell, and the samples of its helper."""

    rnn_output: Any
    sample_id: Any


class BasicDecoder(Decoder):
    """Decoder of a cell whose inputs come from a helper.

    Args:
        cell: an `RNNCell`.
        helper: a `Helper`.
        initial_state: the cell's first state.
        output_layer: layer of the cell's outputs, before samples are taken. None: none.

    Raises:
        TypeError: `cell` or `helper` has another type.
    """

    def __init__(
        self, cell: Any, helper: Helper, initial_state: Any, output_layer: Any = None
    ) -> None:
        if not hasattr(cell, "output_size"):
            raise TypeError(f"cell must be an RNNCell, received: {type(cell)}")
        if not isinstance(helper, Helper):
            raise TypeError(f"helper must be a Helper, received: {type(helper)}")
        self._cell = cell
        self._helper = helper
        self._initial_state = initial_state
        self._output_layer = output_layer

    @property
    def batch_size(self) -> Any:
        """Number of sequences."""
        return self._helper.batch_size

    @property
    def output_size(self) -> BasicDecoderOutput:
        """Shapes of a step's outputs, without the batch."""
        size = self._cell.output_size
        if self._output_layer is not None:
            with_batch = tf.TensorShape([None]).concatenate(size)
            size = tf.TensorShape(self._output_layer.compute_output_shape(with_batch))[1:]
        return BasicDecoderOutput(size, self._helper.sample_ids_shape)

    @property
    def output_dtype(self) -> BasicDecoderOutput:
        """Dtypes of a step's outputs: that of the state, and that of samples."""
        dtype = tf.nest.flatten(self._initial_state)[0].dtype
        return BasicDecoderOutput(dtype, self._helper.sample_ids_dtype)

    def initialize(self, name: str | None = None) -> Any:
        """Returns which sequences are finished at the start, the first inputs and the state."""
        return *self._helper.initialize(), self._initial_state

    def step(self, time: Any, inputs: Any, state: Any, name: str | None = None) -> Any:
        """Returns outputs, the next state, the next inputs and which sequences are finished."""
        with tf1.name_scope(name, "BasicDecoderStep"):
            outputs, state = self._cell(inputs, state)
            if self._output_layer is not None:
                outputs = self._output_layer(outputs)
            ids = self._helper.sample(time=time, outputs=outputs, state=state)
            finished, inputs, state = self._helper.next_inputs(
                time=time, outputs=outputs, state=state, sample_ids=ids
            )
        return BasicDecoderOutput(outputs, ids), state, inputs, finished


def dynamic_decode(
    decoder: Decoder,
    output_time_major: bool = False,
    impute_finished: bool = False,
    maximum_iterations: Any = None,
    parallel_iterations: int = 32,
    swap_memory: bool = False,
    scope: Any = None,
) -> tuple[Any, Any, Any]:
    """Runs a decoder until all sequences are finished.

    Args:
        decoder: the decoder.
        output_time_major: whether the outputs have the time first.
        impute_finished: whether finished sequences keep their state, and have outputs of 0.
        maximum_iterations: the most steps. None: any number.
        parallel_iterations: as for `tf.while_loop`.
        swap_memory: as for `tf.while_loop`.
        scope: variable scope; 'decoder' if None.

    Returns:
        (outputs of all steps, the last state, the lengths of the sequences).

    Raises:
        TypeError: `decoder` isn't a `Decoder`.
        ValueError: `maximum_iterations` isn't a scalar.
    """
    if not isinstance(decoder, Decoder):
        raise TypeError(f"Expected decoder to be type Decoder, but saw: {type(decoder)}")
    with tf1.variable_scope(scope, "decoder"):
        finished, inputs, state = decoder.initialize()
        if maximum_iterations is not None:
            maximum_iterations = tf.convert_to_tensor(maximum_iterations, tf.int32)
            if maximum_iterations.shape.rank != 0:
                raise ValueError("maximum_iterations must be a scalar")
            finished = tf.logical_or(finished, maximum_iterations <= 0)
        batch = tf.TensorShape([tf.get_static_value(decoder.batch_size)])
        arrays = _map(
            lambda dtype, size: tf.TensorArray(
                dtype, 0, dynamic_size=True, element_shape=batch.concatenate(size)
            ),
            decoder.output_dtype,
            decoder.output_size,
        )

        def step(
            time: Any, arrays: Any, state: Any, inputs: Any, finished: Any, lengths: Any
        ) -> tuple[Any, ...]:
            def keep(old: Any, new: Any) -> Any:
                """Returns new values of sequences that go on, and old ones of the others."""
                if isinstance(old, tf.TensorArray) or old.shape.rank == 0:
                    return new
                new.set_shape(old.shape)
                return tf1.where(finished, old, new)

            outputs, next_state, inputs, ended = decoder.step(time, inputs, state)
            if impute_finished:
                outputs = _map(lambda new: tf1.where(finished, tf.zeros_like(new), new), outputs)
                next_state = _map(keep, state, next_state)
            arrays = _map(lambda array, output: array.write(time, output), arrays, outputs)
            lengths = tf.where(finished, lengths, time + 1)
            if not decoder.tracks_own_finished:
                ended = tf.logical_or(ended, finished)
            return time + 1, arrays, next_state, inputs, ended, lengths

        lengths = tf.zeros_like(finished, tf.int32)
        _, arrays, state, _, _, lengths = tf1.while_loop(
            lambda *variables: tf.logical_not(tf.reduce_all(variables[4])),
            step,
            (tf.constant(0), arrays, state, inputs, finished, lengths),
            parallel_iterations=parallel_iterations,
            maximum_iterations=maximum_iterations,
            swap_memory=swap_memory,
        )
        outputs = _map(lambda array: array.stack(), arrays)
        if hasattr(decoder, "finalize"):
            outputs, state = decoder.finalize(outputs, state, lengths)
        if not output_time_major:
            outputs = _map(_transpose, outputs)
    return outputs, state, lengths


def _transpose(values: Any) -> Any:
    """Returns values with the batch in place of the time, and the other way round."""
    rank = values.shape.rank
    if rank is None:
        return tf.transpose(values, tf.concat([[1, 0], tf.range(2, tf.rank(values))], 0))
    return tf.transpose(values, [1, 0, *range(2, rank)])
