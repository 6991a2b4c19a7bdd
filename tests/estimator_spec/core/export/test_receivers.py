# SPDX-License-Identifier: Apache-2.0
"""Receivers, and the functions that build them."""

from __future__ import annotations

import types

import pytest
import tensorflow as tf

from estimator_spec.core.export import receivers

tf1 = tf.compat.v1


@pytest.fixture(autouse=True)
def graph():
    """Default graph of each test."""
    with tf.Graph().as_default():
        yield


def test_lone_tensors_get_names():
    """A single feature is named 'feature', a single input 'input'."""
    x = tf1.placeholder(tf.float32, [None])
    found = receivers.ServingInputReceiver(x, x, {"other": x})
    assert found.features == {"feature": x}
    assert found.receiver_tensors == {"input": x}
    assert found.receiver_tensors_alternatives == {"other": {"input": x}}


def test_all_kinds_of_tensors():
    """Sparse and ragged tensors are accepted, and ints as names of features."""
    sparse = tf1.sparse_placeholder(tf.int64)
    ragged = tf1.ragged.placeholder(tf.int64, 1)
    found = receivers.ServingInputReceiver({0: sparse, 1: ragged}, {"s": sparse, "r": ragged})
    assert set(found.features) == {0, 1}


class LabeledTensor:
    """A tensor with names of its axes, as libraries define it."""

    def __init__(self, tensor):
        self.tensor = tensor


tf.register_tensor_conversion_function(
    LabeledTensor, lambda value, dtype=None, name=None, as_ref=False: value.tensor
)


def test_objects_that_convert_to_tensors():
    """An object with a `tensor` attribute and a conversion is a feature; others are refused."""
    labeled = LabeledTensor(tf1.placeholder(tf.float32, [None]))
    found = receivers.ServingInputReceiver({"x": labeled}, labeled)
    assert found.features == {"x": labeled}
    with pytest.raises(ValueError, match="feature x must be a Tensor"):
        receivers.ServingInputReceiver({"x": types.SimpleNamespace(tensor=1)}, labeled.tensor)


@pytest.mark.parametrize(
    "features, fed, alternatives, message",
    [
        (None, 1, None, "features must be defined"),
        ("x", None, None, "receiver_tensors must be defined"),
        ({"x": 1}, "x", None, "feature x must be a Tensor, SparseTensor, or RaggedTensor"),
        ({"x": "x"}, {"x": [1]}, None, "receiver_tensor x must be a Tensor"),
        ({1.5: "x"}, "x", None, "feature keys must be strings or ints"),
        ("x", {1: "x"}, None, "receiver_tensor keys must be strings: 1"),
        ("x", "x", "x", "receiver_tensors_alternatives must be a dict"),
        ("x", "x", {"a": {"b": 1}}, "receiver_tensors_alternative b must be a Tensor"),
    ],
)
def test_what_is_refused(features, fed, alternatives, message):
    """Missing arguments, other types and other names are refused."""
    x = tf1.placeholder(tf.float32, [None])

    def fill(value):
        if isinstance(value, dict):
            return {key: fill(entry) for key, entry in value.items()}
        return x if value == "x" else value

    with pytest.raises(ValueError, match=message):
        receivers.ServingInputReceiver(fill(features), fill(fed), fill(alternatives))


def test_a_tensor_stays_a_tensor():
    """TensorServingInputReceiver keeps a single feature without a name."""
    x = tf1.placeholder(tf.float32, [None])
    found = receivers.TensorServingInputReceiver(x, x)
    assert found.features is x
    assert found.receiver_tensors == {"input": x}
    for wrong, message in ((None, "features must be defined"), ({"x": x}, "must be a Tensor")):
        with pytest.raises(ValueError, match=message):
            receivers.TensorServingInputReceiver(wrong, x)


def test_supervised():
    """SupervisedInputReceiver keeps features and labels."""
    x = tf1.placeholder(tf.float32, [None])
    found = receivers.SupervisedInputReceiver(x, {"y": x}, {"x": x})
    assert found.features is x
    assert found.labels == {"y": x}
    with pytest.raises(ValueError, match="labels must be defined"):
        receivers.SupervisedInputReceiver(x, None, x)


def test_unsupervised():
    """UnsupervisedInputReceiver has no labels."""
    x = tf1.placeholder(tf.float32, [None])
    found = receivers.UnsupervisedInputReceiver(x, x)
    assert found == ({"feature": x}, {"input": x}, None)


@pytest.mark.parametrize("batch_size", [None, 3])
def test_parsing(batch_size):
    """The features are parsed from a placeholder of serialized examples."""
    spec = {"x": tf.io.FixedLenFeature([2], tf.float32), "w": tf.io.VarLenFeature(tf.string)}
    found = receivers.build_parsing_serving_input_receiver_fn(spec, batch_size)()
    assert found.receiver_tensors["examples"].dtype == tf.string
    assert found.receiver_tensors["examples"].shape.as_list() == [batch_size]
    assert found.features["x"].shape.as_list() == [batch_size, 2]
    assert isinstance(found.features["w"], tf.SparseTensor)


def test_raw():
    """Placeholders have the tensors' dtypes, names and shapes without the batch size."""
    y = tf.zeros([5, 2], tf.int32, name="mine")
    make = receivers.build_raw_serving_input_receiver_fn({"y": y})
    with tf.Graph().as_default():
        found = make()
        assert found.features == found.receiver_tensors
        placeholder = found.features["y"]
        assert placeholder.op.type == "Placeholder"
        assert placeholder.op.name == "mine"
        assert placeholder.shape.as_list() == [None, 2]
        assert placeholder.dtype == tf.int32


def test_raw_supervised():
    """Features and labels become placeholders, fed by their names."""
    x, y = tf.zeros([5, 2]), tf.zeros([5])
    found = receivers.build_raw_supervised_input_receiver_fn({"x": x}, y, 4)()
    assert found.features["x"].shape.as_list() == [4, 2]
    assert found.labels.shape.as_list() == [4]
    assert sorted(found.receiver_tensors) == ["label", "x"]
    assert found.receiver_tensors["label"] is found.labels


def test_raw_supervised_names_must_differ():
    """Features and labels must have different names."""
    x = tf.zeros([5])
    with pytest.raises(ValueError, match=r"must have distinct keys.*\['x'\]"):
        receivers.build_raw_supervised_input_receiver_fn({"x": x}, {"x": x})
