# SPDX-License-Identifier: Apache-2.0
"""Reads raw features as feature columns do: ids with weights, and numbers, as dense tensors.

TensorFlow ops only. Programs that `to-keras` writes have copies of the functions that they use.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf


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


def hash_ids(values: tf.SparseTensor, buckets: int) -> tf.SparseTensor:
    """Returns the hash buckets of strings or integers."""
    texts = values.values
    if texts.dtype != tf.string:
        texts = tf.as_string(texts)
    return values.with_values(tf.strings.to_hash_bucket_fast(texts, buckets))


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


def words_in_file(path: str, size: int, dtype: str = "string") -> Any:
    """Returns the initializer of a vocabulary that is the first lines of a file."""
    whole, number = tf.lookup.TextFileIndex.WHOLE_LINE, tf.lookup.TextFileIndex.LINE_NUMBER
    words = tf.as_dtype(dtype)
    return tf.lookup.TextFileInitializer(path, words, whole, tf.int64, number, size)


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


def buckets_of(values: tf.Tensor, boundaries: Sequence[float]) -> tf.Tensor:
    """Returns the bucket of each number, int32, [B, k]; NaN is in the last one."""
    return tf.raw_ops.Bucketize(input=values, boundaries=boundaries)


def bucket_ids(buckets: tf.Tensor, size: int) -> tf.SparseTensor:
    """Returns buckets as ids: of the k numbers of an example, each has buckets of its own."""
    ids = tf.cast(buckets, tf.int64) + size * tf.range(buckets.shape[1], dtype=tf.int64)
    places = tf.where(tf.ones_like(ids, tf.bool))
    return tf.SparseTensor(places, tf.reshape(ids, [-1]), tf.shape(ids, tf.int64))


def cross_ids(parts: Sequence[Any], buckets: int, hash_key: int | None = None) -> tf.SparseTensor:
    """Returns the hash buckets of all combinations of an example's values.

    Args:
        parts: features, in which "" and -1 are values, and sparse ids.
        buckets: number of hash buckets.
        hash_key: key of the hash; None: TensorFlow's default.
    """
    tensors = [
        part.to_sparse()
        if isinstance(part, tf.RaggedTensor)
        else part
        if isinstance(part, tf.SparseTensor)
        else as_matrix(part)
        for part in parts
    ]
    return tf.sparse.cross_hashed(tensors, buckets, hash_key)


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


def valid_weights(ids: tf.SparseTensor, weights: Any, rows: int) -> tf.SparseTensor:
    """Returns the weights of the ids in [0, rows), of which `valid_ids` drops the others."""
    given = ids.with_values(weights_of(ids, weights))
    return tf.sparse.retain(given, (ids.values >= 0) & (ids.values < rows))


def zeros_for(features: Mapping[str, Any], size: int) -> tf.Tensor:
    """Returns zeros, [B, size], for the batch of the first feature."""
    first = next(iter(features.values()))
    if isinstance(first, tf.RaggedTensor):
        batch = first.nrows()
    elif isinstance(first, tf.SparseTensor):
        batch = first.dense_shape[0]
    else:
        batch = tf.shape(first, tf.int64)[0]
    return tf.zeros(tf.stack([batch, size]))


def label_numbers(
    labels: Any,
    vocabulary: Any = None,
    size: int | None = None,
    largest: int | None = None,
) -> tf.Tensor:
    """Returns labels as numbers, [B, d].

    Args:
        labels: numbers, or words of the vocabulary.
        vocabulary: lookup table of words, or None.
        size: number of classes, of which an example has any: sparse labels are their ids.
        largest: the largest label, of those from 0 on; None: any number is one.
    """
    if isinstance(labels, tf.RaggedTensor):
        labels = labels.to_sparse()
    if isinstance(labels, tf.SparseTensor):
        if labels.dtype == tf.string:
            labels = vocabulary_ids(labels, vocabulary)
        labels = tf.sparse.to_indicator(labels, size)
    labels = as_matrix(labels)
    if labels.dtype == tf.string:
        labels = vocabulary.lookup(labels)
    found = tf.cast(labels, tf.float32)
    if largest is None:
        return found
    known = " and in the vocabulary" if vocabulary is not None else ""
    checks = [
        tf.debugging.assert_non_negative(found, f"Labels must be >= 0{known}"),
        tf.debugging.assert_less_equal(found, float(largest), f"Labels must be <= {largest}"),
    ]
    with tf.control_dependencies([check for check in checks if check is not None]):
        return tf.identity(found)


def unit_weights(labels: tf.Tensor) -> tf.Tensor:
    """Returns the weights of examples without any, [B]: ones, for labels [B, d]."""
    return tf.ones_like(labels[:, 0])


def example_weights(
    features: Mapping[str, Any], key: str, normalizer: Callable[[Any], Any] | None = None
) -> tf.Tensor:
    """Returns the weights of examples, [B]."""
    return numbers(features[key], 1, normalizer)[:, 0]


def class_predictions(
    class_ids: Any, labels: Sequence[str], head: str = ""
) -> dict[str, tf.Tensor]:
    """Returns an estimator's predictions of classes; those of a named head begin with `head`."""
    class_ids = tf.cast(class_ids, tf.int64)
    all_ids = tf.range(len(labels)) + tf.zeros_like(class_ids, tf.int32)
    found = {
        "class_ids": class_ids,
        "classes": tf.gather(labels, class_ids),
        "all_class_ids": all_ids,
        "all_classes": tf.gather(labels, all_ids),
    }
    return {f"{head}{key}": value for key, value in found.items()}


def classes_of_all(logits: Any, labels: Sequence[str], head: str = "") -> dict[str, tf.Tensor]:
    """Returns an estimator's prediction `classes` where an example may have any of them."""
    classes = tf.tile(tf.constant(labels)[tf.newaxis], [tf.shape(logits)[0], 1])
    return {f"{head}classes": classes}
