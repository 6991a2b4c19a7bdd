# SPDX-License-Identifier: Apache-2.0
"""TPU programs on a host: replacements of the functions that need a TPU."""

from __future__ import annotations

import copy
import logging

import numpy as np
import pytest
import tensorflow as tf

from estimator_spec import (
    InputPipelineConfig,
    ModeKeys,
    RunConfig,
    TPUConfig,
    TPUEstimator,
    TPUEstimatorSpec,
)
from estimator_spec.core._tensorflow import private
from estimator_spec.core.run_config import host_fallback
from estimator_spec.core.run_config.tpu_context import TPUContext
from estimator_spec.legacy import tpu_stand_ins
from estimator_spec.legacy.contrib.hparams import HParams
from tpu_columns import environment

tf1 = tf.compat.v1

TENSORFLOWS_OWN = tf1.tpu.CrossShardOptimizer


@pytest.fixture
def on_host(monkeypatch):
    """Selects the host, and resets the warning."""
    monkeypatch.setenv(environment.CPU, "1")
    monkeypatch.setattr(host_fallback._HostWarning, "logged", False)


class Warnings(logging.Handler):
    """Log handler that collects TensorFlow's warnings."""

    def __init__(self):
        super().__init__(logging.WARNING)
        self.lines = []

    def emit(self, record):
        self.lines.append(record.getMessage())


@pytest.fixture
def warnings():
    """Returns the list of TensorFlow's warnings in this test."""
    handler = Warnings()
    logger = logging.getLogger("tensorflow")
    logger.addHandler(handler)
    yield handler.lines
    logger.removeHandler(handler)


# CrossShardOptimizer


def fit(optimizer, steps=3):
    """Trains a linear model for some steps; returns the variables by name."""
    with tf.Graph().as_default(), tf1.Session() as session:
        w = tf1.get_variable("w", [2], initializer=tf1.constant_initializer(1.0))
        loss = tf.reduce_sum(tf.square(w * [1.0, 2.0] - 3.0))
        train = optimizer().minimize(loss, tf1.train.get_or_create_global_step())
        session.run(tf1.global_variables_initializer())
        for _ in range(steps):
            session.run(train)
        return {v.op.name: session.run(v) for v in tf1.global_variables()}


@pytest.mark.parametrize("reduction", ["weighted_mean", "weighted_sum"])
def test_cross_shard_optimizer_is_the_wrapped_one(reduction):
    """On one replica values, slot variables and step are those of the wrapped optimizer."""
    plain = fit(lambda: tf1.train.AdamOptimizer(0.1))
    wrapped = fit(
        lambda: tpu_stand_ins.CrossShardOptimizer(tf1.train.AdamOptimizer(0.1), reduction)
    )
    assert plain.keys() == wrapped.keys()
    for name, value in plain.items():
        np.testing.assert_array_equal(wrapped[name], value)


def test_tensorflows_cross_shard_optimizer_needs_a_tpu():
    """TensorFlow's own CrossShardOptimizer has no kernel on a CPU."""
    with pytest.raises(tf.errors.InvalidArgumentError, match="CrossReplicaSum"):
        fit(lambda: TENSORFLOWS_OWN(tf1.train.AdamOptimizer(0.1)))


def test_cross_shard_optimizer_answers_for_the_wrapped_one():
    """Slots and variables are the wrapped optimizer's, and isinstance sees TensorFlow's class."""
    with tf.Graph().as_default():
        inner = tf1.train.MomentumOptimizer(0.1, 0.9)
        optimizer = tpu_stand_ins.CrossShardOptimizer(inner)
        w = tf1.get_variable("w", [2])
        gradients = optimizer.compute_gradients(tf.reduce_sum(w), var_list=[w])
        optimizer.apply_gradients(gradients)
        assert optimizer.get_slot(w, "momentum") is inner.get_slot(w, "momentum")
        assert optimizer.get_slot_names() == ["momentum"]
        assert optimizer.variables() == inner.variables()
        assert isinstance(optimizer, TENSORFLOWS_OWN)


def test_cross_shard_optimizer_sums_over_several_replicas():
    """For two replicas gradients are halved and summed, as in TensorFlow."""
    with tf.Graph().as_default() as graph, private.tpu_function.tpu_shard_context(2):
        w = tf1.get_variable("w", [2])
        tpu_stand_ins.CrossShardOptimizer(tf1.train.GradientDescentOptimizer(1.0)).minimize(
            tf.reduce_sum(w)
        )
        assert "CrossReplicaSum" in {op.type for op in graph.get_operations()}


def test_cross_shard_optimizer_refuses():
    """Other reductions and Keras optimizers are refused as TensorFlow does."""
    with pytest.raises(ValueError, match="`reduction` should be one of"):
        tpu_stand_ins.CrossShardOptimizer(tf1.train.AdamOptimizer(), "none")
    with pytest.raises(TypeError, match="not Keras Optimizer"):
        tpu_stand_ins.CrossShardOptimizer(object())


# tf.compat.v1.tpu


def test_rewrite_gives_what_a_tpu_does():
    """`rewrite` returns a list of tensors, a nested structure as it is, or an operation."""
    with tf.Graph().as_default(), tf1.Session() as session:
        counter = tf1.get_variable("n", [], initializer=tf1.zeros_initializer())
        count = counter.assign_add(1.0).op
        session.run(tf1.global_variables_initializer())
        assert session.run(tpu_stand_ins.rewrite(lambda x: x * 2, [3])) == [6]
        assert session.run(tpu_stand_ins.rewrite(lambda x, y: (x, y), [1, 2])) == [1, 2]
        nested = tpu_stand_ins.rewrite(lambda: {"a": tf.constant(1), "b": (tf.constant(2),)})
        assert session.run(nested) == {"a": 1, "b": (2,)}
        nothing = tpu_stand_ins.rewrite(lambda: None)
        assert isinstance(nothing, tf.Operation)
        # An operation runs when a tensor beside it is fetched.
        assert session.run(tpu_stand_ins.rewrite(lambda x: (x, count), [5])) == [5]
        assert session.run(counter) == 1
        session.run(tpu_stand_ins.rewrite(lambda: count))
        assert session.run(counter) == 2


def test_the_other_helpers_on_one_replica():
    """The other replacements compute on one replica."""
    with tf.Graph().as_default(), tf1.Session() as session:
        assert session.run(tpu_stand_ins.replicate(lambda x: x + 1, [[1]])) == [[2]]
        assert session.run(tpu_stand_ins.replicate(lambda: tf.constant(1))) == [[1]]
        whole = np.arange(6.0).reshape(3, 2)
        (got,) = session.run(tpu_stand_ins.shard(lambda x: x * 2, [whole], num_shards=3))
        np.testing.assert_array_equal(got, whole * 2)
        (got,) = session.run(tpu_stand_ins.batch_parallel(lambda x: x * 2, [whole], 8))
        np.testing.assert_array_equal(got, whole * 2)
        (nothing,) = tpu_stand_ins.shard(lambda: None)
        assert isinstance(nothing, tf.Operation)
        assert session.run(tpu_stand_ins.cross_replica_sum([1, 2], [[0]])).tolist() == [1, 2]
        assert tpu_stand_ins.outside_compilation(lambda x, y: x - y, 3, y=1) == 2
        assert session.run(tpu_stand_ins.initialize_system(job="worker")) == b""
        session.run(tpu_stand_ins.shutdown_system())


def test_helpers_refuse_what_one_replica_cannot_do():
    """Inputs for several replicas and zero shards are refused."""
    with pytest.raises(ValueError, match="inputs for 2 replicas. The host is one"):
        tpu_stand_ins.replicate(lambda x: x, [[1], [2]])
    with pytest.raises(ValueError, match="inputs for 0 replicas. The host is one"):
        tpu_stand_ins.replicate(lambda: 1, [])
    with pytest.raises(ValueError, match="num_shards must be a positive integer"):
        tpu_stand_ins.shard(lambda x: x, [1], num_shards=0)


# The cluster


def test_the_resolver_of_no_cluster():
    """The resolver is this process whatever TPU it names, and a RunConfig accepts it."""
    resolver = tpu_stand_ins.TPUClusterResolver("my-tpu", zone="z", project="p")
    assert (resolver.master(), resolver.get_master(), resolver.get_job_name()) == ("", "", None)
    assert not resolver.cluster_spec()
    assert resolver.num_accelerators() == {"TPU": 0}
    assert resolver.environment == ""
    assert isinstance(resolver, tf.distribute.cluster_resolver.ClusterResolver)
    assert tpu_stand_ins.TPUClusterResolver.connect("my-tpu").tpu == "my-tpu"
    with tpu_stand_ins.TPUClusterResolver() as entered:
        assert entered.task_type is None
    config = RunConfig(cluster=resolver)
    assert config.master == ""
    assert not config.cluster_spec
    assert not config.session_config.HasField("cluster_def")
    assert copy.deepcopy(config).cluster.tpu == "my-tpu"


def test_tensorflows_resolver_needs_a_tpu():
    """TensorFlow's own resolver refuses an empty name, which old programs pass."""
    with pytest.raises(ValueError):
        tf.distribute.cluster_resolver.TPUClusterResolver("")


# params['context']


def test_context_answers_for_one_replica():
    """In an input_fn the context describes the only call, for one replica of one host."""
    context = TPUContext()
    assert context.current_input_fn_deployment() == ("/device:CPU:0", 0, 1, 1)
    assert (context.num_replicas, context.num_hosts, context.current_host) == (1, 1, 0)
    assert context.num_of_replicas_per_host == 1
    assert context.device_for_replica(0) == ("/device:CPU:0", 0)
    assert context.tpu_host_placement_function(host_id=0) == "/device:CPU:0"
    with pytest.raises(ValueError, match="one replica"):
        context.device_for_replica(1)


def test_context_knows_who_asks():
    """Properties for an input_fn raise in a model_fn, and vice versa."""
    with pytest.raises(RuntimeError, match="must not be called from input_fn"):
        _ = TPUContext().device_assignment
    context = TPUContext(call_from_input_fn=False)
    assert context.device_assignment is None
    with pytest.raises(RuntimeError, match="must not be called from model_fn"):
        context.current_input_fn_deployment()
    with pytest.raises(RuntimeError, match="must not be called from model_fn"):
        _ = context.current_host


# TPUEstimator


class Program:
    """TPU program that records its params."""

    def __init__(self):
        self.seen = []

    def input_fn(self, params):
        """Returns batches of `params['batch_size']`."""
        context = params["context"]
        self.seen.append(("input_fn", context.current_input_fn_deployment()[1:], None))
        size = params["batch_size"]
        data = tf.data.Dataset.from_tensor_slices((np.ones((8, 1), "f"), np.ones((8, 1), "f")))
        return data.repeat().batch(size, drop_remainder=True).take(4)

    def model_fn(self, features, labels, mode, params):
        """Builds the model y = wx."""
        replicas = private.tpu_function.get_tpu_context().number_of_shards
        self.seen.append((mode, features.shape[0], (params["context"].num_replicas, replicas)))
        predictions = features * tf1.get_variable("w", [1])
        if mode == ModeKeys.PREDICT:
            return TPUEstimatorSpec(mode, predictions={"y": predictions})
        loss = tf1.losses.mean_squared_error(labels, predictions)
        optimizer = tpu_stand_ins.CrossShardOptimizer(tf1.train.GradientDescentOptimizer(0.1))
        train_op = optimizer.minimize(loss, tf1.train.get_global_step())
        return TPUEstimatorSpec(mode, loss=loss, train_op=train_op)

    def estimator(self, tmp_path, params=None, **tpu_config):
        """Returns a TPUEstimator with `use_tpu=True`."""
        config = RunConfig(
            model_dir=str(tmp_path),
            master="grpc://10.1.2.3:8470",
            tpu_config=TPUConfig(2, **tpu_config),
        )
        sizes = {"train_batch_size": 4, "eval_batch_size": 2, "predict_batch_size": 2}
        return TPUEstimator(self.model_fn, config=config, params=params, **sizes)


def test_a_program_of_a_tpu_runs_on_the_host(on_host, tmp_path, warnings):
    """The program runs as one replica with whole batches, and a warning says so once."""
    program = Program()
    estimator = program.estimator(tmp_path, num_shards=8)
    estimator.train(program.input_fn, steps=1)
    estimator.evaluate(program.input_fn, steps=1)
    next(estimator.predict(program.input_fn))
    deployment = ("input_fn", (0, 1, 1), None)
    assert program.seen == [
        deployment,
        ("train", 4, (1, 1)),
        deployment,
        ("eval", 2, (1, 1)),
        deployment,
        ("infer", 2, (1, 1)),
    ]
    told = [line for line in warnings if "instead of a TPU" in line]
    assert len(told) == 1
    assert "one replica" in told[0]


@pytest.mark.parametrize(
    "deployment",
    [
        InputPipelineConfig.PER_SHARD_V1,
        InputPipelineConfig.PER_HOST_V1,
        InputPipelineConfig.PER_HOST_V2,
        InputPipelineConfig.BROADCAST,
    ],
)
def test_every_input_deployment_is_one_call(on_host, tmp_path, deployment):
    """With every input configuration one call of input_fn feeds the one replica."""
    program = Program()
    estimator = program.estimator(tmp_path, per_host_input_for_training=deployment)
    estimator.train(program.input_fn, steps=1)
    assert program.seen == [("input_fn", (0, 1, 1), None), ("train", 4, (1, 1))]


def test_sliced_evaluation_is_accepted(on_host, tmp_path):
    """Sliced evaluation input gives the one replica the whole batch."""
    program = Program()
    sliced = InputPipelineConfig.SLICED
    estimator = program.estimator(tmp_path, eval_training_input_configuration=sliced)
    estimator.evaluate(program.input_fn, steps=1)
    assert program.seen[-1][:2] == ("eval", 2)


def test_context_in_hparams(on_host, tmp_path):
    """Batch size and context are set in HParams, too."""
    program = Program()
    estimator = program.estimator(tmp_path, params=HParams(rate=0.1))
    estimator.train(program.input_fn, steps=1)
    assert program.seen[-1] == ("train", 4, (1, 1))


def test_without_the_choice_it_is_the_old_error(monkeypatch, tmp_path):
    """`use_tpu=True` without a TPU fails with the old message, which names the alternative."""
    monkeypatch.delenv(environment.CPU, raising=False)
    program = Program()
    words = "Cannot find any TPU cores in the system.*run --cpu"
    with pytest.raises(RuntimeError, match=words):
        program.estimator(tmp_path).train(program.input_fn, steps=1)
    assert not program.seen
