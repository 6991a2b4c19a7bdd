# SPDX-License-Identifier: Apache-2.0
"""Removal of the duplicate backward pass, and ops that must not be taken for equal."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

import estimator_spec
import tpu_columns
import traces
from estimator_spec.updates import backward_pass, dependencies

tf1 = tf.compat.v1
LAYERS = 3
GATES = {
    "none": tf1.train.Optimizer.GATE_NONE,
    "op": tf1.train.Optimizer.GATE_OP,
    "graph": tf1.train.Optimizer.GATE_GRAPH,
}


def _network(layer, use_resource=True):
    """Returns the loss of a deep network on log1p of a layer."""
    layer = tf.math.log1p(tf.square(layer))  # its gradient waits for the one that comes to it
    for number in range(LAYERS):
        shape = [layer.shape[1], 4]
        weights = tf1.get_variable(f"weights_{number}", shape, use_resource=use_resource)
        layer = tf.nn.relu(tf.matmul(layer, weights)) + 0.1
    logits = tf.reduce_sum(layer, 1)
    labels = tf.constant([1.0, 0.0, 1.0])
    return tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits))


def _made_since(graph, count):
    return graph.get_operations()[count:]


def _trained(merge, gate, use_resource, after_updates=False):
    """Runs a step with gradients of the activations; returns values and the ops that ran."""
    with tf.Graph().as_default() as graph, tf1.Session() as session:
        tf1.set_random_seed(1)
        given = np.random.default_rng(1).normal(size=(3, 4)).astype(np.float32)
        activations = tf1.placeholder(tf.float32, [3, 4])
        loss = _network(activations, use_resource)
        optimizer = tf1.train.GradientDescentOptimizer(0.1)
        # As a program with normalized batches does.
        average = tf1.get_variable("average", [], use_resource=use_resource, trainable=False)
        with tf.control_dependencies([average.assign(loss)] if after_updates else []):
            gradients = optimizer.compute_gradients(loss, gate_gradients=GATES[gate])
        count = len(graph.get_operations())
        (gradient,) = tf1.gradients(loss, [activations], name="embedding_gradients")
        wanted = tf.identity(gradient)
        again = _made_since(graph, count)[:-1]
        if merge:
            assert (
                backward_pass.remove_duplicate_backward_pass(graph, again, graph.get_operations())
                > 5 * LAYERS
            )
            read = [value.op for op in again for value in op.inputs if value.op not in again]
            held_back = [op for op in read if op.type == "Identity" and op.control_inputs]
            assert bool(held_back) == (gate == "op")
        with tf.control_dependencies([wanted]):
            step = optimizer.apply_gradients(gradients)
        session.run(tf1.global_variables_initializer())
        metadata = tf1.RunMetadata()
        options = tf1.RunOptions(trace_level=tf1.RunOptions.FULL_TRACE)
        value, _ = session.run(
            [wanted, step], {activations: given}, options=options, run_metadata=metadata
        )
        return [value, *session.run(tf1.trainable_variables())], traces.kinds(metadata)


@pytest.mark.parametrize("use_resource", [True, False])
@pytest.mark.parametrize("gate", GATES)
def test_a_model_goes_back_once(gate, use_resource):
    """Gradients of activations are bitwise equal, and each matrix product runs once."""
    plain, _ = _trained(False, gate, use_resource)
    merged, ran = _trained(True, gate, use_resource)
    for ours, theirs in zip(merged, plain, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert ran["MatMul"] == 3 * LAYERS


def test_an_optimizer_that_waits_for_updates():
    """Backward passes merge also for an optimizer in `tf.control_dependencies(update_ops)`."""
    plain, _ = _trained(False, "op", True, after_updates=True)
    merged, ran = _trained(True, "op", True, after_updates=True)
    for ours, theirs in zip(merged, plain, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert ran["MatMul"] == 3 * LAYERS


def _with_conditions(merge, training):
    """Returns gradients of the activations of a model with a TF1 condition at each layer."""
    with tf.Graph().as_default() as graph, tf1.Session() as session:
        activations = tf1.placeholder(tf.float32, [3, 4])
        is_training = tf1.placeholder(tf.bool, [])

        def dropped(layer):
            return tf1.cond(is_training, lambda: layer * 0.5, lambda: layer)

        hidden = tf1.get_variable("hidden", [4, 4], initializer=tf1.ones_initializer())
        last = tf1.get_variable("last", [4, 1], initializer=tf1.ones_initializer())
        layer = dropped(tf.matmul(dropped(activations), hidden))
        loss = tf.reduce_sum(tf.matmul(tf.tanh(layer), last))
        step = tf1.train.GradientDescentOptimizer(0.1).minimize(loss)
        count = len(graph.get_operations())
        (gradient,) = tf1.gradients(loss, [activations])
        again = _made_since(graph, count)
        wanted = tf.identity(gradient)
        if merge:
            backward_pass.remove_duplicate_backward_pass(graph, again, graph.get_operations())
        session.run(tf1.global_variables_initializer())
        given = {activations: np.full((3, 4), 0.1, np.float32), is_training: training}
        return session.run([wanted, step], given)[0]


@pytest.mark.parametrize("training", [True, False])
def test_gradients_through_conditions(training):
    """Models with TF1 conditions keep the gradients of both branches."""
    tf1.disable_control_flow_v2()
    try:
        plain = _with_conditions(False, training)
        np.testing.assert_array_equal(_with_conditions(True, training), plain)
        assert plain.any()
    finally:
        tf1.enable_control_flow_v2()


def _merged(build):
    """Builds ops twice, merges them and returns both values."""
    with tf.Graph().as_default() as graph, tf1.Session() as session:
        first, second = build(graph)
        session.run(tf1.global_variables_initializer())
        return session.run([first, second])


def _twice(graph, once, other):
    first = once()
    count = len(graph.get_operations())
    second = other()
    again = _made_since(graph, count)
    after = tf.identity(second)
    backward_pass.remove_duplicate_backward_pass(graph, again, graph.get_operations())
    return first, after


def test_other_attributes():
    """Ops that differ in an attribute aren't merged."""

    def build(graph):
        a = tf.constant([[1.0, 2.0], [3.0, 4.0]]) + tf1.random_uniform([])
        return _twice(graph, lambda: tf.matmul(a, a), lambda: tf.matmul(a, a, transpose_b=True))

    first, second = _merged(build)
    assert not np.array_equal(first, second)


def test_other_constants():
    """Constants of equal shape and different values aren't merged."""
    first, second = _merged(
        lambda graph: _twice(graph, lambda: tf.constant([1, 2]), lambda: tf.constant([1, 3]))
    )
    np.testing.assert_array_equal([first, second], [[1, 2], [1, 3]])


def test_random_numbers():
    """Stateful ops aren't merged."""

    def numbers():
        return tf.raw_ops.RandomUniform(shape=[20], dtype=tf.float32, seed=0, seed2=0)

    first, second = _merged(lambda graph: _twice(graph, numbers, numbers))
    assert not np.array_equal(first, second)


def test_reference_variables():
    """Two reads of a reference variable aren't merged: their values may differ."""

    def build(graph):
        zero = tf1.zeros_initializer()
        memory = tf1.get_variable("v", [], initializer=zero, use_resource=False).op.outputs[0]

        def later():
            with tf.control_dependencies([tf1.assign_add(tf1.trainable_variables()[0], 7.0)]):
                return tf.raw_ops.Abs(x=memory)

        with tf.control_dependencies([memory]):
            earlier = tf.raw_ops.Abs(x=memory)
        with tf.control_dependencies([earlier]):
            return _twice(graph, lambda: earlier, later)

    assert _merged(build) == [0.0, 7.0]


@pytest.mark.parametrize("choice", [True, False])
def test_conditions(choice):
    """Ops within a TF1 condition aren't merged."""

    def build(graph):
        choose = tf1.placeholder_with_default(choice, [])
        value = tf1.placeholder_with_default(3.0, [])
        return _twice(
            graph,
            lambda: tf1.cond(choose, lambda: value * 2.0, lambda: value),
            lambda: tf1.cond(choose, lambda: value, lambda: value * 2.0),
        )

    tf1.disable_control_flow_v2()
    try:
        assert _merged(build) == ([6.0, 3.0] if choice else [3.0, 6.0])
    finally:
        tf1.enable_control_flow_v2()


def test_variables_that_change_between():
    """Ops that read a reference variable before and after an update aren't merged."""

    def build(graph):
        ones = tf1.ones_initializer()
        weights = tf1.get_variable("w", [1, 1], initializer=ones, use_resource=False)
        given = tf1.placeholder_with_default([[3.0]], [1, 1])

        def later():
            with tf.control_dependencies([tf1.assign_add(weights, [[1.0]])]):
                return tf.matmul(given, weights.value())

        first = tf.matmul(given, weights.value())
        with tf.control_dependencies([first]):
            return _twice(graph, lambda: first, later)

    first, second = _merged(build)
    assert (first, second) == (3.0, 6.0)


def test_what_no_step_runs():
    """Ops outside of the training step are no replacements: the step doesn't run their inputs."""
    with tf.Graph().as_default() as graph, tf1.Session() as session:
        activations = tf1.placeholder_with_default(np.full((3, 4), 0.1, np.float32), [3, 4])
        loss = _network(activations)
        asked = tf1.get_variable("asked", [], initializer=tf1.zeros_initializer())
        with tf.control_dependencies([asked.assign_add(1.0)]):
            hooks = tf1.gradients(loss, tf1.trainable_variables()[:LAYERS])
        count = len(graph.get_operations())
        (gradient,) = tf1.gradients(loss, [activations])
        again = _made_since(graph, count)
        step = tf.identity(gradient)
        backward_pass.remove_duplicate_backward_pass(
            graph, again, dependencies.collect_ancestors(step)
        )
        session.run(tf1.global_variables_initializer())
        alone = session.run(step)
        assert session.run(asked) == 0
        np.testing.assert_array_equal(session.run([step, hooks])[0], alone)
        assert session.run(asked) == 1


def _estimator(directory, fast):
    ids = tf.feature_column.categorical_column_with_identity("ids", 20)
    column = tpu_columns.embedding_column(ids, 4)

    def model_fn(features, labels, mode, params):
        layer = tf1.feature_column.input_layer(features, [column])
        loss = _network(layer)
        optimizer = tf1.train.GradientDescentOptimizer(0.1)
        train_op = optimizer.minimize(loss, global_step=tf1.train.get_global_step())
        return estimator_spec.TPUEstimatorSpec(mode, loss=loss, train_op=train_op)

    return estimator_spec.TPUEstimator(
        model_fn,
        use_tpu=False,
        embedding_core="host",
        fast_updates=fast,
        train_batch_size=3,
        config=estimator_spec.RunConfig(model_dir=str(directory), tf_random_seed=3),
        embedding_config_spec=estimator_spec.EmbeddingConfigSpec(
            [column], optimization_parameters=estimator_spec.AdagradParameters(0.1)
        ),
    )


class _Count(tf1.train.SessionRunHook):
    """Hook that counts the ops of the first step."""

    ran = None

    def before_run(self, run_context):
        options = tf1.RunOptions(trace_level=tf1.RunOptions.FULL_TRACE)
        return tf1.train.SessionRunArgs([], options=options)

    def after_run(self, run_context, run_values):
        self.ran = self.ran or traces.kinds(run_values.run_metadata)


@pytest.mark.parametrize("fast", [True, False])
def test_host_core(fast, tmp_path):
    """A program on the host core runs one backward pass, or two if switched off; equal values."""

    def input_fn(params):
        return tf.data.Dataset.from_tensors({"ids": [[1], [2], [1]]}).repeat()

    count = _Count()
    _estimator(tmp_path / "one", fast).train(input_fn, steps=5, hooks=[count])
    products = 3 * LAYERS + (0 if fast else LAYERS - 1)
    assert count.ran["MatMul"] == products
    if not fast:
        other = _estimator(tmp_path / "two", True)
        other.train(input_fn, steps=5)
        for name in other.get_variable_names():
            np.testing.assert_allclose(
                other.get_variable_value(name),
                tf.train.load_variable(str(tmp_path / "one"), name),
                rtol=1e-6,
                atol=1e-7,
            )
