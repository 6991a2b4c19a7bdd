# SPDX-License-Identifier: Apache-2.0
"""Bugs of TensorFlow's own TPU columns that ours don't have.

Each check runs twice: it must hold for our columns, and it must fail for TensorFlow's. If the
second half breaks one day, TensorFlow has mended its columns.
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


def check(function):
    """Registers a check of one bug."""
    CHECKS.append(function)
    return function


def identity(key="a", buckets=10):
    """An identity column."""
    return fc.categorical_column_with_identity(key, buckets)


def sequence(key="s", buckets=10):
    """A sequence column."""
    return fc.sequence_categorical_column_with_identity(key, buckets)


def device_of(column):
    """The requested device's name, wherever the column keeps it."""
    device = getattr(column, "embedding_lookup_device", None) or getattr(
        column, "_embedding_lookup_device", None
    )
    return device and device.name


def values(build):
    """Builds in a fresh graph, initializes and runs."""
    with tf.Graph().as_default() as graph:
        tensors = build()
        with tf1.Session(graph=graph) as session:
            session.run(tf1.global_variables_initializer())
            return session.run(tensors)


@check
def a_column_keeps_its_device_and_shape(api):
    """The last column built doesn't change those before it: device and shape aren't shared."""

    def make(device, width):
        return api.embedding_column(
            identity(), 4, embedding_lookup_device=device, tensor_core_shape=[None, width]
        )

    first = make("tpu_tensor_core", 3)
    _ = make("cpu", 5)
    copied = copy.copy(first)
    assert device_of(copied) == device_of(first) == "TPU_TENSOR_CORE"
    assert "cpu" not in str(type(first).__dict__.get("_embedding_lookup_device", "")).lower()


@check
def replace_keeps_the_device(api):
    """A copy with another dimension keeps the device of its original, not of the last column."""

    def make(device):
        return api.embedding_column(
            identity(), 4, embedding_lookup_device=device, tensor_core_shape=[None, 3]
        )

    first = make("tpu_tensor_core")
    _ = make("tpu_embedding_core")
    assert device_of(first._replace(dimension=8)) == "TPU_TENSOR_CORE"


@check
def equality_sees_sequence_length(api):
    """Columns that differ in max_sequence_length are unequal."""
    init = tf1.zeros_initializer()
    make = api.embedding_column
    assert make(sequence(), 4, initializer=init, max_sequence_length=2) != make(
        sequence(), 4, initializer=init, max_sequence_length=3
    )


@check
def equality_sees_the_device(api):
    """Columns that differ in their device are unequal."""
    init = tf1.zeros_initializer()
    make = api.embedding_column
    assert make(identity(), 4, initializer=init, embedding_lookup_device="cpu") != make(
        identity(), 4, initializer=init, embedding_lookup_device="tpu_embedding_core"
    )


@check
def hashed_columns_are_refused(api):
    """A hashed column is refused when the embedding column is made."""
    with pytest.raises(TypeError):
        api.embedding_column(fc.categorical_column_with_hash_bucket("h", 10), 4)


@check
def crossed_columns_are_refused(api):
    """A crossed column is refused."""
    with pytest.raises(TypeError):
        api.embedding_column(fc.crossed_column(["x", "y"], 10), 4)


@check
def bucketized_columns_are_refused(api):
    """A bucketized column is refused."""
    with pytest.raises(TypeError):
        api.embedding_column(fc.bucketized_column(fc.numeric_column("n"), [0.0]), 4)


@check
def deepcopy_keeps_unsafe_lookup(api):
    """deepcopy of a shared column keeps use_safe_embedding_lookup=False."""
    (column,) = api.shared_embedding_columns([identity()], 4, use_safe_embedding_lookup=False)
    assert copy.deepcopy(column).use_safe_embedding_lookup is False


@check
def sharing_survives_separate_copies(api):
    """Shared columns copied one by one still look up in one variable."""
    pair = api.shared_embedding_columns([identity("p"), identity("q")], 4)
    copies = [copy.deepcopy(column) for column in pair]
    with tf.Graph().as_default():
        features = {"p": tf.constant([[1]]), "q": tf.constant([[1]])}
        feature_layers.DenseFeatures(copies)(features)
        assert len(tf1.global_variables()) == 1


@check
def cpu_sequences_are_cut(api):
    """A CPU lookup of a sequence obeys max_sequence_length."""
    column = api.embedding_column(sequence(), 4, max_sequence_length=2)

    def build():
        ids = tf.sparse.from_dense([[1, 2, 3, 4, 5]])
        return feature_layers.SequenceFeatures([column])({"s": ids})

    steps, lengths = values(build)
    assert steps.shape == (1, 2, 4)
    assert lengths.tolist() == [2]


@check
def weighted_sequences_are_sequences(api):
    """A weighted sequence column is taken as the sequence it is."""
    weighted = fc.weighted_categorical_column(sequence(), "w")
    column = api.embedding_column(weighted, 4, max_sequence_length=2)
    assert column.is_sequence_column()


def tensor_core_value(api, categorical, combiner, features):
    """A tensor-core lookup over ones, as in a graph that trains on a TPU."""
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
            from tensorflow.python.tpu import tpu_function  # how TensorFlow's columns are told

            placed = tpu_function.tpu_shard_context(1)
        with placed:
            return feature_layers.DenseFeatures([column])(features())

    return values(build)


@check
def the_tensor_core_honours_weights(api):
    """A weighted column on the tensor core multiplies by its weights."""
    weighted = fc.weighted_categorical_column(identity(), "w")

    def features():
        return {
            "a": tf.sparse.from_dense([[1, 2]]),
            "w": tf.sparse.from_dense([[2.0, 3.0]]),
        }

    found = tensor_core_value(api, weighted, "sum", features)
    np.testing.assert_allclose(found, [[5.0, 5.0]])


@check
def the_tensor_core_finds_a_bad_combiner_early(api):
    """A combiner that the tensor core can't do is found when the column is made."""
    with pytest.raises(ValueError, match="combiner"):
        api.embedding_column(
            identity(),
            4,
            combiner="max",
            embedding_lookup_device="tpu_tensor_core",
            tensor_core_shape=[None, 2],
        )


@check
def a_cpu_column_predicts_on_a_cpu(api):
    """Lookup device cpu, on a CPU, outside of training, looks up."""
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


@check
def columns_round_trip_through_their_config(api):
    """from_config(get_config()) is the column, device and sequence length included."""
    column = api.embedding_column(sequence(), 4, max_sequence_length=3)
    again = type(column).from_config(column.get_config())
    assert again.get_max_sequence_length() == 3
    assert again == column


@check
def input_layer_takes_shared_columns(api):
    """TF1's input_layer looks up shared columns."""
    pair = api.shared_embedding_columns([identity("p"), identity("q")], 4)

    def build():
        features = {"p": tf.constant([[1]]), "q": tf.constant([[1]])}
        return tf1.feature_column.input_layer(features, pair)

    assert values(build).shape == (1, 8)


@pytest.mark.parametrize("holds", CHECKS, ids=lambda function: function.__name__)
def test_ours_hold(holds):
    """Our columns don't have the bug."""
    holds(tpu_columns)


@pytest.mark.parametrize("holds", CHECKS, ids=lambda function: function.__name__)
def test_tensorflows_fail(holds):
    """TensorFlow's columns have it, so that the check above can fail."""
    with pytest.raises((Exception, pytest.fail.Exception)):
        holds(OLD)
