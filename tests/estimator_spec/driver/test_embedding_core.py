# SPDX-License-Identifier: Apache-2.0
"""Tests TPUEstimator(embedding_core="host"): tables looked up and trained as on a TPU."""

from __future__ import annotations

import functools

import numpy as np
import pytest
import tensorflow as tf

import estimator_spec as es
import tpu_columns

tf1 = tf.compat.v1
fc = tf.feature_column
ROWS = 12


def columns():
    """Returns a plain, a weighted, two shared and a sequence column, with seeded tables."""
    identity = fc.categorical_column_with_identity

    def init(seed):
        return tf1.random_normal_initializer(stddev=0.3, seed=seed)

    weighted = fc.weighted_categorical_column(identity("tags", ROWS), "tag_weights")
    return [
        tpu_columns.embedding_column(identity("user", ROWS), 3, initializer=init(1)),
        tpu_columns.embedding_column(weighted, 2, "sum", init(2)),
        *tpu_columns.shared_embedding_columns(
            [identity("seen", ROWS), identity("liked", ROWS)], 3, "sqrtn", init(3)
        ),
        tpu_columns.embedding_column(
            fc.sequence_categorical_column_with_identity("clicks", ROWS),
            2,
            initializer=init(4),
            max_sequence_length=4,
        ),
    ]


def input_fn(params):
    """Returns sparse features with repeats and empty rows, the same in every call."""
    rng = np.random.RandomState(5)

    def sparse(least, most, dtype=np.int64):
        lengths = rng.randint(least, most + 1, size=params["batch_size"])
        indices = np.array([[i, j] for i, n in enumerate(lengths) for j in range(n)], np.int64)
        values = rng.randint(0, ROWS, size=len(indices)).astype(dtype)
        return tf.SparseTensor(indices.reshape(-1, 2), values, [params["batch_size"], most])

    tags = sparse(1, 3)
    features = {
        "user": sparse(1, 1),
        "tags": tags,
        "tag_weights": tags.with_values(
            rng.uniform(0.5, 1.5, tags.values.shape).astype(np.float32)
        ),
        "seen": sparse(0, 3),
        "liked": sparse(1, 2),
        "clicks": sparse(1, 6),
    }
    labels = rng.randint(0, 2, size=[params["batch_size"], 1]).astype(np.float32)
    return tf.data.Dataset.from_tensors((features, labels)).repeat(params.get("steps", 30))


def model_fn(features, labels, mode, params):
    """A legacy model: two feature layers, one dense layer, gradient descent."""
    sequence, pooled = tpu_columns.split_sequence_columns(params["columns"])
    steps, lengths = tpu_columns.sequence_input_layer(features, sequence)
    mask = tf.sequence_mask(lengths, steps.shape[1], tf.float32)[:, :, tf.newaxis]
    inputs = tf.concat(
        [tpu_columns.input_layer(features, pooled), tf.reduce_sum(steps * mask, 1)], 1
    )
    kernel = tf1.get_variable(
        "kernel", [inputs.shape[1], 1], initializer=tf1.random_normal_initializer(seed=6)
    )
    logits = tf.matmul(inputs, kernel)
    probabilities = tf.sigmoid(logits)
    if mode == es.ModeKeys.PREDICT:
        return es.TPUEstimatorSpec(mode, predictions={"p": probabilities})
    loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits))
    train_op = None
    if mode == es.ModeKeys.TRAIN:
        optimizer = tf1.train.GradientDescentOptimizer(0.5)
        train_op = optimizer.minimize(
            loss, tf1.train.get_global_step(), var_list=tf1.trainable_variables()
        )
    metrics = (lambda y, p: {"auc": tf1.metrics.auc(y, p)}, [labels, probabilities])
    return es.TPUEstimatorSpec(mode, loss=loss, train_op=train_op, eval_metrics=metrics)


def estimator(model_dir, core, parameters=None, config=None, **kwargs):
    """Makes an estimator of the columns."""
    made = columns()
    spec = es.EmbeddingConfigSpec(
        feature_columns=made,
        optimization_parameters=parameters or es.StochasticGradientDescentParameters(0.5),
        **kwargs,
    )
    return es.TPUEstimator(
        model_fn,
        config=es.RunConfig(
            model_dir=str(model_dir), tf_random_seed=1, log_step_count_steps=None, **(config or {})
        ),
        params={"columns": made},
        use_tpu=False,
        train_batch_size=8,
        eval_batch_size=8,
        predict_batch_size=8,
        embedding_config_spec=spec,
        embedding_core=core,
    )


def values(trained):
    """Returns the variables of the latest checkpoint, by name."""
    return {name: trained.get_variable_value(name) for name in trained.get_variable_names()}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Trains the same program without a core and with the host core."""
    made = {}
    for core in (None, "host"):
        trained = estimator(tmp_path_factory.mktemp(str(core)), core)
        trained.train(input_fn)
        made[core] = trained
    return made


def test_gradient_descent_is_the_same_with_and_without_a_core(runs):
    """With gradient descent the core's run gives the variables of the plain run."""
    plain, core = values(runs[None]), values(runs["host"])
    assert set(plain) == set(core)
    for name, value in plain.items():
        np.testing.assert_allclose(core[name], value, rtol=1e-5, atol=1e-6, err_msg=name)


def test_evaluation_and_prediction_are_the_same(runs):
    """Metrics and predictions of the two runs are equal."""
    plain, core = (runs[c].evaluate(input_fn, steps=3) for c in (None, "host"))
    assert core == pytest.approx(plain, rel=1e-5)
    plain, core = (
        [p["p"] for p in runs[c].predict(lambda params: input_fn({**params, "steps": 1}))]
        for c in (None, "host")
    )
    np.testing.assert_allclose(core, plain, rtol=1e-5)


def test_either_continues_the_other(runs, tmp_path):
    """A run with or without a core can continue the other's checkpoint."""
    for first, second in ((None, "host"), ("host", None)):
        other = estimator(tmp_path / str(first), second)
        source = runs[first].latest_checkpoint()
        metrics = other.evaluate(input_fn, steps=2, checkpoint_path=source)
        assert metrics["loss"] == pytest.approx(
            runs[first].evaluate(input_fn, steps=2)["loss"], rel=1e-5
        )


def test_the_export_serves_plain_lookups(runs, tmp_path):
    """A SavedModel of a core's run looks up raw ids and predicts the same as predict."""

    def receiver():
        inputs = {
            key: tf1.placeholder(tf.int64, [None, 1], key)
            for key in ("user", "tags", "seen", "liked", "clicks")
        }
        features = {key: tf.sparse.from_dense(value + 1) for key, value in inputs.items()}
        features = {key: value.with_values(value.values - 1) for key, value in features.items()}
        features["tag_weights"] = features["tags"].with_values(
            tf.ones_like(features["tags"].values, tf.float32)
        )
        return es.export.ServingInputReceiver(features, inputs)

    path = runs["host"].export_saved_model(str(tmp_path), receiver)
    served = tf.saved_model.load(tf.compat.as_text(path)).signatures["serving_default"]
    rows = {
        key: tf.constant([[3], [7]], tf.int64)
        for key in ("user", "tags", "seen", "liked", "clicks")
    }

    def same_input(params):
        del params
        features = {key: tf.SparseTensor([[0, 0], [1, 0]], [3, 7], [2, 1]) for key in rows}
        features["tag_weights"] = tf.SparseTensor([[0, 0], [1, 0]], [1.0, 1.0], [2, 1])
        return tf.data.Dataset.from_tensors(
            {k: tf.sparse.reset_shape(v) if k != "tag_weights" else v for k, v in features.items()}
        ).map(
            lambda f: {k: tf.cast(v, tf.int64) if k != "tag_weights" else v for k, v in f.items()}
        )

    predicted = np.array([p["p"] for p in runs["host"].predict(same_input)])
    np.testing.assert_allclose(served(**rows)["p"], predicted, rtol=1e-5)


def test_tables_have_slots_and_legacy_names(tmp_path):
    """A core's checkpoint holds tables and slots under the names of a TPU run."""
    trained = estimator(tmp_path, "host", es.AdamParameters(0.01))
    trained.train(input_fn, steps=2)
    tables = [
        "input_layer/user_embedding/embedding_weights",
        "input_layer/tags_weighted_by_tag_weights_embedding/embedding_weights",
        "liked_seen_shared_embedding",
        "sequence_input_layer/clicks_embedding/embedding_weights",
    ]
    found = set(trained.get_variable_names())
    wanted = {f"{table}{suffix}" for table in tables for suffix in ("", "/Adam/m", "/Adam/v")}
    assert found == wanted | {"kernel", "global_step"}


def test_tables_are_not_trainable(tmp_path):
    """Tables aren't trainable variables; their stand-ins are, until the model is built."""
    seen = []

    def watching(features, labels, mode, params):
        spec = model_fn(features, labels, mode, params)
        seen.extend(variable.op.name for variable in tf1.trainable_variables())
        return spec

    trained = estimator(tmp_path, "host")
    trained._model_fn = watching
    trained.train(input_fn, steps=1)
    prefix = "tpu_embedding_dummy_table_variable_"
    stand_ins = [name for name in seen if name.startswith(prefix)]
    assert len(stand_ins) == 4
    assert [name for name in seen if name not in stand_ins] == ["kernel"]


def test_cols_to_vars_has_no_tables_of_the_core(tmp_path, monkeypatch):
    """`cols_to_vars` has no variable for a column that the core looks up, and makes none."""
    variables = {}
    layer = functools.partial(tpu_columns.input_layer, cols_to_vars=variables)
    monkeypatch.setattr(tpu_columns, "input_layer", layer)
    trained = estimator(tmp_path, "host")
    trained.train(input_fn, steps=1)
    assert list(variables.values()) == [[]] * 4


def test_a_pipelined_core_applies_everything_before_it_saves(tmp_path):
    """A checkpoint of a pipelined core includes the update of the last step."""
    pipelined = estimator(tmp_path / "a", "host", pipeline_execution_with_tensor_core=True)
    plain = estimator(tmp_path / "b", "host")
    for each in (pipelined, plain):
        each.train(input_fn, steps=1)
    for name, value in values(plain).items():
        np.testing.assert_allclose(values(pipelined)[name], value, rtol=1e-6, err_msg=name)


def test_a_pipelined_core_and_a_hook_of_the_users(tmp_path):
    """A checkpoint that a user's hook writes also includes the update of the last step."""
    for name, pipelined in (("a", True), ("b", False)):
        config = {"save_checkpoints_steps": None, "save_checkpoints_secs": None}
        trained = estimator(
            tmp_path / name, "host", config=config, pipeline_execution_with_tensor_core=pipelined
        )
        hook = tf1.train.CheckpointSaverHook(str(tmp_path / name), save_steps=100)
        trained.train(input_fn, steps=1, hooks=[hook])
    wanted = values(trained)
    for name, value in values(estimator(tmp_path / "a", "host")).items():
        np.testing.assert_allclose(value, wanted[name], rtol=1e-6, err_msg=name)


@pytest.mark.parametrize("lazy", [True, False])
def test_a_pipelined_core_makes_no_steps_of_its_own(tmp_path, lazy):
    """Without pending updates Adam changes no row, not even one with momentum."""
    adam = es.AdamParameters(0.1, lazy_adam=lazy)
    pipelined = estimator(tmp_path / "a", "host", adam, pipeline_execution_with_tensor_core=True)
    plain = estimator(tmp_path / "b", "host", adam)
    for each in (pipelined, plain):
        for _ in range(3):
            each.train(input_fn, steps=1)
    # An update has about the size of the rate, 0.1; weights near zero are its rounded differences.
    for name, value in values(plain).items():
        np.testing.assert_allclose(
            values(pipelined)[name], value, rtol=1e-5, atol=1e-6, err_msg=name
        )


def test_an_id_out_of_range_names_the_feature(tmp_path):
    """The core's error of an id out of range names feature, id and vocabulary size."""

    def bad_input(params):
        def spoil(features, labels):
            user = features["user"]
            return {**features, "user": user.with_values(user.values + 99)}, labels

        return input_fn(params).map(spoil)

    with pytest.raises(ValueError, match="'user'.*outside of the vocabulary.*size is 12"):
        estimator(tmp_path, "host").train(bad_input, steps=1)


class TestRefusals:
    """Errors of unsupported programs, raised before training."""

    def test_unknown_core(self, tmp_path):
        """An embedding_core other than None and 'host' raises an error."""
        with pytest.raises(ValueError, match="embedding_core must be one of"):
            estimator(tmp_path, "gpu")

    def test_core_without_a_spec(self, tmp_path):
        """An embedding core without a specification raises an error."""
        with pytest.raises(ValueError, match="needs an embedding_config_spec"):
            es.TPUEstimator(
                model_fn,
                config=es.RunConfig(model_dir=str(tmp_path)),
                use_tpu=False,
                embedding_core="host",
            )

    def test_string_ids(self, tmp_path):
        """String ids raise an error that names the feature, as on a TPU."""

        def strings(params):
            def change(features, labels):
                user = features["user"]
                return {
                    **features,
                    "user": user.with_values(tf.strings.as_string(user.values)),
                }, labels

            return input_fn(params).map(change)

        with pytest.raises(ValueError, match="'user'.*string as values are not supported"):
            estimator(tmp_path, "host").train(strings, steps=1)

    def test_an_unused_column(self, tmp_path):
        """A column of the specification that no feature layer uses raises an error."""

        def forgetful(features, labels, mode, params):
            return model_fn(features, labels, mode, {**params, "columns": params["columns"][1:]})

        trained = estimator(tmp_path, "host")
        trained._model_fn = forgetful
        with pytest.raises(RuntimeError, match="did not capture any thing.*tbl_user"):
            trained.train(input_fn, steps=1)
