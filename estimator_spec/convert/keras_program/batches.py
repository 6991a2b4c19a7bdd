# SPDX-License-Identifier: Apache-2.0
"""Reads batches of a program's input, and makes batches of the values that columns treat apart."""

from __future__ import annotations

import itertools
import math
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from estimator_spec.convert.keras_program.first_use import EstimatorUse
from estimator_spec.core.driver.estimator_base import setup_of
from estimator_spec.core.user_functions.batches import describe

tf1 = tf.compat.v1

_TEXTS = (b"", b"-1", "ünknown".encode(), b" ")
_INTEGERS = (-1, 0, 1)
_NUMBERS = (0.0, -1.0, 1e-6, 3.5, 1e6, -1e6)


class Batch(NamedTuple):
    """A batch as arrays: dense ones, `SparseTensorValue`s and `RaggedTensorValue`s.

    Attributes:
        name: what it is, for the report.
        features: by key.
        labels: the labels, or None.
        is_made: whether its values aren't the program's.
    """

    name: str
    features: dict[str, Any]
    labels: Any
    is_made: bool = False

    @property
    def size(self) -> int:
        """Number of its examples."""
        labels = self.labels
        if isinstance(labels, dict):
            labels = next(iter(labels.values()))
        shape = getattr(labels, "dense_shape", None)
        return int(np.shape(labels)[0] if shape is None else shape[0])

    def converted(self, convert: Callable[[Any], Any]) -> tuple[dict[str, Any], Any]:
        """Returns the features and labels by `as_tensor` or `as_array`."""
        labels = self.labels
        if isinstance(labels, dict):  # those of several heads
            labels = {key: convert(value) for key, value in labels.items()}
        elif labels is not None:
            labels = convert(labels)
        return {key: convert(value) for key, value in self.features.items()}, labels


def as_array(value: Any) -> Any:
    """Returns a value as programs without TensorFlow take it: ragged ones are lists of lists."""
    if isinstance(value, tf1.ragged.RaggedTensorValue):
        return value.to_list()
    return value


class Feeding(tf1.train.SessionRunHook):
    """Hook that feeds batches, one a step, to the input of an estimator.

    Args:
        batches: a batch for each step, all with labels.
    """

    def __init__(self, batches: Sequence[Batch]) -> None:
        self._batches = list(batches)

    @property
    def batch(self) -> Batch:
        """The batch of the next step."""
        return self._batches[0]

    def input_fn(self) -> Any:
        """Returns placeholders of features and labels."""
        self._features = _placeholders([batch.features for batch in self._batches])
        self._labels = _placeholders([batch.labels for batch in self._batches])
        return self._features, self._labels

    def before_run(self, run_context: Any) -> Any:
        """Feeds the batch of this step."""
        features = _pairs(self._features, self.batch.features)
        labels = _pairs(self._labels, self.batch.labels)
        return tf1.train.SessionRunArgs(None, feed_dict=dict([*features, *labels]))

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Goes on to the next batch."""
        del self._batches[0]


def _pairs(placeholders: Any, values: Any) -> list[tuple[Any, Any]]:
    if isinstance(placeholders, dict):
        return [(placeholders[key], value) for key, value in values.items()]
    return [(placeholders, values)]


def _placeholders(values: Sequence[Any]) -> Any:
    """Returns the placeholders of a value of each batch: an array, or a dict of arrays."""
    if isinstance(values[0], dict):
        return {key: _placeholder([value[key] for value in values]) for key in values[0]}
    return _placeholder(values)


def _placeholder(values: Sequence[Any]) -> Any:
    """Returns the placeholder of arrays of one rank; an axis has a size if all of them have it."""
    first = values[0]
    if isinstance(first, tf1.SparseTensorValue):
        rank = len(first.dense_shape)
        return tf1.sparse_placeholder(tf.as_dtype(np.asarray(first.values).dtype), [None] * rank)
    if isinstance(first, tf1.ragged.RaggedTensorValue):
        dtype = tf.as_dtype(first.flat_values.dtype)
        inner = first.flat_values.shape[1:]
        return tf1.ragged.placeholder(dtype, first.ragged_rank, inner)
    shapes = np.array([np.shape(value) for value in values])
    sizes = [axis[0] if len(set(axis)) == 1 else None for axis in shapes.T.tolist()]
    return tf1.placeholder(tf.as_dtype(np.asarray(first).dtype), [None, *sizes[1:]])


def as_tensor(value: Any) -> Any:
    """Returns the tensor of an array."""
    if isinstance(value, tf1.SparseTensorValue):
        return tf.SparseTensor(*value)
    if isinstance(value, tf1.ragged.RaggedTensorValue):
        return tf.ragged.constant(value.to_list(), dtype=value.values.dtype)
    return tf.constant(value)


def read_batches(use: EstimatorUse, number: int) -> list[Batch]:
    """Returns the first batches of the program's own input.

    Args:
        use: the use of the estimator; an export has no input.
        number: how many, if there are as many.

    Raises:
        ValueError: the features are no dict, or the program's input_fn fails.
    """
    if use.make_batches is not None:
        return list(use.make_batches(number))
    if use.input_fn is None:
        return []
    found: list[Batch] = []
    with tf.Graph().as_default():
        tf1.train.get_or_create_global_step()
        features, labels, hooks = _call(use)
        if not isinstance(features, Mapping):
            raise ValueError(f"The features of input_fn must be a dict, got {type(features)}.")
        features = {k: _converted(each) for k, each in features.items() if each is not None}
        wanted = {"features": features}
        if labels is not None:
            wanted["y"] = _converted(labels)
        with tf1.train.MonitoredSession(hooks=hooks) as session:
            while len(found) < number and not session.should_stop():
                try:
                    values = session.run(wanted)
                except tf.errors.OutOfRangeError:
                    break
                name = f"batch {len(found) + 1}"
                found.append(Batch(name, values["features"], values.get("y")))
    return found


def _converted(value: Any) -> Any:
    """Returns the tensor of arrays or lists, which columns and heads convert, too."""
    if isinstance(value, Mapping):
        return {key: _converted(each) for key, each in value.items()}
    if isinstance(value, tf.RaggedTensor):
        return value
    return tf1.convert_to_tensor_or_sparse_tensor(value)


def _call(use: EstimatorUse) -> tuple[Any, Any, list[Any]]:
    """Returns the features, labels and hooks of the program's own input."""
    assert use.input_fn is not None
    try:
        return setup_of(use.estimator).read_batch(use.input_fn, use.mode)
    except Exception as error:  # of the program's code, of any class
        frame = traceback.extract_tb(error.__traceback__)[-1]
        raise ValueError(
            f"input_fn {describe(use.input_fn)} of the program failed with "
            f"{type(error).__name__}: {error} ({frame.filename}, line {frame.lineno}). Give the "
            "program the arguments with which it trains; it fails without to-keras, too."
        ) from error


def known_values(use: EstimatorUse) -> dict[str, list[Any]]:
    """Returns values that columns know, by key of their feature.

    The words of vocabularies, ids beyond those of a column that has a default for them, boundaries.
    """
    columns = list(use.columns)
    for part in use.model.parts if use.model is not None else ():
        columns += part.columns
    found: dict[str, list[Any]] = {}
    for column in itertools.chain.from_iterable(map(innermost, columns)):
        if hasattr(column, "vocabulary_list"):
            found.setdefault(column.key, []).extend(column.vocabulary_list)
        elif hasattr(column, "boundaries"):
            found.setdefault(column.source_column.key, []).extend(column.boundaries)
        elif hasattr(column, "number_buckets") and column.default_value is not None:
            size = column.number_buckets
            found.setdefault(column.key, []).extend([size - 1, size, size + 7])
    return found


def nested(column: Any) -> Iterator[Any]:
    """Yields the columns that a column is made of, itself first."""
    yield column
    inner = getattr(column, "categorical_column", None)
    for part in getattr(column, "keys", ()) if inner is None else (inner,):
        if not isinstance(part, str):
            yield from nested(part)


def innermost(column: Any) -> Iterator[Any]:
    """Yields the columns that a column reads by."""
    for each in nested(column):
        if not hasattr(each, "categorical_column") and not hasattr(each, "keys"):
            yield each


def edge_batch(batch: Batch, known: Mapping[str, list[Any]]) -> Batch:
    """Returns a batch of the same form with values that columns treat apart.

    Missing and unknown words, -1, words of the vocabularies, numbers of all sizes.

    Args:
        batch: a batch of the program's.
        known: what `known_values` returns.
    """
    features = {
        key: _with_edges(value, known.get(key, [])) for key, value in batch.features.items()
    }
    return Batch("edge values", features, batch.labels, is_made=True)


def _with_edges(value: Any, words: list[Any]) -> Any:
    if isinstance(value, tf1.SparseTensorValue):
        return value._replace(values=_edges(value.values, words))
    if isinstance(value, tf1.ragged.RaggedTensorValue):
        return value
    return _edges(np.asarray(value), words)


def _edges(array: np.ndarray, words: list[Any]) -> np.ndarray:
    if array.dtype.kind in "OSU":
        texts = [word.encode() if isinstance(word, str) else word for word in words[:20]]
        edges: Any = np.array([*_TEXTS, *texts], object)
    elif array.dtype.kind in "iu":
        # Ids that the program hasn't may be beyond its tables.
        present = sorted(set(array.reshape(-1)[:50].tolist()))
        edges = np.array([*_INTEGERS, *present])
        edges = np.array([*edges[edges <= array.max(initial=1)], *words[:20]])
    elif array.dtype.kind == "f":
        # Beyond the program's numbers normalizers may give NaN, which layers don't treat alike.
        finite = array[np.isfinite(array)]
        if not finite.size:
            return array
        edges = np.clip([*_NUMBERS, *words[:20]], finite.min(), finite.max())
    else:
        return array
    # Without a common divisor each of the values is there, if the array has room.
    step = next(number for number in (7, 5, 3, 1) if math.gcd(number, len(edges)) == 1)
    places = np.arange(array.size) * step % len(edges)
    return edges[places].reshape(array.shape).astype(array.dtype)
