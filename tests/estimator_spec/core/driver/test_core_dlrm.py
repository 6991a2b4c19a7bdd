# SPDX-License-Identifier: Apache-2.0
"""A model with tables by dictionaries on the host core, and names of what a core trains."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

import estimator_spec as es
import host_runs
import tpu_columns

tf1 = tf.compat.v1
fc = tf.feature_column
WIDTH, BATCH = 4, 16
TABLES = {"publisher": (17, None), "device": (5, None), "words": (30, "sum"), "history": (20, None)}
FEATURES = {
    "site": es.FeatureConfig("publisher"),
    "app": es.FeatureConfig("publisher"),
    "device": es.FeatureConfig("device"),
    "query": es.FeatureConfig("words", weight_key="query_weights"),
    "clicked": es.FeatureConfig("history", max_sequence_length=3),
}


def spec(parameters):
    """Four tables, one of them for two features; a weighted feature and a sequence."""
    tables = {
        name: es.TableConfig(
            rows,
            WIDTH,
            initializer=tf1.random_uniform_initializer(-0.3, 0.3, seed=rows),
            combiner=combiner,
        )
        for name, (rows, combiner) in TABLES.items()
    }
    return es.EmbeddingConfigSpec(
        feature_to_config_dict=FEATURES,
        table_to_config_dict=tables,
        optimization_parameters=parameters,
    )


def input_fn(params):
    """Single ids, dense; words with weights and clicks, sparse."""
    rng = np.random.RandomState(0)
    size = params["batch_size"]
    features = {"dense": rng.uniform(size=[size, 3]).astype(np.float32)}
    for name, rows in (("site", 11), ("app", 17), ("device", 5)):
        features[name] = rng.randint(rows, size=size).astype(np.int32)
    for name, most, rows in (("query", 3, 30), ("clicked", 5, 20)):
        lengths = rng.randint(0, most + 1, size)
        indices = np.array([[i, j] for i, n in enumerate(lengths) for j in range(n)], np.int64)
        ids = rng.randint(rows, size=len(indices))
        features[name] = tf.SparseTensor(indices, ids, [size, most])
    features["query_weights"] = features["query"].with_values(
        rng.uniform(0.5, 2, features["query"].values.shape).astype(np.float32)
    )
    labels = rng.randint(2, size=[size, 1]).astype(np.float32)
    return tf.data.Dataset.from_tensors((features, labels)).repeat(25)


def model_fn(features, labels, mode, params):
    """A linear model of all activations and the dense feature."""
    mask = tf.sequence_mask(features["clicked_seq_length_"], 3, tf.float32)[:, :, tf.newaxis]
    vectors = [features[key] for key in ("site", "app", "device", "query", "dense")]
    layer = tf.concat([*vectors, tf.reduce_sum(features["clicked"] * mask, 1)], 1)
    initial = tf1.glorot_normal_initializer(seed=1)
    kernel = tf1.get_variable("kernel", [layer.shape[1], 1], initializer=initial)
    params["seen"][:] = [sorted(v.op.name for v in tf1.trainable_variables())]
    output = tf.matmul(layer, kernel)
    return host_runs.regression(output, labels, mode, tf1.train.GradientDescentOptimizer, 0.2)


def train(model_dir, core):
    """Trains; returns the estimator, its losses, and what was trainable."""
    losses, seen = host_runs.Losses(), []
    estimator = host_runs.make_estimator(
        lambda features, labels, mode, params: model_fn(features, labels, mode, {"seen": seen}),
        model_dir,
        BATCH,
        embedding_config_spec=spec(es.StochasticGradientDescentParameters(0.2)),
        embedding_core=core,
    )
    estimator.train(input_fn, hooks=[losses], steps=20)
    return estimator, losses.found, seen[0]


def test_gradient_descent_equals_the_plain_run(tmp_path):
    """Losses of 20 steps, variables, metrics and predictions, to 1e-5; and it learns."""
    plain, plain_losses, plain_seen = train(tmp_path / "plain", None)
    core, losses, seen = train(tmp_path / "core", "host")
    np.testing.assert_allclose(losses, plain_losses, rtol=1e-5)
    assert losses[-1] < losses[0]
    assert core.get_variable_names() == sorted([*TABLES, "kernel", "global_step"])
    host_runs.assert_same_values(core, plain)
    metrics = [made.evaluate(input_fn, steps=2) for made in (plain, core)]
    assert metrics[1] == pytest.approx(metrics[0], rel=1e-5)
    first = [next(made.predict(input_fn))["output"] for made in (plain, core)]
    np.testing.assert_allclose(first[1], first[0], rtol=1e-5)
    assert plain_seen == sorted([*TABLES, "kernel"])
    stand_ins = [f"tpu_embedding_dummy_table_variable_{table}" for table in TABLES]
    assert seen == sorted(["kernel", *stand_ins])


COLUMN_OPTIMIZERS = {
    "StochasticGradientDescentParameters": (0.1,),
    "AdagradParameters": (0.1,),
    "AdamParameters": (0.1,),
    "FtrlParameters": (0.1,),
    "MomentumParameters": (0.1, 0.9),
    "RMSPropParameters": (0.1, 0.9, 0.5, 1e-3),
    "ProximalAdagradParameters": (0.1,),
}


def columns(api):
    """A plain column, a weighted one, two that share a table; of our API or TensorFlow's."""
    identity = fc.categorical_column_with_identity
    weighted = fc.weighted_categorical_column(identity("tags", 7), "tag_weights")
    return [
        api.embedding_column(identity("user", 7), 2),
        api.embedding_column(weighted, 2),
        *api.shared_embedding_columns([identity("seen", 7), identity("liked", 7)], 2),
    ]


@pytest.mark.reference
@pytest.mark.parametrize("optimizer", COLUMN_OPTIMIZERS)
def test_names_are_the_references(optimizer, tmp_path):
    """A checkpoint's tables and slots are named as TensorFlow 2.15.1's own functions name them."""
    internal = pytest.importorskip(
        "tensorflow_estimator.python.estimator.tpu._tpu_estimator_embedding"
    )
    tpu_embedding = pytest.importorskip("tensorflow.python.tpu.tpu_embedding")
    from tensorflow.python.tpu import tpu_function

    theirs = getattr(tpu_embedding, optimizer)(*COLUMN_OPTIMIZERS[optimizer])
    with tf.Graph().as_default() as graph, tpu_function.tpu_shard_context(1):
        made = columns(tf1.tpu.experimental)
        config = internal.EmbeddingConfigSpec(made, theirs)
        tables, _ = internal.get_configs_from_feature_columns(config.feature_columns)
        activations = {key: tf.zeros([2, 2]) for key in ("user", "tags", "seen", "liked")}
        tf1.keras.layers.DenseFeatures(made)(activations)
        names, slots = internal.get_full_variable_names(graph, tables, theirs)
    wanted = set(names.values())
    for value in slots.values():
        wanted |= set(value if isinstance(value, tuple) else (value,)) - {None}

    def features(params):
        del params
        ids = tf.SparseTensor([[0, 0], [1, 0]], tf.constant([1, 2], tf.int64), [2, 1])
        weights = ids.with_values(tf.ones([2]))
        values = dict.fromkeys(activations, ids) | {"tag_weights": weights}
        return tf.data.Dataset.from_tensors(values)

    ours = columns(tpu_columns)

    def model_fn(features, mode, params):
        del params
        loss = tf.reduce_sum(tf1.keras.layers.DenseFeatures(ours)(features))
        train_op = tf1.assign_add(tf1.train.get_global_step(), 1)
        return es.TPUEstimatorSpec(mode, loss=loss, train_op=train_op)

    parameters = getattr(es, optimizer)(*COLUMN_OPTIMIZERS[optimizer])
    estimator = host_runs.make_estimator(
        model_fn,
        tmp_path,
        2,
        embedding_config_spec=es.EmbeddingConfigSpec(ours, parameters),
        embedding_core="host",
    )
    estimator.train(features)
    assert set(estimator.get_variable_names()) == wanted | {"global_step"}
