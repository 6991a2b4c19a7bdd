# SPDX-License-Identifier: Apache-2.0
"""`model_to_estimator`: Keras models in estimators; tests/reference compares with 2.15.1's."""

from __future__ import annotations

import importlib.util
import os

import numpy as np
import pytest
import tensorflow as tf

import estimator_spec
import forking_python

tf1 = tf.compat.v1
keras = tf.keras

FORMATS = pytest.mark.parametrize("checkpoint_format", ["checkpoint", "saver"])
X = np.linspace(-1.0, 1.0, 16, dtype=np.float32).reshape(8, 2)
Y = (X.sum(axis=1, keepdims=True) * 0.5 + 1.0).astype(np.float32)


def input_fn():
    """Returns eight examples in two batches."""
    return tf.data.Dataset.from_tensor_slices((X, Y)).batch(4)


def make_model(optimizer=None, loss="mse", **compile_arguments):
    """Returns a compiled functional model with batch normalization."""
    inputs = keras.Input((2,), name="x")
    hidden = keras.layers.Dense(3, "tanh", name="hidden")(inputs)
    hidden = keras.layers.BatchNormalization(name="norm", momentum=0.5)(hidden)
    model = keras.Model(inputs, keras.layers.Dense(1, name="y")(hidden))
    model.compile(optimizer or keras.optimizers.legacy.SGD(0.1), loss, **compile_arguments)
    return model


def predicted(estimator, name="y"):
    """Returns the predictions of the eight examples."""
    return np.array([row[name] for row in estimator.predict(input_fn)])


@FORMATS
def test_it_starts_with_the_weights_of_the_model(tmp_path, checkpoint_format):
    """Before training the estimator predicts what the model does, also with trained statistics."""
    model = make_model()
    model.fit(X, Y, epochs=3, verbose=0)
    expected = model.predict(X, verbose=0)
    estimator = estimator_spec.model_to_estimator(
        model, model_dir=tmp_path, checkpoint_format=checkpoint_format
    )
    np.testing.assert_allclose(predicted(estimator), expected, rtol=1e-5)


@pytest.mark.parametrize("optimizer", [keras.optimizers.legacy.SGD, tf1.train.RMSPropOptimizer])
def test_a_checkpoint_beside_the_model_is_the_start(tmp_path, optimizer):
    """Training starts from a checkpoint that the user left in the directory `keras`."""
    model = make_model(optimizer(0.0))
    model.save_weights(tmp_path / "keras" / "trained.ckpt")
    expected = model.get_weights()
    model.set_weights([value + 1.0 for value in expected])
    estimator = estimator_spec.model_to_estimator(
        model, model_dir=tmp_path, checkpoint_format="saver"
    )
    estimator.train(input_fn, steps=1)
    found = estimator.get_variable_value("hidden/kernel")
    np.testing.assert_allclose(found, expected[0], rtol=1e-6)


@FORMATS
def test_training_goes_on_from_the_checkpoint(tmp_path, checkpoint_format):
    """A second estimator, of a new model, continues with the checkpoint, the slots included."""
    first, second = (
        estimator_spec.model_to_estimator(
            make_model(keras.optimizers.legacy.Adam(0.1)),
            model_dir=tmp_path,
            checkpoint_format=checkpoint_format,
            config=estimator_spec.RunConfig(tf_random_seed=1),
        )
        for _ in range(2)
    )
    first.train(input_fn)
    before = predicted(first)
    np.testing.assert_allclose(predicted(second), before, rtol=1e-6)
    second.train(input_fn)
    assert second.evaluate(input_fn)["global_step"] == 4
    assert np.abs(predicted(second) - before).max() > 1e-4


def test_the_model_itself_is_not_trained(tmp_path):
    """The model's variables stay as they were."""
    model = make_model(metrics=["mae"])
    variables = model.variables
    before = [variable.numpy() for variable in variables]
    estimator = estimator_spec.model_to_estimator(model, model_dir=tmp_path)
    estimator.train(input_fn)
    estimator.evaluate(input_fn)
    for variable, value in zip(variables, before, strict=True):
        np.testing.assert_array_equal(variable.numpy(), value)


def test_keras_restores_the_estimators_checkpoint(tmp_path):
    """`tf.train.Checkpoint(root=model)` restores the weights of a trained estimator."""
    estimator = estimator_spec.model_to_estimator(make_model(), model_dir=tmp_path)
    estimator.train(input_fn)
    model = make_model()
    status = tf.train.Checkpoint(root=model).restore(estimator.latest_checkpoint())
    status.expect_partial()
    restored = model.predict(X, verbose=0)
    np.testing.assert_allclose(restored, predicted(estimator), rtol=1e-5)


class Doubled(keras.layers.Layer):
    """A layer of the user."""

    def call(self, inputs):
        """Returns the doubled inputs."""
        return 2.0 * inputs


def test_custom_objects_and_a_saved_model(tmp_path):
    """A model with a custom layer is loaded from a file, and copied."""
    model = keras.Sequential([Doubled(input_shape=(2,)), keras.layers.Dense(1, name="y")])
    model.compile(keras.optimizers.legacy.SGD(0.1), "mse")
    path = tmp_path / "model.h5"
    model.save(path)
    expected = model.predict(X, verbose=0)
    estimator = estimator_spec.model_to_estimator(
        keras_model_path=str(path), custom_objects={"Doubled": Doubled}, model_dir=tmp_path / "dir"
    )
    np.testing.assert_allclose(predicted(estimator), expected, rtol=1e-5)
    estimator.train(input_fn)
    assert estimator.evaluate(input_fn)["global_step"] == 2


class Line(keras.Model):
    """A subclassed model."""

    def __init__(self):
        super().__init__()
        self.dense = keras.layers.Dense(1, kernel_initializer="ones")

    def call(self, inputs):
        """Returns predictions."""
        return self.dense(inputs)


def test_subclassed_models(tmp_path):
    """A subclassed model trains, and keeps its own weights; they aren't the estimator's."""
    model = Line()
    model.compile(keras.optimizers.legacy.SGD(0.1), "mse", metrics=["mae"])
    model.fit(X, Y, verbose=0)
    variables = model.variables
    before = [variable.numpy() for variable in variables]
    with pytest.raises(ValueError, match="Object-based checkpoints are currently not supported"):
        estimator_spec.model_to_estimator(model, model_dir=tmp_path)
    estimator = estimator_spec.model_to_estimator(
        model, model_dir=tmp_path, checkpoint_format="saver"
    )
    estimator.train(input_fn)
    assert estimator.evaluate(input_fn).keys() == {"loss", "mae", "global_step"}
    for variable, value in zip(variables, before, strict=True):
        np.testing.assert_array_equal(variable.numpy(), value)


class LineOfFeature(Line):
    """A subclassed model that takes a dictionary."""

    def call(self, inputs):
        """Returns predictions."""
        return self.dense(inputs["x"])


def test_a_subclassed_model_of_a_dictionary(tmp_path):
    """A model that no data has built gets the features by their names, as in TensorFlow 2.15."""
    model = LineOfFeature()
    model.compile(keras.optimizers.legacy.SGD(0.1), "mse")
    estimator = estimator_spec.model_to_estimator(
        model, model_dir=tmp_path, checkpoint_format="saver"
    )
    named = {"x": X, "unused": Y}
    found = estimator.evaluate(lambda: tf.data.Dataset.from_tensors((named, Y)))
    assert found["loss"] == pytest.approx(np.mean((X.sum(1, keepdims=True) - Y) ** 2), rel=1e-5)


def test_weights_of_examples(tmp_path):
    """Features with `sample_weights` weigh the loss and the weighted metrics."""
    weights = np.array([0.0] * 4 + [2.0] * 4, np.float32)
    model = make_model(weighted_metrics=["mae"])
    expected = model.evaluate(X, Y, sample_weight=weights, verbose=0, return_dict=True)

    def weighted():
        features = {"features": X, "sample_weights": weights}
        return tf.data.Dataset.from_tensor_slices((features, Y)).batch(8)

    estimator = estimator_spec.model_to_estimator(model, model_dir=tmp_path)
    found = estimator.evaluate(weighted)
    assert found["loss"] == pytest.approx(expected["loss"], rel=1e-5)
    assert found["mae"] == pytest.approx(expected["mae"], rel=1e-5)
    estimator.train(weighted)


def test_metrics_and_outputs_get_other_names(tmp_path):
    """`metric_names_map` renames metrics; `export_outputs` adds a signature for an output."""
    estimator = estimator_spec.model_to_estimator(
        make_model(metrics=["mae"]),
        model_dir=tmp_path / "model",
        metric_names_map={"mae": "how_far"},
        export_outputs={"y": estimator_spec.PredictOutput},
    )
    assert estimator.evaluate(input_fn).keys() == {"loss", "how_far", "global_step"}
    receiver = estimator_spec.build_raw_serving_input_receiver_fn({"x": tf.zeros([1, 2])})
    estimator.train(input_fn, steps=1)
    path = estimator.export_saved_model(tmp_path / "export", receiver)
    signatures = tf.saved_model.load(path.decode()).signatures
    expected = predicted(estimator)
    for name, output in (("y", "output"), ("serving_default", "y")):
        served = signatures[name](x=tf.constant(X))[output]
        np.testing.assert_allclose(served, expected, rtol=1e-5)


def test_outputs_must_be_the_models(tmp_path):
    """A key of `export_outputs` that is no output is refused with the known ones."""
    with pytest.raises(ValueError, match=r"`export_outputs` has \['z'\].*outputs are \['y'\]"):
        estimator = estimator_spec.model_to_estimator(
            make_model(),
            model_dir=tmp_path,
            export_outputs={"z": estimator_spec.PredictOutput},
        )
        predicted(estimator)


@FORMATS
def test_an_untrained_model_is_exported(tmp_path, checkpoint_format):
    """Without training, the export has the weights that the model came with."""
    model = make_model()
    expected = model.predict(X, verbose=0)
    estimator = estimator_spec.model_to_estimator(
        model, model_dir=tmp_path / "model", checkpoint_format=checkpoint_format
    )
    receiver = estimator_spec.build_raw_serving_input_receiver_fn({"x": tf.zeros([1, 2])})
    path = estimator.export_saved_model(tmp_path / "export", receiver)
    served = tf.saved_model.load(path.decode()).signatures["serving_default"](x=tf.constant(X))
    np.testing.assert_allclose(served["y"], expected, rtol=1e-5)


@FORMATS
def test_training_stops_at_max_steps(tmp_path, checkpoint_format):
    """Training that has reached `max_steps` isn't begun again."""
    for _ in range(2):
        estimator = estimator_spec.model_to_estimator(
            make_model(), model_dir=tmp_path, checkpoint_format=checkpoint_format
        )
        estimator.train(input_fn, max_steps=1)
    assert estimator.evaluate(input_fn)["global_step"] == 1


def test_unknown_metrics_are_refused(tmp_path):
    """A `metric_names_map` must have all metrics of the model, and no others."""
    for names in ({"mae": "a", "mse": "far"}, {"mse": "far"}):
        estimator = estimator_spec.model_to_estimator(
            make_model(metrics=["mae"]), model_dir=tmp_path, metric_names_map=names
        )
        with pytest.raises(ValueError, match=r"Invalid `metric_names_map`.*\['mae'\]"):
            estimator.evaluate(input_fn)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, "Either `keras_model` or `keras_model_path` needs to be provided.*neither"),
        ({"keras_model": 1, "keras_model_path": "x"}, "but not both; got both"),
        ({"keras_model_path": "gs://bucket/model.h5"}, "is a remote path"),
        ({"keras_model": "model"}, "must be a compiled Keras model, got 'model', a str"),
        ({"keras_model": 1, "checkpoint_format": "h5"}, "must be one of .*Got 'h5'"),
    ],
)
def test_bad_arguments_are_refused(arguments, words):
    """Arguments that name no model or format are refused before anything is written."""
    with pytest.raises(ValueError, match=words):
        estimator_spec.model_to_estimator(**arguments)


def test_a_model_that_is_not_compiled_is_refused():
    """A model without loss and optimizer is refused with what to do."""
    model = keras.Sequential([keras.layers.Dense(1, input_shape=(2,))])
    with pytest.raises(ValueError, match="has not been compiled yet. Please compile the model"):
        estimator_spec.model_to_estimator(model)


def test_features_must_have_the_names_of_the_inputs(tmp_path):
    """Features of other names, or in another number, are refused with the model's names."""
    estimator = estimator_spec.model_to_estimator(make_model(), model_dir=tmp_path)

    def named(**features):
        return lambda: tf.data.Dataset.from_tensor_slices((features, Y)).batch(4)

    with pytest.raises(ValueError, match=r"does not cover requested inputs.*'x'.*not in \['z'\]"):
        estimator.train(named(z=X))
    with pytest.raises(ValueError, match="1 inputs.*returned 2 features"):
        estimator.train(lambda: ((tf.constant(X), tf.constant(X)), tf.constant(Y)))


@pytest.mark.parametrize(
    "make",
    [
        lambda: keras.optimizers.Adam(0.1),
        lambda: keras.optimizers.Ftrl(0.1, clipnorm=1.0),
        lambda: keras.optimizers.SGD(keras.optimizers.schedules.ExponentialDecay(0.1, 1, 0.5)),
        lambda: keras.optimizers.RMSprop(0.1, momentum=0.2, centered=True),
        lambda: tf1.train.AdagradOptimizer(0.1),
        lambda: "adagrad",
    ],
)
def test_optimizers(tmp_path, make):
    """Every kind of optimizer trains as it does in Keras."""
    model, twin = make_model(make()), make_model(make())
    twin.set_weights(model.get_weights())
    untrained = model.predict(X, verbose=0)
    expected = None
    if not isinstance(make(), tf1.train.Optimizer):  # which Keras can't use in eager mode
        twin.fit(X, Y, batch_size=4, shuffle=False, verbose=0)
        expected = twin.predict(X, verbose=0)
    estimator = estimator_spec.model_to_estimator(model, model_dir=tmp_path)
    estimator.train(input_fn)
    if expected is None:
        assert np.abs(predicted(estimator) - untrained).max() > 1e-3
    else:
        np.testing.assert_allclose(predicted(estimator), expected, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(
    ("optimizer", "words"),
    [
        (lambda: keras.optimizers.Adam(0.1, weight_decay=0.1), "has weight_decay=0.1"),
        (lambda: keras.optimizers.SGD(0.1, use_ema=True), "has use_ema=True"),
        (lambda: keras.optimizers.Adafactor(), "The optimizer Adafactor"),
    ],
)
def test_optimizers_without_a_legacy_form_are_refused(tmp_path, optimizer, words):
    """What no legacy optimizer can do is refused by name."""
    with pytest.raises(ValueError, match=words):
        estimator_spec.model_to_estimator(make_model(optimizer()), model_dir=tmp_path)


KERAS_3 = """
import keras, estimator_spec
model = keras.Sequential([keras.layers.Input((2,)), keras.layers.Dense(1)], name="mine")
model.compile("sgd", "mse")
try:
    estimator_spec.model_to_estimator(model)
except ValueError as error:
    print(error)
"""


def test_a_model_of_tensorflows_private_keras_is_refused():
    """A model of `tensorflow.python.keras` is refused with the import to use instead."""
    private = importlib.import_module("tensorflow.python.keras.models")
    layers = importlib.import_module("tensorflow.python.keras.layers")
    model = private.Sequential([layers.Dense(1, input_shape=(2,))], name="mine")
    model.compile("sgd", "mse")
    with pytest.raises(ValueError, match=r"'mine' is of tensorflow.python.keras.*as tf.keras"):
        estimator_spec.model_to_estimator(model)


@pytest.mark.slow
def test_a_model_of_keras_3_is_refused(tmp_path):
    """A model of Keras 3 is refused by name, with the variable that selects tf_keras."""
    if importlib.util.find_spec("tf_keras") is None or tf.__version__.startswith("2.15"):
        pytest.skip(f"TensorFlow {tf.__version__} comes with Keras 2")
    environment = {k: v for k, v in os.environ.items() if k != "TF_USE_LEGACY_KERAS"}
    done = forking_python.run(["-c", KERAS_3], env=environment, timeout=200)
    assert "The model 'mine' is of Keras 3" in done.stdout, done.stderr[-2000:]
    assert "TF_USE_LEGACY_KERAS=1" in done.stdout
    assert not list(tmp_path.iterdir())


def test_one_model_makes_several_estimators(tmp_path):
    """A model made outside of graphs stays as it is compiled, though a copy is built in a graph."""
    model = keras.Sequential([keras.layers.Dense(1, input_shape=(2,), name="y")])
    model.compile("sgd", "mse")
    made = [
        estimator_spec.model_to_estimator(model, model_dir=tmp_path / name)
        for name in ("first", "first", "second")
    ]
    made[0].train(lambda: input_fn().repeat(), max_steps=4)
    made[2].train(lambda: input_fn().repeat(), max_steps=4)
    continued = estimator_spec.model_to_estimator(model, model_dir=tmp_path / "first")
    np.testing.assert_array_equal(predicted(continued), predicted(made[2]))


def test_a_model_with_two_optimizers_trains(tmp_path):
    """A WideDeepModel's optimizers train a part each; as in TensorFlow 2.15.1 both count steps."""
    legacy = keras.optimizers.legacy
    wide = keras.experimental.LinearModel()
    deep = keras.Sequential([keras.layers.Dense(1)])
    model = keras.experimental.WideDeepModel(wide, deep)
    model.compile([legacy.SGD(0.1), legacy.Adam(0.1)], "mse")

    def both():
        return tf.data.Dataset.from_tensors(((X, X), Y)).repeat()

    estimator = estimator_spec.model_to_estimator(
        model, model_dir=tmp_path, checkpoint_format="saver"
    )
    estimator.train(both, steps=2)
    before = {name: estimator.get_variable_value(name) for name in estimator.get_variable_names()}
    loss = estimator.evaluate(both, steps=1)["loss"]
    estimator.train(both, steps=40)
    result = estimator.evaluate(both, steps=1)
    assert result["loss"] < loss
    assert result["global_step"] == 4 + 42
    moved = [n for n, v in before.items() if not np.array_equal(v, estimator.get_variable_value(n))]
    assert {name.split("/")[1] for name in moved if name.endswith("kernel")} == {
        "linear_model",
        deep.name,
    }
    assert any(name.startswith("training/Adam/") and name.endswith("/m") for name in moved)
