# SPDX-License-Identifier: Apache-2.0
"""Tests what TPU programs do in the training loop on host replicas, beside the model itself."""

from __future__ import annotations

import os

import numpy as np
import pytest
import tensorflow as tf

import estimator_spec as es
import host_runs
import tpu_columns
from estimator_spec.legacy import summaries
from estimator_spec.run_config import InputPipelineConfig

tf1 = tf.compat.v1
fc = tf.feature_column
BATCH = 4


def input_fn(params):
    """Returns batches of two features whose sum is the label."""
    x = np.arange(48, dtype=np.float32).reshape(-1, 2) / 48
    data = tf.data.Dataset.from_tensor_slices((x, x.sum(1, keepdims=True))).repeat()
    return data.batch(params["batch_size"], drop_remainder=True)


def linear(features, labels, mode, params):
    """Returns the spec of a linear model without a bias."""
    del params
    weight = tf1.get_variable("weight", [2, 1], initializer=tf1.zeros_initializer())
    return regression(features @ weight, labels, mode)


def regression(predicted, labels, mode):
    """Returns the spec of a regression by gradient descent."""
    return host_runs.regression(predicted, labels, mode, tf1.train.GradientDescentOptimizer, 0.1)


def make(model_fn, model_dir, replicas=2, batch=BATCH, tpu_config=None, **kwargs):
    """Returns an estimator with a loop of two steps on replicas of the host."""
    config = es.RunConfig(model_dir=str(model_dir), tpu_config=es.TPUConfig(2, **tpu_config or {}))
    return es.TPUEstimator(
        model_fn,
        config=config,
        use_tpu=False,
        train_batch_size=batch,
        eval_batch_size=batch,
        host_replicas=replicas,
        **kwargs,
    )


def test_context(tmp_path):
    """Both functions get params['context'] with the replicas and the call of input_fn."""
    seen = []

    def reads_context(params):
        seen.append(params["context"].current_input_fn_deployment())
        return input_fn(params)

    def model_fn(features, labels, mode, params):
        seen.append((params["context"].num_replicas, params["context"].num_hosts))
        return linear(features, labels, mode, params)

    make(model_fn, tmp_path).train(reads_context, steps=2)
    assert seen == [("/device:CPU:0", 0, 1, 2), (2, 1), (2, 1)]


def test_broadcast(tmp_path):
    """Each replica gets the whole batch, whose size need not be divisible."""
    sizes = []

    def model_fn(features, labels, mode, params):
        sizes.append((features.shape[0], params["batch_size"]))
        return linear(features, labels, mode, params)

    broadcast = {"per_host_input_for_training": InputPipelineConfig.BROADCAST}
    two = make(model_fn, tmp_path / "2", batch=3, tpu_config=broadcast).train(input_fn, steps=4)
    assert sizes == [(3, 3), (3, 3)]
    one = make(linear, tmp_path / "1", replicas=1, batch=3).train(input_fn, steps=4)
    host_runs.assert_same_values(two, one)


def test_partition_dims(tmp_path, tf_log):
    """input_partition_dims has no effect on the host, and the log says so."""
    config = {
        "per_host_input_for_training": InputPipelineConfig.PER_HOST_V2,
        "num_cores_per_replica": 2,
        "input_partition_dims": [[1, 2], None],
    }
    cut = make(linear, tmp_path / "cut", tpu_config=config).train(input_fn, steps=2)
    assert any(line.startswith("TPUConfig.input_partition_dims has no effect") for line in tf_log)
    host_runs.assert_same_values(cut, make(linear, tmp_path / "plain").train(input_fn, steps=2))


def test_moving_averages(tmp_path):
    """Averages of variables are those of one replica, and don't depend on the number of them."""

    def model_fn(features, labels, mode, params):
        spec = linear(features, labels, mode, params)
        if mode != "train":
            return spec
        average = tf1.train.ExponentialMovingAverage(0.9, tf1.train.get_global_step())
        with tf.control_dependencies([spec.train_op]):
            return spec._replace(train_op=average.apply(tf1.trainable_variables()))

    two = make(model_fn, tmp_path / "2").train(input_fn, steps=4)
    assert "weight/ExponentialMovingAverage" in two.get_variable_names()
    host_runs.assert_same_values(two, make(model_fn, tmp_path / "1", 1).train(input_fn, steps=4))


def test_functional_keras_model(tmp_path):
    """A functional Keras model trains on replicas as on one."""

    def model_fn(features, labels, mode, params):
        del params
        keras = tf.keras
        ones = keras.initializers.Constant(0.5)
        inputs = keras.Input([2])
        hidden = keras.layers.Dense(3, "relu", kernel_initializer=ones)(inputs)
        outputs = keras.layers.Dense(1, kernel_initializer=ones)(hidden)
        return regression(keras.Model(inputs, outputs)(features), labels, mode)

    two = make(model_fn, tmp_path / "2").train(input_fn, steps=4)
    assert "dense/kernel" in two.get_variable_names()
    host_runs.assert_same_values(two, make(model_fn, tmp_path / "1", 1).train(input_fn, steps=4))
    assert two.evaluate(input_fn, steps=1)["global_step"] == 4


def test_contrib_summary_in_a_host_call(tmp_path):
    """A writer that a host call creates in the loop writes a summary of each step."""
    logs = tmp_path / "logs"

    def host_call(step, loss):
        writer = summaries.create_file_writer(str(logs))
        with writer.as_default(), tf.summary.record_if(True):
            write = tf.summary.write("loss", tf.reduce_mean(loss), step[0])
        return [write]

    def model_fn(features, labels, mode, params):
        spec = linear(features, labels, mode, params)
        step = tf.reshape(tf1.train.get_global_step(), [1])
        return spec._replace(host_call=(host_call, [step, tf.reshape(spec.loss, [1])]))

    make(model_fn, tmp_path / "model").train(input_fn, steps=4)
    (path,) = logs.iterdir()
    steps = [e.step for e in tf1.train.summary_iterator(os.fspath(path)) if e.summary.value]
    assert len(steps) == 4


@pytest.mark.parametrize("replicas", [1, 2])
def test_counts_of_steps(tmp_path, replicas):
    """Host calls get the count before each step, as on a TPU, unless the read waits for the update.

    Hooks get that before the loop.
    """
    seen, fetched = [], []

    def host_call(*counts):
        return tf1.py_func(lambda *found: seen.append(tuple(n[0] for n in found)), counts, [])

    def model_fn(features, labels, mode, params):
        count = tf1.train.get_global_step()
        before = tf.reshape(count.read_value(), [1])
        spec = linear(features, labels, mode, params)
        later = tf.reshape(count.read_value(), [1])
        with tf.control_dependencies([spec.train_op]):
            after = tf.reshape(count.read_value(), [1])
        return spec._replace(host_call=(host_call, [before, later, after]))

    class Fetch(tf1.train.SessionRunHook):
        def before_run(self, run_context):
            return tf1.train.SessionRunArgs(tf1.train.get_global_step())

        def after_run(self, run_context, run_values):
            fetched.append(int(run_values.results))

    make(model_fn, tmp_path, replicas).train(input_fn, steps=20, hooks=[Fetch()])
    assert seen == [(step, step, step + 1) for step in range(20)]
    assert fetched == list(range(0, 20, 2))


@pytest.mark.parametrize("replicas", [None, 2])
def test_multivalent_sequences(tmp_path, replicas):
    """Ids [B, T, n] are combined step by step on the host core, as the plain lookup does."""
    table = np.arange(10, dtype=np.float32).reshape(5, 2)
    # Example 0 has the steps {1, 3} and {4}, example 1 none, examples 2 and 3 {2} after a gap.
    indices = [[0, 0, 0], [0, 0, 1], [0, 1, 0], [2, 1, 0], [3, 1, 0]]
    column = tpu_columns.embedding_column(
        fc.sequence_categorical_column_with_identity("ids", 5),
        2,
        initializer=tf1.constant_initializer(table),
        max_sequence_length=3,
    )
    found = {}

    def ids_fn(params):
        ids = tf.SparseTensor(indices, np.array([1, 3, 4, 2, 2]), [4, 2, 2])
        data = tf.data.Dataset.from_tensors(({"ids": ids}, np.zeros([4, 1], np.float32)))
        return data.unbatch().repeat().batch(params["batch_size"], drop_remainder=True)

    def model_fn(features, labels, mode, params):
        del params
        layer, lengths = tpu_columns.sequence_input_layer(features, [column])
        found["shape"] = layer.shape.as_list()
        spec = regression(tf.reduce_sum(layer, [1, 2])[:, tf.newaxis], labels, mode)
        metrics = (
            lambda layer, lengths: {"layer": (layer, tf.no_op()), "lengths": (lengths, tf.no_op())},
            [layer, lengths],
        )
        return spec._replace(eval_metrics=metrics)

    spec = es.EmbeddingConfigSpec([column], es.StochasticGradientDescentParameters(0.0))
    estimator = make(
        model_fn, tmp_path, replicas, embedding_config_spec=spec, embedding_core="host"
    )
    estimator.train(ids_fn, steps=2)
    assert found["shape"] == [BATCH // (replicas or 1), 3, 2]
    metrics = estimator.evaluate(ids_fn, steps=1)
    expected = np.zeros([4, 3, 2], np.float32)
    expected[0, 0], expected[0, 1] = table[[1, 3]].mean(0), table[4]
    expected[2, 1] = expected[3, 1] = table[2]
    np.testing.assert_array_equal(metrics["layer"], expected)
    assert metrics["lengths"].tolist() == [2, 0, 2, 2]


def test_eval_step(tmp_path):
    """The count of evaluated batches that a model creates is counted."""

    def model_fn(features, labels, mode, params):
        spec = linear(features, labels, mode, params)
        if mode != "eval":
            return spec
        step = tf1.get_variable(
            "eval_step",
            [],
            tf.int64,
            tf1.zeros_initializer(),
            trainable=False,
            collections=[tf1.GraphKeys.LOCAL_VARIABLES, tf1.GraphKeys.EVAL_STEP],
        )

        class Read(tf1.train.SessionRunHook):
            def end(self, session):
                assert session.run(step) == 3
                done.append(True)

        return spec._replace(evaluation_hooks=[Read()])

    done = []
    make(model_fn, tmp_path, replicas=None).evaluate(input_fn, steps=3)
    assert done
