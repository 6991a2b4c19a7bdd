# SPDX-License-Identifier: Apache-2.0
"""Captured gradients of activations against those of TensorFlow 2.15.1's own functions."""

from __future__ import annotations

import collections
import functools
import re
import types

import numpy as np
import pytest
import tensorflow as tf

from estimator_spec.core.cores import activation_gradients
from estimator_spec.core.updates import dependencies

tf1 = tf.compat.v1
TABLES = {"a": "first", "b": "first", "c": "second"}
VALUES = {key: np.random.RandomState(ord(key)).normal(size=[2, 3]).astype("f") for key in TABLES}
Descent = tf1.train.GradientDescentOptimizer
PREFIX = activation_gradients.PREFIX


class Model:
    """A model of three activations, the third of which its loss may not use."""

    def __init__(self, features, used="abc"):
        self.features = features
        self.kernel = tf1.get_variable("kernel", [3, 2], initializer=tf1.ones_initializer())
        layer = sum(tf.matmul(features[key] ** 2, self.kernel) for key in used)
        self.loss = tf.reduce_sum(layer**2)

    def stand_ins(self, table=""):
        """Returns the stand-ins of a table, or of all."""
        return [v for v in tf1.trainable_variables() if v.op.name.startswith(PREFIX + table)]


class LossScaling(Descent):
    """Optimizer that scales the loss, and its gradients back."""

    def compute_gradients(self, loss, *args, **kwargs):
        found = super().compute_gradients(8 * loss, *args, **kwargs)
        return [(None if g is None else g / 8, variable) for g, variable in found]


def clipped_by_hand(model):
    """Applies clipped gradients of `tf.gradients`."""
    variables = tf1.trainable_variables()
    gradients, _ = tf.clip_by_global_norm(tf1.gradients(model.loss, variables), 1e-3)
    Descent(1.0).apply_gradients(zip(gradients, variables, strict=True))


def two_optimizers(model):
    """Trains stand-ins and other variables by an optimizer each."""
    Descent(1.0).minimize(3 * model.loss, var_list=model.stand_ins())
    Descent(1.0).minimize(model.loss, var_list=[model.kernel])


def each_table(model):
    """Trains the stand-ins of each table by an optimizer of its own."""
    Descent(1.0).minimize(3 * model.loss, var_list=model.stand_ins("first"))
    Descent(1.0).minimize(5 * model.loss, var_list=model.stand_ins("second"))


def twice(model):
    """Computes all gradients twice."""
    Descent(1.0).minimize(model.loss)
    Descent(1.0).minimize(model.loss)


def tape(model):
    """Computes gradients of a tape in a graph."""
    with tf.GradientTape() as recorded:
        recorded.watch(model.features["a"])
        loss = tf.reduce_sum(model.features["a"] ** 2)
    recorded.gradient(loss, tf1.trainable_variables())


def penalty(model):
    """Minimizes a loss with a gradient in it."""
    (gradient,) = tf1.gradients(model.loss, [model.features["a"]])
    Descent(1.0).minimize(model.loss + tf.reduce_sum(gradient**2))


def gathered(model):
    """Minimizes a loss whose gradient is sparse."""
    Descent(1.0).minimize(tf.reduce_sum(tf.gather(model.features["a"], [1, 1])))


WAYS = {
    "minimize": lambda model: Descent(1.0).minimize(model.loss),
    "another loss": lambda model: Descent(1.0).minimize(10 * model.loss),
    "gradient of the loss": lambda model: Descent(1.0).minimize(
        model.loss, grad_loss=tf.constant(2.0)
    ),
    "loss scaling": lambda model: LossScaling(1.0).minimize(model.loss),
    "clipped by hand": clipped_by_hand,
    "no stand-ins": lambda model: Descent(1.0).minimize(model.loss, var_list=[model.kernel]),
    "only stand-ins": lambda model: Descent(1.0).minimize(model.loss, var_list=model.stand_ins()),
    "one table": lambda model: Descent(1.0).minimize(
        model.loss, var_list=[model.kernel, *model.stand_ins("second")]
    ),
    "two optimizers": two_optimizers,
    "an optimizer for each table": each_table,
    "twice": twice,
    "tape": tape,
    "penalty": penalty,
    "gathered": gathered,
    "stopped": lambda model: Descent(1.0).minimize(tf.reduce_sum(tf.stop_gradient(model.loss))),
    "no gradient": lambda model: None,
}


def ours(features, share=False):
    """Connects features to our stand-ins; returns them, and a function of their gradients."""
    captures = activation_gradients.ActivationGradients(TABLES, share)
    connected = captures.connect(features, 0)
    return connected, lambda: {key: captures.captured(key, 0) for key in TABLES}


def theirs(features):
    """Connects features to TensorFlow's stand-ins; returns what `ours` does."""
    gradient = pytest.importorskip("tensorflow.python.tpu.tpu_embedding_gradient")
    by_table = collections.OrderedDict(first=["a", "b"], second=["c"])
    feature = collections.namedtuple("Feature", "table_id max_sequence_length")
    embedding = types.SimpleNamespace(
        table_to_features_dict=by_table,
        table_to_config_dict=collections.OrderedDict.fromkeys(
            by_table, types.SimpleNamespace(dimension=3)
        ),
        feature_to_config_dict={key: feature(table, 0) for key, table in TABLES.items()},
        batch_size_per_core=2,
    )
    stand_ins, _ = gradient.create_dummy_table_variables(embedding)
    connected = gradient.hook_dummy_table_variables_to_activations(
        embedding, collections.OrderedDict(features), stand_ins
    )
    return connected, lambda: gradient.get_gradients_through_dummy_table_variables(embedding)


def capture(connect, way, used):
    """Returns the gradients that a way to train captures, zeros where there is none."""
    # The CPU has no kernel of their op, whose value is fed.
    config = tf1.ConfigProto(graph_options=tf1.GraphOptions(place_pruned_graph=True))
    with tf.Graph().as_default(), tf1.Session(config=config) as session:
        inputs = {key: tf1.placeholder(tf.float32, [2, 3]) for key in TABLES}
        connected, gradients = connect(inputs)
        way(Model(connected, used))
        found = {
            key: tf.zeros([2, 3]) if gradient is None else tf.convert_to_tensor(gradient)
            for key, gradient in gradients().items()
        }
        variables = tf1.get_collection(tf1.GraphKeys.TRAINABLE_VARIABLES)
        session.run([v.initializer for v in variables])
        feeds = [(inputs[key], VALUES[key]) for key in TABLES]
        feeds += [(connected[key], VALUES[key]) for key in TABLES]
        return session.run(found, dict(feeds)), [v.op.name for v in variables]


@pytest.mark.reference
@pytest.mark.parametrize("used", ["abc", "ab", "ac"])
@pytest.mark.parametrize("way", WAYS)
def test_captured_gradients_are_the_references(way, used):
    """Gradients, names of stand-ins and errors are those of TensorFlow 2.15.1's own functions."""
    try:
        wanted, names = capture(theirs, WAYS[way], used)
    except (RuntimeError, ValueError) as error:
        words = "Duplicate gradients" if "Duplicate" in str(error) else re.escape(str(error))
        with pytest.raises(type(error), match=words):
            capture(ours, WAYS[way], used)
        assert way in ("twice", "stopped", "an optimizer for each table")
        return
    assert way != "twice"
    found, our_names = capture(ours, WAYS[way], used)
    assert our_names == names
    for key, value in wanted.items():
        np.testing.assert_array_equal(found[key], value, err_msg=key)


@pytest.mark.parametrize("used", ["abc", "ac"])
@pytest.mark.parametrize(
    "way", [way for way in WAYS if way not in ("one table", "an optimizer for each table")]
)
def test_one_stand_in_for_all_tables(way, used):
    """A stand-in that all tables share captures the same gradients, and has the same errors."""
    try:
        wanted, names = capture(ours, WAYS[way], used)
    except (RuntimeError, ValueError) as error:
        with pytest.raises(type(error)):
            capture(functools.partial(ours, share=True), WAYS[way], used)
        return
    found, shared_names = capture(functools.partial(ours, share=True), WAYS[way], used)
    assert shared_names == [f"{PREFIX}of_all_tables", *(n for n in names if PREFIX not in n)]
    for key, value in wanted.items():
        np.testing.assert_array_equal(found[key], value, err_msg=key)


@pytest.mark.parametrize("make", [Descent, tf1.train.AdamOptimizer])
def test_a_step_runs_nothing_for_stand_ins(make):
    """A finished step neither reads nor updates stand-ins; it updates other variables."""
    with tf.Graph().as_default() as graph, tf1.Session() as session:
        captures = activation_gradients.ActivationGradients(TABLES)
        model = Model(captures.connect({k: tf.constant(v) for k, v in VALUES.items()}, 0))
        stand_ins = model.stand_ins()
        train_op = make(1.0).minimize(model.loss)
        captures.finish()
        step = dependencies.collect_ancestors(train_op)
        assert not [op for op in step for v in stand_ins if v.handle in list(op.inputs)]
        assert "IdentityN" in {op.type for op in graph.get_operations()} - {op.type for op in step}
        session.run([tf1.global_variables_initializer(), tf1.local_variables_initializer()])
        session.run(train_op)
        assert (session.run(model.kernel) != 1.0).all()
