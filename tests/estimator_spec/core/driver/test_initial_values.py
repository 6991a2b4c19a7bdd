# SPDX-License-Identifier: Apache-2.0
"""Initial values without constants that the session keeps."""

import numpy as np
import pytest
import tensorflow as tf

from estimator_spec.core.driver import initial_values

tf1 = tf.compat.v1
SHAPE = (40_000, 16)  # 2.4 MiB


def _graph_of(initializers, use_resource=True):
    graph = tf.Graph()
    with graph.as_default():
        for name, initializer in initializers.items():
            tf1.get_variable(name, SHAPE, initializer=initializer, use_resource=use_resource)
    return graph


def _values_of(graph):
    with graph.as_default(), tf1.Session() as session:
        session.run(tf1.global_variables_initializer())
        return session.run({v.op.name: v for v in tf1.global_variables()})


def _sources(graph, name):
    """Returns the types of the ops that compute a variable's initial value."""
    found, waiting = set(), [graph.get_operation_by_name(f"{name}/Assign").inputs[1].op]
    while waiting:
        op = waiting.pop()
        found.add(op.type)
        waiting.extend(i.op for i in op.inputs if i.shape.num_elements() != 2)
    return found


@pytest.mark.parametrize("use_resource", [True, False])
@pytest.mark.parametrize("number", [0.0, 0.1, -3.5])
@pytest.mark.parametrize("kind", [tf1.constant_initializer, lambda n: tf.constant(n, shape=SHAPE)])
def test_a_constant_becomes_a_fill(use_resource, number, kind):
    """A slot variable of equal elements is filled without a constant of its size."""
    graph = tf.Graph()
    with graph.as_default():
        initializer = kind(number)
        shape = None if isinstance(initializer, tf.Tensor) else SHAPE
        tf1.get_variable("slot", shape, initializer=initializer, use_resource=use_resource)
    initial_values.replace_large_constants(graph)
    assert "Fill" in _sources(graph, "slot")
    value = _values_of(graph)["slot"]
    np.testing.assert_array_equal(value, np.full(SHAPE, number, np.float32))


def test_zeros():
    """A fill op gets dimensions that TensorFlow does not fold into a constant."""
    graph = _graph_of({"slot": tf1.zeros_initializer()})
    initial_values.replace_large_constants(graph)
    assert "RandomUniformInt" in {op.type for op in graph.get_operations()}
    assert not _values_of(graph)["slot"].any()


def test_other_initial_values_stay():
    """Random initial values, and constants of different elements, are not changed."""
    several = np.arange(SHAPE[0] * SHAPE[1], dtype=np.float32).reshape(SHAPE)
    graph = _graph_of(
        {"table": tf1.random_normal_initializer(seed=3), "known": lambda *a, **k: several}
    )
    before = graph.as_graph_def()
    initial_values.replace_large_constants(graph)
    assert graph.as_graph_def() == before
    np.testing.assert_array_equal(_values_of(graph)["known"], several)


def test_small_ones_stay():
    """Small variables are not changed."""
    graph = tf.Graph()
    with graph.as_default():
        tf1.get_variable("bias", [16], initializer=tf1.constant_initializer(0.1))
    before = graph.as_graph_def()
    initial_values.replace_large_constants(graph)
    assert graph.as_graph_def() == before


def test_the_session_keeps_no_constant():
    """TensorFlow's graph optimizers don't fold the fill into a constant."""
    graph = _graph_of({"slot": tf1.constant_initializer(0.1)})
    initial_values.replace_large_constants(graph)
    with graph.as_default():
        metadata = tf1.RunMetadata()
        options = tf1.RunOptions(output_partition_graphs=True, trace_level=3)
        with tf1.Session() as session:
            session.run(tf1.global_variables_initializer(), options=options, run_metadata=metadata)
    partitions = [node for part in metadata.partition_graphs for node in part.node]
    assert partitions
    kept = [n.name for n in partitions if n.op == "Const" and _size(n) > 1000]
    assert kept == []
    assert any(n.op == "Fill" for n in partitions)


def _size(node):
    return np.prod([d.size for d in node.attr["value"].tensor.tensor_shape.dim] or [1])


def test_a_constant_of_several_elements_stays():
    """Of a constant that lists its first elements only the last one is repeated."""
    with tf.Graph().as_default() as graph:
        listed = tf1.make_tensor_proto(0.0, shape=SHAPE)
        listed.float_val[:] = [1.0, 2.0]
        kind = tf1.AttrValue(type=tf.float32.as_datatype_enum)
        attributes = {"value": tf1.AttrValue(tensor=listed), "dtype": kind}
        made = graph.create_op("Const", [], [tf.float32], attrs=attributes)
        tf1.get_variable("table", initializer=made.outputs[0], use_resource=True)
    initial_values.replace_large_constants(graph)
    table = _values_of(graph)["table"]
    assert table[0, :3].tolist() == [1.0, 2.0, 2.0]
