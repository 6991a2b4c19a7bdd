# SPDX-License-Identifier: Apache-2.0
"""Reads raw features as `preprocessing` does, by NumPy and pyfarmhash: no TensorFlow.

Functions have the names, arguments and results of those of `preprocessing`, with arrays and
`Sparse` for tensors. Programs of `to-keras --without-tensorflow` have copies of what they use.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from estimator_spec.convert.keras_columns.numpy_features import (
    Sparse,
    Vocabulary,
    as_array,
    batch_size,
    concatenated,
    fingerprints,
    hash_buckets,
    numbers_within,
    read_features,
)


@functools.lru_cache(maxsize=8)
def all_places(shape: tuple[int, ...]) -> np.ndarray:
    """Returns the places of an array, [n, rank]; batches are of few shapes."""
    return np.argwhere(np.ones(shape, bool))


def to_sparse(feature: Any) -> Sparse:
    """Returns a categorical feature as sparse values.

    "" and -1 of a dense array mean that there is no value; in a sparse or ragged one they are
    values. (-1 of an unsigned type is its largest number, as in TensorFlow.)
    """
    if isinstance(feature, Sparse):
        return feature
    feature = as_matrix(feature)
    is_text = feature.dtype == object
    present = feature != (b"" if is_text else np.array(-1).astype(feature.dtype))
    if present.all():
        return Sparse(all_places(feature.shape), feature.ravel(), feature.shape)
    return Sparse(np.argwhere(present), feature[present], feature.shape)


def as_matrix(feature: Any) -> np.ndarray:
    """Returns a dense feature with a second axis, if it has none."""
    feature = np.asarray(feature)
    return feature[:, np.newaxis] if feature.ndim == 1 else feature


def hash_ids(values: Sparse, buckets: int) -> Sparse:
    """Returns the hash buckets of strings or integers."""
    return values.with_values(hash_buckets(values.values, buckets))


def vocabulary_table(initializer: Any, oov_buckets: int = 0, default: int = -1) -> Any:
    """Returns the lookup table of a vocabulary.

    Args:
        initializer: its words.
        oov_buckets: number of ids after the vocabulary's, by hash, for other words.
        default: the id of other words, if there are no such buckets.
    """
    return Vocabulary(initializer, oov_buckets, default)


def words_in_order(words: Sequence[str] | Sequence[bytes] | Sequence[int]) -> Any:
    """Returns the words of a vocabulary whose ids are their positions."""
    return [word.encode() if isinstance(word, str) else word for word in words]


def words_in_file(path: str, size: int, dtype: str = "string") -> Any:
    """Returns the words of a vocabulary that is the first lines of a file."""
    with open(path, "rb") as file:
        lines = file.read().split(b"\n")
    if not lines[-1]:
        lines.pop()
    words: list[Any] = [line.removesuffix(b"\r") for line in lines[:size]]
    if len(words) < size:
        raise ValueError(f"{path} has {len(words)} lines, and the vocabulary's size is {size}.")
    form = rb"[^\n]+" if dtype == "string" else rb"\s*[+-]?[0-9]+\s*"
    for number, word in enumerate(words, 1):
        if not re.fullmatch(form, word) or (
            dtype != "string" and not -(2**63) <= int(word) < 2**63
        ):
            raise ValueError(f"{path}, line {number}: {word!r} is no {dtype}.")
    return words if dtype == "string" else [int(word) for word in words]


def vocabulary_ids(values: Sparse, table: Any) -> Sparse:
    """Returns the ids of words."""
    return values.with_values(table.lookup(values.values))


def identity_ids(values: Sparse, buckets: int, default: int | None = None) -> Sparse:
    """Returns ids; those outside of [0, buckets) become the default, if there is one."""
    ids = values.values.astype(np.int64)
    if default is None:
        return values.with_values(ids)._replace(rows_of_table=buckets)
    return values.with_values(np.where((ids >= 0) & (ids < buckets), ids, default))


def numbers(feature: Any, size: int, normalizer: Callable[[Any], Any] | None = None) -> np.ndarray:
    """Returns a numeric feature, [B, size]; the normalizer gets the feature as it is."""
    feature = as_matrix(feature)
    with np.errstate(all="ignore"):  # NaN and infinity are numbers, as in TensorFlow
        if normalizer is not None:
            feature = normalizer(feature)
        return np.asarray(feature).astype(np.float32).reshape(-1, size)


def buckets_of(values: np.ndarray, boundaries: Sequence[float]) -> np.ndarray:
    """Returns the bucket of each number, int32, [B, k]; NaN is in the last one.

    Numbers below 1.18e-38, the least normal one, are 0, as in the threads of TensorFlow.
    """
    ends = np.asarray(boundaries, np.float32)
    least = np.finfo(np.float32).tiny
    ends, values = (np.where(np.abs(each) < least, np.float32(0), each) for each in (ends, values))
    return np.searchsorted(ends, values, "right").astype(np.int32)


def bucket_ids(buckets: np.ndarray, size: int) -> Sparse:
    """Returns buckets as ids: of the k numbers of an example, each has buckets of its own."""
    ids = buckets.astype(np.int64) + size * np.arange(buckets.shape[1])
    return Sparse(all_places(ids.shape), ids.ravel(), ids.shape)


def cross_ids(parts: Sequence[Any], buckets: int, hash_key: int | None = None) -> Sparse:
    """Returns the hash buckets of all combinations of an example's values.

    Args:
        parts: features, in which "" and -1 are values, and sparse ids. As in TensorFlow, sparse
            ones come first, and the values of the last one change fastest.
        buckets: number of hash buckets.
        hash_key: key of the hash; None: TensorFlow's default.
    """
    given = [part if isinstance(part, Sparse) else as_matrix(part) for part in parts]
    given.sort(key=lambda part: not isinstance(part, Sparse))
    batch = batch_size(given[0])
    rows, hashes = np.arange(batch), np.full(batch, np.uint64(hash_key or 0xDECAFCAFFE))
    for part in given:
        values, counts = values_of_rows(part)
        chosen = rows
        if (counts != 1).any():
            repeats = counts[rows]
            first = (np.cumsum(counts) - counts)[rows]
            chosen = np.repeat(first, repeats) + numbers_within(repeats)
            rows, hashes = np.repeat(rows, repeats), np.repeat(hashes, repeats)
        hashes = concatenated(hashes, values[chosen])
    totals = np.bincount(rows, minlength=batch)
    ids = (hashes % np.uint64(buckets)).astype(np.int64)
    if batch and (totals == 1).all():
        return Sparse(all_places((batch, 1)), ids, (batch, 1))
    places = np.stack([rows, numbers_within(totals)], 1)
    return Sparse(places, ids, (batch, int(totals.max(initial=0))))


def values_of_rows(part: Any) -> tuple[np.ndarray, np.ndarray]:
    """Returns what crosses hash of a part's values, uint64, and their number in each example."""
    if isinstance(part, Sparse):
        values, counts = part.values, np.bincount(part.indices[:, 0], minlength=batch_size(part))
    else:
        values, counts = part.ravel(), np.full(len(part), math.prod(part.shape[1:]))
    if values.dtype == object:
        return fingerprints(values.tolist()), counts
    return values.astype(np.int64).view(np.uint64), counts


def weights_of(ids: Sparse, weights: Any) -> np.ndarray:
    """Returns the weights of ids: sparse ones in their order, dense ones by their places."""
    if isinstance(weights, Sparse):
        return weights.values.astype(np.float32)
    return as_matrix(weights)[tuple(ids.indices.T)].astype(np.float32)


def check_weights(ids: Sparse, weights: Any, what: str) -> None:
    """Raises a ValueError if there isn't a weight for each id."""
    if isinstance(weights, Sparse):
        found, wanted = len(weights.values), len(ids.values)
        if found != wanted:
            raise ValueError(f"{what}{found} weights for {wanted} ids; each id needs a weight.")
        return
    shape = as_matrix(weights).shape
    if len(shape) != len(ids.dense_shape) or (ids.indices >= shape).any():
        form = f"{list(shape)}, and the ids {list(ids.dense_shape)}"
        raise ValueError(f"{what}the weights have the shape {form}; each id needs a weight.")


def padded(
    name: str, ids: Sparse, weights: Any = None, positive: bool = False, safe: bool = True
) -> dict[str, np.ndarray]:
    """Returns `<name>_ids` and `<name>_weights`, both [B, n]; 0.0 where there is no id.

    Some optimizers change each row that is looked up: there the ids are others that are, anyway.

    Args:
        name: of the column.
        ids: [B, n], or [B, T, n] of steps; negative ones are left out.
        weights: the feature with their weights, or None for ones.
        positive: whether ids with weights <= 0 are left out, too.
        safe: whether row 0 is looked up for an example without ids, as TensorFlow's columns do.
    """
    if ids.rows_of_table is not None:
        check_ids(ids, ids.values < ids.rows_of_table, ids.rows_of_table, f"Column {name!r}: ")
    *outer, width = ids.dense_shape
    if not (safe and len(outer) == 1 and width):
        # A place for each example that looks up a row; none if no example does.
        looks_up = math.prod(outer) if safe else len(ids.values)
        width = max(width, 1) if looks_up else 0
    ids = ids._replace(dense_shape=(*outer, width))
    dense = ids.to_dense(-1)
    found = dense >= 0
    numbers: Any = np.float32(1)
    if weights is not None:
        check_weights(ids, weights, f"Column {name!r}: ")
        numbers = ids.with_values(weights_of(ids, weights)).to_dense(0)
    if positive:  # numbers below the least normal one are 0, as in `buckets_of`
        found &= numbers >= np.finfo(np.float32).tiny
    if not found.all():
        axis = -1 if safe else None
        others = np.where(found, dense, 0).max(axis, keepdims=True, initial=0)
        dense = np.where(found, dense, others)
    weights = np.where(found, numbers, np.float32(0))
    return {f"{name}_ids": dense, f"{name}_weights": weights}


def check_ids(ids: Sparse, valid: np.ndarray, rows: int, what: str) -> None:
    """Raises a ValueError if an id isn't valid."""
    if not valid.all():
        wrong = np.flatnonzero(~valid)[0]
        value, example = int(ids.values[wrong]), int(ids.indices[wrong, 0])
        raise ValueError(f"{what}the id {value} of example {example} is outside of [0, {rows}).")


def padded_steps(
    name: str,
    ids: Sparse,
    weights: Any = None,
    positive: bool = False,
    steps: int | None = None,
) -> dict[str, np.ndarray]:
    """Returns `<name>_ids` and `<name>_weights`, [B, T, n], and `<name>_lengths`, [B].

    Args:
        name: of the column.
        ids: of each step, [B, T] or [B, T, n]; negative ones are left out, but count as steps.
        weights: the feature with their weights, or None for ones.
        positive: whether ids with weights <= 0 are left out, too.
        steps: T; None: those of the longest sequence.
    """
    if weights is not None:
        check_weights(ids, weights, f"Column {name!r}: ")
        weights = ids.with_values(weights_of(ids, weights))
    if len(ids.dense_shape) == 2:
        places = np.pad(ids.indices, [(0, 0), (0, 1)])
        ids = ids._replace(indices=places, dense_shape=(*ids.dense_shape, 1))
    found, numbers = padded(name, ids, weights, positive).values()
    lengths = step_counts(ids)
    if steps is not None:
        found = with_steps(found, steps, found.max(initial=0))
        numbers = with_steps(numbers, steps)
        lengths = np.minimum(lengths, steps)
    return {f"{name}_ids": found, f"{name}_weights": numbers, f"{name}_lengths": lengths}


def step_counts(values: Sparse, size: int = 1) -> np.ndarray:
    """Returns the number of steps of each sequence, [B]: its last place counts.

    Args:
        values: [B, T * size, ...].
        size: places of a step.
    """
    last = np.full(batch_size(values), -1)
    np.maximum.at(last, values.indices[:, 0], values.indices[:, 1])
    return last // size + 1


def with_steps(tensor: np.ndarray, steps: int, filler: Any = 0) -> np.ndarray:
    """Returns sequences, [B, T, n], cut and padded to a number of steps."""
    tensor = tensor[:, :steps]
    missing = [(0, 0), (0, steps - tensor.shape[1]), (0, 0)]
    return np.pad(tensor, missing, constant_values=filler)


def number_steps(
    name: str,
    feature: Any,
    shape: Sequence[int],
    default: float = 0.0,
    normalizer: Callable[[Any], Any] | None = None,
) -> dict[str, np.ndarray]:
    """Returns `<name>`, a sequence of numbers [B, T, size], and `<name>_lengths`, [B].

    Args:
        name: of the column.
        feature: sparse or ragged, [B, T * size] or [B, T, size].
        shape: of a step.
        default: what the sequences are padded with.
        normalizer: gets the sparse feature.
    """
    if not isinstance(feature, Sparse):
        raise ValueError(f"Column {name!r}: a sequence must be sparse or ragged, this is dense.")
    with np.errstate(all="ignore"):
        values = feature if normalizer is None else normalizer(feature)
        size = math.prod(shape)
        if math.prod(values.dense_shape[1:]) % size:
            raise ValueError(f"Column {name!r}: {values.dense_shape} has no steps of {size}.")
        dense = values.to_dense(default).astype(np.float32)
    steps = dense.reshape(len(dense), math.prod(dense.shape[1:]) // size, size)
    lengths = step_counts(values, size if dense.ndim == 2 else 1)
    return {name: steps, f"{name}_lengths": lengths}


def valid_ids(ids: Sparse, rows: int, policy: str | int) -> Sparse:
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
        return ids.with_values(np.clip(values, 0, rows - 1))
    if policy == "mod":
        return ids.with_values(values % rows)
    if policy == "error":
        check_ids(ids, valid, rows, "")
        return ids
    if policy == "drop":
        return ids.retain(valid)
    return ids.with_values(np.where(valid, values, policy))


def valid_weights(ids: Sparse, weights: Any, rows: int) -> Sparse:
    """Returns the weights of the ids in [0, rows), of which `valid_ids` drops the others."""
    check_weights(ids, weights, "")
    given = ids.with_values(weights_of(ids, weights))
    return given.retain((ids.values >= 0) & (ids.values < rows))


def zeros_for(features: Mapping[str, Any], size: int) -> np.ndarray:
    """Returns zeros, [B, size], for the batch of the first feature."""
    first = as_array(next(iter(features.values())))
    return np.zeros((batch_size(first), size), np.float32)


def label_numbers(
    labels: Any,
    vocabulary: Any = None,
    size: int | None = None,
    largest: int | None = None,
) -> np.ndarray:
    """Returns labels as numbers, [B, d].

    Args:
        labels: numbers, or words of the vocabulary.
        vocabulary: lookup table of words, or None.
        size: number of classes, of which an example has any: sparse labels are their ids.
        largest: the largest label, of those from 0 on; None: any number is one.
    """
    labels = as_array(labels, "The batch of labels")
    if isinstance(labels, Sparse) and size is not None:
        ids = labels.values
        if ids.dtype == object:
            ids = vocabulary.lookup(ids)
        check_ids(labels.with_values(ids), (ids >= 0) & (ids < size), size, "Labels: ")
        present = np.zeros((batch_size(labels), size), bool)
        present[labels.indices[:, 0], ids.astype(np.int64)] = True
        labels = present
    elif isinstance(labels, Sparse):
        if len(labels.values) != math.prod(labels.dense_shape):
            raise ValueError("Labels must have the shape [B, d]: an array, or lists of one length.")
        labels = labels.to_dense(0)
    labels = given = as_matrix(labels)
    if labels.ndim > 2:
        raise ValueError(f"Labels must have the shape [B, d], not {list(labels.shape)}.")
    if labels.dtype == object:
        if vocabulary is None:
            raise ValueError("Labels must be numbers, and are text: there is no label vocabulary.")
        labels = vocabulary.lookup(labels)
    found = labels.astype(np.float32)
    wrong = np.argwhere(~((found >= 0) & (found <= (np.inf if largest is None else largest))))
    if largest is not None and len(wrong):
        known = " and in the vocabulary" if vocabulary is not None else ""
        row, place = wrong[0]
        raise ValueError(
            f"Labels must be >= 0{known}, and <= {largest}; that of example "
            f"{row} is {given[row].tolist()[place]!r}."
        )
    return found


def unit_weights(labels: np.ndarray) -> np.ndarray:
    """Returns the weights of examples without any, [B]: ones, for labels [B, d]."""
    return np.ones_like(labels[:, 0])


def example_weights(
    features: Mapping[str, Any], key: str, normalizer: Callable[[Any], Any] | None = None
) -> np.ndarray:
    """Returns the weights of examples, [B]."""
    return numbers(read_features(features, {key: ("numbers", 1)})[key], 1, normalizer)[:, 0]


def class_predictions(
    class_ids: Any, labels: Sequence[str], head: str = ""
) -> dict[str, np.ndarray]:
    """Returns an estimator's predictions of classes; those of a named head begin with `head`."""
    ids = in_memory(class_ids).astype(np.int64)
    all_ids = np.arange(len(labels), dtype=np.int32) + np.zeros_like(ids, np.int32)
    words = as_array(list(labels))
    found = {
        "class_ids": ids,
        "classes": words[ids],
        "all_class_ids": all_ids,
        "all_classes": words[all_ids],
    }
    return {f"{head}{key}": value for key, value in found.items()}


def classes_of_all(logits: Any, labels: Sequence[str], head: str = "") -> dict[str, np.ndarray]:
    """Returns an estimator's prediction `classes` where an example may have any of them."""
    return {f"{head}classes": np.tile(as_array(list(labels)), (len(logits), 1))}


def in_memory(tensor: Any) -> np.ndarray:
    """Returns a tensor of any backend of Keras as an array."""
    return np.asarray(tensor.detach().cpu() if hasattr(tensor, "detach") else tensor)
