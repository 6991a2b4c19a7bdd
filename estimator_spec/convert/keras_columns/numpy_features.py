# SPDX-License-Identifier: Apache-2.0
"""Features as NumPy arrays and `Sparse`, their checks, fingerprints and vocabularies.

Programs that `to-keras --without-tensorflow` writes have copies of what they use.
"""

from __future__ import annotations

import collections
import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np


class Sparse(NamedTuple):
    """Values at places of an array, in the order of their places; attributes as in TensorFlow.

    Attributes:
        indices: places, int64, [n, rank].
        values: [n].
        dense_shape: of the whole array.
        rows_of_table: values that are ids have to be below it; None: they have no limit.
    """

    indices: np.ndarray
    values: np.ndarray
    dense_shape: tuple[int, ...]
    rows_of_table: int | None = None

    def with_values(self, values: Any) -> Sparse:
        """Returns other values at the same places."""
        return Sparse(self.indices, values, self.dense_shape)

    def to_dense(self, default: Any) -> np.ndarray:
        """Returns the whole array, with the default where there is no value."""
        if len(self.values) == math.prod(self.dense_shape):
            return self.values.reshape(self.dense_shape)
        dense = np.full(self.dense_shape, default, self.values.dtype)
        dense[tuple(self.indices.T)] = self.values
        return dense

    def retain(self, chosen: np.ndarray) -> Sparse:
        """Returns some of the values."""
        return Sparse(self.indices[chosen], self.values[chosen], self.dense_shape)

    def __array_ufunc__(self, function: Any, method: str, *inputs: Any) -> Sparse:
        (_,) = inputs  # TensorFlow has functions of one argument for sparse values
        return self.with_values(function(self.values))

    def __truediv__(self, other: Any) -> Sparse:
        return self.with_values(self.values / other)

    def __mul__(self, other: Any) -> Sparse:  # type: ignore[override]  # not a tuple's
        return self.with_values(self.values * other)


def read_features(
    features: Mapping[str, Any], kinds: Mapping[str, tuple[str, int | str | None]]
) -> dict[str, Any]:
    """Returns features as arrays and `Sparse`.

    Args:
        features: arrays; lists; lists of lists or objects with `dense_shape`, which are sparse.
        kinds: of each feature that is read, 'numbers', 'integers', 'text' or 'words' (text or
            numbers), and its form: the numbers of an example if it is dense, or 'matrix'.

    Raises:
        ValueError: a feature is missing, or has another type, rank or number of examples.
    """
    found: dict[str, Any] = {}
    for key, (kind, form) in kinds.items():
        if key not in features:
            there = sorted(map(str, features))
            raise ValueError(f"Feature {key!r} is missing; the features are {there}.")
        what = f"Feature {key!r}"
        value = found[key] = as_array(features[key], what)
        is_sparse = isinstance(value, Sparse)
        values, shape = (value.values, value.dense_shape) if is_sparse else (value, value.shape)
        types = {"numbers": "biuf", "integers": "iu", "text": "O", "words": "biufO"}[kind]
        if values.size and values.dtype.kind not in types:
            raise ValueError(f"{what} must be {kind}, and has the type {type_name(values)}.")
        if form == "matrix" and len(shape) > 2:
            raise ValueError(f"{what} must be a matrix to be crossed, and has {len(shape)} axes.")
        if isinstance(form, int) and (is_sparse or (shape[0] and math.prod(shape[1:]) != form)):
            other = "is sparse" if is_sparse else f"has the shape {list(shape)}"
            raise ValueError(f"{what} {other}; it must be an array of shape [{shape[0]}, {form}].")
        first = next(iter(found))
        rows = batch_size(found[first])
        if shape[0] != rows:
            raise ValueError(f"{what} has {shape[0]} examples, and feature {first!r} {rows}.")
    return found


def type_name(values: np.ndarray) -> str:
    """Returns the name of an array's type."""
    return "text" if values.dtype == object else str(values.dtype)


def batch_size(feature: Any) -> int:
    """Returns the number of examples of an array or a `Sparse`."""
    return int(feature.dense_shape[0]) if isinstance(feature, Sparse) else len(feature)


def as_array(feature: Any, what: str = "A feature", examples: Any = None) -> Any:
    """Returns a feature as an array, of bytes if it is text, or as a `Sparse`.

    Args:
        feature: an array; a list; a list of lists, which is ragged; an object with `indices`,
            `values` and `dense_shape`.
        what: what errors call it.
        examples: the number of the example of each value; None: the place in the first axis.

    Raises:
        ValueError: it has no examples, or text that isn't UTF-8, or is no array.
    """
    if hasattr(feature, "dense_shape"):
        shape = tuple(int(axis) for axis in np.asarray(feature.dense_shape))
        indices = np.asarray(feature.indices, np.int64).reshape(-1, len(shape))
        check_places(indices, shape, what)
        if len(feature.values) != len(indices):
            raise ValueError(f"{what} has {len(feature.values)} values at {len(indices)} places.")
        return Sparse(indices, as_array(feature.values, what, indices[:, 0]), shape)
    if isinstance(feature, (list, tuple)) and feature:
        if isinstance(feature[0], (list, tuple, np.ndarray)):
            return of_rows(feature, what)
        if isinstance(feature[0], (str, bytes)):  # NumPy's strings lose NULs at their end
            feature = np.array(feature, object)
    try:
        array = np.asarray(feature)
    except ValueError as error:
        raise ValueError(f"{what} is no array: {error}") from None
    if array.ndim == 0:
        raise ValueError(f"{what} has no axis of examples: it is the single value {feature!r}.")
    if array.dtype.kind in "SUO":
        texts = array.ravel().tolist()
        if set(map(type, texts)) <= {bytes} and array.dtype == object:
            return array
        if examples is None:
            examples = np.arange(len(texts)) // max(1, math.prod(array.shape[1:]))
        array = np.array(encoded(texts, what, examples), object).reshape(array.shape)
    return array


def encoded(texts: Sequence[Any], what: str, examples: Sequence[int]) -> Sequence[bytes]:
    """Returns texts, each of an example, as bytes."""
    found = []
    for text, example in zip(texts, examples, strict=True):
        try:
            found.append(text if isinstance(text, bytes) else text.encode())
        except (AttributeError, UnicodeEncodeError):
            given = zip(texts, examples, strict=True)  # among numbers, what made them no array
            odd = (each for each in given if not isinstance(each[0], (str, bytes, int, float)))
            text, example = next(odd, (text, example))
            why = "no text: it can't be UTF-8"
            if not isinstance(text, str):
                why = f"neither text nor a number of 64 bits: it has type {type(text).__name__}"
            raise ValueError(f"{what}: {text!r} of example {example} is {why}.") from None
    return found


def check_places(indices: np.ndarray, shape: tuple[int, ...], what: str) -> None:
    """Raises a ValueError if a sparse feature's places are out of order, or beyond its shape."""
    outside = ((indices < 0) | (indices >= shape)).any(1)
    if outside.any():
        place = indices[outside][0].tolist()
        raise ValueError(f"{what} has a value at {place}, beyond its shape {list(shape)}.")
    places = np.ravel_multi_index(tuple(indices.T), shape) if len(indices) else np.zeros(0, int)
    wrong = np.flatnonzero(places[1:] <= places[:-1])
    if len(wrong):
        place = indices[wrong[0] + 1].tolist()
        raise ValueError(f"{what}: the place {place} is out of order, or there twice.")


def of_rows(rows: Sequence[Any], what: str = "A feature") -> Sparse:
    """Returns lists of values, or of lists of them, as `tf.RaggedTensor.to_sparse` does."""
    indices, shape, level = np.zeros((1, 0), np.int64), [], [rows]
    while level and isinstance(level[0], (list, tuple, np.ndarray)):
        if not all(isinstance(each, (list, tuple, np.ndarray)) for each in level):
            raise ValueError(f"{what} has lists and values beside each other.")
        lengths = np.array([len(each) for each in level])
        parents = np.repeat(np.arange(len(level)), lengths)
        indices = np.column_stack([indices[parents], numbers_within(lengths)])
        shape.append(int(lengths.max(initial=0)))
        level = [value for each in level for value in each]
    values = as_array(level, what, indices[:, 0]) if level else np.array([], object)
    return Sparse(indices, values, tuple(shape))


def numbers_within(counts: np.ndarray) -> np.ndarray:
    """Returns 0, 1, 2, … for each of some counts, one after the other."""
    ends = np.cumsum(counts)
    return np.arange(ends[-1] if len(ends) else 0) - np.repeat(ends - counts, counts)


def fingerprints(texts: Sequence[bytes]) -> np.ndarray:
    """Returns the 64-bit fingerprints of texts, uint64."""
    import farmhash

    beginning = texts[:256]
    if 2 * len(set(beginning)) > len(beginning):
        return np.fromiter(map(farmhash.fingerprint64, texts), np.uint64, len(texts))
    # Few words: numbering them in one pass takes less time than their fingerprints.
    numbers: Any = collections.defaultdict(itertools.count().__next__)
    places = np.fromiter(map(numbers.__getitem__, texts), np.int64, len(texts))
    return np.fromiter(map(farmhash.fingerprint64, numbers), np.uint64, len(numbers))[places]


def hash_buckets(values: np.ndarray, buckets: int) -> np.ndarray:
    """Returns the hash buckets of texts, or of integers as decimal numbers, int64."""
    texts = values.tolist()
    if values.dtype != object:
        texts = [str(value).encode() for value in texts]
    return (fingerprints(texts) % np.uint64(buckets)).astype(np.int64)


def concatenated(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Returns the fingerprints of two fingerprints, TensorFlow's `FingerprintCat64`."""
    factor, bits = np.uint64(0xC6A4A7935BD1E995), np.uint64(47)
    second = second * factor
    found = (first ^ factor) ^ ((second ^ second >> bits) * factor)
    for _ in range(2):
        found = found * factor
        found = found ^ found >> bits
    return found


class Vocabulary:
    """Ids of words.

    Args:
        words: bytes or integers; their ids are their positions.
        oov_buckets: number of ids after the vocabulary's, by hash, for other words.
        default: the id of other words, if there are no such buckets.
    """

    def __init__(self, words: Sequence[Any], oov_buckets: int, default: int) -> None:
        self._ids = {word: number for number, word in enumerate(words)}
        if len(self._ids) < len(words):
            double = next(word for number, word in enumerate(words) if self._ids[word] != number)
            raise ValueError(f"The vocabulary has the word {double!r} twice.")
        self._of_text = isinstance(words[0], bytes)
        self._oov_buckets, self._default = oov_buckets, default

    def lookup(self, words: np.ndarray) -> np.ndarray:
        """Returns ids, int64, of the shape of the words."""
        if words.size and (words.dtype == object) != self._of_text:
            own, first = "text" if self._of_text else "integers", next(iter(self._ids))
            raise ValueError(
                f"The vocabulary of {first!r}, … is {own}, and the feature {type_name(words)}."
            )
        flat, default = words.ravel(), -1 if self._oov_buckets else self._default
        found = map(self._ids.get, flat.tolist(), itertools.repeat(default))
        ids = np.fromiter(found, np.int64, flat.size)
        if self._oov_buckets:
            other = np.flatnonzero(ids < 0)
            ids[other] = len(self._ids) + hash_buckets(flat[other], self._oov_buckets)
        return ids.reshape(words.shape)
