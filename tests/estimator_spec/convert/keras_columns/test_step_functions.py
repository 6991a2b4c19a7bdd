# SPDX-License-Identifier: Apache-2.0
"""Learning rates of TensorFlow 1 that depend on the step are the same in Keras 3."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from estimator_spec import canned
from estimator_spec.convert import to_keras
from estimator_spec.convert.keras_columns import canned_models, source, step_functions
from estimator_spec.convert.keras_columns.expressions import render
from estimator_spec.convert.keras_columns.plan import ModelPlan
from estimator_spec.convert.keras_program import written

keras = pytest.importorskip("keras")
pytest.importorskip("keras_rs", reason="needs the extra keras-rs")

tf1 = tf.compat.v1
train = tf1.train
STEPS = range(0, 45, 2)


def warmed(step):
    """Returns a rate that grows for some steps, as programs write it by hand."""
    steps = tf.cast(step, tf.float32)
    return 0.1 * tf.minimum(1.0, steps / 20.0) * tf1.rsqrt(tf.maximum(steps, 20.0))


def of_branches(step):
    """Returns a rate of a condition within another one."""
    return tf1.cond(
        step < 10,
        lambda: tf.constant(0.1),
        lambda: tf1.cond(step < 20, lambda: 0.2 / tf.cast(step, tf.float32), lambda: 0.05),
    )


RATES = {
    "exponential": lambda step: train.exponential_decay(0.1, step, 10, 0.5),
    "in a staircase": lambda step: train.exponential_decay(0.1, step, 10, 0.5, staircase=True),
    "polynomial": lambda step: train.polynomial_decay(0.1, step, 20, 0.01, power=0.5),
    "in cycles": lambda step: train.polynomial_decay(0.1, step, 10, 0.01, cycle=True),
    "inverse time": lambda step: train.inverse_time_decay(0.1, step, 10, 0.5),
    "natural": lambda step: train.natural_exp_decay(0.1, step, 10, 0.5),
    "cosine": lambda step: train.cosine_decay(0.1, step, 30),
    "restarts": lambda step: train.cosine_decay_restarts(0.1, step, 7),
    "linear cosine": lambda step: train.linear_cosine_decay(0.1, step, 30),
    "piecewise": lambda step: train.piecewise_constant(step, [5, 20], [0.1, 0.02, 0.003]),
    "warmed": warmed,
    "of branches": of_branches,
    "of a quotient": lambda step: 0.5 / tf.cast(step // 10 + 1, tf.float32),
    "of a remainder": lambda step: tf.where(step % 4 < 2, 0.1, 0.2),
}
REFUSED = {
    "RandomStandardNormal": lambda step: train.noisy_linear_cosine_decay(0.1, step, 30),
    "Placeholder": lambda step: tf1.placeholder(tf.float32, []),
    "VarHandleOp": lambda step: 2.0 * tf1.get_variable("rate", initializer=0.1),
    "(rate)": lambda step: tf1.get_variable("rate", initializer=0.1),
}


@pytest.mark.parametrize("name", RATES)
def test_rates_are_equal(name):
    """The expression has the tensor's value at each step."""
    with tf.Graph().as_default(), tf1.Session() as session:
        step = train.get_or_create_global_step()
        rate = RATES[name](step)
        expression = step_functions.read(rate)
        session.run(step.initializer)
        expected = []
        for number in STEPS:
            step.load(number, session)
            expected.append(session.run(rate))
    text = render(expression)
    for number, wanted in zip(STEPS, expected, strict=True):
        found = eval(text, {"keras": keras, "step": keras.Variable(number, dtype="int64")})
        assert float(found) == pytest.approx(wanted, rel=1e-5), number


@pytest.mark.parametrize("name", REFUSED)
def test_other_rates_are_refused(name):
    """A rate that depends on something else leaves the model without an optimizer, by name."""
    estimator = linear(REFUSED[name])
    plan = ModelPlan()
    canned_models.add_canned_model(plan, estimator.canned_model)
    assert plan.optimizer is None
    (difference,) = [each for each in plan.differences if each.what == "learning_rate"]
    assert name in difference.text and "optimizer of your choice" in difference.text


def linear(rate):
    """Returns an estimator with a learning rate that is a function of the step."""
    columns = [tf.feature_column.numeric_column("x")]
    step = train.get_global_step
    return canned.v1.LinearRegressor(
        columns, optimizer=lambda: train.AdagradOptimizer(rate(step()))
    )


def data():
    """Returns batches of the program."""
    x = np.linspace(-1.0, 1.0, 8).astype(np.float32)
    return tf.data.Dataset.from_tensors(({"x": x}, 2.0 * x + 1.0)).repeat()


def test_a_model_goes_on(tmp_path):
    """A model goes on with the rates of the later steps; a written one is saved with them."""
    estimator = linear(RATES["in a staircase"])
    estimator.train(data, steps=15)
    model = to_keras(estimator)
    assert not [each for each in model.conversion.differences if "optimizer" in each.column]
    estimator.train(data, steps=15)
    model.fit(data().map(model.training_batch), steps_per_epoch=15, verbose=0)
    for name, values in (("kernel", "linear/linear_model/x/weights"),):
        found = getattr(model.get_layer("linear_x"), name)
        np.testing.assert_allclose(found, estimator.get_variable_value(values), 1e-5)
    plan = ModelPlan()
    canned_models.add_canned_model(plan, estimator.canned_model)
    (tmp_path / "model.py").write_text(source.write_model(plan, "a test"), encoding="utf-8")
    module = written.load_module(str(tmp_path))
    new = module.build_model()
    module.compile_model(new)
    new.save(tmp_path / "saved.keras")
    again = keras.models.load_model(tmp_path / "saved.keras").optimizer
    again.iterations.assign(25)
    assert float(again.learning_rate) == pytest.approx(0.025)
