# SPDX-License-Identifier: Apache-2.0
"""Reads batches of a program's input, and makes batches of the values that columns treat apart."""

from __future__ import annotations

import traceback
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from estimator_spec.driver import input_pipeline
from estimator_spec.to_keras.first_use import Use
from estimator_spec.user_functions.batches import describe

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
    """

    name: str
    features: dict[str, Any]
    labels: Any

    def tensors(self) -> dict[str, Any]:
        """Returns the features as tensors."""
        return {key: as_tensor(value) for key, value in self.features.items()}


def as_tensor(value: Any) -> Any:
    """Returns the tensor of an array."""
    if isinstance(value, tf1.SparseTensorValue):
        return tf.SparseTensor(*value)
    if isinstance(value, tf1.ragged.RaggedTensorValue):
        return tf.ragged.constant(value.to_list(), dtype=value.values.dtype)
    return tf.constant(value)


def read_batches(use: Use, number: int) -> list[Batch]:
    """Returns the first batches of the program's own input.

    Args:
        use: the use of the estimator; an export has no input.
        number: how many, if there are as many.

    Raises:
        ValueError: the features are no dict, or the program's input_fn fails.
    """
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


def _call(use: Use) -> tuple[Any, Any, list[Any]]:
    """Returns the features, labels and hooks of the program's own input."""
    assert use.input_fn is not None
    try:
        return input_pipeline.read(use.estimator, use.input_fn, use.mode)
    except Exception as error:  # of the program's code, of any class
        frame = traceback.extract_tb(error.__traceback__)[-1]
        raise ValueError(
            f"input_fn {describe(use.input_fn)} of the program failed with "
            f"{type(error).__name__}: {error} ({frame.filename}, line {frame.lineno}). Give the "
            "program the arguments with which it trains; it fails without to-keras, too."
        ) from error


def edge_batch(batch: Batch, vocabularies: Mapping[str, list[Any]]) -> Batch:
    """Returns a batch of the same form with values that columns treat apart.

    Missing and unknown words, -1, words of the vocabularies, numbers of all sizes.

    Args:
        batch: a batch of the program's.
        vocabularies: words of the columns, by key of the feature.
    """
    features = {
        key: _with_edges(value, vocabularies.get(key, [])) for key, value in batch.features.items()
    }
    return Batch("edge values", features, batch.labels)


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
        edges = np.array([*_INTEGERS, *present, *words[:20]])
        edges = edges[edges <= array.max(initial=1)]
    elif array.dtype.kind == "f":
        # Beyond the program's numbers normalizers may give NaN, which layers don't treat alike.
        finite = array[np.isfinite(array)]
        if not finite.size:
            return array
        edges = np.clip(_NUMBERS, finite.min(), finite.max())
    else:
        return array
    places = np.arange(array.size) * 7 % len(edges)
    return edges[places].reshape(array.shape).astype(array.dtype)
