"""Keras 3 model of the test sequences, and the reading of its features.

`preprocess` reads raw features by TensorFlow ops, in tf.data or for serving. `build_model` makes a
model over the ids, weights and numbers that it returns: pure Keras 3, for any backend. Made by
`python -m estimator_spec to-keras`; it is yours, and needs keras, keras_rs and tensorflow only.
"""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras
import keras_rs
import tensorflow as tf

HERE = pathlib.Path(__file__).resolve().parent
WEIGHTS = HERE / "weights.keras"

# How feature columns read features.


def to_sparse(feature: Any) -> tf.SparseTensor:
    """Returns a categorical feature as a sparse tensor.

    "" and -1 of a dense tensor mean that there is no value; in a sparse or ragged one they are
    values.
    """
    if isinstance(feature, tf.RaggedTensor):
        return feature.to_sparse()
    if isinstance(feature, tf.SparseTensor):
        return feature
    feature = as_matrix(feature)
    missing = tf.constant("") if feature.dtype == tf.string else tf.cast(-1, feature.dtype)
    places = tf.where(feature != missing)
    return tf.SparseTensor(places, tf.gather_nd(feature, places), tf.shape(feature, tf.int64))


def as_matrix(feature: Any) -> tf.Tensor:
    """Returns a dense feature with a second axis, if it has none."""
    feature = tf.convert_to_tensor(feature)
    return feature[:, tf.newaxis] if feature.shape.rank == 1 else feature


def vocabulary_table(initializer: Any, oov_buckets: int = 0, default: int = -1) -> Any:
    """Returns the lookup table of a vocabulary.

    Args:
        initializer: of its words and their ids.
        oov_buckets: number of ids after the vocabulary's, by hash, for other words.
        default: the id of other words, if there are no such buckets.
    """
    if oov_buckets:
        return tf.lookup.StaticVocabularyTable(initializer, oov_buckets)
    return tf.lookup.StaticHashTable(initializer, default)


def words_in_order(words: Sequence[str] | Sequence[bytes] | Sequence[int]) -> Any:
    """Returns the initializer of a vocabulary whose ids are the positions of its words."""
    keys = tf.constant(words, tf.int64 if isinstance(words[0], int) else tf.string)
    return tf.lookup.KeyValueTensorInitializer(keys, tf.range(len(words), dtype=tf.int64))


def vocabulary_ids(values: tf.SparseTensor, table: Any) -> tf.SparseTensor:
    """Returns the ids of words."""
    words = values.values
    if words.dtype != tf.string:
        words = tf.cast(words, tf.int64)
    return values.with_values(table.lookup(words))


def identity_ids(
    values: tf.SparseTensor, buckets: int, default: int | None = None
) -> tf.SparseTensor:
    """Returns ids; those outside of [0, buckets) become the default, if there is one."""
    ids = tf.cast(values.values, tf.int64)
    if default is not None:
        ids = tf.where((ids >= 0) & (ids < buckets), ids, tf.cast(default, tf.int64))
    return values.with_values(ids)


def numbers(feature: Any, size: int, normalizer: Callable[[Any], Any] | None = None) -> tf.Tensor:
    """Returns a numeric feature, [B, size]; the normalizer gets the feature as it is."""
    feature = as_matrix(feature)
    if normalizer is not None:
        feature = normalizer(feature)
    return tf.reshape(tf.cast(feature, tf.float32), [-1, size])


def weights_of(ids: tf.SparseTensor, weights: Any) -> tf.Tensor:
    """Returns the weights of ids: sparse ones in their order, dense ones by their places."""
    if isinstance(weights, tf.RaggedTensor):
        weights = weights.to_sparse()
    if isinstance(weights, tf.SparseTensor):
        return tf.cast(weights.values, tf.float32)
    return tf.cast(tf.gather_nd(as_matrix(weights), ids.indices), tf.float32)


def padded(
    name: str, ids: tf.SparseTensor, weights: Any = None, positive: bool = False, safe: bool = True
) -> dict[str, tf.Tensor]:
    """Returns `<name>_ids` and `<name>_weights`, both [B, n]; 0.0 where there is no id.

    Some optimizers change each row that is looked up: there the ids are others that are, anyway.

    Args:
        name: of the column.
        ids: [B, n], or [B, T, n] of steps; negative ones are left out.
        weights: the feature with their weights, or None for ones.
        positive: whether ids with weights <= 0 are left out, too.
        safe: whether row 0 is looked up for an example without ids, as TensorFlow's columns do.
    """
    shape = ids.dense_shape
    if not (safe and ids.shape.rank == 2 and ids.shape[-1]):
        # A place for each example that looks up a row; none if no example does.
        number = tf.reduce_prod(shape[:-1]) if safe else tf.size(ids.values, tf.int64)
        width = tf.where(number > 0, tf.maximum(shape[-1], 1), 0)
        shape = tf.concat([shape[:-1], [width]], 0)
    dense = tf.sparse.to_dense(tf.SparseTensor(ids.indices, ids.values, shape), -1)
    found, numbers = dense >= 0, 1.0
    if weights is not None:
        numbers = tf.sparse.to_dense(tf.SparseTensor(ids.indices, weights_of(ids, weights), shape))
    if positive:
        found &= numbers > 0.0
    others = tf.reduce_max(tf.where(found, dense, 0), -1 if safe else None, keepdims=True)
    return {
        f"{name}_ids": tf.where(found, dense, others),
        f"{name}_weights": tf.where(found, numbers, 0.0),
    }


def padded_steps(
    name: str,
    ids: tf.SparseTensor,
    weights: Any = None,
    positive: bool = False,
    steps: int | None = None,
) -> dict[str, tf.Tensor]:
    """Returns `<name>_ids` and `<name>_weights`, [B, T, n], and `<name>_lengths`, [B].

    Args:
        name: of the column.
        ids: of each step, [B, T] or [B, T, n]; negative ones are left out, but count as steps.
        weights: the feature with their weights, or None for ones.
        positive: whether ids with weights <= 0 are left out, too.
        steps: T; None: those of the longest sequence.
    """
    if weights is not None:
        weights = ids.with_values(weights_of(ids, weights))
    if ids.shape.rank == 2:
        ids = tf.sparse.expand_dims(ids, -1)
    found, numbers = padded(name, ids, weights, positive).values()
    lengths = step_counts(ids)
    if steps is not None:
        found = with_steps(found, steps, tf.reduce_max(found))
        numbers = with_steps(numbers, steps)
        lengths = tf.minimum(lengths, steps)
    return {f"{name}_ids": found, f"{name}_weights": numbers, f"{name}_lengths": lengths}


def step_counts(values: tf.SparseTensor, size: int = 1) -> tf.Tensor:
    """Returns the number of steps of each sequence, [B]: its last place counts.

    Args:
        values: [B, T * size, ...].
        size: places of a step.
    """
    rows, places = values.indices[:, 0], values.indices[:, 1]
    last = tf.math.unsorted_segment_max(places, rows, values.dense_shape[0])
    return tf.maximum(last, -1) // size + 1


def with_steps(tensor: tf.Tensor, steps: int, filler: Any = 0) -> tf.Tensor:
    """Returns sequences, [B, T, n], cut and padded to a number of steps."""
    tensor = tensor[:, :steps]
    missing = steps - tf.shape(tensor)[1]
    return tf.pad(tensor, [[0, 0], [0, missing], [0, 0]], constant_values=filler)


def number_steps(
    name: str,
    feature: Any,
    shape: Sequence[int],
    default: float = 0.0,
    normalizer: Callable[[Any], Any] | None = None,
) -> dict[str, tf.Tensor]:
    """Returns `<name>`, a sequence of numbers [B, T, size], and `<name>_lengths`, [B].

    Args:
        name: of the column.
        feature: sparse or ragged, [B, T * size] or [B, T, size].
        shape: of a step.
        default: what the sequences are padded with.
        normalizer: gets the sparse feature.
    """
    values = feature.to_sparse() if isinstance(feature, tf.RaggedTensor) else feature
    if normalizer is not None:
        values = normalizer(values)
    size = 1
    for axis in shape:
        size *= axis
    dense = tf.sparse.to_dense(values, tf.cast(default, values.dtype))
    steps = tf.reshape(tf.cast(dense, tf.float32), [tf.shape(dense)[0], -1, size])
    lengths = step_counts(values, size if values.shape.rank == 2 else 1)
    return {name: steps, f"{name}_lengths": lengths}


def valid_ids(ids: tf.SparseTensor, rows: int, policy: str | int) -> tf.SparseTensor:
    """Returns ids without invalid ones: those outside of [0, rows).

    Args:
        ids: int64.
        rows: size of the vocabulary.
        policy: 'drop', 'clip' to the nearest valid id, 'mod' for the remainder, 'error', or a
            default row.
    """
    values = ids.values
    valid = (values >= 0) & (values < rows)
    if policy == "clip":
        return ids.with_values(tf.clip_by_value(values, 0, rows - 1))
    if policy == "mod":
        return ids.with_values(values % rows)
    if policy == "error":
        check = tf.debugging.Assert(tf.reduce_all(valid), ["An id is outside of", [0, rows]])
        with tf.control_dependencies([check] if check is not None else []):
            return ids.with_values(tf.identity(values))
    if policy == "drop":
        return tf.sparse.retain(ids, valid)
    return ids.with_values(tf.where(valid, values, tf.cast(policy, tf.int64)))


# The features of this model.


WORDS_VOCABULARY = vocabulary_table(words_in_order(["ant", "bee"]))
TABLES = [WORDS_VOCABULARY]


def sequences(features: Mapping[str, Any]) -> dict[str, tf.Tensor]:
    """Returns the steps of clicks_clip, seconds, words, with their lengths."""
    return {
        **padded_steps(
            "clicks_clip",
            valid_ids(identity_ids(to_sparse(features["clicks"]), 10), 10, "clip"),
            steps=3,
        ),
        **number_steps("seconds", features["seconds"], [1], default=-1.0),
        **padded_steps("words", vocabulary_ids(to_sparse(features["words"]), WORDS_VOCABULARY)),
    }


def preprocess(features: Mapping[str, Any]) -> dict[str, tf.Tensor]:
    """Returns the ids, weights and numbers of raw features, for tf.data and for the model."""
    return sequences(features)


# The model.


def build_model(initializer: str = "uniform") -> keras.Model:
    """Returns a new model over what `preprocess` returns."""
    clicks_clip_ids = keras.Input((None, None), dtype="int64", name="clicks_clip_ids")
    clicks_clip_weights = keras.Input((None, None), dtype="float32", name="clicks_clip_weights")
    clicks_clip_lengths = keras.Input((), dtype="int64", name="clicks_clip_lengths")
    seconds = keras.Input((None, 1), dtype="float32", name="seconds")
    seconds_lengths = keras.Input((), dtype="int64", name="seconds_lengths")
    words_ids = keras.Input((None, None), dtype="int64", name="words_ids")
    words_weights = keras.Input((None, None), dtype="float32", name="words_weights")
    words_lengths = keras.Input((), dtype="int64", name="words_lengths")
    clicks_embedding = keras_rs.layers.EmbedReduce(
        10, 4, combiner="mean", name="clicks_embedding", embeddings_initializer=initializer
    )(clicks_clip_ids, clicks_clip_weights)
    words_indicator = keras.ops.sum(
        keras.ops.multiply(
            keras.ops.one_hot(words_ids, 2), keras.ops.expand_dims(words_weights, -1)
        ),
        axis=-2,
    )
    sequence_input = keras.layers.Concatenate(name="sequence_input")(
        [clicks_embedding, seconds, words_indicator],
    )
    inputs = {
        "clicks_clip_ids": clicks_clip_ids,
        "clicks_clip_weights": clicks_clip_weights,
        "clicks_clip_lengths": clicks_clip_lengths,
        "seconds": seconds,
        "seconds_lengths": seconds_lengths,
        "words_ids": words_ids,
        "words_weights": words_weights,
        "words_lengths": words_lengths,
    }
    outputs = {"sequence_input": sequence_input, "sequence_length": clicks_clip_lengths}
    return keras.Model(inputs, outputs)
