# SPDX-License-Identifier: Apache-2.0
"""The TPU core without a TPU: inputs and outputs of its engine."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

import estimator_spec as es
from estimator_spec.core.cores import tpu

tf1 = tf.compat.v1


def spec(**kwargs):
    """Returns a spec: a weighted feature and a sequence of one table, a dense one of another."""
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
    """Returns features of two rows."""
    words = tf.SparseTensor([[0, 0], [1, 0], [1, 1]], tf.constant([3, 4, 5], tf.int64), [2, 2])
    steps = tf.SparseTensor(
        [[0, 0], [0, 1], [0, 2], [1, 0]], tf.constant([1, 2, 3, 4], tf.int64), [2, 3]
    )
    weights = words.with_values(tf.constant([1, 2, 3]))
    return {"words": words, "weights": weights, "steps": steps, "user": tf.constant([0, 2])}


class Recording:
    """Fake engine that records its inputs and returns constants."""

    configuration = None

    def enqueue(self, ids, weights, training):
        self.ids, self.weights, self.training = ids, weights, training
        return [tf.no_op()]

    def dequeue(self):
        ones = {"words": [2, 3], "steps": [2, 2, 3], "user": [2, 2]}
        return {key: tf.ones(shape) for key, shape in ones.items()}

    def apply_gradients(self, gradients, step):
        self.gradients = gradients
        return [tf.no_op()]

    def slot_names(self, table):
        return {"accumulator": "accumulators"}

    def load(self, shards):
        self.shards = shards
        return tf.no_op()

    def retrieve(self, shards):
        return tf.no_op()


@pytest.fixture
def engine():
    """Creates a core in a graph whose global step is 4."""
    with tf.Graph().as_default():
        tf1.train.get_or_create_global_step()
        yield Recording()


def test_the_input_is_prepared():
    """`prepare` returns int32 ids, float32 weights and lengths up to L; dense zeros are dropped."""
    found = tpu.TpuCore(spec(), Recording(), training=True).prepare(features())
    assert found["words"].dtype == found["user"].dtype == tf.int32
    assert found["weights"].dtype == tf.float32
    assert found["steps_seq_length_"].numpy().tolist() == [2, 1]
    assert found["user"].indices.numpy().tolist() == [[1, 0]]


def test_weights_of_dense_ids_are_not_sent(engine):
    """Dense ids are sent without their weights, which have no effect."""
    core = tpu.TpuCore(spec(), engine, training=False)
    dense = {"words": tf.constant([[3, 0], [4, 5]]), "weights": tf.ones([2, 2])}
    (part,) = core.feed([{**features(), **dense}])
    assert "weights" not in part
    assert engine.weights is None


def test_ids_go_out_and_activations_come_in(engine):
    """Activations and lengths replace ids and weights in the features."""
    core = tpu.TpuCore(spec(), engine, training=False)
    (part,) = core.feed([{**features(), "other": tf.constant(1)}])
    assert sorted(part) == ["other", "steps_seq_length_"]
    found = core.receive(part)
    assert sorted(found) == ["other", "steps", "steps_seq_length_", "user", "words"]
    assert found["steps"].shape == [2, 2, 3]
    assert sorted(engine.ids) == ["steps", "user", "words"]
    assert engine.weights["words"].dtype == tf.float32
    assert engine.weights["user"] is None
    assert not engine.training


def test_gradients_are_multiplied_and_complete(engine):
    """Each feature has a gradient, zeros if unused, times the multiplier."""
    given = spec(experimental_gradient_multiplier_fn=lambda step: 2.0 + tf.cast(step, tf.float32))
    core = tpu.TpuCore(given, engine, training=True)
    (part,) = core.feed([features()])
    found = core.receive(part)
    loss = tf.reduce_sum(found["words"] * 3) + tf.reduce_sum(found["steps"])
    tf1.gradients(loss, tf1.trainable_variables())
    assert core.send()
    with tf1.Session() as session:
        session.run([tf1.global_variables_initializer(), tf1.local_variables_initializer()])
        gradients = session.run(engine.gradients)
    np.testing.assert_array_equal(gradients["words"], np.full([2, 3], 6.0))
    np.testing.assert_array_equal(gradients["steps"], np.full([2, 2, 3], 2.0))
    np.testing.assert_array_equal(gradients["user"], np.zeros([2, 2]))


@pytest.mark.parametrize("hosts", [1, 2])
def test_variables(engine, hosts):
    """Tables and slots have legacy names; several hosts hold shards of one variable."""
    devices = [f"/job:worker/task:{host}/device:CPU:0" for host in range(hosts)]
    core = tpu.TpuCore(spec(), engine, training=True, host_devices=devices)
    assert core.finish() == []
    wanted = {name + slot for name in ("shared", "users") for slot in ("", "/Adagrad")}
    found = {v.op.name: v for v in tf1.global_variables() if v.op.name != "global_step"}
    if hosts == 1:
        assert set(found) == wanted
    else:
        assert set(found) == {f"{name}/part_{part}" for name in wanted for part in (0, 1)}
        assert [v.shape for v in engine.shards["users"]["parameters"]] == [[3, 2], [2, 2]]
        assert [v.device for v in engine.shards["users"]["accumulators"]] == devices
    assert not tf1.trainable_variables()


def test_slots_of_an_evaluation_are_in_no_checkpoint(engine):
    """In evaluation slots are local variables, which a checkpoint may lack."""
    tpu.TpuCore(spec(), engine, training=False).finish()
    assert {v.op.name for v in tf1.global_variables()} == {"global_step", "shared", "users"}
    assert {v.op.name for v in tf1.local_variables()} == {"shared/Adagrad", "users/Adagrad"}


def test_tables_are_retrieved_if_they_may_have_changed(engine):
    """Tables are retrieved for a checkpoint only if a step ran since they were loaded."""
    core = tpu.TpuCore(spec(), engine, training=True)
    core.finish()
    (load,), (retrieve,) = core.hooks(), core.listeners()
    ran = []

    class Session:
        def run(self, op):
            ran.append(op)

    load.after_create_session(Session(), None)
    retrieve.before_save(Session(), 0)
    assert len(ran) == 1
    load.before_run(None)
    retrieve.before_save(Session(), 5)
    assert len(ran) == 2
    load.after_create_session(Session(), None)  # a new session in the place of a lost one
    retrieve.before_save(Session(), 5)
    assert ran == [load._op, retrieve._op, load._op]
