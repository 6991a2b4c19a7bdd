# SPDX-License-Identifier: Apache-2.0
"""Arguments and results of an `input_fn`."""

from __future__ import annotations

import functools

import pytest
import tensorflow as tf

tf1 = tf.compat.v1


def test_partials_and_objects(make, line):
    """Partials, methods and callable objects are input functions too."""

    class Input:
        def __call__(self, params):
            return line.input_fn("eval", params)

        def method(self, params, mode):
            return line.input_fn(mode, params)

    estimator = make()
    for input_fn in (functools.partial(line.input_fn, mode="eval"), Input(), Input().method):
        assert estimator.evaluate(input_fn)["loss"] > 0


def test_input_context(make):
    """A subclass may pass an input context on."""
    context = tf.distribute.InputContext(num_input_pipelines=2, input_pipeline_id=1)
    estimator = make()
    found = estimator._call_input_fn(lambda params, input_context: input_context, "train", context)
    assert found is context
    assert estimator._call_input_fn(lambda params, input_context=None: input_context, "t") is None


def test_it_runs_on_the_host(make, line):
    """Input ops are placed on the CPU."""
    devices = []

    def input_fn(params):
        devices.append(tf.zeros([]).device)
        return line.input_fn("eval", params)

    make().evaluate(input_fn)
    assert devices == ["/device:CPU:0"]


@pytest.mark.parametrize("run", ["train", "evaluate", "predict"])
def test_none(make, run):
    """The error for a result of None names the input_fn."""

    def forgetful_input_fn(params):
        pass

    with pytest.raises(ValueError, match=r"forgetful_input_fn.* returned None"):
        list(getattr(make(), run)(forgetful_input_fn) or ())


@pytest.mark.parametrize("task", ["train", "evaluate"])
def test_no_batch_at_all(make, line, task):
    """Empty data raise an error that names the input_fn."""

    def empty_input_fn(params):
        return line.input_fn("eval", params).filter(lambda features, labels: False)

    with pytest.raises(ValueError, match=f"empty_input_fn.* yields no batch.* to {task} on"):
        getattr(make(), task)(empty_input_fn)


def test_no_batch_loses_nothing(make, line):
    """Training without data leaves the checkpoint of an earlier training."""
    estimator = make()
    estimator.train(line.input_fn, steps=2)
    with pytest.raises(ValueError, match="yields no batch"):
        estimator.train(lambda params: line.input_fn("eval", params).take(0), steps=2)
    assert estimator.get_variable_value("global_step") == 2


def test_a_dataset_from_outside(make, line):
    """A dataset created outside of input_fn is refused with advice."""
    outside = line.input_fn("eval", {})
    with pytest.raises(ValueError, match="Build the dataset inside input_fn"):
        make().train(lambda params: outside, steps=1)


def test_sparse_and_ragged_features(make, line):
    """Features may be sparse and ragged."""

    def input_fn(params):
        ragged = tf.ragged.constant([[1.0, 2.0], [3.0]])
        return tf.data.Dataset.from_tensors(
            ({"x": [[1.0], [2.0]], "s": tf.sparse.from_dense([[1, 0], [0, 2]]), "r": ragged},)
            + ([[1.0], [2.0]],)
        )

    kinds = {}

    def model_fn(features, labels, mode, params):
        kinds.update({key: type(value) for key, value in features.items()})
        return line.model_fn(features, labels, mode, params)

    make(model_fn).train(input_fn)
    assert issubclass(kinds["s"], tf.SparseTensor)
    assert issubclass(kinds["r"], tf.RaggedTensor)


def test_queues(make, line):
    """Queue runners feed a model, and their end ends training."""

    def input_fn(params):
        x, y = tf1.train.slice_input_producer(
            [tf.constant(line.x), tf.constant(line.y)], num_epochs=1, shuffle=False
        )
        x, y = tf1.train.batch([x, y], batch_size=params["batch_size"])
        return {"x": x}, y

    estimator = make()
    estimator.train(input_fn)
    assert estimator.get_variable_value("global_step") == 4
    found = [prediction["y"] for prediction in estimator.predict(input_fn)]
    assert len(found) == 32
