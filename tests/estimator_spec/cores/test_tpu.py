# SPDX-License-Identifier: Apache-2.0
"""The TPU core's part of the work, without a TPU: what it sends, and what it makes of answers."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

import estimator_spec as es
from estimator_spec.cores import tpu
from estimator_spec.cores.interface import EmbeddingCore


def spec(**kwargs):
    """A weighted feature and a sequence over one table, a dense feature over another."""
    return es.EmbeddingConfigSpec(
        feature_to_config_dict={
            "words": es.FeatureConfig("shared", weight_key="weights"),
            "steps": es.FeatureConfig("shared", max_sequence_length=2),
            "user": es.FeatureConfig("users"),
        },
        table_to_config_dict={
            "shared": es.TableConfig(10, 3, combiner="sum"),
            "users": es.TableConfig(5, 2),
        },
        optimization_parameters=es.AdagradParameters(0.1),
        **kwargs,
    )


def features():
    """A batch of two."""
    words = tf.SparseTensor([[0, 0], [1, 0], [1, 1]], tf.constant([3, 4, 5], tf.int64), [2, 2])
    steps = tf.SparseTensor(
        [[0, 0], [0, 1], [0, 2], [1, 0]], tf.constant([1, 2, 3, 4], tf.int64), [2, 3]
    )
    weights = words.with_values(tf.constant([1, 2, 3]))
    return {"words": words, "weights": weights, "steps": steps, "user": tf.constant([0, 2])}


class FakeEmbedding:
    """Stands for the mid-level object: remembers what it gets, answers with constants."""

    def enqueue(self, ids, weights=None):
        self.ids, self.weights = ids, weights

    def dequeue(self):
        ones = {"words": [2, 3], "steps": [2, 2, 3], "user": [2, 2]}
        self.activations = {key: tf.ones(shape) for key, shape in ones.items()}
        return self.activations

    def apply_gradients(self, gradients):
        self.gradients = gradients
        return tf.no_op()


def test_the_input_is_prepared():
    """Integer ids, float weights, lengths of at most L steps, id 0 of dense ids dropped."""
    found = tpu.TpuCore(spec(), FakeEmbedding()).prepare(features())
    assert found["words"].dtype == found["user"].dtype == tf.int32
    assert found["weights"].dtype == tf.float32
    assert found["steps_seq_length_"].numpy().tolist() == [2, 1]
    assert found["user"].indices.numpy().tolist() == [[1, 0]]


def test_ids_go_out_and_activations_come_in():
    """Ids and weights leave the features; activations and lengths are there in their place."""
    embedding = FakeEmbedding()
    core: EmbeddingCore = tpu.TpuCore(spec(), embedding)
    found = core.look_up(core.prepare({**features(), "other": 1}), tf.constant(0))
    assert sorted(found) == ["other", "steps", "steps_seq_length_", "user", "words"]
    assert found["steps"].shape == [2, 2, 3]
    assert sorted(embedding.ids) == ["steps", "user", "words"]
    assert embedding.weights["words"].values.numpy().tolist() == [1.0, 2.0, 3.0]
    assert embedding.weights["user"] is None


def test_gradients_are_multiplied_and_complete():
    """Each feature has a gradient, zeros if unused; the multiplier is applied."""
    embedding = FakeEmbedding()
    given = spec(experimental_gradient_multiplier_fn=lambda step: 0.5 * tf.cast(step, tf.float32))
    core = tpu.TpuCore(given, embedding)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        found = core.look_up(core.prepare(features()), tf.constant(4))
        loss = tf.reduce_sum(found["words"] * 3) + tf.reduce_sum(found["steps"])
        core.attach()
        core.update(loss)
        gradients = session.run(embedding.gradients)
    np.testing.assert_array_equal(gradients["words"], np.full([2, 3], 6.0))
    np.testing.assert_array_equal(gradients["steps"], np.full([2, 2, 3], 2.0))
    np.testing.assert_array_equal(gradients["user"], np.zeros([2, 2]))
    assert core.variable_names() == {"shared": "shared", "users": "users"}


def test_without_a_tpu():
    """The real object is made of the spec anywhere; looking up needs a TPUStrategy, and says so."""
    core = tpu.TpuCore(spec())
    assert {table.name for table in core.embedding.embedding_tables} == {"shared", "users"}
    prepared = core.prepare(features())

    @tf.function
    def step():
        return core.look_up(prepared, tf.constant(0))["user"]

    with pytest.raises(RuntimeError, match="TPUStrategy"):
        step()
