# SPDX-License-Identifier: Apache-2.0
"""Programs without TensorFlow read the same ids, weights and numbers as TensorFlow's ops."""

from __future__ import annotations

import functools
import inspect
import types

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

import column_strategies as drawn
import compare_readings
import estimator_spec
from estimator_spec import heads
from estimator_spec.convert import to_keras
from estimator_spec.convert.keras_columns import (
    assembly,
    canned_models,
    numpy_functions,
    numpy_preprocessing,
    preprocessing,
    source,
)
from estimator_spec.convert.keras_columns.expressions import Merged, render
from estimator_spec.convert.keras_columns.function_source import write_function
from estimator_spec.convert.keras_columns.numpy_features import (
    Sparse,
    as_array,
    hash_buckets,
    of_rows,
)
from estimator_spec.convert.keras_columns.plan import ModelPlan
from estimator_spec.convert.keras_columns.reading_source import names_of
from estimator_spec.convert.keras_columns.readings import NUMPY, TENSORFLOW
from test_columns import some

pytest.importorskip("keras_rs", reason="needs the extra without-tensorflow")
pytest.importorskip("farmhash", reason="needs the extra without-tensorflow")

fc = tf.feature_column
tf1 = tf.compat.v1


def written(plan: ModelPlan) -> types.ModuleType:
    """Returns the module of a plan's program without TensorFlow."""
    module = types.ModuleType("written")
    module.__file__ = __file__
    text = source.write_model(plan, "a test", NUMPY)
    assert not {"tf", "tensorflow"} & names_of(text)
    exec(text, vars(module))
    return module


def by_tensorflow(plan: ModelPlan, features: dict) -> dict:
    """Returns what TensorFlow's ops read of a plan's features."""
    names = {**vars(preprocessing), **plan.functions, "features": features}
    names.update({name: eval(render(value), names) for name, value in plan.constants.items()})
    groups = Merged(tuple(part for parts in plan.groups.values() for part in parts))
    return eval(render(groups), names)


def check(columns, batch, layer=None) -> None:
    """Compares both readings of columns, in all forms of the features."""
    plan = ModelPlan()
    assembly.add_layer(plan, columns, layer, 1, "sum")
    expected = by_tensorflow(plan, {key: value.tensor(False) for key, value in batch.items()})
    found = written(plan).preprocess({key: arrays(value) for key, value in batch.items()})
    assert found.keys() == expected.keys()
    for key, value in expected.items():
        exact = "float" not in str(found[key].dtype)
        assert found[key].dtype == value.dtype.as_numpy_dtype, key
        close = np.testing.assert_array_equal if exact else np.testing.assert_allclose
        close(found[key], value.numpy(), err_msg=key, **({} if exact else {"rtol": 4e-7}))


def arrays(feature: drawn.Feature):
    """Returns a feature as a program without TensorFlow takes it."""
    if feature.kind == "ragged":
        return feature.rows
    tensor = feature.tensor(False)
    if feature.kind == "dense":
        return tensor.numpy()
    parts = (tensor.indices, tensor.values, tensor.dense_shape)
    return tf.compat.v1.SparseTensorValue(*(part.numpy() for part in parts))


@pytest.mark.timeout(7200)
@some(4000, 25)
@given(columns=drawn.DENSE, batch=drawn.features(min_size=1))
def test_dense_columns_are_read_alike(columns, batch):
    """Both readings of columns of every kind return equal ids, and numbers to the last bits."""
    check(columns, batch, "input_layer")


@pytest.mark.timeout(7200)
@some(4000, 25)
@given(columns=drawn.LINEAR, batch=drawn.features(min_size=1))
def test_linear_columns_are_read_alike(columns, batch):
    """Both readings of a linear model's columns, crosses and weights among them, are equal."""
    check(columns, batch, "linear_model")


@pytest.mark.timeout(7200)
@some(1000, 10)
@given(drawn_sequences=drawn.sequences())
def test_sequences_are_read_alike(drawn_sequences):
    """Both readings of sequences are equal, their lengths too."""
    check(*drawn_sequences)


def test_no_column_can_be_read_by_one_alone():
    """The tables' functions are those of both readings, with the same arguments and defaults."""
    plain = NUMPY.definitions()
    for name, function in TENSORFLOW.definitions().items():
        wanted, found = (inspect.signature(each).parameters for each in (function, plain[name]))
        assert list(wanted) == list(found), name
        assert [p.default for p in wanted.values()] == [p.default for p in found.values()], name
    own = {name for name in vars(numpy_preprocessing) if name in plain}
    assert len(own) >= len(TENSORFLOW.definitions())


RESULTS = st.sampled_from((0.0, 1e-39, -1e-39, 1.2e-38, 1.17e-38, 2.5, np.nextafter(2.5, 3)))


@some(2000, 100)
@given(st.lists(st.floats(width=32) | RESULTS, max_size=9), st.lists(RESULTS, unique=True))
def test_buckets_compare_as_tensorflow(values, boundaries):
    """Numbers are in TensorFlow's buckets: those that aren't normal are 0, NaN is in the last."""
    values, boundaries = np.array([values], np.float32), sorted(boundaries)
    expected = preprocessing.buckets_of(tf.constant(values), boundaries)
    np.testing.assert_array_equal(numpy_preprocessing.buckets_of(values, boundaries), expected)


@some(2000, 100)
@given(
    st.lists(st.binary(max_size=99), min_size=1),
    st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1),
    st.integers(1, 2**62),
)
def test_any_value_has_tensorflows_hash(texts, integers, buckets):
    """Texts of any bytes, integers of 64 bits, and crosses of both have TensorFlow's buckets."""
    for values in (np.array(texts, object), np.array(integers)):
        wanted = preprocessing.hash_ids(
            tf.sparse.from_dense(tf.ones(len(values))).with_values(values), buckets
        )
        found = numpy_preprocessing.hash_buckets(values, buckets)
        np.testing.assert_array_equal(found, wanted.values)
    rows = min(len(texts), len(integers))
    parts = [np.array(texts[:rows], object), np.array(integers[:rows])]
    wanted = preprocessing.cross_ids([tf.constant(part) for part in parts], buckets)
    found = numpy_preprocessing.cross_ids(parts, buckets)
    np.testing.assert_array_equal(found.values, wanted.values)
    np.testing.assert_array_equal(found.indices, wanted.indices)


MEAN = 3.0


def scaled(x, by=3.0, dtype=tf.float32, function=tf.math.log1p):
    """Has further arguments with values."""
    return function(tf.abs(tf.cast(x, dtype))) / by


@pytest.mark.parametrize(
    "function",
    [
        lambda x: (tf.cast(x, tf.float32) - MEAN) / 2.0,
        lambda x: tf.where(x > 1.0, tf.math.log1p(tf.abs(x)), tf.zeros_like(x)),
        lambda x: tf.clip_by_value(x, clip_value_max=2.0, clip_value_min=0.0) ** 2,
        lambda x: np.float32(2.0) * x,
        lambda x: tf1.log1p(tf1.maximum(x, 0.0)) + tf1.math.exp(x),
        tf.math.tanh,
        scaled,
        functools.partial(scaled, function=tf.math.exp),
    ],
)
def test_normalizers_of_arithmetic_are_written_for_numpy(function):
    """A normalizer of arithmetic returns the same without TensorFlow."""
    names: dict = {"Any": object, "np": np}
    exec(numpy_functions.in_numpy(write_function(function, "normalizer", "it"), "it"), names)
    values = np.array([[0.5], [-2.0], [7.0]], np.float32)
    found = names["normalizer"](values)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, function(tf.constant(values)), rtol=4e-7)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: tf.SparseTensor(x.indices, tf.math.log1p(x.values), dense_shape=x.dense_shape),
        lambda x: tf.math.square(tf.math.tanh(x)) / 2.0,
    ],
)
def test_normalizers_of_sequences_are_written_for_numpy(function):
    """A normalizer that makes a SparseTensor of other values returns the same."""
    names: dict = {"Any": object, "np": np, "Sparse": Sparse}
    exec(numpy_functions.in_numpy(write_function(function, "normalizer", "it"), "it"), names)
    parts = np.array([[0, 0], [1, 1]]), np.array([0.5, 7.0], np.float32), (2, 2)
    found, expected = names["normalizer"](Sparse(*parts)), function(tf.SparseTensor(*parts))
    dense = tf.sparse.to_dense(expected)
    np.testing.assert_allclose(found.to_dense(0.0), dense, rtol=4e-7)


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda x: tf.strings.length(x), "'tf.strings.length', which isn't arithmetic"),
        (lambda x: x - tf.reduce_mean(x), "'tf.reduce_mean'"),
        (lambda x: tf.clip_by_value(x, clip_value_max=2.0), "clip_by_value"),
    ],
)
def test_other_normalizers_are_refused(function, words):
    """What isn't arithmetic is refused by name."""
    with pytest.raises(ValueError, match=words):
        numpy_functions.in_numpy(write_function(function, "normalizer", "it"), "it")


@pytest.mark.parametrize(
    "number",
    [
        20_000,
        pytest.param(
            10**7, marks=[pytest.mark.nightly("ten million values"), pytest.mark.timeout(7200)]
        ),
    ],
)
def test_random_values_are_read_alike(number, tmp_path):
    """Of ids that columns of every kind read, of odd values and in all forms, none differs."""
    assert not compare_readings.compare(number, seed=3, folder=tmp_path).wrong


COLUMNS = [
    fc.numeric_column("m", 3),
    fc.embedding_column(fc.categorical_column_with_identity("i", 8), 2),
    fc.embedding_column(fc.categorical_column_with_vocabulary_list("a", ["ant", "bee"]), 2),
    fc.indicator_column(fc.crossed_column(["a", "k"], 5)),
    fc.embedding_column(
        fc.weighted_categorical_column(fc.categorical_column_with_hash_bucket("t", 5), "w"), 2
    ),
]
GOOD = {
    "m": np.zeros((2, 3), np.float32),
    "i": np.array([1, 2]),
    "a": ["ant", "cow"],
    "k": [["x"], []],
    "t": np.array([["x"], ["y"]]),
    "w": [0.5, 2.0],
}


@pytest.fixture(scope="module")
def program():
    """Returns the module of a program."""
    plan = ModelPlan()
    assembly.add_layer(plan, COLUMNS, None, 1, "sum")
    return written(plan)


@pytest.mark.parametrize(
    ("feature", "words"),
    [
        ({"m": None}, "Feature 'm' is missing; the features are ['a', 'i', 'k', 't', 'w']"),
        ({"m": np.zeros((2, 4))}, "Feature 'm' has the shape [2, 4]; it must be"),
        ({"m": [["x"], ["y"]]}, "Feature 'm' must be numbers, and has the type text"),
        ({"i": [0.5, 1.5]}, "Feature 'i' must be integers, and has the type float64"),
        ({"i": [1, 8]}, "Column 'i': the id 8 of example 1 is outside of [0, 8)"),
        ({"i": [1, 2, 3]}, "Feature 'i' has 3 examples, and feature 'a' 2"),
        ({"i": 5}, "Feature 'i' has no axis of examples: it is the single value 5"),
        ({"i": [1, None]}, "Feature 'i': None of example 1 is neither text nor a number"),
        ({"i": [[2], [1, None]]}, "Feature 'i': None of example 1 is neither text"),
        ({"i": [1, [2]]}, "Feature 'i' is no array: "),
        ({"m": [[1.0, 2.0], [4.0]]}, "'m' is sparse; it must be an array of shape [2, 3]"),
        ({"a": ["ant", "\udc80"]}, "'a': '\\udc80' of example 1 is no text: it can't be UTF-8"),
        (
            {"a": np.array([["ant", "b"], ["", None]])},
            "Feature 'a': None of example 1 is neither text",
        ),
        ({"a": [["b", "ant"], ["ant", None]]}, "Feature 'a': None of example 1 is neither text"),
        ({"a": np.array([1, 2])}, "Feature 'a' must be text, and has the type int64"),
        ({"a": np.array([[["b"]]] * 2)}, "Feature 'a' must be a matrix to be crossed, and has 3"),
        ({"k": [[["x"]], []]}, "Feature 'k' must be a matrix to be crossed, and has 3 axes"),
        ({"k": [["x"], "y"]}, "Feature 'k' has lists and values beside each other"),
        ({"w": [0.5]}, "Feature 'w' has 1 examples, and feature 'a' 2"),
        ({"w": [[], [0.5]]}, "Column 't_weighted_by_w_positive': 1 weights for 2 ids"),
        ({"w": np.zeros((2, 0))}, "the weights have the shape [2, 0], and the ids [2, 1]; each id"),
        ({"w": np.zeros((2, 1, 1))}, "the weights have the shape [2, 1, 1], and the ids [2, 1]"),
    ],
)
def test_bad_features_are_named(program, feature, words):
    """A feature that doesn't fit is an error of one line with its name and its example."""
    program.preprocess(GOOD)
    features = {key: value for key, value in {**GOOD, **feature}.items() if value is not None}
    with pytest.raises(ValueError) as error:
        program.preprocess(features)
    assert words in str(error.value)
    assert "\n" not in str(error.value)


def test_batches_of_no_examples_are_read(program):
    """A batch without examples may be empty lists."""
    found = program.preprocess({key: [] for key in GOOD})
    assert {len(value) for value in found.values()} == {0}


def test_a_model_in_a_program_reads_by_numpy():
    """to_keras returns a model over what its own `preprocess` reads by NumPy."""
    model, other = to_keras(COLUMNS, reading="numpy"), to_keras(COLUMNS)
    model.set_weights(other.core.get_weights())
    features = {
        key: tf.ragged.constant(value) if key == "k" else tf.constant(value)
        for key, value in GOOD.items()
    }
    found = model.predict(model.preprocess(GOOD), verbose=0)
    np.testing.assert_allclose(found, other(features), rtol=1e-6)
    with pytest.raises(ValueError, match="reading must be 'tensorflow' or 'numpy', got 'np'"):
        to_keras(COLUMNS, reading="np")


def test_a_baseline_takes_any_features():
    """A model without columns reads the size of a batch from any feature."""
    plan = ModelPlan()
    canned_models.add_canned_model(plan, estimator_spec.BaselineClassifier().canned_model)
    program = written(plan)
    assert program.preprocess({"x": [["a"], [], []]})["zeros"].shape == (3, 1)
    assert program.training_batch({"x": [1.0]}, [1])[1]["logits"].tolist() == [[1.0]]


HEADS = [
    (heads.BinaryClassHead(label_vocabulary=["no", "yes"]), ["no", "yes"], ["no", "maybe"]),
    (heads.MultiClassHead(3, label_vocabulary=["a", "b", "c"]), [["a"], ["c"]], [["a"], ["d"]]),
    (heads.MultiClassHead(3), [0, 2], [0, 3]),
    (heads.BinaryClassHead(), [[0], [1]], [[0], [-1]]),
    (heads.MultiLabelHead(2), [[0, 1], [1, 1]], [[0, 1], [2, 1]]),
    (heads.LogisticRegressionHead(), [0.5, 1.0], [0.5, 1.5]),
]


@pytest.mark.parametrize("reading", [NUMPY, TENSORFLOW], ids=lambda reading: reading.name)
@pytest.mark.parametrize(("head", "good", "bad"), HEADS)
def test_labels_that_no_class_has_are_errors(head, good, bad, reading):
    """A label outside of the vocabulary, or beyond the classes, is an error, as in training."""
    plan = ModelPlan()
    canned_models.add_canned_model(plan, estimator_spec.BaselineEstimator(head).canned_model)
    names = reading.definitions()
    names |= {name: eval(render(value), names) for name, value in plan.constants.items()}

    def read(labels):
        return eval(render(plan.objectives[0].labels), {**names, "labels": labels})

    def read_all(labels):
        if reading == NUMPY:
            return read(np.array(labels))
        return next(iter(tf.data.Dataset.from_tensors(tf.constant(labels)).map(read)))

    assert read_all(good).shape[0] == 2
    with pytest.raises((ValueError, tf.errors.InvalidArgumentError), match="Labels must be [><]="):
        read_all(bad)


GOOD_BATCH = {"labels": [[1], [0]], "weight": [0.5, 1.0], "x": [1.0, 2.0]}
SPARSE = types.SimpleNamespace(indices=[[0, 0], [1, 0]], values=[b"a"], dense_shape=[2, 1])


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"labels": [[1], [0, 1]]}, "Labels must have the shape [B, d]: an array, or lists of one"),
        ({"labels": np.zeros((2, 1, 1))}, "Labels must have the shape [B, d], not [2, 1, 1]"),
        ({"labels": ["a", "b"]}, "Labels must be numbers, and are text"),
        ({"labels": np.array([1, 7])}, "that of example 1 is 7."),
        ({"labels": 1}, "The batch of labels has no axis of examples: it is the single value 1"),
        ({"weight": None}, "Feature 'weight' is missing; the features are ['x']"),
        ({"weight": ["a", "b"]}, "Feature 'weight' must be numbers, and has the type text"),
        ({"weight": np.ones((2, 2))}, "Feature 'weight' has the shape [2, 2]; it must be an array"),
        ({"x": np.ones((2, 2))}, "Feature 'x' has the shape [2, 2]; it must be an array of shape"),
        ({"x": SPARSE}, "Feature 'x' has 1 values at 2 places"),
    ],
)
def test_bad_labels_and_weights_are_named(given, words):
    """Labels, weights, and numbers with a normalizer that don't fit are errors of one line."""
    plan = ModelPlan()
    column = fc.numeric_column("x", normalizer_fn=lambda x: (x - 1.0) / 2.0)
    estimator = estimator_spec.LinearClassifier([column], weight_column="weight")
    canned_models.add_canned_model(plan, estimator.canned_model)
    program = written(plan)

    def read(features, labels):
        return program.training_batch(features, labels)

    good = dict(GOOD_BATCH)
    labels = good.pop("labels")
    np.testing.assert_array_equal(read(good, labels)[1]["logits"], [[1.0], [0.0]])
    bad = {key: value for key, value in {**GOOD_BATCH, **given}.items() if value is not None}
    with pytest.raises(ValueError) as error:
        read(bad, bad.pop("labels"))
    assert words in str(error.value) and "\n" not in str(error.value)


def test_a_loss_of_the_program_is_refused():
    """A loss_fn, whose tensors are TensorFlow's, is refused by name."""
    plan = ModelPlan()
    assembly.add_layer(plan, COLUMNS[:1], None, 1, "sum")
    plan.losses["own_loss"] = by_tensorflow
    with pytest.raises(ValueError, match="loss_fn 'by_tensorflow' .* without --without-tensorflow"):
        source.write_model(plan, "a test", NUMPY)


def test_sparse_features_are_checked():
    """Places out of order, or beyond the shape, are errors; lists of lists may be empty."""
    feature = Sparse(np.array([[1, 0], [0, 0]]), np.array([1, 2]), (2, 1))
    with pytest.raises(ValueError, match="F: the place .0, 0. is out of order"):
        as_array(feature, "F")
    with pytest.raises(ValueError, match="F has a value at .1, 0., beyond its shape .1, 1."):
        as_array(feature._replace(dense_shape=(1, 1)), "F")
    assert of_rows([[], []]).dense_shape == (2, 0)
    assert of_rows([[[b"a\0"], []], []]).dense_shape == (2, 2, 1)


def test_bad_vocabulary_files_are_named(tmp_path):
    """A vocabulary file that is gone, short or has other words is named, with the line."""
    path = tmp_path / "words.txt"
    with pytest.raises(FileNotFoundError, match="words.txt"):
        numpy_preprocessing.words_in_file(str(path), 1)
    path.write_bytes(b"7\r\n +1 \nx")
    assert numpy_preprocessing.words_in_file(str(path), 2, "int64") == [7, 1]
    assert numpy_preprocessing.words_in_file(str(path), 2) == [b"7", b" +1 "]
    with pytest.raises(ValueError, match="words.txt has 3 lines, and the vocabulary's size is 4"):
        numpy_preprocessing.words_in_file(str(path), 4)
    with pytest.raises(ValueError, match="words.txt, line 3: b'x' is no int64"):
        numpy_preprocessing.words_in_file(str(path), 3, "int64")
    path.write_bytes(b"9223372036854775807\n9223372036854775808\n")
    assert numpy_preprocessing.words_in_file(str(path), 1, "int64") == [2**63 - 1]
    with pytest.raises(ValueError, match="line 2: b'9223372036854775808' is no int64"):
        numpy_preprocessing.words_in_file(str(path), 2, "int64")


@pytest.mark.parametrize("words", [3, 200, 10**6])
def test_texts_that_repeat_have_tensorflow_s_hash_buckets(words):
    """Few words, of which each fingerprint is computed once, and many have TensorFlow's buckets."""
    numbers = np.random.RandomState(0).randint(0, words, 1000)
    texts = np.array([b"word %d" % number for number in numbers], object)
    expected = tf.strings.to_hash_bucket_fast(texts.tolist(), 2**40)
    np.testing.assert_array_equal(hash_buckets(texts, 2**40), expected)
