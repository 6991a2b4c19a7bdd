# SPDX-License-Identifier: Apache-2.0
"""Effects of each argument of `predict`."""

from __future__ import annotations

import inspect
import os

import numpy as np
import pytest
import tensorflow as tf

import estimator_spec as es
from estimator_spec.core.driver import prediction

tf1 = tf.compat.v1


def expected(estimator, line):
    """Computes the predictions of the latest checkpoint with NumPy."""
    return line.x * estimator.get_variable_value("weight") + estimator.get_variable_value("bias")


def test_one_example_after_the_other(trained, line):
    """Each example is a dict."""
    found = list(trained.predict(line.input_fn))
    assert [sorted(example) for example in found] == [["y"]] * 32
    np.testing.assert_allclose(
        [example["y"] for example in found], expected(trained, line), rtol=1e-5
    )


def test_partial_last_batch(make, line):
    """A smaller last batch yields exactly its examples."""
    estimator = make(predict_batch_size=10)
    found = list(estimator.predict(line.input_fn))
    assert len(found) == 32
    np.testing.assert_allclose(found[-1]["y"], line.x[-1] * 0.5, rtol=1e-5)


def test_whole_batches(trained, line):
    """`yield_single_examples=False` yields whole batches."""
    found = list(trained.predict(line.input_fn, yield_single_examples=False))
    assert [batch["y"].shape for batch in found] == [(8, 1)] * 4


def test_a_single_tensor(make, line):
    """Predictions may be one tensor; then examples are arrays."""

    def model_fn(features, labels, mode, params):
        return es.EstimatorSpec(mode, predictions=line.forward(features))

    found = list(make(model_fn).predict(line.input_fn))
    np.testing.assert_allclose(found, line.x * 0.5)


@pytest.mark.parametrize("named", [True, False])
def test_no_batch_dimension(make, line, named):
    """A scalar among the predictions is named in the error, and whole batches may have it."""

    def model_fn(features, labels, mode, params):
        y = line.forward(features)
        scalar = tf.reduce_sum(y)
        return es.EstimatorSpec(mode, {"y": y, "total": scalar} if named else scalar)

    estimator = make(model_fn)
    what = "The prediction 'total'" if named else "The prediction"
    with pytest.raises(ValueError, match=rf"^{what} has no batch .*yield_single_examples=False"):
        list(estimator.predict(line.input_fn))
    found = list(estimator.predict(line.input_fn, yield_single_examples=False))
    assert len(found) == 4


@pytest.mark.parametrize("reader", ["input_fn", "model_fn"])
@pytest.mark.parametrize("mode", ["train", "eval", "predict"])
def test_a_batch_size_that_is_missing(make, line, reader, mode):
    """A program that reads params['batch_size'] without one is told which argument sets it."""

    def input_fn(mode, params):
        size = params["batch_size"] if reader == "input_fn" else 8
        return line.input_fn(mode, {"batch_size": size})

    def model_fn(features, labels, mode, params):
        return line.model_fn(features, labels, mode, {"batch_size": params["batch_size"]})

    sizes = dict.fromkeys([f"{each}_batch_size" for each in ("train", "eval", "predict")])
    estimator = make(line.model_fn if reader == "input_fn" else model_fn, **sizes)
    with pytest.raises(ValueError, match=rf"^{reader} reads params\['batch_size'\].*{mode}_batch"):
        if mode == "train":
            estimator.train(input_fn, steps=1)
        elif mode == "eval":
            estimator.evaluate(input_fn)
        else:
            list(estimator.predict(input_fn))


@pytest.fixture
def two_outputs(make, line):
    """A model that predicts y and its double."""

    def outputs(mode):
        graph = tf1.get_default_graph()
        y = graph.get_tensor_by_name("add:0")
        return {"predictions": {"y": y, "double": 2 * y, "scalars": tf.zeros([3])}}

    return make(params={"spec": outputs})


def test_predict_keys(two_outputs, line):
    """Only the predictions in `predict_keys` are computed."""
    found = list(two_outputs.predict(line.input_fn, predict_keys=["double"]))
    assert sorted(found[0]) == ["double"]
    np.testing.assert_allclose([f["double"] for f in found], line.x, rtol=1e-5)


def test_predict_keys_that_the_model_does_not_have(two_outputs, line):
    """Unknown `predict_keys` raise an error with them and the existing keys."""
    with pytest.raises(ValueError, match="Expected to run at least one output from .*'double'"):
        next(two_outputs.predict(line.input_fn, predict_keys=["nothing"]))


def test_predict_keys_of_a_tensor(make, line):
    """`predict_keys` are an error if the predictions are a single tensor."""

    def model_fn(features, labels, mode, params):
        return es.EstimatorSpec(mode, predictions=line.forward(features))

    with pytest.raises(ValueError, match="predict_keys argument is not valid"):
        next(make(model_fn).predict(line.input_fn, predict_keys=["y"]))


def test_predictions_of_different_lengths(two_outputs, line):
    """Predictions of different lengths can only be yielded as whole batches."""
    with pytest.raises(ValueError, match=r"Batch length of predictions should be same\. scalars"):
        next(two_outputs.predict(line.input_fn))
    batch = next(two_outputs.predict(line.input_fn, yield_single_examples=False))
    assert batch["scalars"].shape == (3,)


@pytest.mark.parametrize("lengths", [(3, 4), (4, 3)])
def test_which_prediction_differs(lengths):
    """The first prediction has the batch's length; another that is shorter or longer is named."""
    values = dict(zip("ab", map(np.zeros, lengths), strict=True))
    with pytest.raises(ValueError, match=f"b has .* {lengths[1]}, not {lengths[0]}"):
        list(prediction.split_batch(values))


def test_checkpoint_path(trained, line):
    """An older checkpoint can predict."""
    path = os.path.join(trained.model_dir, "model.ckpt-2")
    weight = tf.train.load_variable(path, "weight")
    bias = tf.train.load_variable(path, "bias")
    found = next(trained.predict(line.input_fn, checkpoint_path=path))
    np.testing.assert_allclose(found["y"], line.x[0] * weight[0] + bias, rtol=1e-5)


def test_without_a_checkpoint(make, line, tf_log):
    """An untrained model predicts with its initial values, and the log says so."""
    estimator = make()
    next(estimator.predict(line.input_fn))
    assert (
        f"Could not find trained model in model_dir: {estimator.model_dir}, running "
        "initialization to predict." in tf_log
    )


def test_labels_are_ignored(make, line):
    """A dataset of pairs predicts as one of features does."""

    def features_only(params, mode):
        return line.input_fn(mode, params).map(lambda features, labels: features)

    pairs = [p["y"] for p in make().predict(line.input_fn)]
    alone = [p["y"] for p in make().predict(features_only)]
    np.testing.assert_array_equal(pairs, alone)


def test_nothing_to_predict(make, line):
    """Empty data yield no predictions, and no error."""
    assert list(make().predict(lambda params: line.input_fn("infer", params).take(0))) == []


def test_is_lazy(make):
    """Nothing runs before the first `next`."""
    predictions = make().predict(None)
    assert inspect.isgenerator(predictions)


def test_two_at_a_time(trained, line):
    """Two generators can be read alternately, unlike TensorFlow's Estimator's."""
    want = expected(trained, line)
    both = zip(trained.predict(line.input_fn), trained.predict(line.input_fn), strict=True)
    found = [(a["y"], b["y"]) for a, b in both]
    np.testing.assert_allclose([a for a, _ in found], want, rtol=1e-5)
    np.testing.assert_allclose([b for _, b in found], want, rtol=1e-5)


def test_training_between_two_predictions(trained, line):
    """A generator continues with its own variables after other calls train and evaluate."""
    want = expected(trained, line)
    predictions = trained.predict(line.input_fn)
    found = [next(predictions)["y"] for _ in range(3)]
    graph = tf1.get_default_graph()
    trained.train(line.input_fn, steps=20)
    trained.evaluate(line.input_fn)
    found += [prediction["y"] for prediction in predictions]
    assert tf1.get_default_graph() is graph
    np.testing.assert_allclose(found, want, rtol=1e-5)
    later = [prediction["y"] for prediction in trained.predict(line.input_fn)]
    assert np.abs(later - want).max() > 0.1


class Ends(tf1.train.SessionRunHook):
    """Records its session, and counts the batches."""

    def __init__(self):
        self.batches = 0
        self.ended = 0

    def after_create_session(self, session, coord):
        self.session = session

    def after_run(self, run_context, run_values):
        self.batches += 1

    def end(self, session):
        self.ended += 1


def test_closing_early(make, line):
    """Closing the generator closes the session and resets the default graph."""
    hook = Ends()
    graph = tf1.get_default_graph()
    predictions = make().predict(line.input_fn, hooks=[hook])
    next(predictions)
    predictions.close()
    with pytest.raises(RuntimeError, match="closed"):
        hook.session.run("weight/Read/ReadVariableOp:0")
    assert hook.batches == 1
    assert tf1.get_default_graph() is graph


def test_dropping_it_early(make, line):
    """Deleting the generator closes the session, too."""
    hook = Ends()
    predictions = make().predict(line.input_fn, hooks=[hook])
    next(predictions)
    del predictions
    with pytest.raises(RuntimeError, match="closed"):
        hook.session.run("weight/Read/ReadVariableOp:0")


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("dataset", [False, True])
def test_predictions_without_end_are_announced(tmp_path, tf_log, dataset, sparse):
    """Tensors instead of a dataset cause a warning; a dataset's sparse features don't."""

    def input_fn():
        x = tf.constant([[1.0], [2.0]])
        features = {"x": tf.sparse.from_dense(x) if sparse else x}
        return tf.data.Dataset.from_tensors(features) if dataset else features

    def model_fn(features, mode):
        x = features["x"]
        x = tf.sparse.to_dense(x) if sparse else x
        return es.EstimatorSpec(mode, predictions=x * 2)

    estimator = es.Estimator(model_fn, str(tmp_path))
    assert next(iter(estimator.predict(input_fn))) == 2.0
    assert any("yields forever" in entry for entry in tf_log) is not dataset


def test_predict_loops_of_programs_find_the_selection_of_keys(trained):
    """`_extract_keys`, which public programs call, keeps the wanted predictions."""
    assert trained._extract_keys({"y": 1, "z": 2}, ["z"]) == {"z": 2}
    assert trained._extract_keys(3, None) == 3
    with pytest.raises(ValueError, match="non-dict predictions"):
        trained._extract_keys(3, ["z"])
