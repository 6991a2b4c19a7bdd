# SPDX-License-Identifier: Apache-2.0
"""Tests TPUEstimator(embedding_core="host"): tables looked up and trained as on a TPU."""

from __future__ import annotations

import functools

import numpy as np
import pytest
import tensorflow as tf

import estimator_spec as es
import host_runs
import test_device_loop as program
import tpu_columns

tf1 = tf.compat.v1


def columns():
    """Returns the columns of test_device_loop's program, none of them on the tensor core."""
    return [column._replace(embedding_lookup_device=None) for column in program.columns()]


def input_fn(params):
    """Returns thirty batches of that program, or as many as `params` says."""
    return program.input_fn({"count": 30, "repeat": 1, **params})


def model_fn(features, labels, mode, params):
    """The logits of that program, trained by gradient descent."""
    logits = program.logits_of(features, params["columns"])
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
    return host_runs.make_estimator(
        model_fn,
        model_dir,
        8,
        config={"tf_random_seed": 1, "log_step_count_steps": None, **(config or {})},
        params={"columns": made},
        embedding_config_spec=spec,
        embedding_core=core,
    )


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
    host_runs.assert_same_values(runs["host"], runs[None])


def test_evaluation_and_prediction_are_the_same(runs):
    """Metrics and predictions of the two runs are equal."""
    plain, core = (runs[c].evaluate(input_fn, steps=3) for c in (None, "host"))
    assert core == pytest.approx(plain, rel=1e-5)
    plain, core = (
        [p["p"] for p in runs[c].predict(lambda params: input_fn({**params, "count": 1}))]
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
    host_runs.assert_same_values(pipelined, plain, rtol=1e-6)


def test_a_pipelined_core_and_a_hook_of_the_users(tmp_path):
    """A checkpoint that a user's hook writes also includes the update of the last step."""
    for name, pipelined in (("a", True), ("b", False)):
        config = {"save_checkpoints_steps": None, "save_checkpoints_secs": None}
        trained = estimator(
            tmp_path / name, "host", config=config, pipeline_execution_with_tensor_core=pipelined
        )
        hook = tf1.train.CheckpointSaverHook(str(tmp_path / name), save_steps=100)
        trained.train(input_fn, steps=1, hooks=[hook])
    host_runs.assert_same_values(estimator(tmp_path / "a", "host"), trained, rtol=1e-6)


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
    host_runs.assert_same_values(pipelined, plain)


class TestRefusals:
    """Errors of unsupported programs, raised before training."""

    def test_core_without_a_spec(self, tmp_path):
        """An embedding core without a specification raises an error."""
        with pytest.raises(ValueError, match="needs an embedding_config_spec"):
            es.TPUEstimator(
                model_fn,
                config=es.RunConfig(model_dir=str(tmp_path)),
                use_tpu=False,
                embedding_core="host",
            )

    def test_an_unused_column(self, tmp_path):
        """A column of the specification that no feature layer uses raises an error."""

        def forgetful(features, labels, mode, params):
            return model_fn(features, labels, mode, {**params, "columns": params["columns"][1:]})

        trained = estimator(tmp_path, "host")
        trained._model_fn = forgetful
        with pytest.raises(RuntimeError, match="did not capture any thing.*tbl_user"):
            trained.train(input_fn, steps=1)
