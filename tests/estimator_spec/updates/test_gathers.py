# SPDX-License-Identifier: Apache-2.0
"""Gathers of short rows of large tables by another kernel."""

from __future__ import annotations

import time

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

import estimator_spec
import tpu_columns
import traces
from estimator_spec import updates
from estimator_spec.updates import gathers
from tpu_columns import IdOutOfRangeError
from tpu_columns.optimizations import Optimization

tf1 = tf.compat.v1
fc = tf.feature_column
ROWS, WIDTH = 9000, 16


def _read(replace, ids, shape=(ROWS, WIDTH), dtype=tf.float32, use_resource=True):
    """Gathers rows of a table; returns them and the types of the ops that ran."""
    with tf.Graph().as_default() as graph, tf1.Session() as session:
        numbers = np.arange(np.prod(shape)).astype(dtype.as_numpy_dtype).reshape(shape)
        table = tf1.get_variable("table", initializer=numbers, use_resource=use_resource)
        given = tf1.placeholder_with_default(ids, [None] * ids.ndim)
        rows = tf1.nn.embedding_lookup(table, given)
        replaced = gathers.replace_gathers(graph) if replace else {}
        session.run(tf1.global_variables_initializer())
        metadata = tf1.RunMetadata()
        options = tf1.RunOptions(trace_level=tf1.RunOptions.FULL_TRACE)
        value = session.run(rows, options=options, run_metadata=metadata)
        return value, set(traces.kinds(metadata)), replaced


@settings(max_examples=settings.default.max_examples // 8)
@given(
    st.lists(st.integers(0, ROWS - 1), max_size=8),
    st.sampled_from([np.int32, np.int64]),
    st.sampled_from([tf.float32, tf.float64, tf.bfloat16]),
    st.booleans(),
)
def test_the_same_rows(ids, kind, dtype, use_resource):
    """Ids of any dtype, also repeated ones and none, give the same rows as before."""
    ids = np.array(ids, kind)
    plain, before, _ = _read(False, ids, dtype=dtype, use_resource=use_resource)
    ours, ran, replaced = _read(True, ids, dtype=dtype, use_resource=use_resource)
    np.testing.assert_array_equal(ours, plain)
    assert ours.shape == plain.shape
    assert len(replaced) == 1
    assert ("ResourceGather" if use_resource else "GatherV2") in before - ran
    assert ("ResourceGatherNd" if use_resource else "GatherNd") in ran


@pytest.mark.parametrize(
    ("shape", "ids"),
    [
        ((ROWS, 33), [1, 2]),  # long rows
        ((50, 4), [1, 2]),  # a small table
        ((ROWS,), [1, 2]),  # not a matrix
        ((ROWS, 4, 4), [1, 2]),
        ((ROWS, WIDTH), [[1, 2]]),  # not a list of ids
    ],
)
def test_others_stay(shape, ids):
    """Gathers that wouldn't gain, or don't read rows of a table, aren't replaced."""
    _, ran, replaced = _read(True, np.array(ids), shape)
    assert not replaced
    assert "ResourceGather" in ran


def test_integers_stay():
    """Gathers from integer tables aren't replaced: the other kernel lacks some dtypes."""
    _, ran, replaced = _read(True, np.array([1, 2]), dtype=tf.int32)
    assert not replaced
    assert "ResourceGather" in ran


def test_32_bit_ids_of_huge_tables():
    """Gathers by int32 ids from a table of more than 2³¹ - 1 elements aren't replaced."""
    for kind, count in ((tf.int32, 0), (tf.int64, 1)):
        with tf.Graph().as_default() as graph:
            table = tf1.get_variable("table", [2**27, WIDTH], use_resource=True)
            tf1.nn.embedding_lookup(table, tf1.placeholder(kind, [None]))
            assert len(gathers.replace_gathers(graph)) == count


@pytest.mark.parametrize("use_resource", [True, False])
@pytest.mark.parametrize("strategy", ["div", "mod"])
def test_partitioned_tables(strategy, use_resource):
    """Gathers from each shard of a partitioned table are replaced, and give the same rows."""
    ids = np.array([5, 0, ROWS - 1, 4, ROWS // 2 - 1, ROWS // 2])
    found = []
    for replace in (False, True):
        with tf.Graph().as_default() as graph, tf1.Session() as session:
            tf1.set_random_seed(1)
            table = tf1.get_variable(
                "table",
                [ROWS, WIDTH],
                partitioner=tf1.fixed_size_partitioner(2),
                use_resource=use_resource,
            )
            rows = tf1.nn.embedding_lookup(table, ids, partition_strategy=strategy)
            assert not replace or len(gathers.replace_gathers(graph)) == 2
            session.run(tf1.global_variables_initializer())
            found.append(session.run(rows))
    np.testing.assert_array_equal(found[1], found[0])


def test_rows_of_something_else_stay():
    """Gathers along another axis, from a tensor, or of the program's own aren't replaced."""
    with tf.Graph().as_default() as graph:
        table = tf1.get_variable("table", [ROWS, WIDTH], use_resource=False)
        other = tf1.get_variable("other", [ROWS, WIDTH], use_resource=True)
        for name, params, axis in (
            ("axis", table, 1),
            ("unknown", table, tf1.placeholder(tf.int32, [])),
            ("sum", table + 1.0, 0),
            ("own", table, 0),
        ):
            rows = tf.gather(params, [1], axis=axis, name=name)
            if name != "own":
                tf.identity(rows, name=f"{name}/Identity")
        tf.identity(tf.gather(other, [1]))
        kinds = [op.type for op in graph.get_operations()]
        assert kinds.count("GatherV2") == 4
        assert "ResourceGather" in kinds
        assert not gathers.replace_gathers(graph)


def test_conditions():
    """A lookup in a TF1 condition isn't replaced."""
    tf1.disable_control_flow_v2()
    try:
        with tf.Graph().as_default() as graph:
            table = tf1.get_variable("table", [ROWS, WIDTH], use_resource=False)

            def read():
                return tf1.nn.embedding_lookup(table.read_value(), [1])

            read()
            tf1.cond(tf1.placeholder_with_default(True, []), read, read)
            (replaced,) = gathers.replace_gathers(graph)
            assert "cond" not in replaced.name
    finally:
        tf1.enable_control_flow_v2()


def test_what_waits_for_a_lookup():
    """An update that waits for a lookup waits for the replacement; the replaced op doesn't run."""
    with tf.Graph().as_default() as graph, tf1.Session() as session:
        table = tf1.get_variable(
            "table", [ROWS, WIDTH], initializer=tf1.zeros_initializer(), use_resource=True
        )
        rows = tf1.nn.embedding_lookup(table, tf1.placeholder_with_default([3], [None]))
        read = rows.op.inputs[0].op
        with tf.control_dependencies([read]):
            step = table.assign_add(tf.ones([ROWS, WIDTH]), read_value=False)
        updates.optimize_training_graph(graph, step)
        session.run(tf1.global_variables_initializer())
        for count in range(20):
            options = tf1.RunOptions(trace_level=tf1.RunOptions.FULL_TRACE)
            metadata = tf1.RunMetadata()
            value, _ = session.run([rows, step], options=options, run_metadata=metadata)
            np.testing.assert_array_equal(value, np.full([1, WIDTH], count))
            assert "ResourceGather" not in traces.kinds(metadata)


def test_a_lookup_that_waits():
    """A lookup that is to read what was written waits for the write, however long that takes."""

    def slowly(numbers):
        time.sleep(0.2)
        return numbers

    with tf.Graph().as_default() as graph, tf1.Session() as session:
        zeros = tf1.zeros_initializer()
        table = tf1.get_variable("table", [ROWS, WIDTH], initializer=zeros, use_resource=True)
        ones = tf.numpy_function(slowly, [tf.ones([ROWS, WIDTH])], tf.float32)
        ids = tf1.placeholder_with_default([3], [None])
        with tf.control_dependencies([table.assign(ones, read_value=False)]):
            rows = tf1.nn.embedding_lookup(table, ids)
        assert len(gathers.replace_gathers(graph)) == 1
        session.run(table.initializer)
        np.testing.assert_array_equal(session.run(rows), np.ones([1, WIDTH]))


def test_old_lookups_wait_for_new_updates():
    """Fetching a lookup's gather after an update doesn't run the replaced update again."""
    with tf.Graph().as_default() as graph, tf1.Session() as session:
        table = tf1.get_variable(
            "table", [ROWS, WIDTH], initializer=tf1.zeros_initializer(), use_resource=True
        )
        ids, _, _ = tf.unique_with_counts(tf1.placeholder_with_default([1, 2, 1], [None]))
        step = tf.raw_ops.ResourceScatterAdd(
            resource=table.handle, indices=ids, updates=tf.ones([2, WIDTH])
        )
        with tf.control_dependencies([step]):
            after = tf1.nn.embedding_lookup(table, ids).op.inputs[0]
        train_op = updates.optimize_training_graph(graph, step, frozenset(Optimization))
        assert train_op is not step
        session.run(tf1.global_variables_initializer())
        for count in range(1, 20):
            value, _ = session.run([after, train_op])
            np.testing.assert_array_equal(value, np.full([2, WIDTH], count))


def test_ids_of_two_tables():
    """Ids that are looked up in two tables are expanded once."""
    with tf.Graph().as_default() as graph:
        ids = tf1.placeholder(tf.int64, [None])
        for name in "ab":
            table = tf1.get_variable(name, [ROWS, WIDTH], use_resource=True)
            tf1.nn.embedding_lookup(table, ids)
        assert len(gathers.replace_gathers(graph)) == 2
        assert [op.type for op in graph.get_operations()].count("ExpandDims") == 1


def _input_fn(params):
    rng = np.random.default_rng(0)
    ids = {key: rng.integers(0, ROWS, (64, 1)) for key in "ab"} | {"c": rng.integers(0, 9, (64, 3))}
    data = tf.data.Dataset.from_tensor_slices((ids, (ids["a"] % 2).astype(np.float32)))
    return data.repeat(3).batch(params["batch_size"], drop_remainder=True)


class _Kinds(tf1.train.SessionRunHook):
    """Hook that records the ops of a step."""

    def __init__(self):
        self.ran = set()

    def before_run(self, run_context):
        options = tf1.RunOptions(trace_level=tf1.RunOptions.FULL_TRACE)
        return tf1.train.SessionRunArgs([], options=options)

    def after_run(self, run_context, run_values):
        self.ran |= set(traces.kinds(run_values.run_metadata))


def _estimator(directory, keys, core, fast=True):
    """Defines a model with one column per feature."""
    columns = [
        tpu_columns.embedding_column(fc.categorical_column_with_identity(key, ROWS), WIDTH)
        for key in keys
    ]

    def model_fn(features, labels, mode, params):
        layer = tpu_columns.input_layer(features, columns)
        bias = tf1.get_variable("bias", [], initializer=tf1.zeros_initializer())
        logits = tf.reduce_sum(layer, 1, keepdims=True) + bias
        if mode == estimator_spec.ModeKeys.PREDICT:
            return estimator_spec.TPUEstimatorSpec(mode, predictions={"logits": logits})
        loss = tf1.losses.sigmoid_cross_entropy(labels, logits)
        train_op = tf1.train.AdagradOptimizer(0.1).minimize(loss, tf1.train.get_global_step())
        return estimator_spec.TPUEstimatorSpec(mode, loss=loss, train_op=train_op)

    return estimator_spec.TPUEstimator(
        model_fn,
        use_tpu=False,
        embedding_core=core,
        fast_updates=fast,
        train_batch_size=16,
        eval_batch_size=16,
        predict_batch_size=16,
        config=estimator_spec.RunConfig(model_dir=str(directory), tf_random_seed=3),
        embedding_config_spec=estimator_spec.EmbeddingConfigSpec(
            columns, optimization_parameters=estimator_spec.AdagradParameters(0.1)
        ),
    )


def _run(directory, core, fast):
    """Trains, evaluates and predicts; returns results, variables and ops."""
    estimator = _estimator(directory, "abc", core, fast)
    hooks = [_Kinds() for _ in range(3)]
    estimator.train(_input_fn, hooks=hooks[:1])
    numbers = {"loss": estimator.evaluate(_input_fn, hooks=hooks[1:2])["loss"]}
    found = estimator.predict(_input_fn, hooks=hooks[2:])
    numbers["logits"] = [example["logits"][0] for example in found]
    for name in estimator.get_variable_names():
        numbers[name] = estimator.get_variable_value(name)
    return numbers, [hook.ran for hook in hooks]


@pytest.mark.parametrize("core", [None, "host"])
def test_a_program(core, tmp_path, monkeypatch):
    """Training, evaluation and prediction use the other kernel, with equal results."""
    monkeypatch.setenv(Optimization.NATIVE_KERNELS.value, "0")
    plain, before = _run(tmp_path / "plain", core, False)
    ours, ran = _run(tmp_path / "fast", core, True)
    # The host core sums straight from tables that nothing writes, single ids too.
    gathering_runs = ran if core is None else ran[:1]
    assert all("ResourceGatherNd" in kinds for kinds in gathering_runs)
    assert not any("ResourceGatherNd" in kinds for kinds in before)
    assert all("ResourceGather" not in kinds for kinds in ran)
    assert plain.keys() == ours.keys()
    for name, value in plain.items():
        np.testing.assert_allclose(ours[name], value, rtol=1e-4, atol=1e-6, err_msg=name)


class _Fetches(tf1.train.SessionRunHook):
    """Hook that fetches a program's own gather and an identity of it."""

    def __init__(self):
        self.values = []

    def before_run(self, run_context):
        rows = tf1.get_default_graph().get_tensor_by_name("own:0")
        return tf1.train.SessionRunArgs([rows, "again:0"])

    def after_run(self, run_context, run_values):
        self.values.append(run_values.results)


def test_a_hook_that_fetches_rows(tmp_path):
    """Rows that a program gathers and a hook fetches are those before the step's update."""

    def model_fn(features, labels, mode, params):
        table = tf1.get_variable("table", [ROWS, WIDTH], use_resource=True)
        rows = tf.gather(table, features["a"][:, 0], name="own")
        loss = tf.reduce_mean(tf.square(tf.identity(rows, name="again") - 1.0))
        train_op = tf1.train.GradientDescentOptimizer(9.0).minimize(
            loss, tf1.train.get_global_step()
        )
        return estimator_spec.TPUEstimatorSpec(mode, loss=loss, train_op=train_op)

    hook = _Fetches()
    estimator_spec.TPUEstimator(
        model_fn,
        use_tpu=False,
        train_batch_size=16,
        config=estimator_spec.RunConfig(model_dir=str(tmp_path)),
    ).train(lambda params: _input_fn(params).repeat(), steps=40, hooks=[hook])
    assert len(hook.values) == 40
    for fetched, used in hook.values:
        np.testing.assert_array_equal(fetched, used)


@pytest.mark.parametrize(("core", "mode"), [(None, "train"), (None, "evaluate"), ("host", "train")])
def test_an_id_out_of_range(core, mode, tmp_path):
    """The error of an id out of range names column and id."""

    def input_fn(params):
        return tf.data.Dataset.from_tensors(({"f": [[1], [ROWS + 7]]}, [[1.0], [0.0]])).repeat()

    with pytest.raises(IdOutOfRangeError, match=f"id {ROWS + 7} of feature 'f'"):
        getattr(_estimator(tmp_path, "f", core), mode)(input_fn, steps=2)
