# SPDX-License-Identifier: Apache-2.0
"""Bugs of TensorFlow's own TPU columns that ours don't have.

Each check must pass for our columns, and fail for TensorFlow's with the error of the bug. If it no
longer fails for TensorFlow's, TensorFlow has fixed the bug.
"""

from __future__ import annotations

import copy

import numpy as np
import pytest
import tensorflow as tf

import tpu_columns
from tpu_columns import feature_layers

fc = tf.feature_column
tf1 = tf.compat.v1
OLD = tf1.tpu.experimental

CHECKS = []


def check(error, match):
    """Registers a check of one bug, with the error that TensorFlow's columns raise in it."""

    def register(function):
        CHECKS.append(pytest.param(function, error, match, id=function.__name__))
        return function

    return register


def identity(key="a", buckets=10):
    """Returns an identity column."""
    return fc.categorical_column_with_identity(key, buckets)


def sequence(key="s", buckets=10):
    """Returns a sequence column."""
    return fc.sequence_categorical_column_with_identity(key, buckets)


def device_of(column):
    """Returns the name of a column's requested device."""
    device = getattr(column, "embedding_lookup_device", None) or getattr(
        column, "_embedding_lookup_device", None
    )
    return device and device.name


def values(build):
    """Builds and runs a new graph; returns the values."""
    with tf.Graph().as_default() as graph:
        tensors = build()
        with tf1.Session(graph=graph) as session:
            session.run(tf1.global_variables_initializer())
            return session.run(tensors)


@check(AssertionError, "'cpu' not in")
def a_column_keeps_its_device_and_shape(api):
    """A new column doesn't change the device and shape of earlier ones."""

    def make(device, width):
        return api.embedding_column(
            identity(), 4, embedding_lookup_device=device, tensor_core_shape=[None, width]
        )

    first = make("tpu_tensor_core", 3)
    _ = make("cpu", 5)
    copied = copy.copy(first)
    assert device_of(copied) == device_of(first) == "TPU_TENSOR_CORE"
    assert "cpu" not in str(type(first).__dict__.get("_embedding_lookup_device", "")).lower()


@check(AssertionError, "'TPU_EMBEDDING_CORE' == 'TPU_TENSOR_CORE'")
def replace_keeps_the_device(api):
    """A copy with another dimension keeps the device of its original."""

    def make(device):
        return api.embedding_column(
            identity(), 4, embedding_lookup_device=device, tensor_core_shape=[None, 3]
        )

    first = make("tpu_tensor_core")
    _ = make("tpu_embedding_core")
    assert device_of(first._replace(dimension=8)) == "TPU_TENSOR_CORE"


@check(AssertionError, "TPUEmbeddingColumnV2.* != ")
def equality_sees_sequence_length(api):
    """Columns that differ in max_sequence_length are unequal."""
    init = tf1.zeros_initializer()
    make = api.embedding_column
    assert make(sequence(), 4, initializer=init, max_sequence_length=2) != make(
        sequence(), 4, initializer=init, max_sequence_length=3
    )


@check(AssertionError, "EmbeddingColumnV2.* != ")
def equality_sees_the_device(api):
    """Columns that differ in their device are unequal."""
    init = tf1.zeros_initializer()
    make = api.embedding_column
    assert make(identity(), 4, initializer=init, embedding_lookup_device="cpu") != make(
        identity(), 4, initializer=init, embedding_lookup_device="tpu_embedding_core"
    )


@check(pytest.fail.Exception, "DID NOT RAISE")
def hashed_columns_are_refused(api):
    """A hashed column is an error when the embedding column is created."""
    with pytest.raises(TypeError):
        api.embedding_column(fc.categorical_column_with_hash_bucket("h", 10), 4)


@check(pytest.fail.Exception, "DID NOT RAISE")
def crossed_columns_are_refused(api):
    """A crossed column is an error."""
    with pytest.raises(TypeError):
        api.embedding_column(fc.crossed_column(["x", "y"], 10), 4)


@check(pytest.fail.Exception, "DID NOT RAISE")
def bucketized_columns_are_refused(api):
    """A bucketized column is an error."""
    with pytest.raises(TypeError):
        api.embedding_column(fc.bucketized_column(fc.numeric_column("n"), [0.0]), 4)


@check(AssertionError, "True is False")
def deepcopy_keeps_unsafe_lookup(api):
    """deepcopy of a shared column keeps use_safe_embedding_lookup=False."""
    (column,) = api.shared_embedding_columns([identity()], 4, use_safe_embedding_lookup=False)
    assert copy.deepcopy(column).use_safe_embedding_lookup is False


@check(ValueError, "Variable p_q_shared_embedding already exists")
def sharing_survives_separate_copies(api):
    """Shared columns that are copied separately still share one variable."""
    pair = api.shared_embedding_columns([identity("p"), identity("q")], 4)
    copies = [copy.deepcopy(column) for column in pair]
    with tf.Graph().as_default():
        features = {"p": tf.constant([[1]]), "q": tf.constant([[1]])}
        feature_layers.DenseFeatures(copies)(features)
        assert len(tf1.global_variables()) == 1


@check(AssertionError, r"\(1, 5, 4\) == \(1, 2, 4\)")
def cpu_sequences_are_cut(api):
    """A CPU lookup truncates sequences to max_sequence_length."""
    column = api.embedding_column(sequence(), 4, max_sequence_length=2)

    def build():
        ids = tf.sparse.from_dense([[1, 2, 3, 4, 5]])
        return feature_layers.SequenceFeatures([column])({"s": ids})

    steps, lengths = values(build)
    assert steps.shape == (1, 2, 4)
    assert lengths.tolist() == [2]


@check(ValueError, "specified for non sequence column")
def weighted_sequences_are_sequences(api):
    """A weighted sequence column is a sequence column."""
    weighted = fc.weighted_categorical_column(sequence(), "w")
    column = api.embedding_column(weighted, 4, max_sequence_length=2)
    assert column.is_sequence_column()


def tensor_core_value(api, categorical, combiner, features):
    """Returns a tensor-core lookup in a table of ones, in a training graph for a TPU."""
    column = api.embedding_column(
        categorical,
        2,
        combiner,
        tf1.ones_initializer(),
        embedding_lookup_device="tpu_tensor_core",
        tensor_core_shape=[None, 2],
    )

    def build():
        if api is tpu_columns:
            placed = tpu_columns.placement.running(tpu_columns.Mode.TRAIN, tpu_columns.Hardware.TPU)
        else:
            from tensorflow.python.tpu import tpu_function  # read by TensorFlow's columns

            placed = tpu_function.tpu_shard_context(1)
        with placed:
            return feature_layers.DenseFeatures([column])(features())

    return values(build)


@check(ValueError, "Feature a_weighted_by_w is not in features")
def the_tensor_core_honours_weights(api):
    """A weighted column on the tensor core multiplies by its weights."""
    weighted = fc.weighted_categorical_column(identity(), "w")

    def features():
        return {"a": tf.sparse.from_dense([[1, 2]]), "w": tf.sparse.from_dense([[2.0, 3.0]])}

    found = tensor_core_value(api, weighted, "sum", features)
    np.testing.assert_allclose(found, [[5.0, 5.0]])


@check(pytest.fail.Exception, "DID NOT RAISE")
def the_tensor_core_finds_a_bad_combiner_early(api):
    """A combiner that the tensor core doesn't support is an error when the column is created."""
    with pytest.raises(ValueError, match="combiner"):
        api.embedding_column(
            identity(),
            4,
            combiner="max",
            embedding_lookup_device="tpu_tensor_core",
            tensor_core_shape=[None, 2],
        )


@check(ValueError, "during training is not supported")
def a_cpu_column_predicts_on_a_cpu(api):
    """A column with the device cpu looks up on a CPU outside of training."""
    column = api.embedding_column(
        identity(), 2, initializer=tf1.ones_initializer(), embedding_lookup_device="cpu"
    )

    def build():
        if api is not tpu_columns:
            return feature_layers.DenseFeatures([column])({"a": tf.constant([[1]])})
        mode, hardware = tpu_columns.Mode.PREDICT, tpu_columns.Hardware.CPU
        with tpu_columns.placement.running(mode, hardware):
            return feature_layers.DenseFeatures([column])({"a": tf.constant([[1]])})

    np.testing.assert_allclose(values(build), [[1.0, 1.0]])


@check(TypeError, "unexpected keyword argument")
def columns_round_trip_through_their_config(api):
    """from_config(get_config()) returns an equal column, also in its sequence length."""
    column = api.embedding_column(sequence(), 4, max_sequence_length=3)
    again = type(column).from_config(column.get_config())
    assert again.get_max_sequence_length() == 3
    assert again == column


@check(ValueError, "SharedEmbeddingColumns are not supported")
def input_layer_takes_shared_columns(api):
    """TF1's input_layer looks up shared columns."""
    pair = api.shared_embedding_columns([identity("p"), identity("q")], 4)

    def build():
        features = {"p": tf.constant([[1]]), "q": tf.constant([[1]])}
        return tf1.feature_column.input_layer(features, pair)

    assert values(build).shape == (1, 8)


@pytest.mark.parametrize(("holds", "error", "match"), CHECKS)
def test_ours_hold(holds, error, match):
    """Our columns don't have the bug."""
    holds(tpu_columns)


@pytest.mark.parametrize(("holds", "error", "match"), CHECKS)
def test_tensorflows_fail(holds, error, match):
    """TensorFlow's columns raise the error of the bug, so the check for ours can fail."""
    with pytest.raises(error, match=match):
        holds(OLD)
