# SPDX-License-Identifier: Apache-2.0
"""Effects of each argument of `evaluate`."""

from __future__ import annotations

import os

import numpy as np
import pytest
import tensorflow as tf

import estimator_spec as es
from estimator_spec.core.driver import evaluation
from estimator_spec.core.updates import dependencies

tf1 = tf.compat.v1


def by_hand(line, weight, bias):
    """Returns loss and mean absolute error over all data."""
    errors = line.y - (line.x * weight + bias)
    return np.mean(errors**2), np.mean(np.abs(errors))


def test_metrics_of_a_checkpoint(trained, line):
    """The result has the model's metrics, the mean loss, and the global step."""
    result = trained.evaluate(line.input_fn)
    weight, bias = (trained.get_variable_value(name) for name in ("weight", "bias"))
    loss, error = by_hand(line, weight, bias)
    assert sorted(result) == ["global_step", "loss", "mae"]
    np.testing.assert_allclose(result["loss"], loss, rtol=1e-5)
    np.testing.assert_allclose(result["mae"], error, rtol=1e-5)
    assert result["global_step"] == 4


def test_steps(make, line, tf_log):
    """`steps` limits the number of batches."""
    estimator = make()
    result = estimator.evaluate(line.input_fn, steps=1)
    errors = line.y[:8] - line.x[:8] * 0.5
    np.testing.assert_allclose(result["loss"], np.mean(errors**2), rtol=1e-5)
    assert "Evaluation [1/1]" in tf_log


def test_more_steps_than_data(make, line):
    """An evaluation ends with its data."""
    loss, _ = by_hand(line, 0.5, 0)
    assert make().evaluate(line.input_fn, steps=100)["loss"] == pytest.approx(loss, rel=1e-5)


def test_without_a_checkpoint(make, line, tf_log):
    """An untrained model is evaluated with its initial values, and the log says so."""
    estimator = make()
    result = estimator.evaluate(line.input_fn)
    loss, _ = by_hand(line, 0.5, 0)
    np.testing.assert_allclose(result["loss"], loss, rtol=1e-5)
    assert result["global_step"] == 0
    assert (
        f"Could not find trained model in model_dir: {estimator.model_dir}, running "
        "initialization to evaluate." in tf_log
    )


def test_train_without_saving_then_evaluate(make, line):
    """A model trained without checkpoints is evaluated with initial values."""
    estimator = make(config={"save_checkpoints_steps": None, "save_checkpoints_secs": None})
    estimator.train(line.input_fn, steps=3)
    assert estimator.evaluate(line.input_fn)["global_step"] == 0


def test_checkpoint_path(trained, line):
    """An older checkpoint can be evaluated."""
    path = os.path.join(trained.model_dir, "model.ckpt-2")
    older = trained.evaluate(line.input_fn, checkpoint_path=path)
    assert older["global_step"] == 2
    assert older["loss"] > trained.evaluate(line.input_fn)["loss"]


def test_summaries_go_to_a_directory_of_their_own(trained, line, events):
    """The metrics are written to eval/ or eval_<name>/, at the global step."""
    estimator = trained
    result = estimator.evaluate(line.input_fn)
    named = estimator.evaluate(line.input_fn, steps=1, name="first")
    assert estimator.eval_dir() == os.path.join(estimator.model_dir, "eval")
    assert estimator.eval_dir("first") == os.path.join(estimator.model_dir, "eval_first")
    found = events(estimator.eval_dir())
    assert found["mae"] == {4: pytest.approx(result["mae"])}
    assert "global_step" not in found
    path = tf.make_ndarray(found["checkpoint_path"][4]).item()
    assert path.decode() == estimator.latest_checkpoint()
    assert events(estimator.eval_dir("first"))["loss"] == {4: pytest.approx(named["loss"])}


def test_kinds_of_metrics(make, line, events, tf_log):
    """Numbers, arrays and serialized summaries are written; other values are skipped."""

    def metrics(mode):
        image = tf1.Summary(value=[tf1.Summary.Value(tag="x", simple_value=5.0)])
        constants = {
            "whole": tf.constant(7, tf.int32),
            "double": tf.constant(0.5, tf.float64),
            "several": tf.constant([1.0, 2.0]),
            "packed": tf.constant(image.SerializeToString()),
            "garbage": tf.constant(b"\xff\xff not a summary"),
        }
        return {
            "eval_metrics": (
                lambda: {name: (value, tf.no_op()) for name, value in constants.items()},
                [],
            )
        }

    estimator = make(params={"spec": metrics})
    result = estimator.evaluate(line.input_fn)
    found = events(estimator.eval_dir())
    assert result["several"].tolist() == [1, 2]
    assert found["whole"] == {0: 7.0}
    assert found["double"] == {0: 0.5}
    assert found["packed/0"] == {0: 5.0}
    assert tf.make_ndarray(found["several"][0]).tolist() == [1, 2]
    assert "Skipping summary for garbage, cannot parse string to Summary." in tf_log


def test_log_lines(make, line, tf_log):
    """The log has the lines of TensorFlow's Estimator, which scripts parse."""
    make().evaluate(line.input_fn)
    text = "\n".join(tf_log)
    assert "Starting evaluation at" in text
    assert "Finished evaluation at" in text
    assert "Saving dict for global step 0: global_step = 0, loss = " in text


@pytest.mark.parametrize("name", ["loss", "global_step"])
def test_names_that_are_taken(make, line, name):
    """A metric of the model can't be named `loss` or `global_step`."""

    def metrics(mode):
        return {"eval_metrics": (lambda: {name: tf1.metrics.mean([1.0])}, [])}

    with pytest.raises(ValueError, match=f"Metric with name `{name}` is not allowed"):
        make(params={"spec": metrics}).evaluate(line.input_fn)


def test_a_local_init_op_of_the_models(make, line):
    """A scaffold's local_init_op and the metrics' initializers both run."""

    def scaffold(mode):
        def scaffold_fn():
            mine = tf1.get_variable(
                "mine",
                initializer=1.0,
                trainable=False,
                collections=[tf1.GraphKeys.LOCAL_VARIABLES],
            )
            return tf1.train.Scaffold(local_init_op=tf.group(mine.assign(2.0)))

        return {"scaffold_fn": scaffold_fn, "evaluation_hooks": [Read()]}

    class Read(tf1.train.SessionRunHook):
        def end(self, session):
            (mine,) = (v for v in tf1.local_variables() if v.op.name == "mine")
            read.append(session.run(mine))

    read = []
    _, error = by_hand(line, 0.5, 0)
    result = make(params={"spec": scaffold}).evaluate(line.input_fn)
    assert result["mae"] == pytest.approx(error, rel=1e-5)
    assert read == [2.0]


def test_each_local_variable_is_assigned_once():
    """A variable that the model's local_init_op assigns isn't initialized by another op, too."""
    local = [tf1.GraphKeys.LOCAL_VARIABLES]
    with tf.Graph().as_default():
        mine, _ = (tf1.get_variable(n, initializer=1.0, collections=local) for n in ("a", "b"))
        given = tf1.train.Scaffold(local_init_op=tf.group(mine.assign(2.0)))
        op = evaluation.add_default_local_init(given).local_init_op
        assigns = [o for o in dependencies.collect_ancestors(op) if o.type == "AssignVariableOp"]
        assert sorted(assign.inputs[0].op.name for assign in assigns) == ["a", "b"]


def test_twice_is_the_same(make, line):
    """Each evaluation resets its metrics."""
    estimator = make()
    assert estimator.evaluate(line.input_fn) == estimator.evaluate(line.input_fn)


def test_an_estimator_spec(make, line):
    """The model may return an EstimatorSpec with eval_metric_ops."""

    def model_fn(features, labels, mode, params):
        loss = tf1.losses.mean_squared_error(labels, line.forward(features))
        metric = tf1.metrics.mean(labels)
        return es.EstimatorSpec(mode, loss=loss, eval_metric_ops={"label": metric})

    assert make(model_fn).evaluate(line.input_fn)["label"] == pytest.approx(1.0, abs=1e-5)


def test_a_hook_reads_the_count_of_batches(trained, line):
    """A hook gets TensorFlow's count of evaluated batches, also after the graph is finalized."""
    from tensorflow.python.training import evaluation as tf_evaluation

    counts = []

    class Read(tf1.train.SessionRunHook):
        def after_run(self, run_context, run_values):
            counter = tf_evaluation._get_or_create_eval_step()
            counts.append(int(run_context.session.run(counter)))

    trained.evaluate(line.input_fn, steps=3, hooks=[Read()])
    assert counts == [1, 2, 3]
