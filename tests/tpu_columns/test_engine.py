# SPDX-License-Identifier: Apache-2.0
"""What looks up and updates a table, and the reason where it isn't the kernels."""

from __future__ import annotations

import logging

import numpy as np
import pytest
import tensorflow as tf

from tpu_columns import Hardware, Mode, engine, lookup, optimizations, placement
from tpu_columns.kernels import libraries, loading
from tpu_columns.optimizations import Optimization

tf1 = tf.compat.v1
ALL = frozenset(Optimization)

pytestmark = pytest.mark.skipif(
    loading.load() is None, reason=f"no kernels are built: {libraries.COMMAND}"
)


def in_driver(find, mode=Mode.TRAIN, chosen=ALL):
    """Returns what a function finds in a graph of the driver."""
    with (
        tf.Graph().as_default(),
        placement.running(mode, Hardware.CPU),
        optimizations.using(chosen),
    ):
        return find()


def in_function():
    """Returns the engine of a graph within a function."""
    found = []
    tf.function(lambda: found.append(engine.of_graph())).get_concrete_function()
    return found[0]


def in_condition():
    """Returns the engine of a graph within a condition of TF1."""
    found = []

    def look():
        found.append(engine.of_graph())
        return tf.constant(0)

    tf1.disable_control_flow_v2()
    tf1.cond(tf1.placeholder_with_default(True, []), look, look)
    tf1.enable_control_flow_v2()
    return found[0]


def test_graphs():
    """Only graphs that the driver builds have native ops, outside of functions and conditions."""
    assert engine.of_graph().reason == "the graph isn't the driver's"
    with tf.Graph().as_default():
        assert engine.of_graph().reason == "the graph isn't the driver's"
    for mode in Mode:
        assert in_driver(engine.of_graph, mode).is_native == (mode is not Mode.SERVE)
    assert "exported" in in_driver(engine.of_graph, Mode.SERVE).reason
    assert in_driver(engine.of_graph, chosen=frozenset()).reason == libraries.TURNED_OFF
    assert in_driver(in_function).reason == "the lookup is in a function"
    assert in_driver(in_condition).reason == "the lookup is in a condition or loop"


def test_lookups(caplog):
    """A float32 variable of this process is looked up by kernels; the log has other reasons."""

    def variable(dtype="float32", **arguments):
        return tf1.get_variable("table", [3, 2], dtype, **arguments)

    def reason(make, weights=None):
        return in_driver(lambda: engine.of_lookup(make(), weights() if weights else None)).reason

    def weights_of(values):
        return tf.SparseTensor([[0, 0]], values, [1, 1])

    assert reason(variable) == ""
    assert reason(lambda: variable("float16")) == "it is no float32 variable"
    assert reason(lambda: tf.zeros([3, 2])) == "it is no float32 variable"
    assert reason(variable, lambda: weights_of([1.0])) == ""
    trained = tf1.get_variable
    assert (
        reason(variable, lambda: weights_of(trained("w", [1]) * 2.0))
        == "its weights have a gradient"
    )
    caplog.set_level(logging.DEBUG, "tensorflow")
    ids = np.array([[1]])
    in_driver(lambda: lookup.dense_lookup(variable("float16"), tf.constant(ids)))
    assert "TensorFlow's ops look up table:0: it is no float32 variable" in caplog.text


@pytest.mark.parametrize("fact", ["on_servers", "in_turns", "quantized"])
def test_tables_of_a_core(fact):
    """Tables of an embedding core have one reason each, that of the graph first."""
    native = engine.EngineChoice()
    assert engine.of_tables(native, have_rules=True).is_native
    assert "optimizer" in engine.of_tables(native, have_rules=False).reason
    assert not engine.of_tables(native, have_rules=True, **{fact: True}).is_native
    off = engine.EngineChoice("a reason")
    assert engine.of_tables(off, have_rules=False, **{fact: True}) == off
