# SPDX-License-Identifier: Apache-2.0
"""Each argument of heads and canned estimators moves, is refused, or changes nothing."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
import tensorflow as tf

import estimator_spec
from argument_table import MOVES, NO_EFFECT, moves
from estimator_spec import canned, heads
from estimator_spec.heads.first_generation import contrib
from head_table import CANNED, CLASSES_OF_MODELS, FEATURES, HEADS, LAYERS, REFUSED_HEADS

fc = tf.feature_column
GENERATIONS = {1: canned.v1, 2: estimator_spec}
ROWS = [(generation, name) for generation, table in HEADS.items() for name in table]
CASES = [
    (generation, name, arguments)
    for generation, name in ROWS
    for moving in [
        [a for a, verdict in HEADS[generation][name].arguments.items() if verdict.kind == MOVES]
    ]
    for arguments in [(), *([(each,) for each in moving]), tuple(sorted({*moving} - {"n_classes"}))]
]
# Its labels are numbers already, and no prediction has the names.
UNSEEN = ("multi_label_head", ("label_vocabulary",))
SOME = [pytest.mark.nightly("one argument or none; another case has all of them")]


@pytest.mark.parametrize(("generation", "name"), ROWS)
def test_the_table_has_every_argument(generation, name):
    """Each argument of a head has a verdict."""
    row = HEADS[generation][name]
    assert set(inspect.signature(row.make).parameters) == set(row.arguments)
    assert all(v.value for v in row.arguments.values() if v.kind == NO_EFFECT)


def test_the_table_has_every_head():
    """Each head of both generations has a row, but for those of several heads."""
    made = {name for name in dir(heads) if name.endswith("Head")} - {"Head", "MultiHead"}
    assert made == set(HEADS[2])
    made = {name for name in vars(contrib) if name.endswith("_head")} - {"multi_head"}
    assert made >= set(HEADS[1])


@pytest.mark.parametrize(
    "kind", CLASSES_OF_MODELS, ids=lambda kind: kind.__module__[15:] + kind.__name__
)
def test_the_table_has_every_argument_of_models(kind):
    """Each argument of a canned estimator has a verdict."""
    assert set(inspect.signature(kind).parameters) <= set(CANNED)


def results(generation, name, arguments):
    """Returns predictions and metrics of an estimator with a head, after comparing the model's."""
    from estimator_spec.convert import to_keras

    row = HEADS[generation][name]
    options = {argument: row.arguments[argument].value for argument in arguments}
    head = row.make(**{**row.needed, **options})
    labels = row.word_labels if "label_vocabulary" in arguments else row.labels
    columns = [fc.numeric_column("x"), fc.categorical_column_with_hash_bucket("word", 4)]
    estimator = GENERATIONS[generation].LinearEstimator(head, columns)

    def data():
        return tf.data.Dataset.from_tensor_slices((FEATURES, labels)).batch(6)

    estimator.train(data)
    model = to_keras(estimator)
    rows = list(estimator.predict(data))
    found = model.predictions(FEATURES)
    assert found.keys() == rows[0].keys()
    expected = {key: np.array([each[key] for each in rows]) for key in rows[0]}
    for key, value in expected.items():
        if value.dtype.kind == "f":
            np.testing.assert_allclose(found[key], value, 1e-5, 1e-6, err_msg=key)
        else:
            np.testing.assert_array_equal(found[key], value, key)
    metrics = estimator.evaluate(data)
    del metrics["global_step"]
    evaluated = model.evaluate(data().map(model.training_batch), return_dict=True, verbose=0)
    by_name = {}
    for key, value in evaluated.items():
        prefixes = [f"{output}_" for output in model.core.output if key.startswith(f"{output}_")]
        by_name[key if key in metrics else key.removeprefix(max(prefixes, default=""))] = value
    assert by_name.keys() == metrics.keys()
    for key, value in metrics.items():
        if generation == 1 and "precision_recall" in key:
            assert key in [difference.what for difference in model.conversion.differences]
            continue
        tolerance = 2e-2 if "precision_recall" in key else 1e-4
        np.testing.assert_allclose(by_name[key], value, tolerance, 1e-6, err_msg=key)
    return {**expected, **metrics}


@pytest.mark.parametrize(
    ("generation", "name", "arguments"),
    [pytest.param(*case, marks=SOME if len(case[2]) < 2 else []) for case in CASES],
    ids=[f"{name}-{'-'.join(arguments)}" for _, name, arguments in CASES],
)
def test_arguments_of_heads_move(generation, name, arguments):
    """All predictions, the loss and all metrics are the estimator's own, by name and value."""
    pytest.importorskip("keras_rs", reason="needs the extra keras-rs")
    values = results(generation, name, arguments)
    if len(arguments) == 1 and (name, arguments) != UNSEEN:
        usual = results(generation, name, ())
        assert values.keys() != usual.keys() or any(
            not np.array_equal(usual[key], value) for key, value in values.items()
        )


@pytest.mark.parametrize("argument", REFUSED_HEADS)
def test_arguments_of_heads_are_refused(argument):
    """What Keras has nothing for is refused by the argument's name."""
    pytest.importorskip("keras_rs", reason="needs the extra keras-rs")
    from estimator_spec.convert import to_keras

    columns = [fc.numeric_column("x")]
    with pytest.raises(ValueError, match=argument):
        to_keras(estimator_spec.LinearEstimator(REFUSED_HEADS[argument](), columns))


def test_each_argument_of_layers_has_a_number():
    """Each argument of canned estimators that moves into layers has a case below."""
    assert {name for name, verdict in CANNED.items() if verdict == moves("layers")} == set(LAYERS)


@pytest.mark.parametrize(
    "generation",
    [2, pytest.param(1, marks=pytest.mark.nightly("layers are planned as those of generation 2"))],
)
@pytest.mark.parametrize("argument", LAYERS)
def test_arguments_of_layers_move(argument, generation):
    """Predictions are the estimator's, with another argument of the layers than the default."""
    pytest.importorskip("keras_rs", reason="needs the extra keras-rs")
    keras = pytest.importorskip("keras")
    from estimator_spec.convert import to_keras

    kind, needed, value = LAYERS[argument]
    make = getattr(GENERATIONS[generation], f"{kind}Regressor")
    estimator = make(**{**needed, argument: value})

    def data():
        return tf.data.Dataset.from_tensor_slices((FEATURES, FEATURES["x"])).batch(6)

    estimator.train(data)
    expected = [row["predictions"] for row in estimator.predict(data)]
    model = to_keras(estimator)
    found = model.predictions(FEATURES)["predictions"]
    np.testing.assert_allclose(found, expected, 1e-5, 1e-6)
    dropouts = [each for each in model.core.layers if isinstance(each, keras.layers.Dropout)]
    assert bool(dropouts) == argument.endswith("dropout")
    for layer in dropouts:
        dropped = np.array(layer(np.ones([400, 3], np.float32), training=True))
        assert np.mean(dropped == 0.0) == pytest.approx(value, abs=0.1)
        np.testing.assert_allclose(dropped[dropped != 0.0], 1.0 / (1.0 - value), 1e-6)
