# SPDX-License-Identifier: Apache-2.0
"""Native ops in trainings in loops, on several replicas and with pipelined updates."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

import estimator_spec as es
import tpu_columns
from tpu_columns.optimizations import Optimization

tf1 = tf.compat.v1
fc = tf.feature_column
ROWS, BATCH, STEPS = 12, 8, 5

pytestmark = pytest.mark.usefixtures("built_kernels")


def columns():
    """Returns a column of dense ids, a weighted one, and two of one table."""

    def identity(key):
        return fc.categorical_column_with_identity(key, ROWS)

    def start(seed):
        return tf1.random_normal_initializer(seed=seed)

    weighted = fc.weighted_categorical_column(identity("b"), "weights")
    return [
        tpu_columns.embedding_column(identity("a"), 3, initializer=start(1)),
        tpu_columns.embedding_column(weighted, 4, "sqrtn", initializer=start(2)),
        *tpu_columns.shared_embedding_columns([identity("c"), identity("d")], 2, "sum", start(3)),
    ]


def input_fn():
    """Returns batches with repeated and missing ids."""
    random = np.random.default_rng(1)
    shape = [2 * STEPS * BATCH, 3]
    ids = {key: random.integers(-1, ROWS, shape) for key in "abcd"}
    ids["a"][:, 1:] = -1
    weights = random.uniform(0.5, 2, shape).astype(np.float32)
    labels = random.integers(0, 2, [shape[0], 1]).astype(np.float32)

    def to_sparse(ids, weights, labels):
        features = {}
        for key, value in ids.items():
            found = tf.where(value >= 0)
            features[key] = tf.SparseTensor(found, tf.gather_nd(value, found), [BATCH, 3])
        kept = tf.gather_nd(weights, features["b"].indices)
        features["weights"] = features["b"].with_values(kept)
        return features, labels

    data = tf.data.Dataset.from_tensor_slices((ids, weights, labels))
    return data.batch(BATCH, drop_remainder=True).map(to_sparse)


def model_fn(features, labels, mode, params):
    """A dense layer on an input layer."""
    layer = tpu_columns.input_layer(features, params["columns"])
    start = tf1.random_normal_initializer(seed=4)
    logits = tf.matmul(layer, tf1.get_variable("kernel", [layer.shape[1], 1], initializer=start))
    loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels, logits))
    train_op = None
    if mode == "train":
        train_op = params["optimizer"]().minimize(loss, tf1.train.get_global_step())
    metrics = {"mean": tf1.metrics.mean(logits)}
    if params["mirrored"]:
        return es.EstimatorSpec(mode, loss=loss, train_op=train_op, eval_metric_ops=metrics)
    metrics = (lambda logits: {"mean": tf1.metrics.mean(logits)}, [logits])
    return es.TPUEstimatorSpec(mode, loss=loss, train_op=train_op, eval_metrics=metrics)


class Ops(tf1.train.SessionRunHook):
    """Finds the types of all ops, those in functions included."""

    def begin(self):
        graph = tf1.get_default_graph().as_graph_def()
        nodes = [*graph.node, *(node for each in graph.library.function for node in each.node_def)]
        self.types = {node.op for node in nodes}


def run(model_dir, replicas=None, core=None, optimizer=None, pipelined=False, mirrored=False):
    """Trains and evaluates; returns variables and metrics, and the ops of both graphs."""
    made = columns()
    default = tf1.train.AdagradOptimizer
    params = {
        "columns": made,
        "optimizer": optimizer or (lambda: default(0.2)),
        "mirrored": mirrored,
    }
    if mirrored:
        with tf.Graph().as_default():
            one = tf.distribute.ReductionToOneDevice()
            strategy = tf.distribute.MirroredStrategy(["/cpu:0", "/cpu:1"], cross_device_ops=one)
        config = es.RunConfig(
            model_dir=str(model_dir), train_distribute=strategy, eval_distribute=strategy
        )
        estimator = es.Estimator(model_fn, config=config, params=params)
        steps = None
    else:
        estimator = es.TPUEstimator(
            model_fn,
            config=es.RunConfig(
                model_dir=str(model_dir), tpu_config=es.TPUConfig(iterations_per_loop=2)
            ),
            params=params,
            use_tpu=False,
            train_batch_size=BATCH * (replicas or 1),
            eval_batch_size=BATCH * (replicas or 1),
            embedding_config_spec=es.EmbeddingConfigSpec(
                made,
                es.MomentumParameters(0.2, 0.9),
                pipeline_execution_with_tensor_core=pipelined,
            ),
            embedding_core=core,
            host_replicas=replicas,
        )
        steps = STEPS
    take = input_fn if mirrored else lambda params: input_fn()
    trained, evaluated = Ops(), Ops()
    estimator.train(take, hooks=[trained], steps=steps)
    metrics = estimator.evaluate(take, steps=2, hooks=[evaluated])
    names = estimator.get_variable_names()
    values = {name: estimator.get_variable_value(name) for name in names} | metrics
    return values, trained.types, evaluated.types


CASES = {
    "loop": {"replicas": 1},
    "adam": {"replicas": 1, "optimizer": lambda: tf1.train.AdamOptimizer(0.1)},
    "replicas": {"replicas": 2},
    "mirrored": {"mirrored": True},
    "mirrored ftrl": {"mirrored": True, "optimizer": lambda: tf1.train.FtrlOptimizer(0.1)},
    "host": {"core": "host"},
    "host loop": {"core": "host", "replicas": 1},
    "host replicas": {"core": "host", "replicas": 2},
    "pipelined": {"core": "host", "pipelined": True},
    "pipelined replicas": {"core": "host", "pipelined": True, "replicas": 2},
}


NIGHTLY = pytest.mark.nightly("more kinds of trainings")
WITH_EVERY_CHANGE = ("replicas", "mirrored", "pipelined replicas")


@pytest.mark.parametrize(
    "case",
    [pytest.param(case, marks=[] if case in WITH_EVERY_CHANGE else NIGHTLY) for case in CASES],
)
def test_trainings(tmp_path, monkeypatch, case):
    """Tables are looked up and updated by native ops; numbers are TensorFlow's, and repeat."""
    found, trained, evaluated = run(tmp_path / "native", **CASES[case])
    again, _, _ = run(tmp_path / "again", **CASES[case])
    monkeypatch.setenv(Optimization.NATIVE_KERNELS.value, "0")
    expected, *others = run(tmp_path / "plain", **CASES[case])
    assert not any(kind.startswith("TpuColumns") for types in others for kind in types)
    update = "UpdateTables" if "core" in CASES[case] else "ResourceUpdate"
    assert "TpuColumnsLookUpTables" in trained & evaluated
    assert (f"TpuColumns{update}" in trained) != (case == "adam")
    assert found.keys() == again.keys() == expected.keys()
    limits = (
        {"rtol": 1e-5, "atol": 1e-5}
        if case in ("adam", "mirrored ftrl")
        else {"atol": 1e-6, "rtol": 1e-6}
    )
    for name, value in expected.items():
        np.testing.assert_array_equal(again[name], found[name], err_msg=name)
        np.testing.assert_allclose(found[name], value, err_msg=name, **limits)
