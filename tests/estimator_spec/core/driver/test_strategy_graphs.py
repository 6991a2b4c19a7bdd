# SPDX-License-Identifier: Apache-2.0
"""Strategies in a RunConfig: one device, several, and those that can't run here.

`tests/reference/test_mirrored.py` compares the numbers with TensorFlow 2.15.1's.
"""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

import estimator_spec as es

tf1 = tf.compat.v1


@pytest.fixture
def mirrored():
    """Returns a MirroredStrategy of two logical CPUs, which need no configuration."""
    # In a graph: if TensorFlow's eager runtime was started in one, by a test before, it takes no
    # device that isn't there.
    with tf.Graph().as_default():
        return tf.distribute.MirroredStrategy(
            ["/cpu:0", "/cpu:1"], cross_device_ops=tf.distribute.ReductionToOneDevice()
        )


def make(model_fn, model_dir, **config):
    """Returns an estimator with these properties of its RunConfig."""
    return es.Estimator(model_fn, config=es.RunConfig(model_dir=str(model_dir), **config))


def mean_model(features, labels, mode):
    """Minimizes the squared distance of a weight to the labels."""
    weight = tf1.get_variable("weight", [], initializer=tf1.zeros_initializer())
    if mode == "infer":
        return es.EstimatorSpec(mode, {"y": weight * features})
    loss = tf.reduce_mean((weight * features - labels) ** 2)
    step = tf1.train.get_global_step()
    train_op = tf1.train.GradientDescentOptimizer(0.1).minimize(loss, step)
    metrics = {"labels": tf1.metrics.mean(labels)}
    return es.EstimatorSpec(mode, {"y": weight * features}, loss, train_op, metrics)


def labels_fn(*labels):
    """Returns an input_fn with one batch of each label."""

    def input_fn():
        values = np.array(labels, np.float32)
        return tf.data.Dataset.from_tensor_slices((np.ones_like(values), values)).batch(1)

    return input_fn


@pytest.mark.parametrize("name", ["train_distribute", "eval_distribute"])
def test_one_device(tmp_path, tf_log, name):
    """A strategy of one device changes nothing, and the log says so."""
    strategy = tf.distribute.OneDeviceStrategy("/cpu:0")
    estimator = make(mean_model, tmp_path, **{name: strategy})
    expected = f"RunConfig.{name} is a OneDeviceStrategy of one device"
    assert any(line.startswith(expected) for line in tf_log)
    estimator.train(labels_fn(1.0))
    assert estimator.get_variable_value("weight") == pytest.approx(0.2)
    assert estimator.evaluate(labels_fn(1.0, 3.0))["labels"] == 2.0


def test_two_devices(tmp_path, mirrored):
    """A step takes a batch for each device and averages their gradients; the rest is as ever."""
    estimator = make(mean_model, tmp_path, train_distribute=mirrored)
    estimator.train(labels_fn(1.0, 2.0, 9.0))
    # 9.0 has no second batch in its step. The gradient is -2 · (1 + 2) / 2.
    assert estimator.get_variable_value("weight") == pytest.approx(0.3)
    assert estimator.get_variable_value("global_step") == 1
    (prediction,) = estimator.predict(labels_fn(1.0))
    assert prediction["y"] == pytest.approx(0.3)


def test_too_few_batches(tmp_path, mirrored, tf_log):
    """Training on fewer batches than devices saves the initial values and makes no step.

    So does TensorFlow 2.15.1; `tests/reference/test_mirrored.py` compares. An empty input is an
    error, as everywhere.
    """
    estimator = make(mean_model, tmp_path, train_distribute=mirrored)
    estimator.train(labels_fn(1.0))
    assert estimator.get_variable_value("weight") == 0
    assert estimator.get_variable_value("global_step") == 0
    assert any(line.startswith("Training made no steps: a step takes a batch") for line in tf_log)
    with pytest.raises(ValueError, match="yields no batch"):
        estimator.train(labels_fn())


def test_metrics_of_two_devices(tmp_path, mirrored):
    """An evaluation on two devices counts each batch of both, and the last one's without another.

    `test_every_row.py` has all numbers of batches, rows and devices.
    """
    estimator = make(mean_model, tmp_path, eval_distribute=mirrored)
    estimator.train(labels_fn(0.0), steps=1)
    found = estimator.evaluate(labels_fn(1.0, 2.0, 3.0, 4.0, 10.0))
    assert found["labels"] == 4.0
    assert found["loss"] == pytest.approx((1 + 4 + 9 + 16 + 100) / 5)


def test_scaffold_and_hooks(tmp_path, mirrored):
    """Initializers of all devices' scaffolds run; hooks are the first device's."""
    begun = []

    class Hook(tf1.train.SessionRunHook):
        def __init__(self, number):
            self.number = number

        def begin(self):
            begun.append(self.number)

    def model_fn(features, labels, mode):
        spec = mean_model(features, labels, mode)
        number = tf.get_static_value(tf.distribute.get_replica_context().replica_id_in_sync_group)
        local = tf1.local_variables_initializer()
        scaffold = tf1.train.Scaffold(local_init_op=tf.group(local, tf1.tables_initializer()))
        return spec._replace(scaffold=scaffold, training_hooks=[Hook(int(number or 0))])

    make(model_fn, tmp_path, train_distribute=mirrored).train(labels_fn(1.0, 1.0))
    assert begun == [0]


def test_strategies_that_cannot_run(tmp_path):
    """Other strategies of several replicas, and other objects, are refused by name."""
    with pytest.raises(TypeError, match=r"train_distribute must be a tf.distribute"):
        make(mean_model, tmp_path, train_distribute="mirrored")
    central = tf.distribute.experimental.CentralStorageStrategy(["/cpu:0", "/cpu:1"])
    with pytest.raises(
        ValueError, match=r"eval_distribute is a CentralStorageStrategy of 2 replicas. Give a tf"
    ):
        make(mean_model, tmp_path, eval_distribute=central)


def test_tpu_estimator_says_host_replicas(tmp_path, mirrored):
    """TPUEstimator has replicas of its own, and its error says which argument makes them."""
    config = es.RunConfig(model_dir=str(tmp_path), train_distribute=mirrored)
    with pytest.raises(ValueError, match=r"train_distribute.*host_replicas=2"):
        es.TPUEstimator(
            lambda features, params: None, config=config, train_batch_size=2, use_tpu=False
        )
