# SPDX-License-Identifier: Apache-2.0
"""Policies for invalid ids in whole runs: training, summaries, errors and exports."""

from __future__ import annotations

import os

import numpy as np
import pytest
import tensorflow as tf

import estimator_spec as es
import host_runs
import tpu_columns

tf1 = tf.compat.v1

IDS = np.array([[1], [9], [3], [-4]], np.int64)


def make(model_dir, policies=(None,), **arguments):
    """Returns an estimator with a table of 5 rows for each policy of a column."""
    columns = [
        tpu_columns.embedding_column(
            tf.feature_column.categorical_column_with_identity(f"ids{number}", 5),
            2,
            initializer=tf1.ones_initializer(),
            invalid_ids=policy,
        )
        for number, policy in enumerate(policies)
    ]

    def model_fn(features, labels, mode, params):
        del params
        rows = tpu_columns.input_layer(features, columns)
        spec = es.TPUEstimatorSpec
        if mode == es.ModeKeys.PREDICT:
            return spec(mode, predictions={"rows": rows})
        loss = tf.reduce_sum(rows * labels)
        optimizer = tf1.train.GradientDescentOptimizer(1.0)
        train_op = optimizer.minimize(loss, tf1.train.get_global_step())
        return spec(mode, loss=loss, train_op=train_op)

    return host_runs.make_estimator(
        model_fn,
        model_dir,
        4,
        config={"save_summary_steps": 1},
        embedding_config_spec=es.EmbeddingConfigSpec(
            feature_columns=columns,
            optimization_parameters=es.StochasticGradientDescentParameters(1.0),
        ),
        **arguments,
    )


def input_fn(params):
    """Returns four examples, two with invalid ids; sparse, so that id 0 isn't padding."""
    del params
    ids = tf.sparse.from_dense(tf.constant(IDS))
    labels = tf.constant([[1.0], [2.0], [4.0], [8.0]])
    features = {f"ids{number}": ids for number in range(5)}
    return tf.data.Dataset.from_tensors((features, labels)).repeat()


def tables_of(estimator):
    """Returns the trained tables."""
    names = [name for name in estimator.get_variable_names() if name.endswith("weights")]
    return [estimator.get_variable_value(name) for name in names]


@pytest.mark.parametrize("core", [None, "host"])
def test_training(tmp_path, core):
    """Policies decide which rows a step trains, on both cores; a column's own one wins."""
    changes = {
        None: {1: 1.0, 3: 4.0},  # "drop", the estimator's
        "drop": {1: 1.0, 3: 4.0},
        "clip": {1: 1.0, 4: 2.0, 3: 4.0, 0: 8.0},
        "mod": {1: 1.0 + 8.0, 4: 2.0, 3: 4.0},
        2: {1: 1.0, 3: 4.0, 2: 2.0 + 8.0},
    }
    estimator = make(tmp_path, changes, embedding_core=core, invalid_ids="drop")
    estimator.train(input_fn, steps=1)
    for (policy, gradients), found in zip(changes.items(), tables_of(estimator), strict=True):
        wanted = np.ones([5, 2], np.float32)
        for row, gradient in gradients.items():
            wanted[row] -= gradient
        np.testing.assert_array_equal(found, wanted, err_msg=str(policy))


@pytest.mark.parametrize("policy", ["clip", 2])
def test_an_estimators_policy(tmp_path, policy):
    """The estimator's policy applies to a column without one."""
    estimator = make(tmp_path, invalid_ids=policy)
    estimator.train(input_fn, steps=1)
    assert tables_of(estimator)[0][policy if policy == 2 else 4, 0] < 1


def test_summary(tmp_path):
    """A training run's summaries count the invalid ids of a batch."""
    make(tmp_path, invalid_ids="clip").train(input_fn, steps=2)
    (events,) = tmp_path.glob("events.*")
    counts = [
        value.simple_value
        for event in tf1.train.summary_iterator(os.fspath(events))
        for value in event.summary.value
        if value.tag == "invalid_ids/ids0_embedding"
    ]
    assert counts == [2.0, 2.0]


@pytest.mark.parametrize("core", [None, "host"])
def test_error(tmp_path, core):
    """The policy 'error' ends training with an error that names column, id and vocabulary."""
    estimator = make(tmp_path, embedding_core=core, invalid_ids="error")
    with pytest.raises(
        tpu_columns.IdOutOfRangeError,
        match=r"'ids0_embedding': ids outside of the vocabulary, whose size is 5 .*: 9\.",
    ):
        estimator.train(input_fn, steps=1)


def test_export(tmp_path):
    """An exported model applies the policy."""
    estimator = make(tmp_path / "model", embedding_core="host", invalid_ids="drop")
    estimator.train(input_fn, steps=1)
    receiver = es.build_raw_serving_input_receiver_fn({"ids0": tf.zeros([4, 1], tf.int64)})
    path = estimator.export_saved_model(os.fspath(tmp_path / "export"), receiver).decode()
    with tf.Graph().as_default(), tf1.Session() as session:
        model = tf1.saved_model.load(session, ["serve"], path)
        signature = model.signature_def["serving_default"]
        found = session.run(
            {key: info.name for key, info in signature.outputs.items()},
            {signature.inputs["ids0"].name: IDS},
        )
    (table,) = tables_of(estimator)
    wanted = [table[1], [0, 0], table[3], [0, 0]]
    np.testing.assert_array_equal(next(iter(found.values())), wanted)
    assert not any(node.op == "ScalarSummary" for node in model.graph_def.node)


@pytest.mark.parametrize("policy", ["never", -3, 2.5])
def test_bad_policies(tmp_path, policy):
    """A policy that isn't one is refused before anything is built."""
    with pytest.raises(ValueError, match="invalid_ids of the estimator"):
        make(tmp_path, invalid_ids=policy)
