# SPDX-License-Identifier: Apache-2.0
"""Arguments of canned estimators: names and defaults, optimizers, and what is refused."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
import tensorflow as tf

import estimator_spec as es
from estimator_spec import canned
from estimator_spec.canned import linear, optimizers

tf1 = tf.compat.v1
fc = tf.feature_column

CLASSES = [
    family + kind
    for family in ("Baseline", "DNN", "DNNLinearCombined", "Linear")
    for kind in ("Classifier", "Estimator", "Regressor")
]
X = [fc.numeric_column("x")]


@pytest.mark.reference
@pytest.mark.parametrize("name", CLASSES)
def test_signatures_are_the_old_ones(generation, old_estimator, compare, name):
    """Each class takes the arguments of TensorFlow 2.15's, in their order, with their defaults."""
    old = old_estimator if generation.name == "v1" else tf.estimator
    ours, theirs = getattr(generation.classes, name), getattr(old, name)
    parameters = compare.parameters(ours.__init__)
    if name == "DNNLinearCombinedEstimator":  # ours has one more, after the others
        assert parameters.pop() == ("warm_start_from", inspect.Parameter.KEYWORD_ONLY, None)
    assert parameters == compare.parameters(theirs.__init__)


@pytest.mark.parametrize("name", CLASSES)
def test_the_package_exports_the_second_generation(name):
    """`estimator_spec` has the classes of `tf.estimator`."""
    assert getattr(es, name) is getattr(canned, name)
    assert getattr(canned.v1, name) is not getattr(canned, name)
    assert issubclass(getattr(canned.v1, name), es.Estimator)


def one_step(estimator, input_fn):
    """Returns the variables' names after a step."""
    return estimator.train(input_fn, steps=1).get_variable_names()


@pytest.mark.parametrize(
    ("hidden_units", "kernels"),
    [(["8", "4"], [8, 4]), ([2.5, np.float32(3)], [2, 3]), (np.array([5]), [5])],
    ids=["strings", "floats", "array"],
)
def test_units_are_read_as_ints(generation, config, train_input, hidden_units, kernels):
    """Numbers of units that aren't ints train the kernels that they train in TensorFlow 2.15."""
    estimator = generation.classes.DNNClassifier(hidden_units, X, config=config())
    one_step(estimator, train_input)
    widths = [
        estimator.get_variable_value(f"dnn/hiddenlayer_{index}/kernel").shape[1]
        for index in range(len(kernels))
    ]
    assert widths == kernels


def test_no_optimizer_of_a_linear_model(generation, config, train_input):
    """None is Ftrl, with the rate of the name up to 25 columns."""
    found = []
    for optimizer in (None, "Ftrl"):
        estimator = generation.classes.LinearRegressor(
            X, optimizer=optimizer, config=config(f"{optimizer}")
        )
        estimator.train(train_input, steps=1)
        found.append(estimator.get_variable_value("linear/linear_model/bias_weights")[0])
    assert found[0] == found[1] != 0
    assert linear.learning_rate(None, range(100)) == pytest.approx(0.1)


@pytest.mark.parametrize("name", ["Adagrad", "Adam", "Ftrl", "RMSProp", "SGD"])
def test_optimizers_by_name(generation, config, train_input, name):
    """Each name gives the optimizer of that name; its slots are saved."""
    estimator = generation.classes.DNNClassifier([2], X, optimizer=name, config=config())
    names = one_step(estimator, train_input)
    slots = {"Adagrad": 1, "Adam": 2, "Ftrl": 2, "RMSProp": 1, "SGD": 0}[name]
    if generation.name == "v1" and name == "RMSProp":
        slots = 2  # and the momentum
    of_kernel = [n for n in names if "hiddenlayer_0/kernel" in n]
    assert len(of_kernel) == 1 + slots


def test_optimizers_by_object_class_and_function(generation, config, train_input):
    """An optimizer object, its class, and a function of the global step move the weights alike."""

    def of_the_step():
        rate = 0.1 * tf.cast(1 + tf1.train.get_global_step(), tf.float32)
        return generation.sgd(learning_rate=rate)

    biases = []
    for index, optimizer in enumerate(
        (generation.sgd(learning_rate=0.1), lambda: generation.sgd(learning_rate=0.1), of_the_step)
    ):
        estimator = generation.classes.LinearRegressor(
            X, optimizer=optimizer, config=config(f"model{index}")
        )
        estimator.train(train_input, steps=1)
        biases.append(estimator.get_variable_value("linear/linear_model/bias_weights")[0])
    assert biases[0] != 0
    assert biases == pytest.approx([biases[0]] * 3)
    estimator = generation.classes.LinearRegressor(
        X, optimizer=generation.adam, config=config("class")
    )
    assert any("x/weights/" in name for name in one_step(estimator, train_input))


@pytest.mark.parametrize(
    "optimizer", ["adam", "Nadam", 3, lambda: 3], ids=["adam", "Nadam", "number", "function"]
)
def test_wrong_optimizers_are_refused(generation, config, train_input, optimizer):
    """Unknown names and other objects are refused before a variable is made."""
    estimator = generation.classes.DNNClassifier([2], X, optimizer=optimizer, config=config())
    words = (
        "Unsupported optimizer name" if isinstance(optimizer, str) else "The given object is not"
    )
    with pytest.raises(ValueError, match=words):
        estimator.train(train_input, steps=1)
    assert estimator.latest_checkpoint() is None


def test_optimizers_of_the_other_generation_are_refused(config, train_input):
    """The first generation refuses Keras' optimizers, the second those of TF1, by name."""
    keras = tf.keras.optimizers.legacy.Adam()
    with pytest.raises(ValueError, match="The given object is not an Optimizer instance"):
        canned.v1.LinearRegressor(X, optimizer=keras, config=config()).train(train_input, steps=1)
    with pytest.raises(ValueError, match=r"not a tf.keras.optimizers.*Optimizer instance"):
        canned.LinearRegressor(X, optimizer=tf1.train.AdamOptimizer(), config=config()).train(
            train_input, steps=1
        )


def test_an_optimizer_object_trains_the_first_graph_and_copies_the_others(config, train_input):
    """An object's own methods are called once, with the global step; copies keep its functions."""
    rates, calls = [0.25], []

    class Counting(tf.keras.optimizers.legacy.SGD):
        def get_updates(self, loss, params):
            calls.append((self, self.iterations is tf1.train.get_global_step()))
            return super().get_updates(loss, params)

    optimizer = Counting(learning_rate=lambda: rates[0])
    estimator = canned.LinearRegressor(X, optimizer=optimizer, config=config())
    for rates[0] in (0.25, 0.5):
        estimator.train(train_input, steps=1)
    (first, is_step), (second, is_second_step) = calls
    assert first is optimizer and is_step and is_second_step
    assert second is not optimizer and second.learning_rate == 0.5
    assert estimator.get_variable_value("global_step") == 2


def test_an_optimizer_that_trained_elsewhere_is_copied():
    """An optimizer with variables of other code isn't changed by a model."""
    used = tf.keras.optimizers.legacy.Adam(learning_rate=0.25)
    variable = tf.Variable(1.0)
    used.minimize(lambda: variable * 2.0, [variable])
    copied = optimizers.keras_optimizer(used)
    assert copied is not used and not copied.weights
    assert copied.get_config() == used.get_config()
    assert int(used.iterations.numpy()) == 1


def test_minimize_may_take_loss_and_step_only(config, train_input):
    """An optimizer whose minimize has no var_list trains a linear model."""

    class OwnMinimize(tf1.train.GradientDescentOptimizer):
        def minimize(self, loss, global_step=None):
            return super().minimize(loss, global_step)

    estimator = canned.v1.LinearRegressor(X, optimizer=OwnMinimize(0.1), config=config())
    estimator.train(train_input, steps=1)
    assert estimator.get_variable_value("linear/linear_model/bias_weights")[0] != 0


@pytest.mark.parametrize(
    ("arguments", "key_words"),
    [
        ({}, "Either linear_feature_columns or dnn_feature_columns must be defined"),
        ({"linear_feature_columns": []}, "Either linear_feature_columns or dnn_feature_columns"),
        ({"dnn_feature_columns": X}, "dnn_hidden_units must be defined"),
        ({"dnn_feature_columns": X, "dnn_hidden_units": [0]}, "hidden_units must be positive"),
    ],
    ids=["nothing", "empty", "no layers", "no units"],
)
def test_a_combined_model_needs_columns_and_layers(generation, arguments, key_words):
    """Missing parts are refused by the constructor."""
    with pytest.raises(ValueError, match=key_words):
        generation.classes.DNNLinearCombinedClassifier(**arguments)


@pytest.mark.parametrize("kind", ["dnn", "linear", "combined", "baseline"])
def test_features_must_be_a_dict(generation, config, kind):
    """A tensor in place of a dict of features is refused with what was expected."""
    made = generation.classes
    estimator = {
        "dnn": lambda: made.DNNRegressor([2], X, config=config()),
        "linear": lambda: made.LinearRegressor(X, config=config()),
        "combined": lambda: made.DNNLinearCombinedRegressor(
            linear_feature_columns=X, config=config()
        ),
        "baseline": lambda: made.BaselineRegressor(config=config()),
    }[kind]()
    with pytest.raises(ValueError, match="[Ff]eatures should be a dictionary of `Tensor`s"):
        estimator.train(lambda: tf.data.Dataset.from_tensors(([[1.0]], [[1.0]])), steps=1)


@pytest.mark.parametrize(
    ("features", "key_words"),
    [
        ({}, "features must not be empty"),
        ({"a": [[1.0]], "b": [[1.0], [2.0]]}, "[Bb]atch size"),
        ({"a": [[1.0]], "b": 2.0}, "'b' must have a batch dimension"),
    ],
    ids=["none", "sizes", "scalar"],
)
def test_features_of_a_baseline_have_one_batch_size(generation, config, features, key_words):
    """Features without, or with different, batch sizes are refused by name."""
    estimator = generation.classes.BaselineRegressor(config=config())
    with pytest.raises(ValueError, match=key_words):
        estimator.train(lambda: tf.data.Dataset.from_tensors((features, [[1.0]])), steps=1)


def test_features_and_labels_may_be_lists(generation, config):
    """A baseline takes features and labels as lists, tuples and arrays."""
    features = {"a": [1, 2], "b": ((1,), (2,)), "c": np.array([[1.0], [2.0]])}
    estimator = generation.classes.BaselineRegressor(config=config())
    for labels in ([[1.0], [3.0]], ((1.0,), (3.0,)), np.array([1.0, 3.0])):
        estimator.train(lambda labels=labels: (features, labels), steps=1)
    assert estimator.evaluate(lambda: (features, [[1.0], [3.0]]), steps=1)["label/mean"] == 2


@pytest.mark.parametrize(
    ("columns", "key_words"),
    [
        ([], "must not be empty"),
        ({"x": X[0]}, "found dict"),
        ([fc.categorical_column_with_identity("x", 3)], "Items of feature_columns must be a Dense"),
        (X + X, "Duplicate feature column name"),
        ([fc.numeric_column("y")], "y"),
    ],
    ids=["none", "dict", "categorical", "twice", "missing"],
)
def test_wrong_columns_of_a_deep_model(generation, config, train_input, columns, key_words):
    """Columns that a deep model can't use are refused by name before any step."""
    estimator = generation.classes.DNNClassifier([2], columns, config=config())
    with pytest.raises(ValueError, match=key_words):
        estimator.train(train_input, steps=1)
    assert estimator.latest_checkpoint() is None
