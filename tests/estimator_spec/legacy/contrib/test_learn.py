# SPDX-License-Identifier: Apache-2.0
"""`tf.contrib.learn`: Estimator, MetricSpec, monitors, exports, predictors, readers of files."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

import estimator_spec
from estimator_spec.core.driver import predictor as saved_model_predictor
from estimator_spec.legacy.contrib.learn import (
    arrays,
    canned,
    columns,
    exports,
    metric_spec,
    monitor_hooks,
    monitors,
    predictor,
    reading,
)
from estimator_spec.legacy.contrib.learn.core import NotFittedError
from estimator_spec.legacy.contrib.learn.estimator import Estimator
from estimator_spec.legacy.contrib.learn.model_fn_ops import (
    InputFnOps,
    ModelFnOps,
    ProblemType,
    get_output_alternatives,
)
from estimator_spec.legacy.contrib.learn.run_config import Environment, RunConfig
from estimator_spec.legacy.contrib.learn.sklearn_compat import SKCompat

tf1 = tf.compat.v1
X = np.arange(12, dtype=np.float32).reshape(6, 2)
Y = X[:, 0] * 2


def model_fn(features, targets, mode, params):
    """Predicts the first element times one number; needs targets in each mode, as many do."""
    weight = tf1.get_variable("weight", [], initializer=tf1.ones_initializer())
    tripled = tf1.get_variable("tripled", [], initializer=tf1.zeros_initializer(), trainable=False)
    y = features[:, 0] * weight
    loss = tf1.losses.mean_squared_error(targets, y)
    train_op = tf1.train.GradientDescentOptimizer(params["rate"]).minimize(
        loss, tf1.train.get_global_step()
    )
    with tf.control_dependencies([train_op]):
        train_op = tripled.assign_add(3)
    metrics = {"rmse": tf1.metrics.root_mean_squared_error(targets, y)}
    return ModelFnOps(mode, {"y": y, "all": features}, loss, train_op, metrics)


@pytest.fixture
def make(tmp_path):
    """Returns a function that makes an estimator."""

    def estimator(function=model_fn, rate=0.01, **options):
        options = {"model_dir": str(tmp_path / "model"), "tf_random_seed": 1, **options}
        config = RunConfig(**options)
        params = {"rate": rate} if function is model_fn else None
        return Estimator(function, config=config, params=params)

    return estimator


def test_arrays(make):
    """fit, evaluate and predict take arrays; predictions are an iterator, or arrays."""
    model = make()
    assert model.fit(X, Y, steps=30) is model
    found = model.evaluate(X, Y, batch_size=4)
    assert sorted(found) == ["global_step", "loss", "rmse"]
    assert found["global_step"] == 30
    assert model.get_variable_value("tripled") == 90
    predicted = model.predict(X, outputs=["y"], as_iterable=False, batch_size=4)
    np.testing.assert_allclose(predicted["y"], Y, atol=0.1)
    one = next(model.predict(X))
    assert sorted(one) == ["all", "y"]
    batch = next(model.predict(X, batch_size=4, iterate_batches=True))
    assert batch["all"].shape == (4, 2)
    model.partial_fit(X, Y)
    assert model.evaluate(X, Y)["global_step"] == 31
    assert model.fit(X, Y, max_steps=31).evaluate(X, Y)["global_step"] == 31
    assert sorted(model.get_variable_names()) == ["global_step", "tripled", "weight"]
    assert (model.params, model.get_params()) == ({"rate": 0.01}, {"rate": 0.01})


def test_batches_of_arrays():
    """Each epoch has every example once, in another order if it is shuffled."""
    with tf.Graph().as_default() as graph, tf1.Session() as session:
        graph.seed = 1
        dataset = arrays.input_fn_of({"a": [[0], [1], [2]]}, ["x", "y", "z"], 2, True, True)()
        batch = tf1.data.make_one_shot_iterator(dataset).get_next()
        epochs = []
        for _ in range(8):
            first, second = session.run(batch), session.run(batch)
            assert [len(part[1]) for part in (first, second)] == [2, 1]
            pairs = [
                (int(a[0]), y)
                for part in (first, second)
                for a, y in zip(part[0]["a"], part[1], strict=True)
            ]
            assert sorted(pairs) == [(0, b"x"), (1, b"y"), (2, b"z")]
            epochs.append(tuple(pairs))
        assert len(set(epochs)) > 1


def test_input_fns_of_arrays():
    """numpy_input_fn and pandas_input_fn shuffle without being told to."""
    pandas = pytest.importorskip("pandas")
    model = canned.LinearRegressor(
        [columns.real_valued_column("x")], config=RunConfig(tf_random_seed=1)
    )
    values = {"x": np.arange(4.0)}
    model.fit(input_fn=arrays.numpy_input_fn(values, Y[:4], 4, num_epochs=20), steps=50)
    frame = arrays.pandas_input_fn(pandas.DataFrame(values), pandas.Series(Y[:4]), 4)
    assert model.evaluate(input_fn=frame)["global_step"] == 20
    assert len(list(model.predict(input_fn=arrays.numpy_input_fn(values, batch_size=3)))) == 4


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "Either x or input_fn"),
        ({"x": X, "input_fn": len}, "both input_fn and x or y"),
        ({"input_fn": len, "batch_size": 3}, "both input_fn and batch_size"),
        ({"x": X, "y": Y, "steps": 1, "max_steps": 2}, "both steps and max_steps"),
        ({"x": X, "y": Y[:2]}, "one entry for each example"),
        ({"x": iter([X])}, "can't be iterators"),
    ],
)
def test_wrong_inputs(make, options, message):
    """Arguments that exclude each other, and unequal arrays, are errors."""
    with pytest.raises((ValueError, TypeError), match=message):
        make().fit(**{"steps": 1, **options})


def test_constants_are_one_batch(make):
    """Tensors that no queue fills are predicted once; a queue's until it ends."""
    model = make().fit(X, Y, steps=1)
    assert len(list(model.predict(input_fn=lambda: tf.constant(X, tf.float32)))) == 6

    def queue():
        (row,) = tf1.train.slice_input_producer([tf.constant(X, tf.float32)], 1, shuffle=False)
        return tf1.train.batch([row], 2)

    assert len(list(model.predict(input_fn=queue))) == 6


def test_no_checkpoint(make):
    """Without a checkpoint an evaluation and a prediction raise NotFittedError, a ValueError."""
    with pytest.raises(NotFittedError, match="Couldn't find trained model"):
        make().evaluate(X, Y)
    with pytest.raises(ValueError, match="Call fit first"):
        make().predict(X)


def test_results_of_a_model_fn(make, tmp_path):
    """A model_fn returns ModelFnOps, an EstimatorSpec or a triple, and may take the directory."""

    def spec(features, labels, mode, config, model_dir):
        assert (config.model_dir, model_dir) == (str(tmp_path / "model"),) * 2
        ops = model_fn(features, labels, mode, {"rate": 0.1})
        return estimator_spec.EstimatorSpec(mode, ops.predictions, ops.loss, ops.train_op)

    assert make(spec).fit(X, Y, steps=1).evaluate(X, Y)["global_step"] == 1

    def triple(features, labels):
        ops = model_fn(features, labels, "train", {"rate": 0.001})
        return ops.predictions, ops.loss, ops.train_op

    assert make(triple).fit(X, Y, steps=1).evaluate(X, Y)["global_step"] == 2
    with pytest.raises(ValueError, match="please return ModelFnOps"):
        make(lambda features, labels: features).fit(X, Y, steps=1)
    with pytest.raises(ValueError, match="not None params"):
        Estimator(triple, params={"a": 1})
    with pytest.raises(TypeError, match="model_fn must be a function"):
        Estimator()


@pytest.mark.parametrize(
    ("mode", "given", "message"),
    [
        ("train", {"loss": 1}, "Missing training_op"),
        ("eval", {"predictions": 1}, "Missing loss"),
        ("infer", {}, "Missing predictions"),
        ("other", {}, "Invalid mode"),
    ],
)
def test_incomplete_ops(mode, given, message):
    """ModelFnOps names what a mode lacks."""
    with pytest.raises(ValueError, match=message):
        ModelFnOps(mode, **given)


def test_metric_specs():
    """A metric gets predictions, labels and weights by its arguments' names, or by position."""
    both, labels = {"a": 1, "b": 2}, {"y": 3}
    make = metric_spec.MetricSpec
    assert make(lambda labels, predictions: (labels, predictions), "b", "y").create_metric_ops(
        {}, labels, both
    ) == (3, 2)
    assert make(lambda pred, true: (pred, true), "a").create_metric_ops({}, labels, both) == (1, 3)
    weighted = make(lambda weights, target, scores: (weights, target, scores), weight_key="w")
    assert weighted.create_metric_ops({"w": 4}, 3, 2) == (4, 3, 2)
    with pytest.raises(ValueError, match=r"no prediction_key.*several values: \['a', 'b'\]"):
        make(len).create_metric_ops({}, 3, both)
    with pytest.raises(ValueError, match="prediction_key is none of"):
        make(len, "c").create_metric_ops({}, 3, both)
    with pytest.raises(ValueError, match="one label without a name"):
        make(len, "a", "y").create_metric_ops({}, 3, both)
    found = metric_spec.make_metric_ops({("name", "b"): lambda p, y: (p, y)}, {}, 3, both)
    assert found == {"name": (2, 3)}


def test_metrics_of_an_evaluation(make):
    """evaluate adds metrics, and replaces a model's metric of the same name."""
    model = make().fit(X, Y, steps=1)
    spec = metric_spec.MetricSpec(lambda predictions, labels: tf1.metrics.mean(labels), "y")
    found = model.evaluate(X, Y, metrics={"mean": spec, "rmse": spec})
    assert found["mean"] == found["rmse"] == Y.mean()


class Recorder(monitors.EveryN):
    """Monitor that keeps what it is called with."""

    def __init__(self):
        super().__init__(every_n_steps=3, first_n_steps=2)
        self.calls = []

    def every_n_step_begin(self, step):
        return [self.name()]

    def name(self):
        graph = tf1.get_default_graph()
        return graph.as_graph_element(tf1.trainable_variables()[0]).name

    def every_n_step_end(self, step, outputs):
        self.calls.append((step, float(outputs[self.name()])))
        return step == 8

    def end(self, session=None):
        self.calls.append(("end", session is not None))


def test_monitors(make, caplog):
    """Monitors are called in their steps with the values they ask for, and end training."""
    caplog.set_level("INFO", "tensorflow")
    recorder = Recorder()
    names = monitors.PrintTensor({"loss is": "mean_squared_error/value:0"}, every_n=2)
    variable = monitors.LoggingTrainable()
    capture = monitors.CaptureVariable("mean_squared_error/value:0", every_n=4)
    model = make(rate=0.0).fit(X, Y, steps=20, monitors=[recorder, names, variable, capture])
    assert recorder.calls == [(1, 1), (2, 1), (5, 1), (8, 1), ("end", True)]
    assert model.get_variable_value("global_step") == 8
    assert "Step 1: loss is = " in caplog.text
    assert "Step 1: weight = 1.0" in caplog.text
    assert sorted(capture.values) == [1, 5]
    assert monitor_hooks.replace_monitors_with_hooks(None, model) == []
    stop = monitors.StopAtStep(num_steps=2)
    assert make(rate=0.0).fit(X, Y, monitors=stop).get_variable_value("global_step") == 10


def test_early_stopping(make):
    """A ValidationMonitor evaluates each new checkpoint, and ends training that gets no better."""
    monitor = monitors.ValidationMonitor(
        X, Y, every_n_steps=5, early_stopping_rounds=10, early_stopping_metric="rmse"
    )
    model = make(rate=0.0, save_checkpoints_steps=5).fit(X, Y, steps=100, monitors=[monitor])
    assert monitor.early_stopped
    assert monitor.best_value == monitor.best_metrics["rmse"]
    assert model.get_variable_value("global_step") == monitor.best_step + 10
    with pytest.raises(ValueError, match="'other' is none of the metrics"):
        monitors.ValidationMonitor(
            X, Y, early_stopping_rounds=1, early_stopping_metric="other"
        )._is_over(1, {"rmse": 1})
    with pytest.raises(ValueError, match="Either x or input_fn"):
        monitors.ValidationMonitor()
    with pytest.raises(ValueError, match="Missing call to set_estimator"):
        monitors.ValidationMonitor(X).every_n_step_end(1, {})


def test_scikit_learn_methods(make):
    """SKCompat has fit, score and predict of arrays."""
    model = SKCompat(make())
    assert model.fit(X, Y, steps=20) is model
    assert sorted(model.score(X, Y)) == ["loss", "rmse"]
    assert model.predict(X)["y"].shape == (6,)


def classifier(tmp_path):
    """Returns a trained classifier of two numbers."""
    number = [columns.real_valued_column("x", 2)]
    model = canned.LinearClassifier(number, str(tmp_path / "model"))
    return model.fit({"x": X}, (Y > 8).astype(int), steps=5)


def json_input_fn():
    """Inputs of a prediction: one placeholder, whose name a request has."""
    given = tf1.placeholder(tf.float32, [None, 2])
    return InputFnOps({"x": given * 1}, None, {"numbers": given})


def test_exports(tmp_path):
    """Exports have a signature for each inputs and outputs, and the default."""
    model = classifier(tmp_path)
    path = model.export_savedmodel(str(tmp_path / "json"), json_input_fn)
    with tf1.Session(graph=tf.Graph()) as session:
        signatures = tf1.saved_model.load(session, ["serve"], path.decode()).signature_def
    assert sorted(signatures) == [
        "default_input_alternative:None",
        "serving_default",
    ]
    assert list(signatures["serving_default"].inputs) == ["numbers"]
    served = saved_model_predictor.from_saved_model(path.decode())({"numbers": X})
    assert sorted(served) == ["classes", "probabilities"]
    assert served["classes"].tolist() == [[b"0", b"1"]] * len(X)
    here = predictor.from_contrib_estimator(model, json_input_fn)({"numbers": X})
    expected = model.predict_proba({"x": X}, as_iterable=False)
    np.testing.assert_allclose(served["probabilities"], expected, rtol=1e-5)
    np.testing.assert_allclose(here["probabilities"], expected, rtol=1e-5)


def test_exports_of_examples(tmp_path):
    """Exports of serialized examples are classifications; the strategy keeps the newest."""
    model = classifier(tmp_path)
    strategy = exports.make_parsing_export_strategy(
        [columns.real_valued_column("x", 2)], exports_to_keep=1
    )
    assert strategy.name == "Servo"
    directory = str(tmp_path / "export")
    first, path = (strategy.export(model, directory) for _ in range(2))
    assert os.listdir(directory) == [os.path.basename(path.decode())]
    assert first != path
    with tf1.Session(graph=tf.Graph()) as session:
        signatures = tf1.saved_model.load(session, ["serve"], path.decode()).signature_def
    default = signatures["serving_default"]
    assert default.method_name == "tensorflow/serving/classify"
    assert sorted(default.outputs) == ["classes", "scores"]
    with pytest.raises(ValueError, match="serving_input_fn must return"):
        model.export_savedmodel(directory, lambda: tf.constant(1))
    with pytest.raises(ValueError, match="serving_input_fn must be defined"):
        model.export_savedmodel(directory, None)
    with pytest.raises(ValueError, match="graph_rewrite_specs"):
        model.export_savedmodel(directory, json_input_fn, graph_rewrite_specs=[1])
    with pytest.raises(NotImplementedError, match="Call export_savedmodel"):
        model.export(directory)


def test_kinds_of_signatures():
    """Regressions of examples have a regression's signature, others a prediction's."""
    with tf.Graph().as_default():
        examples, numbers = tf1.placeholder(tf.string, [None]), tf1.placeholder(tf.float32, [None])
        make = exports.build_standardized_signature_def
        for inputs, problem, method in (
            ({"examples": examples}, ProblemType.LINEAR_REGRESSION, "regress"),
            ({"x": numbers}, ProblemType.LINEAR_REGRESSION, "predict"),
            ({"examples": examples}, ProblemType.UNSPECIFIED, "predict"),
        ):
            signature = make(inputs, {"scores": numbers}, problem)
            assert signature.method_name == f"tensorflow/serving/{method}"
        receiver = exports.build_default_serving_input_fn({"x": numbers})()
        assert receiver.features is receiver.default_inputs
        with pytest.raises(ValueError, match="Features must be defined"):
            exports.get_input_alternatives(InputFnOps(None, None, None))
        with pytest.raises(ValueError, match="default_inputs must be defined"):
            exports.get_input_alternatives(InputFnOps({"x": numbers}, None, None))


def test_outputs():
    """A model with one output has it as the default; several need a name, known ones."""
    with tf.Graph().as_default():
        ops = ModelFnOps("infer", tf.constant(1))
        alternatives, key = get_output_alternatives(ops, None)
        assert (list(alternatives), list(alternatives[key][1])) == ([key], ["output"])
        two = {name: (ProblemType.UNSPECIFIED, {}) for name in ("a", "b")}
        ops = ops._replace(output_alternatives=two)
        assert get_output_alternatives(ops, "b")[1] == "b"
        with pytest.raises(ValueError, match="specify a default_output_alternative"):
            get_output_alternatives(ops, None)
        with pytest.raises(ValueError, match="output_alternatives are:"):
            get_output_alternatives(ops, "c")


def test_predictors_of_other_estimators(tmp_path):
    """An estimator of tf.estimator is refused with the right function, unknown inputs by name."""
    core = estimator_spec.Estimator(lambda features: None, str(tmp_path / "core"))
    with pytest.raises(TypeError, match="likely want to call from_estimator"):
        predictor.from_contrib_estimator(core, json_input_fn)
    with pytest.raises(TypeError, match="got type builtins.dict"):
        predictor.from_contrib_estimator({}, json_input_fn)
    with pytest.raises(KeyError, match="input_alternative_key must be one of"):
        predictor.from_contrib_estimator(classifier(tmp_path), json_input_fn, "other")


def test_run_config(monkeypatch):
    """A RunConfig has TensorFlow 1's arguments, the entry environment, and one uid for equals."""
    config = RunConfig(num_cores=2, save_checkpoints_steps=5, master="m", evaluation_master="e")
    assert config.session_config.intra_op_parallelism_threads == 2
    assert config.tf_config.gpu_options.per_process_gpu_memory_fraction == 1
    assert (config.save_checkpoints_steps, config.save_checkpoints_secs) == (5, None)
    assert (config.master, config.evaluation_master) == ("m", "e")
    assert RunConfig().save_checkpoints_secs == 600
    assert RunConfig(model_dir="a").uid() == RunConfig(model_dir="b").uid()
    assert RunConfig(model_dir="a").uid([]) != RunConfig(model_dir="b").uid([])
    assert RunConfig(tf_random_seed=1).uid() != RunConfig().uid()
    assert isinstance(config, estimator_spec.run_config.RunConfig)
    assert (config.environment, config.get_task_id()) == (Environment.LOCAL, 0)
    monkeypatch.setenv("TF_CONFIG", json.dumps({"environment": "cloud"}))
    assert config.environment == Environment.CLOUD


def test_files_of_records(tmp_path):
    """Queues read records and their features: in order, or shuffled, for some epochs."""
    for part in range(2):
        with tf.io.TFRecordWriter(str(tmp_path / f"{part}.tfrecord")) as writer:
            for i in range(3):
                example = tf.train.Example()
                example.features.feature["i"].int64_list.value.append(3 * part + i)
                writer.write(example.SerializeToString())
    spec = {"i": tf.io.FixedLenFeature([], tf.int64)}

    def read(**options):
        with tf.Graph().as_default():
            features = reading.read_batch_record_features(
                str(tmp_path / "*.tfrecord"), 4, spec, num_epochs=2, **options
            )
            found = []
            with tf1.train.MonitoredSession() as session:
                while not session.should_stop():
                    found += session.run(features)["i"].tolist()
            return found

    assert read(randomize_input=False) == [*range(6)] * 2
    assert sorted(read()) == sorted([*range(6)] * 2)
    with tf.Graph().as_default():
        with pytest.raises(ValueError, match="No files match"):
            reading.read_batch_examples(str(tmp_path / "none"), 2, tf1.TextLineReader)
        with pytest.raises(ValueError, match="batch_size must be at least 1"):
            reading.read_batch_examples(str(tmp_path / "*.tfrecord"), 0, tf1.TFRecordReader)


def test_csv_files(tmp_path):
    """CSV files have features and labels, and maybe a first line with their number."""
    path = str(tmp_path / "data.csv")
    with open(path, "w") as file:
        file.write("2,3,a,b\n1,2,3,0\n4,5,6,1\n")
    found = reading.load_csv_with_header(path, np.int64, np.float32)
    assert (found.data.tolist(), found.target.tolist()) == ([[1, 2, 3], [4, 5, 6]], [0, 1])
    with open(path, "w") as file:
        file.write("9,1,2\n8,3,4\n")
    found = reading.load_csv_without_header(path, np.int64, np.float32, target_column=0)
    assert (found.data.tolist(), found.target.tolist()) == ([[1, 2], [3, 4]], [9, 8])
    with open(path, "w") as file:
        file.write("5,2\n1,2,0\n")
    with pytest.raises(ValueError, match=r"\(1, 2\) examples.*first line says \(5, 2\)"):
        reading.load_csv_with_header(path, np.int64, np.float32)
    copy = reading.maybe_download("copy.csv", str(tmp_path / "new"), f"file://{path}")
    assert Path(copy).read_text() == "5,2\n1,2,0\n"
    os.remove(path)
    assert reading.maybe_download("copy.csv", str(tmp_path / "new"), f"file://{path}") == copy
