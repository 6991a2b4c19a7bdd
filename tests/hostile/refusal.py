# SPDX-License-Identifier: Apache-2.0
"""Defines a refusal, a row of the tables of bad input, and small valid arguments for them."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

import estimator_spec as es
import tpu_columns

tf1 = tf.compat.v1
NAN, INF = float("nan"), float("inf")


class Refusal(NamedTuple):
    """One bad input, and the error that it must raise.

    Attributes:
        name: what is bad; unique.
        call: passes the bad input.
        error: class of the error.
        words: what the message must contain.
    """

    name: str
    call: Callable[[], Any]
    error: type[Exception]
    words: tuple[str, ...]


def refused(name: str, call: Callable[[], Any], error: type[Exception], *words: str) -> Refusal:
    """Returns a refusal; `words` may be one text whose parts stand between ' … '."""
    return Refusal(name, call, error, tuple(" … ".join(words).split(" … ")))


def case(name: str, call: Callable[[], Any], words: str, error: Any = ValueError) -> Refusal:
    """Returns a refusal by a ValueError, or another error."""
    return refused(name, call, error, words)


def each(
    name: str, values: Any, call: Callable[[Any], Any], words: str, error: Any = ValueError
) -> list[Refusal]:
    """Returns a refusal for each of several values of one argument."""
    return [
        case(f"{name} {_short_repr(value)}", lambda v=value: call(v), words, error)
        for value in values
    ]


def _short_repr(value: Any) -> str:
    """Returns the representation of a value without addresses, which each process has others of."""
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))[:60]


def identity(key: str = "words", buckets: int = 10) -> Any:
    """Returns a categorical column."""
    return tf.feature_column.categorical_column_with_identity(key, buckets)


def sequence(key: str = "steps", length: Any = 3) -> Any:
    """Returns a sequence column of dimension 4."""
    categorical = tf.feature_column.sequence_categorical_column_with_identity(key, 10)
    return tpu_columns.embedding_column(categorical, 4, max_sequence_length=length)


def column(key: str = "words", dimension: Any = 4, **arguments: Any) -> Any:
    """Returns a column of 10 rows."""
    return tpu_columns.embedding_column(identity(key), dimension, **arguments)


def weighted(dtype: Any = tf.float32, **arguments: Any) -> Any:
    """Returns a column of the feature 'words' with the weights 'weights'."""
    categorical = tf.feature_column.weighted_categorical_column(identity(), "weights", dtype)
    return tpu_columns.embedding_column(categorical, 4, **arguments)


def shared(name: Any = "table", keys: str = "xy", **arguments: Any) -> list[Any]:
    """Returns columns of several features that share a table."""
    arguments = {"dimension": 4, "shared_embedding_collection_name": name, **arguments}
    return tpu_columns.shared_embedding_columns([identity(key) for key in keys], **arguments)


def spec(columns: Any = None, **arguments: Any) -> es.EmbeddingConfigSpec:
    """Returns a specification of columns."""
    sgd = es.StochasticGradientDescentParameters(0.1)
    return es.EmbeddingConfigSpec(
        **{
            "feature_columns": [column()] if columns is None else columns,
            "optimization_parameters": sgd,
            **arguments,
        }
    )


def dictionaries(features: Any = None, tables: Any = None, **arguments: Any) -> Any:
    """Returns a specification of dictionaries."""
    return es.EmbeddingConfigSpec(
        feature_to_config_dict=features or {"words": es.FeatureConfig("table")},
        table_to_config_dict=tables or {"table": es.TableConfig(10, 4)},
        optimization_parameters=es.StochasticGradientDescentParameters(0.1),
        **arguments,
    )


def model_fn(features: Any, labels: Any, mode: str, params: Any) -> Any:
    """Returns a model without variables."""
    del features, labels, params
    step = tf1.assign_add(tf1.train.get_global_step(), 1)
    return es.TPUEstimatorSpec(
        mode, loss=tf.constant(1.0), train_op=step, predictions={"ones": tf.ones([2])}
    )


def input_fn(params: Any) -> Any:
    """Returns two examples."""
    del params
    return {"words": tf.constant([[1], [2]])}, tf.constant([1.0, 2.0])


def estimator(**arguments: Any) -> es.TPUEstimator:
    """Returns an estimator for the CPU; `tempfile` decides where its model_dir is."""
    arguments = {"config": es.RunConfig(), "train_batch_size": 2, "use_tpu": False, **arguments}
    directory = arguments.pop("model_dir", None) or tempfile.mkdtemp()
    return es.TPUEstimator(arguments.pop("model_fn", model_fn), directory, **arguments)


def in_graph(call: Callable[[], Any]) -> Callable[[], Any]:
    """Returns a function that makes the call in a graph of its own."""

    def run() -> Any:
        with tf.Graph().as_default():
            return call()

    return run
