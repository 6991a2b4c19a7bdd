"""Keras 3 model of the test combined, and the reading of its features.

`preprocess` reads raw features by NumPy, without TensorFlow. `build_model` makes a model over the
ids, weights and numbers that it returns: pure Keras 3, for any backend. Made by `python -m
estimator_spec to-keras`; it is yours, and needs keras, keras_rs, numpy, pyfarmhash and protobuf
only.
"""

from __future__ import annotations

import collections
import functools
import itertools
import math
import pathlib
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import keras
import keras_rs
import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
WEIGHTS = HERE / "weights.keras"

# How feature columns read features.


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


def in_memory(tensor: Any) -> np.ndarray:
    """Returns a tensor of any backend of Keras as an array."""
    return np.asarray(tensor.detach().cpu() if hasattr(tensor, "detach") else tensor)


# The features of this model.


def age_normalizer(value: Any) -> Any:
    """Returns what the normalizer_fn of 'age' makes of a feature."""
    scale = 20.0
    MEAN = 40.0
    return (value - MEAN) / scale


def spent_normalizer(x: Any) -> Any:
    """Returns what the normalizer_fn of 'spent' makes of a feature."""
    return np.log1p(np.maximum(x, 0.0))


def vocabulary_path(name: str) -> str:
    """Returns the path of a vocabulary file."""
    return str(HERE / "vocabularies" / name)


CITY_VOCABULARY = vocabulary_table(words_in_file(vocabulary_path("city.txt"), 30), oov_buckets=2)
LABEL_VOCABULARY = vocabulary_table(words_in_order(["no", "yes"]))
TABLES = [CITY_VOCABULARY, LABEL_VOCABULARY]
CLASSES = ["no", "yes"]


FEATURES = {
    "age": ("numbers", 1),
    "city": ("text", "matrix"),
    "counts": ("numbers", None),
    "items": ("text", None),
    "spent": ("numbers", 1),
}


def numeric(features: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Returns the numbers of age, spent."""
    return {
        "age": numbers(features["age"], 1, age_normalizer),
        "spent": numbers(features["spent"], 1, spent_normalizer),
    }


def categories(features: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Returns the ids of 3 columns, with their weights."""
    return {
        **padded("city", vocabulary_ids(to_sparse(features["city"]), CITY_VOCABULARY)),
        **padded(
            "items_weighted_by_counts_positive",
            hash_ids(to_sparse(features["items"]), 50),
            features["counts"],
            positive=True,
        ),
        **padded(
            "items_weighted_by_counts",
            hash_ids(to_sparse(features["items"]), 50),
            features["counts"],
        ),
    }


def buckets(features: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Returns the buckets of age_bucketized."""
    return padded(
        "age_bucketized", bucket_ids(buckets_of(numbers(features["age"], 1), [20.0, 40.0, 60.0]), 4)
    )


def crosses(features: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Returns the ids of crossed values with their weights: age_bucketized_X_city."""
    return padded(
        "age_bucketized_X_city",
        cross_ids(
            [
                features["city"],
                bucket_ids(buckets_of(numbers(features["age"], 1), [20.0, 40.0, 60.0]), 4),
            ],
            40,
        ),
    )


def preprocess(features: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Returns the ids, weights and numbers of raw features, for the model."""
    features = read_features(features, FEATURES)
    return {**numeric(features), **categories(features), **buckets(features), **crosses(features)}


# The model.


class RowsSummed:
    """Takes gradients as JAX and torch have them: one sum for each row of a table."""

    def apply(self, grads: Any, trainable_variables: Any = None) -> None:
        """Updates variables by gradients."""
        super().apply([whole(each) for each in grads], trainable_variables)  # type: ignore[misc]


class RowsLookedUp(RowsSummed):
    """Updates the rows of tables whose gradient isn't 0, and no others."""

    slots: tuple[str, ...] = ()  # attributes with the slots of all variables

    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        """Updates a variable and its slots."""
        ops, number = keras.ops, self._get_variable_index(variable)  # type: ignore[attr-defined]
        lists = [getattr(self, name) for name in self.slots]
        changed = [variables[number] for variables in lists if variables]
        # TensorFlow's variables, which the optimizer gets on its backend, have a number.
        is_table = variable.name.partition(":")[0].endswith("embeddings")
        if not changed or not is_table:
            super().update_step(gradient, variable, learning_rate)  # type: ignore[misc]
            return
        changed.append(variable)
        before = [ops.copy(ops.convert_to_tensor(each)) for each in changed]
        super().update_step(gradient, variable, learning_rate)  # type: ignore[misc]
        rows = ops.any(ops.not_equal(gradient, 0), axis=-1, keepdims=True)
        for each, old in zip(changed, before, strict=True):
            new = ops.where(rows, ops.convert_to_tensor(each), old)
            self.assign(each, new)  # type: ignore[attr-defined]


@keras.saving.register_keras_serializable("columns")
class Adagrad(RowsSummed, keras.optimizers.Adagrad):
    """Adagrad with one gradient a row, which adds epsilon to the root of the accumulator."""

    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        """Updates a variable and its slots."""
        accumulator = self._accumulators[self._get_variable_index(variable)]
        self.assign_add(accumulator, keras.ops.square(gradient))
        change = keras.ops.multiply(learning_rate, gradient)
        root = keras.ops.add(keras.ops.sqrt(accumulator), self.epsilon)
        self.assign_sub(variable, keras.ops.divide(change, root))


@keras.saving.register_keras_serializable("columns")
class Ftrl(RowsLookedUp, keras.optimizers.Ftrl):
    """FTRL of the rows that a step looks up."""

    slots = ("_accumulators", "_linears")


def whole(gradient: Any) -> Any:
    """Returns a gradient with all rows: on TensorFlow's backend there are others."""
    if not hasattr(gradient, "dense_shape"):
        return gradient
    rows = gradient.dense_shape[0]
    return keras.ops.segment_sum(gradient.values, gradient.indices, rows)


@keras.saving.register_keras_serializable("columns")
class Bias(keras.layers.Layer):
    """Adds a bias: a linear model has one for all of its columns."""

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        """Creates the bias."""
        self.bias = self.add_weight(shape=input_shape[-1:], initializer="zeros", name="bias")

    def call(self, inputs: Any) -> Any:
        """Returns the sum of inputs and bias."""
        return inputs + self.bias


@keras.saving.register_keras_serializable("columns")
class Sum(keras.layers.Layer):
    """Sums tensors, also those of no example, which `keras.layers.Add` takes for a bias."""

    def call(self, inputs: Any) -> Any:
        """Returns the sum."""
        total = inputs[0]
        for each in inputs[1:]:
            total = total + each
        return total


def wide_and_deep(deep: Any, wide: Any, wide_layers: list[str]) -> keras.optimizers.Optimizer:
    """Returns an optimizer that trains some layers by `wide`, and the others by `deep`."""
    paths = f"(.*/)?({'|'.join(wide_layers)})/[^/]*"
    return keras.optimizers.MultiOptimizer(keras.optimizers.OptimizerMap(deep, {paths: wide}))


@keras.saving.register_keras_serializable("columns")
def prediction_value(labels: Any, predictions: Any, class_id: int | None = None) -> Any:
    """Returns what a model predicts, of one class or of all, for a metric of its mean."""
    return predictions if class_id is None else predictions[..., class_id]


@keras.saving.register_keras_serializable("columns")
def label_value(labels: Any, predictions: Any) -> Any:
    """Returns the labels, for a metric of their mean."""
    return labels


@keras.saving.register_keras_serializable("columns")
class AccuracyBaseline(keras.metrics.MeanMetricWrapper):
    """The accuracy of always predicting the class that is more frequent."""

    def result(self) -> Any:
        """Returns it, from the mean of the labels 0 and 1."""
        mean = super().result()
        return keras.ops.maximum(mean, 1.0 - mean)


def build_model(initializer: str = "uniform") -> keras.Model:
    """Returns a new model over what `preprocess` returns."""
    age = keras.Input((1,), dtype="float32", name="age")
    city_ids = keras.Input((None,), dtype="int64", name="city_ids")
    city_weights = keras.Input((None,), dtype="float32", name="city_weights")
    items_weighted_by_counts_positive_ids = keras.Input(
        (None,), dtype="int64", name="items_weighted_by_counts_positive_ids"
    )
    items_weighted_by_counts_positive_weights = keras.Input(
        (None,), dtype="float32", name="items_weighted_by_counts_positive_weights"
    )
    spent = keras.Input((1,), dtype="float32", name="spent")
    age_bucketized_ids = keras.Input((None,), dtype="int64", name="age_bucketized_ids")
    age_bucketized_weights = keras.Input((None,), dtype="float32", name="age_bucketized_weights")
    age_bucketized_X_city_ids = keras.Input(
        (None,), dtype="int64", name="age_bucketized_X_city_ids"
    )
    age_bucketized_X_city_weights = keras.Input(
        (None,), dtype="float32", name="age_bucketized_X_city_weights"
    )
    items_weighted_by_counts_ids = keras.Input(
        (None,), dtype="int64", name="items_weighted_by_counts_ids"
    )
    items_weighted_by_counts_weights = keras.Input(
        (None,), dtype="float32", name="items_weighted_by_counts_weights"
    )
    city_embedding = keras_rs.layers.EmbedReduce(
        32, 3, combiner="mean", name="city_embedding", embeddings_initializer=initializer
    )(city_ids, city_weights)
    items_weighted_by_counts_embedding = keras_rs.layers.EmbedReduce(
        50,
        2,
        combiner="sqrtn",
        name="items_weighted_by_counts_embedding",
        embeddings_initializer=initializer,
    )(items_weighted_by_counts_positive_ids, items_weighted_by_counts_positive_weights)
    input_layer = keras.layers.Concatenate(name="input_layer")(
        [age, city_embedding, items_weighted_by_counts_embedding, spent],
    )
    hiddenlayer_0 = keras.layers.Dense(6, activation="relu", name="hiddenlayer_0")(input_layer)
    deep_logits = keras.layers.Dense(1, name="logits_layer")(hiddenlayer_0)
    linear_age_bucketized_sum = keras_rs.layers.EmbedReduce(
        4, 1, combiner="sum", name="linear_age_bucketized", embeddings_initializer="zeros"
    )(age_bucketized_ids, age_bucketized_weights)
    linear_age_bucketized_X_city_sum = keras_rs.layers.EmbedReduce(
        40, 1, combiner="sum", name="linear_age_bucketized_X_city", embeddings_initializer="zeros"
    )(age_bucketized_X_city_ids, age_bucketized_X_city_weights)
    linear_city_sum = keras_rs.layers.EmbedReduce(
        32, 1, combiner="sum", name="linear_city", embeddings_initializer="zeros"
    )(city_ids, city_weights)
    linear_items_weighted_by_counts_sum = keras_rs.layers.EmbedReduce(
        50,
        1,
        combiner="sum",
        name="linear_items_weighted_by_counts",
        embeddings_initializer="zeros",
    )(items_weighted_by_counts_ids, items_weighted_by_counts_weights)
    linear_sum = Sum(name="linear_sum")(
        [
            linear_age_bucketized_sum,
            linear_age_bucketized_X_city_sum,
            linear_city_sum,
            linear_items_weighted_by_counts_sum,
        ],
    )
    linear_bias_added = Bias(name="linear_bias")(linear_sum)
    summed_logits = Sum(name="summed_logits")([deep_logits, linear_bias_added])
    two_class_logits = keras.ops.concatenate(
        [keras.ops.zeros_like(summed_logits), summed_logits], axis=-1
    )
    logistic = keras.ops.sigmoid(summed_logits)
    probabilities = keras.ops.softmax(two_class_logits)
    class_ids = keras.ops.expand_dims(keras.ops.argmax(two_class_logits, axis=-1), -1)
    inputs = {
        "age": age,
        "city_ids": city_ids,
        "city_weights": city_weights,
        "items_weighted_by_counts_positive_ids": items_weighted_by_counts_positive_ids,
        "items_weighted_by_counts_positive_weights": items_weighted_by_counts_positive_weights,
        "spent": spent,
        "age_bucketized_ids": age_bucketized_ids,
        "age_bucketized_weights": age_bucketized_weights,
        "age_bucketized_X_city_ids": age_bucketized_X_city_ids,
        "age_bucketized_X_city_weights": age_bucketized_X_city_weights,
        "items_weighted_by_counts_ids": items_weighted_by_counts_ids,
        "items_weighted_by_counts_weights": items_weighted_by_counts_weights,
    }
    outputs = {
        "logits": summed_logits,
        "logistic": logistic,
        "probabilities": probabilities,
        "class_ids": class_ids,
    }
    return keras.Model(inputs, outputs)


def compile_model(model: keras.Model) -> None:
    """Compiles a model with the estimator's loss, metrics and optimizer."""
    model.compile(
        optimizer=wide_and_deep(
            Adagrad(learning_rate=0.001, initial_accumulator_value=0.1, epsilon=1e-07),
            Ftrl(learning_rate=0.005, learning_rate_power=-0.5, initial_accumulator_value=0.1),
            [
                "linear_age_bucketized",
                "linear_age_bucketized_X_city",
                "linear_city",
                "linear_items_weighted_by_counts",
                "linear_bias",
            ],
        ),
        loss={
            "logits": keras.losses.BinaryCrossentropy(
                from_logits=True, reduction="sum_over_batch_size"
            ),
        },
        weighted_metrics={
            "logits": [
                keras.metrics.BinaryCrossentropy(name="average_loss", from_logits=True),
                keras.metrics.MeanMetricWrapper(label_value, name="label/mean"),
                AccuracyBaseline(label_value, name="accuracy_baseline"),
            ],
            "class_ids": [
                keras.metrics.Accuracy(name="accuracy"),
                keras.metrics.Precision(name="precision"),
                keras.metrics.Recall(name="recall"),
            ],
            "logistic": [
                keras.metrics.MeanMetricWrapper(prediction_value, name="prediction/mean"),
                keras.metrics.AUC(name="auc"),
                keras.metrics.AUC(name="auc_precision_recall", curve="PR"),
            ],
        },
    )


def training_batch(features: Mapping[str, Any], labels: Any) -> tuple[Any, ...]:
    """Returns what `fit` and `evaluate` take of a batch, for the `map` of a dataset."""
    number = label_numbers(labels, vocabulary=LABEL_VOCABULARY, largest=1)
    targets = dict.fromkeys(["logits", "logistic", "probabilities", "class_ids"], number)
    return preprocess(features), targets


def with_classes(outputs: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the model's outputs, and the estimator's predictions of classes."""
    return {**outputs, **class_predictions(outputs["class_ids"], CLASSES)}
