# SPDX-License-Identifier: Apache-2.0
"""InMemoryEvaluatorHook: this package's and TensorFlow 2.15's."""

from __future__ import annotations

import json

import numpy as np
import pytest
import tensorflow as tf

import estimator_spec as es
from estimator_spec.experimental import InMemoryEvaluatorHook

tf1 = tf.compat.v1


@pytest.fixture
def silent(fit):
    """Returns an Estimator that writes no checkpoints."""
    return fit.estimator(config={"save_checkpoints_steps": None, "save_checkpoints_secs": None})


class Count(tf1.train.SessionRunHook):
    """Counts the batches of each evaluation."""

    def __init__(self):
        self.found = []

    def after_create_session(self, session, coord):
        self.found.append(0)

    def after_run(self, run_context, run_values):
        self.found[-1] += 1


def test_when_it_evaluates(fit, silent, events):
    """The hook evaluates before the first step, every N steps, and at the end."""
    count = Count()
    hook = fit.api.InMemoryEvaluatorHook(
        silent, fit.input_fn, hooks=[count], name="live", every_n_iter=3
    )
    silent.train(fit.input_fn, hooks=[hook], steps=8)
    losses = events(silent.eval_dir("live"))["loss"]
    assert sorted(losses) == [0, 3, 6, 8]
    assert losses[0] > losses[3] > losses[6] > losses[8]
    assert count.found == [4, 4, 4, 4]
    assert silent.latest_checkpoint() is None


def test_it_evaluates_what_is_trained(fit, events):
    """The metrics equal those of a checkpoint of the same step."""
    estimator = fit.estimator()
    hook = fit.api.InMemoryEvaluatorHook(estimator, fit.input_fn, steps=2, every_n_iter=100)
    estimator.train(fit.input_fn, hooks=[hook], steps=5)
    found = events(estimator.eval_dir())
    metrics = estimator.evaluate(fit.input_fn, steps=2, name="again")
    assert found["mae"][5] == pytest.approx(metrics["mae"], rel=1e-6)
    assert found["loss"][5] == pytest.approx(metrics["loss"], rel=1e-6)


def test_twice_in_one_program(fit, silent, events):
    """The hook may be used for a second training."""
    hook = fit.api.InMemoryEvaluatorHook(silent, fit.input_fn, every_n_iter=2)
    silent.train(fit.input_fn, hooks=[hook], steps=3)
    silent.train(fit.input_fn, hooks=[hook], steps=3)
    assert sorted(events(silent.eval_dir())["loss"]) == [0, 2, 3]


@pytest.mark.parametrize("threads", [1, 2])
def test_arrays_are_read_anew(tmp_path, events, threads):
    """`numpy_input_fn` gives each evaluation all examples: the metrics are the same each time."""

    def model_fn(features, labels, mode):
        tf1.get_variable("weight", [], initializer=tf1.zeros_initializer())
        mean = tf.reduce_mean(features["x"])
        train_op = tf1.assign_add(tf1.train.get_global_step(), 1)
        ones = tf.ones_like(features["x"])
        metrics = {
            "mean": tf1.metrics.mean(features["x"]),
            "rows": tf1.metrics.true_positives(ones, ones),
        }
        return es.EstimatorSpec(mode, loss=mean, train_op=train_op, eval_metric_ops=metrics)

    def input_fn(**arguments):
        x = {"x": np.arange(7, dtype=np.float32)}
        return es.numpy_input_fn(x, batch_size=2, shuffle=False, **arguments)

    estimator = es.Estimator(model_fn, str(tmp_path))
    hook = InMemoryEvaluatorHook(
        estimator, input_fn(num_epochs=2, num_threads=threads), every_n_iter=2
    )
    estimator.train(input_fn(num_epochs=None), steps=5, hooks=[hook])
    found = events(estimator.eval_dir())
    assert found["mean"] == {0: 3.0, 2: 3.0, 4: 3.0, 5: 3.0}
    assert set(found["rows"].values()) == {14.0 * threads}


def test_arguments_are_checked(fit):
    """`steps` and `hooks` are checked as in `evaluate`."""
    with pytest.raises(ValueError, match="Must specify steps > 0"):
        fit.api.InMemoryEvaluatorHook(fit.estimator(), fit.input_fn, steps=0)
    with pytest.raises(TypeError, match="Hooks must be a SessionRunHook"):
        fit.api.InMemoryEvaluatorHook(fit.estimator(), fit.input_fn, hooks=["x"])


@pytest.mark.parametrize("jobs", [{"worker": 1}, {"ps": 1}])
def test_not_in_a_cluster(fit, monkeypatch, jobs):
    """A cluster of several processes is refused."""
    cluster = {job: ["localhost:1"] * count for job, count in {"chief": 1, **jobs}.items()}
    task = {"type": "chief", "index": 0}
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": cluster, "task": task}))
    with pytest.raises(ValueError, match="supports only single machine"):
        fit.api.InMemoryEvaluatorHook(fit.estimator(), fit.input_fn)


@pytest.mark.parametrize(
    ("what", "make"),
    [
        ("saver", lambda: {"saver": tf1.train.Saver()}),
        ("init_fn", lambda: {"init_fn": lambda scaffold, session: None}),
    ],
)
def test_scaffolds_of_ones_own(fit, what, make):
    """A saver or init_fn of the evaluated model is refused."""

    def model_fn(features, labels, mode):
        spec = fit.model_fn(features, labels, mode)
        if mode != "eval":
            return spec
        return spec._replace(scaffold=tf1.train.Scaffold(**make()))

    estimator = fit.estimator(model_fn)
    hook = fit.api.InMemoryEvaluatorHook(estimator, fit.input_fn)
    with pytest.raises(ValueError, match=f"does not support custom {what}"):
        estimator.train(fit.input_fn, hooks=[hook], steps=1)


def test_what_is_no_variable(fit):
    """State outside of variables is refused."""

    def model_fn(features, labels, mode):
        tf.lookup.experimental.MutableHashTable(tf.int64, tf.int64, -1, name="seen")
        assert tf1.get_collection(tf1.GraphKeys.SAVEABLE_OBJECTS)
        return fit.model_fn(features, labels, mode)

    estimator = fit.estimator(
        model_fn, config={"save_checkpoints_steps": None, "save_checkpoints_secs": None}
    )
    hook = fit.api.InMemoryEvaluatorHook(estimator, fit.input_fn)
    with pytest.raises(ValueError, match="does not support saveables other than global"):
        estimator.train(fit.input_fn, hooks=[hook], steps=1)


def test_local_init_op_and_host_calls(make, line, tmp_path, events):
    """Each evaluation of a TPUEstimator runs host call and the scaffold's local_init_op."""

    def change(mode):
        def write(loss):
            with tf.summary.create_file_writer(str(tmp_path / mode)).as_default():
                tf.summary.experimental.set_step(tf1.train.get_or_create_global_step())
                tf.summary.write("written", tf.reduce_mean(loss))
                return tf1.summary.all_v2_summary_ops()

        def scaffold_fn():
            local = tf1.get_variable(
                "local", initializer=1.0, collections=[tf1.GraphKeys.LOCAL_VARIABLES]
            )
            return tf1.train.Scaffold(local_init_op=local.initializer)

        found = {"host_call": (write, [tf.ones([8])])}
        if mode == "eval":
            found["scaffold_fn"] = scaffold_fn
        return found

    estimator = make(params={"spec": change})
    hook = es.InMemoryEvaluatorHook(estimator, line.input_fn, every_n_iter=2)
    estimator.train(line.input_fn, hooks=[hook], steps=3)
    assert sorted(events(estimator.eval_dir())["mae"]) == [0, 2, 3]


@pytest.mark.parametrize("core", [None, "host"])
def test_tables_of_an_embedding_core(make, line, events, core):
    """Tables of an embedding core are copied, too."""
    column = es.embedding_column(tf.feature_column.categorical_column_with_identity("id", 8), 2)

    def model_fn(features, labels, mode, params):
        return line.model_fn({"x": es.input_layer(features, [column])[:, :1]}, labels, mode, params)

    def input_fn(params):
        ids = tf.data.Dataset.range(8).repeat(10).batch(8)
        return ids.map(lambda i: ({"id": tf.sparse.from_dense(i[:, tf.newaxis])}, line.y[:8]))

    estimator = make(
        model_fn,
        embedding_core=core,
        embedding_config_spec=es.EmbeddingConfigSpec(
            [column], optimization_parameters=es.AdagradParameters(0.5)
        ),
    )
    hook = es.InMemoryEvaluatorHook(estimator, input_fn, steps=1, every_n_iter=4)
    estimator.train(input_fn, hooks=[hook], steps=4)
    found = events(estimator.eval_dir())["loss"]
    assert found[4] < found[0]
    assert found[4] == pytest.approx(estimator.evaluate(input_fn, steps=1, name="after")["loss"])
