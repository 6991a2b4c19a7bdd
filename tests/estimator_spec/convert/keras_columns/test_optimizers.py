# SPDX-License-Identifier: Apache-2.0
"""Keras 3 optimizers of a plan update variables and slots as the older ones they stand for."""

from __future__ import annotations

import inspect
import itertools

import numpy as np
import pytest
import tensorflow as tf

import argument_table
from argument_table import MOVES, NO_EFFECT, OPTIMIZERS, REFUSED
from estimator_spec.convert.keras_columns import optimizers
from estimator_spec.convert.keras_columns.expressions import render
from estimator_spec.convert.keras_columns.plan import ModelPlan
from estimator_spec.convert.keras_columns.readings import TENSORFLOW
from estimator_spec.convert.keras_columns.training_source import write_rate
from estimator_spec.core.common.legacy_keras import keras_2
from estimator_spec.heads.canned_model import CannedModel, ModelPart

tf1 = tf.compat.v1
STEPS = 5
START = {"kernel": np.array([0.5, -1.0, 0.25], np.float32), "table": np.ones([4, 2], np.float32)}


@pytest.fixture
def keras():
    """Keras 3."""
    pytest.importorskip("keras_rs", reason="needs the extra keras-rs")
    return pytest.importorskip("keras")


def gradients(step: int):
    """Returns the gradients of a step: of the kernel, and of two rows of the table."""
    random = np.random.RandomState(step)
    rows = random.choice(4, 2, replace=False)
    return random.normal(size=3).astype("f"), rows, random.normal(size=[2, 2]).astype("f")


def train_old(make):
    """Returns all variables by name before and after the steps of an older optimizer."""
    with tf.Graph().as_default(), tf1.Session() as session:
        step = tf1.train.get_or_create_global_step()
        variables = [
            tf1.get_variable(name, initializer=value, use_resource=True)
            for name, value in START.items()
        ]
        kernel = tf1.placeholder(tf.float32, [3])
        rows, values = tf1.placeholder(tf.int64, [2]), tf1.placeholder(tf.float32, [2, 2])
        given = zip([kernel, tf.IndexedSlices(values, rows, [4, 2])], variables, strict=True)
        optimizer = make()
        if isinstance(optimizer, tf1.train.Optimizer):
            train = optimizer.apply_gradients(given, global_step=step)
        else:
            optimizer.iterations = step
            train = optimizer.apply_gradients(given)
        session.run(tf1.global_variables_initializer())
        every = {variable.op.name: variable for variable in tf1.global_variables()}
        before = session.run(every)
        for number in range(STEPS):
            fed = dict(zip((kernel, rows, values), gradients(number), strict=True))
            session.run(train, fed)
        return before, session.run(every)


def planned(make):
    """Returns the plan of an optimizer."""
    plan = ModelPlan()
    model = CannedModel(None, (ModelPart("dnn", make, None),), generation=2)
    optimizers.add_optimizers(plan, model)
    return plan


def check(keras, make):
    """Compares variables and slots after the same steps; returns those of the older optimizer."""
    before, expected = train_old(make)
    plan = planned(make)
    names = {"keras": keras, **TENSORFLOW.keras_classes()}
    exec("\n".join(itertools.starmap(write_rate, plan.rates.items())), names)
    optimizer = eval(render(plan.optimizer), names)
    optimizer = type(optimizer).from_config(optimizer.get_config())
    variables = [keras.Variable(value, name=name) for name, value in START.items()]
    optimizer.build(variables)
    factor = plan.slot_factors.get("dnn", 1.0)
    slots = {}
    for name in START:
        for slot, ending in plan.slots["dnn"].items():
            (old,) = [key for key in expected if f"/{key}".endswith(f"/{name}{ending}")]
            (new,) = [v for v in optimizer.variables if v.path.endswith(f"/{name}_{slot}")]
            new.assign(before[old] * factor)
            slots[old] = new
    own = [variable for variable in optimizer.variables if len(variable.shape)]
    assert len(slots) == len(own), (slots, own)
    for number in range(STEPS):
        kernel, rows, values = gradients(number)
        # The batch has the first row twice.
        half = values[0] / 4
        rows, values = np.append(rows, rows[0]), np.stack([values[0] - half, values[1], half])
        slices = tf.IndexedSlices(tf.constant(values), tf.constant(rows), tf.constant([4, 2]))
        optimizer.apply([tf.constant(kernel), slices], variables)
    # 1 - beta is float32 in the older ones.
    tolerance = 5e-5 if optimizer.name.startswith("adam") else 1e-5
    for name, variable in zip(START, variables, strict=True):
        np.testing.assert_allclose(variable, expected[name], tolerance, tolerance, err_msg=name)
    for old, new in slots.items():
        wanted = expected[old] * factor
        np.testing.assert_allclose(new, wanted, tolerance, tolerance, err_msg=old)
    return expected


def cases(*kinds):
    """Returns (optimizer, argument, verdict) of some kinds of verdicts."""
    return [
        (name, argument, verdict)
        for name, row in OPTIMIZERS.items()
        for argument, verdict in (row.arguments or {}).items()
        if verdict.kind in kinds
    ]


def ids(rows):
    """Returns the names of cases."""
    return [f"{name}-{argument}" for name, argument, _ in rows]


def maker(name, /, **options):
    """Returns a function that makes an optimizer; values that are functions are called."""
    given = {**OPTIMIZERS[name].needed, **options}
    if "lr" in options:
        del given["learning_rate"]

    def make():
        values = {key: value() if callable(value) else value for key, value in given.items()}
        return argument_table.optimizer_class(name)(**values)

    return make


@pytest.mark.parametrize(("name", "argument", "verdict"), cases(MOVES), ids=ids(cases(MOVES)))
def test_an_argument_moves(keras, name, argument, verdict):
    """Variables and slots are the same after steps with a value that matters."""
    expected = check(keras, maker(name, **verdict.others, **{argument: verdict.value}))
    _, without = train_old(maker(name, **verdict.others))
    assert any(not np.array_equal(expected[key], without[key]) for key in START)


@pytest.mark.parametrize("name", [name for name, row in OPTIMIZERS.items() if row.arguments])
def test_defaults_and_names(keras, name):
    """Variables and slots are the same with defaults, and with other names of slots."""
    check(keras, maker(name))
    verdicts = OPTIMIZERS[name].arguments
    names = [key for key, verdict in verdicts.items() if verdict == argument_table.NAME]
    for given in names:
        check(keras, maker(name, **{given: "Mine"}))
    check(keras, maker(name, **dict.fromkeys(names, "Mine")))


@pytest.mark.parametrize(("name", "argument", "verdict"), cases(REFUSED), ids=ids(cases(REFUSED)))
def test_an_argument_is_refused(name, argument, verdict):
    """The plan has no optimizer, and a difference with the argument's name."""
    plan = planned(maker(name, **{argument: verdict.value}))
    assert plan.optimizer is None
    assert [difference.what for difference in plan.differences] == [argument]


@pytest.mark.parametrize("other", ["clipnorm", "global_clipnorm"])
def test_two_kinds_of_clipping_are_refused(other):
    """Keras 2 clips by value beside a norm, and Keras 3 by one of them."""
    plan = planned(maker("SGD", clipvalue=0.2, **{other: 0.3}))
    assert plan.optimizer is None
    (difference,) = plan.differences
    assert difference.what == "clipvalue" and f"clipvalue or {other}, and not both" in (
        difference.text
    )


@pytest.mark.parametrize("kind", argument_table.optimizer_classes(), ids=lambda kind: kind.__name__)
def test_the_table_has_every_argument(kind):
    """Each class of this TensorFlow has a row, and each argument that it takes a verdict."""
    row = OPTIMIZERS[kind.__name__]
    if row.arguments is None:
        assert kind.__name__ not in optimizers.RULES
        return
    names = set(inspect.signature(kind).parameters) - {"kwargs"}
    if not kind.__name__.endswith("Optimizer"):
        base = keras_2().optimizers.legacy.Optimizer
        names |= set(inspect.signature(base).parameters) - {"kwargs"}
        names |= argument_table.keras_2_arguments()
    assert names <= set(row.arguments)  # older ones have fewer
    assert all(v.value for v in row.arguments.values() if v.kind == NO_EFFECT)
