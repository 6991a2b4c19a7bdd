# SPDX-License-Identifier: Apache-2.0
"""The same programs under TensorFlow 2.15's own estimators and under ours, in one process."""

from __future__ import annotations

import types

import numpy as np
import pytest
import tensorflow as tf

import estimator_spec as es
import host_runs
from estimator_spec.core.run_config import run_config

tf1 = tf.compat.v1

THEIRS = getattr(tf1, "estimator", None)

pytestmark = [
    pytest.mark.reference,
    pytest.mark.skipif(THEIRS is None, reason="this TensorFlow has no tf.estimator"),
]

OURS = types.SimpleNamespace(
    TPUEstimator=es.TPUEstimator,
    TPURunConfig=es.RunConfig,
    TPUEstimatorSpec=es.TPUEstimatorSpec,
    Estimator=es.Estimator,
    RunConfig=run_config.RunConfig,
    EstimatorSpec=es.EstimatorSpec,
    numpy_input_fn=es.numpy_input_fn,
)
if THEIRS is not None:
    THEIRS = types.SimpleNamespace(
        TPUEstimator=tf1.estimator.tpu.TPUEstimator,
        TPURunConfig=tf1.estimator.tpu.RunConfig,
        TPUEstimatorSpec=tf1.estimator.tpu.TPUEstimatorSpec,
        Estimator=tf1.estimator.Estimator,
        RunConfig=tf1.estimator.RunConfig,
        EstimatorSpec=tf1.estimator.EstimatorSpec,
        numpy_input_fn=tf1.estimator.inputs.numpy_input_fn,
    )

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(100, 5)).astype(np.float32)
Y = (X @ RANDOM.normal(size=(5, 1)) > 0).astype(np.float32)
STEPS = 40


def input_fn(params, mode):
    """A hundred examples, in another order every time in training."""
    data = tf.data.Dataset.from_tensor_slices(({"x": X}, Y))
    if mode == "train":
        data = data.shuffle(100).repeat()
    return data.batch(params["batch_size"])


def logits_of(features, mode):
    """A hidden layer and dropout; nothing has a seed of its own."""
    hidden = tf1.get_variable("hidden", [5, 8])
    bias = tf1.get_variable("bias", [8], initializer=tf1.random_normal_initializer())
    out = tf1.get_variable("out", [8, 1], initializer=tf1.glorot_uniform_initializer())
    layer = tf.nn.relu(features["x"] @ hidden + bias)
    if mode == "train":
        layer = tf.nn.dropout(layer, 0.2)
    return layer @ out


def tpu_model_fn(lib):
    """A classifier in the manner of TPU programs."""

    def metric_fn(labels, probabilities):
        return {
            "auc": tf1.metrics.auc(labels, probabilities),
            "accuracy": tf1.metrics.accuracy(labels, tf.round(probabilities)),
        }

    def model_fn(features, labels, mode, params):
        logits = logits_of(features, mode)
        predictions = {"p": tf.sigmoid(logits), "logits": logits}
        if mode == "infer":
            return lib.TPUEstimatorSpec(mode, predictions=predictions)
        loss = tf1.losses.sigmoid_cross_entropy(labels, logits)
        rate = tf1.train.exponential_decay(0.05, tf1.train.get_global_step(), 10, 0.9)
        train_op = tf1.train.AdamOptimizer(rate).minimize(
            loss, global_step=tf1.train.get_global_step()
        )
        step = tf.reshape(tf1.train.get_global_step(), [1])
        return lib.TPUEstimatorSpec(
            mode,
            loss=loss,
            train_op=train_op,
            eval_metrics=(metric_fn, {"labels": labels, "probabilities": predictions["p"]}),
            host_call=(lambda step: [tf.identity(step[0])], [step]),
        )

    return model_fn


def plain_model_fn(lib):
    """The classifier with EstimatorSpec, a scaffold, and a summary of its own."""

    def model_fn(features, labels, mode, params):
        logits = logits_of(features, mode)
        if mode == "infer":
            return lib.EstimatorSpec(mode, predictions={"p": tf.sigmoid(logits)})
        loss = tf1.losses.sigmoid_cross_entropy(labels, logits)
        tf1.summary.scalar("mean_logit", tf.reduce_mean(logits))
        optimizer = tf1.train.RMSPropOptimizer(0.01, momentum=0.5)
        return lib.EstimatorSpec(
            mode,
            loss=loss,
            train_op=optimizer.minimize(loss, global_step=tf1.train.get_global_step()),
            eval_metric_ops={"mean": tf1.metrics.mean(tf.sigmoid(logits))},
            scaffold=tf1.train.Scaffold(saver=tf1.train.Saver(max_to_keep=2)),
        )

    return model_fn


def make_tpu(lib, directory):
    """A TPUEstimator of `lib`."""
    return lib.TPUEstimator(
        tpu_model_fn(lib),
        config=lib.TPURunConfig(
            model_dir=str(directory), tf_random_seed=7, save_checkpoints_steps=20
        ),
        use_tpu=False,
        train_batch_size=16,
        eval_batch_size=20,
        predict_batch_size=30,
    )


def make_plain(lib, directory):
    """An Estimator of `lib`."""
    config = lib.RunConfig(
        model_dir=str(directory), tf_random_seed=7, save_checkpoints_steps=20, save_summary_steps=5
    )
    return lib.Estimator(plain_model_fn(lib), config=config, params={"batch_size": 16})


def by_numpy(lib):
    """Returns the same examples from arrays, in queues."""
    return lib.numpy_input_fn({"x": X}, Y, 16, 20, shuffle=False)


@pytest.mark.parametrize(
    ("make", "input_of"),
    [(make_tpu, lambda lib: input_fn), (make_plain, lambda lib: input_fn), (make_plain, by_numpy)],
    ids=["TPUEstimator", "Estimator", "numpy_input_fn"],
)
def test_a_whole_run(make, input_of, tmp_path):
    """Whatever both compute, trained or not, is the same, without any op's own seed."""
    found = []
    for lib, name in ((THEIRS, "theirs"), (OURS, "ours")):
        estimator, data = make(lib, tmp_path / name), input_of(lib)
        record, losses = {"untrained": estimator.evaluate(data, steps=2)}, host_runs.Losses()
        estimator.train(data, hooks=[losses], steps=STEPS)
        record |= {"losses": losses.found, "metrics": estimator.evaluate(data, steps=5)}
        record["predictions"] = list(estimator.predict(input_fn))
        found.append({**record, "variables": host_runs.values_of(estimator)})
    theirs, ours = found
    assert len(theirs["losses"]) == STEPS and len(theirs["predictions"]) == 100
    tf.nest.assert_same_structure(ours, theirs)
    for one, other in zip(tf.nest.flatten(ours), tf.nest.flatten(theirs), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
