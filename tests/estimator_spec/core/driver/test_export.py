# SPDX-License-Identifier: Apache-2.0
"""Tests exported SavedModels: directories, signatures, variables and assets."""

from __future__ import annotations

import os
import types

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

import estimator_spec as es
from estimator_spec.core.driver import saved_models

tf1 = tf.compat.v1
SERVING = tf.saved_model.DEFAULT_SERVING_SIGNATURE_DEF_KEY


@pytest.fixture
def receiver():
    """Returns a receiver function of raw features."""
    return es.build_raw_serving_input_receiver_fn({"x": tf.zeros([1, 1])})


def supervised_receiver():
    """Returns a receiver of features and labels."""
    x = tf1.placeholder(tf.float32, [None, 1], name="x")
    y = tf1.placeholder(tf.float32, [None, 1], name="y")
    return es.SupervisedInputReceiver({"x": x}, y, {"x": x, "y": y})


def parse(path):
    """Returns the SavedModel's protocol buffer."""
    found = saved_model_pb2.SavedModel()
    with open(f"{path}/saved_model.pb", "rb") as file:
        found.ParseFromString(file.read())
    return found


def by_hand(estimator, x):
    """Returns the predictions of the latest checkpoint, computed in NumPy."""
    return x * estimator.get_variable_value("weight") + estimator.get_variable_value("bias")


@pytest.mark.parametrize("use_tpu", [False, True])
def test_loads_and_serves(make, trained, receiver, line, tmp_path, tf_log, use_tpu):
    """A directory named by a number, without slots, predicts on CPUs as the checkpoint does."""
    path = make(use_tpu=use_tpu).export_saved_model(tmp_path / "export", receiver)
    assert isinstance(path, bytes)
    directory, name = os.path.split(path.decode())
    assert directory == str(tmp_path / "export")
    assert name.isdigit() and os.listdir(directory) == [name]
    names = [name for name, _ in tf.train.list_variables(path.decode() + "/variables/variables")]
    assert names == ["bias", "global_step", "weight"]
    signatures = tf.saved_model.load(path.decode()).signatures
    assert list(signatures) == [SERVING]
    found = signatures[SERVING](x=tf.constant(line.x))
    assert sorted(found) == ["y"]
    np.testing.assert_allclose(found["y"], by_hand(trained, line.x), rtol=1e-5)
    assert len([entry for entry in tf_log if "export_to_tpu is skipped" in entry]) == 1


def test_two_in_one_second(trained, receiver, tmp_path, monkeypatch):
    """A second export in the same second gets another name."""
    now = [1_700_000_000.0]
    clock = types.SimpleNamespace(
        time=lambda: now[0], sleep=lambda seconds: now.append(now.pop() + seconds)
    )
    monkeypatch.setattr(saved_models, "time", clock)
    base = tmp_path / "export"
    paths = [trained.export_saved_model(base, receiver).decode() for _ in range(2)]
    assert paths == [str(base / "1700000000"), str(base / "1700000001")]


def test_failure_leaves_nothing(trained, tmp_path):
    """A failed export leaves no directory."""

    def receiver():
        raise KeyError("mine")

    with pytest.raises(KeyError):
        trained.export_saved_model(tmp_path / "export", receiver)
    assert not os.path.exists(tmp_path / "export") or not os.listdir(tmp_path / "export")


def test_an_older_checkpoint(trained, receiver, tmp_path):
    """checkpoint_path exports the variables of that checkpoint."""
    older = os.path.join(trained.model_dir, "model.ckpt-2")
    path = trained.export_saved_model(tmp_path / "export", receiver, checkpoint_path=older)
    variables = path.decode() + "/variables/variables"
    assert tf.train.load_variable(variables, "weight") == tf.train.load_variable(older, "weight")


def test_from_warm_start(make, trained, receiver, tmp_path):
    """An untrained, warm-started model exports the variables of the warm start."""
    new = make(model_dir=str(tmp_path / "new"), warm_start_from=trained.model_dir)
    path = new.export_saved_model(tmp_path / "export", receiver)
    variables = path.decode() + "/variables/variables"
    assert tf.train.load_variable(variables, "weight") == trained.get_variable_value("weight")


def test_variables_that_the_checkpoint_lacks(make, trained, line, receiver, tmp_path):
    """Variables that the checkpoint lacks raise an error."""

    def grown(features, labels, mode, params):
        tf1.get_variable("new_one", [2])
        return line.model_fn(features, labels, mode, params)

    with pytest.raises(ValueError, match="Could not load all requested variables.*new_one"):
        make(grown).export_saved_model(tmp_path / "export", receiver)


def test_assets(make, line, receiver, tmp_path):
    """The model's assets are exported, and extra files are copied to their destinations."""
    (tmp_path / "words.txt").write_text("a\nb\n")
    (tmp_path / "note.txt").write_text("hello")

    def with_table(features, labels, mode, params):
        table = tf.lookup.StaticVocabularyTable(
            tf.lookup.TextFileInitializer(
                str(tmp_path / "words.txt"),
                tf.string,
                tf.lookup.TextFileIndex.WHOLE_LINE,
                tf.int64,
                tf.lookup.TextFileIndex.LINE_NUMBER,
            ),
            1,
        )
        shift = tf.cast(table.lookup(tf.constant(["b"])), tf.float32)
        return line.model_fn({"x": features["x"] + shift}, labels, mode, params)

    estimator = make(with_table)
    estimator.train(line.input_fn, steps=2)
    extra = {"notes/first.txt": str(tmp_path / "note.txt")}
    path = estimator.export_saved_model(tmp_path / "export", receiver, assets_extra=extra).decode()
    (tmp_path / "words.txt").unlink()
    with open(f"{path}/assets.extra/notes/first.txt") as file:
        assert file.read() == "hello"
    with open(f"{path}/assets/words.txt") as file:
        assert file.read() == "a\nb\n"
    found = tf.saved_model.load(path).signatures[SERVING](x=tf.zeros([1, 1]))["y"]
    np.testing.assert_allclose(found, by_hand(estimator, 1.0), rtol=1e-5)


@pytest.mark.parametrize("stripped", [False, True])
def test_the_older_name(trained, receiver, tmp_path, stripped):
    """export_savedmodel writes a SavedModel, with or without default attributes."""
    path = trained.export_savedmodel(tmp_path / "export", receiver, strip_default_attrs=stripped)
    loaded = parse(path.decode())
    assert loaded.meta_graphs[0].meta_info_def.stripped_default_attrs is stripped


def several_heads(mode):
    """A model with three outputs: the default one, a regression and a classification."""
    graph = tf1.get_default_graph()
    y = graph.get_tensor_by_name("add:0")
    return {
        "export_outputs": {
            SERVING: es.PredictOutput({"y": y}),
            "regression": es.RegressionOutput(y),
            "classes": es.ClassificationOutput(scores=y),
        }
    }


def test_signatures_of_parsed_examples(make, trained, tmp_path, tf_log):
    """With serialized examples each output becomes a signature."""
    estimator = make(params={"spec": several_heads})
    receiver = es.build_parsing_serving_input_receiver_fn(
        {"x": tf.io.FixedLenFeature([1], tf.float32)}
    )
    path = estimator.export_saved_model(tmp_path / "export", receiver)
    signatures = tf.saved_model.load(path.decode()).signatures
    assert sorted(signatures) == ["classes", "regression", SERVING]
    example = tf.train.Example()
    example.features.feature["x"].float_list.value.append(0.5)
    found = signatures[SERVING](examples=tf.constant([example.SerializeToString()]))
    np.testing.assert_allclose(found["y"], by_hand(estimator, 0.5), rtol=1e-5)
    assert "Signature INCLUDED in export: regression (regress)" in tf_log


def test_signatures_that_cannot_be_fed_are_left_out(make, trained, receiver, tmp_path, tf_log):
    """With raw features, classification and regression signatures are left out."""
    estimator = make(params={"spec": several_heads})
    path = estimator.export_saved_model(tmp_path / "export", receiver)
    assert list(tf.saved_model.load(path.decode()).signatures) == [SERVING]
    left_out = [entry for entry in tf_log if "EXCLUDED" in entry]
    assert len(left_out) == 2


def test_alternative_receivers(trained, tmp_path):
    """receiver_tensors_alternatives add signatures."""

    def receiver():
        serialized = tf1.placeholder(tf.string, [None], name="serialized")
        parsed = tf.io.parse_example(serialized, {"x": tf.io.FixedLenFeature([1], tf.float32)})
        return es.ServingInputReceiver(parsed, serialized, {"raw": {"x": parsed["x"]}})

    path = trained.export_saved_model(tmp_path / "export", receiver)
    signatures = tf.saved_model.load(path.decode()).signatures
    assert sorted(signatures) == [f"raw:{SERVING}", SERVING]
    found = signatures[f"raw:{SERVING}"](x=tf.constant([[2.0]]))
    np.testing.assert_allclose(found["y"], by_hand(trained, 2.0), rtol=1e-5)


def test_an_alternative_that_does_not_suffice(trained, tmp_path, tf_log):
    """A set of inputs from which the output can't be computed is left out, which is logged."""

    def receiver():
        x = tf1.placeholder(tf.float32, [None, 1], name="x")
        other = tf1.placeholder(tf.float32, [None, 1], name="other")
        return es.ServingInputReceiver({"x": x}, {"x": x}, {"other": other})

    path = trained.export_saved_model(tmp_path / "export", receiver)
    assert list(tf.saved_model.load(path.decode()).signatures) == [SERVING]
    assert any("insufficient to compute ['y']" in entry for entry in tf_log)


def test_a_tensor_as_features(line, tmp_path):
    """TensorServingInputReceiver gives the model a tensor as features."""

    def model_fn(features, labels, mode):
        return line.model_fn({"x": features}, labels, mode, {})

    def receiver():
        x = tf1.placeholder(tf.float32, [None, 1])
        return es.TensorServingInputReceiver(x, x)

    estimator = es.Estimator(model_fn, tmp_path / "model")
    estimator.train(lambda: (tf.constant(line.x), tf.constant(line.y)), steps=1)
    path = estimator.export_saved_model(tmp_path / "export", receiver)
    found = tf.saved_model.load(path.decode()).signatures[SERVING](input=tf.constant([[1.0]]))
    np.testing.assert_allclose(found["y"], by_hand(estimator, 1.0), rtol=1e-5)


def test_all_modes(trained, receiver, tmp_path):
    """One SavedModel can have the graphs of three modes with shared variables."""
    path = trained.experimental_export_all_saved_models(
        tmp_path / "export",
        {"infer": receiver, "eval": supervised_receiver, "train": supervised_receiver},
    ).decode()
    parsed = parse(path)
    found = {
        tuple(graph.meta_info_def.tags): sorted(graph.signature_def) for graph in parsed.meta_graphs
    }
    assert found == {("train",): ["train"], ("eval",): ["eval"], ("serve",): [SERVING]}
    evaluation = parsed.meta_graphs[1].signature_def["eval"]
    assert {"loss", "metrics/mae/value", "metrics/mae/update_op"} <= set(evaluation.outputs)
    training = parsed.meta_graphs[0]
    assert "saved_model_train_op" in training.collection_def
    variables = dict(tf.train.list_variables(path + "/variables/variables"))
    assert "weight/Momentum" in variables
    loaded = tf.saved_model.load(path, tags=["serve"])
    assert loaded.signatures[SERVING] is not None


def test_one_other_mode(trained, tmp_path):
    """experimental_mode exports an evaluation graph."""
    path = trained.export_saved_model(
        tmp_path / "export", supervised_receiver, experimental_mode="eval"
    ).decode()
    parsed = parse(path)
    assert [list(graph.meta_info_def.tags) for graph in parsed.meta_graphs] == [["eval"]]


@pytest.mark.parametrize("receivers", [{}, {"other": print}, {"infer": None}])
def test_no_known_mode(trained, tmp_path, receivers):
    """An export without a known mode raises an error."""
    with pytest.raises(ValueError, match="No valid modes for exporting found"):
        trained.experimental_export_all_saved_models(tmp_path / "export", receivers)


def test_nothing_to_export(make, trained, receiver, tmp_path):
    """export_to_cpu=False raises an error."""
    with pytest.raises(ValueError, match="One of export_to_cpu and export_to_tpu must be true"):
        make(export_to_cpu=False, export_to_tpu=False).export_saved_model(tmp_path, receiver)
    with pytest.raises(RuntimeError, match="export_to_cpu=False leaves nothing to export"):
        make(export_to_cpu=False).export_saved_model(tmp_path, receiver)


def test_names_run_out(monkeypatch, tmp_path):
    """An export without a free directory name raises an error."""
    monkeypatch.setattr(saved_models.tf.io.gfile, "exists", lambda path: True)
    monkeypatch.setattr(saved_models.time, "sleep", lambda seconds: None)
    with pytest.raises(RuntimeError, match="Failed to obtain a unique export directory name"):
        saved_models._new_directory(str(tmp_path))


def test_checkpoint_as_saver(line, receiver, tmp_path):
    """A scaffold with a tf.train.Checkpoint as its saver trains, exports and warm-starts.

    Its saves leave a directory of somebody else that has the name of their temporary one.
    """

    def model_fn(features, labels, mode):
        step = tf1.train.get_or_create_global_step()
        weight = tf1.get_variable("weight", [1, 1], initializer=tf1.constant_initializer(0.5))
        y = tf.matmul(features["x"], weight)
        scaffold = tf1.train.Scaffold(saver=tf.train.Checkpoint(weight=weight, step=step))
        loss = train_op = None
        if mode != "infer":
            loss = tf.reduce_mean((y - labels) ** 2)
            train_op = tf1.train.GradientDescentOptimizer(0.1).minimize(loss, step)
        return es.EstimatorSpec(mode, {"y": y}, loss=loss, train_op=train_op, scaffold=scaffold)

    estimator = es.Estimator(model_fn, str(tmp_path / "model"))
    (tmp_path / "model" / "model.ckpt-3_temp").mkdir(parents=True)
    estimator.train(line.input_fn, steps=3)
    assert (tmp_path / "model" / "model.ckpt-3_temp").exists()
    names = estimator.get_variable_names()
    assert "weight/.ATTRIBUTES/VARIABLE_VALUE" in names
    trained = estimator.get_variable_value("weight/.ATTRIBUTES/VARIABLE_VALUE")
    path = estimator.export_saved_model(str(tmp_path / "export"), receiver)
    serve = tf.saved_model.load(path.decode()).signatures[SERVING]
    np.testing.assert_allclose(serve(x=tf.constant(line.x))["y"], line.x * trained, rtol=1e-6)

    warm = es.Estimator(model_fn, str(tmp_path / "warm"), warm_start_from=estimator.model_dir)
    expected = estimator.evaluate(line.input_fn, steps=1)["loss"]
    assert warm.evaluate(line.input_fn, steps=1)["loss"] == expected
