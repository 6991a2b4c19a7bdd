# SPDX-License-Identifier: Apache-2.0
"""Builds two models in two threads at once: each has the names and numbers that it has alone."""

from __future__ import annotations

import functools
import threading
from concurrent import futures

import numpy as np
import pytest
import tensorflow as tf

import estimator_spec as es
from estimator_spec.core.common import legacy_keras

tf1 = tf.compat.v1

STEPS = 2
LIMIT = 120  # seconds until a thread gives up, so that a failure is no hang
X = np.linspace(-1, 1, 32, dtype=np.float32)[:, np.newaxis]


class Meeting:
    """Lets one model be built while another one is, in a fixed order.

    The first waits in its model_fn until the second is in its own, or has ended; in the first case
    the second then waits until the first has ended.
    """

    def __init__(self, overlapping):
        self._overlapping = overlapping
        self._events = {each: threading.Event() for each in ("0 in", "1 in", "0 done", "1 done")}

    def _wait(self, name):
        assert self._events[name].wait(LIMIT), name

    def meet(self, number):
        """Called by the model_fn of thread 0 or 1, once or more often."""
        self._events[f"{number} in"].set()
        if number == 0:
            self._wait("1 in" if self._overlapping else "1 done")
        elif self._overlapping:
            self._wait("0 done")

    def run(self, models):
        """Calls two functions, each with what its model_fn has to call; returns their results."""

        def first():
            try:
                return models[0](lambda: self.meet(0))
            finally:
                self._events["0 in"].set()
                self._events["0 done"].set()

        def second():
            self._wait("0 in")
            try:
                return models[1](lambda: self.meet(1))
            finally:
                self._events["1 in"].set()
                self._events["1 done"].set()

        with futures.ThreadPoolExecutor(2) as pool:
            running = [pool.submit(first), pool.submit(second)]
            return [each.result() for each in running]


def input_fn(params):
    """A line."""
    data = tf.data.Dataset.from_tensor_slices(({"x": X}, 3 * X + 1)).repeat()
    return data.batch(params["batch_size"], drop_remainder=True)


def model_fn(features, labels, mode, params):
    """A model of layers without names and a loop, which calls the meeting within them."""
    layers = legacy_keras.keras_2().layers
    first = layers.Dense(3, kernel_initializer="ones")
    hidden = first(features["x"])
    params["meet"]()
    second = layers.Dense(1, kernel_initializer="ones")
    output = second(hidden)
    _, output = tf.while_loop(lambda n, v: n < 2, lambda n, v: (n + 1, v * 0.5), [0, output])
    loss = tf1.losses.mean_squared_error(labels, output)
    optimizer = tf1.train.GradientDescentOptimizer(0.05)
    if params.get("cross_shard"):
        optimizer = tf1.tpu.CrossShardOptimizer(optimizer)
    train_op = optimizer.minimize(loss, tf1.train.get_global_step())
    ops = [op.name for op in output.graph.get_operations()]
    params["record"]([first.name, second.name, *ops])
    return es.EstimatorSpec(mode, loss=loss, train_op=train_op)


def train_replicas(config, params):
    """Trains it on two replicas of the host, in a loop."""
    config = config.replace(tpu_config=es.TPUConfig(iterations_per_loop=2))
    es.TPUEstimator(
        model_fn,
        config=config,
        params={**params, "cross_shard": True},
        use_tpu=False,
        train_batch_size=8,
        host_replicas=2,
    ).train(input_fn, max_steps=STEPS)


def train_plain(config, params):
    """Trains it without replicas."""
    es.TPUEstimator(
        model_fn, config=config, params=params, use_tpu=False, train_batch_size=8
    ).train(input_fn, max_steps=STEPS)


def results(train, model_dir, meet=lambda: None):
    """Trains a model; returns the values of its variables, and the names of its ops."""
    config = es.RunConfig(
        model_dir=str(model_dir), tf_random_seed=1, save_summary_steps=0, log_step_count_steps=None
    )
    names_of_builds = []
    train(config, {"meet": meet, "record": lambda names: names_of_builds.append(names)})
    reader = tf.train.load_checkpoint(str(model_dir))
    values = {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}
    return values, names_of_builds


PAIRS = {
    "replicas": (train_replicas, train_replicas),
    "replicas and none": (train_replicas, train_plain),
}


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """Returns what each model has alone, and makes loops as TensorFlow 1 does."""
    # Other loops than those of replicas: these must have functional ones.
    tf1.disable_control_flow_v2()
    yield {
        train: results(train, tmp_path_factory.mktemp("alone"))
        for train in (train_replicas, train_plain)
    }
    tf1.enable_control_flow_v2()


@pytest.mark.parametrize("overlapping", [True, False], ids=["overlapping", "within"])
@pytest.mark.parametrize("pair", PAIRS)
def test_two_models(tmp_path, alone, pair, overlapping):
    """Models that are built at once have the names and numbers that each has alone."""
    directories = [tmp_path / "0", tmp_path / "1"]
    builds = list(map(functools.partial, [results] * 2, PAIRS[pair], directories))
    for train, (values, names) in zip(PAIRS[pair], Meeting(overlapping).run(builds), strict=True):
        known_values, known_names = alone[train]
        assert names == known_names
        assert sorted(values) == sorted(known_values)
        for name, value in known_values.items():
            np.testing.assert_allclose(values[name], value, rtol=1e-6, err_msg=name)
    # Nothing is left: TensorFlow's own method sums by an op of a TPU.
    assert not tf1.control_flow_v2_enabled()
    with tf.Graph().as_default() as graph:
        optimizer = tf1.tpu.CrossShardOptimizer(tf1.train.GradientDescentOptimizer(0.1))
        optimizer.apply_gradients([(tf.constant(1.0), tf1.get_variable("v", []))])
        assert "CrossReplicaSum" in [op.type for op in graph.get_operations()]


def test_evaluation_during_training(tmp_path):
    """An evaluation by the strategy of a training that is being built leaves its numbers.

    TensorFlow's optimizers divide the loss by the number of replicas if the strategy's switch for
    it is on when gradients are computed.
    """
    with tf.Graph().as_default():  # see `mirrored` in test_strategy_graphs.py
        strategy = tf.distribute.MirroredStrategy(
            ["/cpu:0", "/cpu:1"], cross_device_ops=tf.distribute.ReductionToOneDevice()
        )
    meet = {"train": lambda: None}

    def mean_model(features, labels, mode):
        weight = tf1.get_variable("weight", [1, 1], initializer=tf1.ones_initializer())
        meet.get(mode, lambda: None)()
        loss = tf1.losses.mean_squared_error(labels, tf.matmul(features["x"], weight))
        step = tf1.train.get_global_step()
        train_op = tf1.train.GradientDescentOptimizer(0.1).minimize(loss, step)
        return es.EstimatorSpec(mode, loss=loss, train_op=train_op)

    def make(name):
        config = es.RunConfig(
            model_dir=str(tmp_path / name),
            log_step_count_steps=None,
            train_distribute=strategy,
            eval_distribute=strategy,
        )
        return es.Estimator(mean_model, config=config)

    def batches():
        return input_fn({"batch_size": 4})

    alone = make("alone").train(batches, max_steps=STEPS)
    path = alone.latest_checkpoint()
    expected = [alone.get_variable_value("weight"), alone.evaluate(batches, steps=1)["loss"]]
    both = make("both")  # each estimator has its own copy of the strategy

    def train(wait):
        meet["train"] = wait
        return both.train(batches, max_steps=STEPS).get_variable_value("weight")

    def evaluate(wait):
        del wait
        return both.evaluate(batches, steps=1, checkpoint_path=path)["loss"]

    assert Meeting(overlapping=False).run([train, evaluate]) == expected
