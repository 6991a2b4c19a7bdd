# SPDX-License-Identifier: Apache-2.0
"""Columns that random ones leave out: other APIs of shared tables, steps of several ids, files."""

from __future__ import annotations

import functools
import inspect

import numpy as np
import pytest
import tensorflow as tf

import column_strategies as drawn
import estimator_spec
import tpu_columns
from column_strategies import Feature
from estimator_spec.convert import to_keras
from estimator_spec.convert.keras_columns import assembly, source
from estimator_spec.convert.keras_columns.plan import ModelPlan
from estimator_spec.convert.keras_columns.readings import TENSORFLOW
from estimator_spec.convert.keras_program import written
from estimator_spec.core.common.legacy_keras import keras_2

keras = pytest.importorskip("keras")
pytest.importorskip("keras_rs", reason="needs the extra keras-rs")

fc = tf.feature_column
TEXTS = Feature([["ant", "zzz"], [], ["bee", "ant", ""]], "ragged", tf.string)
MORE = Feature([["dog"], ["cow", "cow"], [""]], "sparse", tf.string)
WORDS = {"a": TEXTS, "b": MORE}


def words(key: str = "a", **options):
    """Returns a vocabulary column."""
    return fc.categorical_column_with_vocabulary_list(key, drawn.WORDS, **options)


@pytest.mark.parametrize("norm", [None, 0.5])
def test_shared_embeddings(norm):
    """Columns of `tf.feature_column.shared_embeddings` have one layer."""
    with tf.Graph().as_default():  # refused where execution is eager
        columns = fc.shared_embeddings([words("a"), words("b")], 3, "sqrtn", max_norm=norm)
    layer = keras_2().layers.DenseFeatures(columns)
    model = drawn.check(layer, WORDS, columns)
    assert len(model.core.trainable_variables) == 1


def test_tpu_sequences():
    """Sequences of TPU columns are cut and padded to their length."""
    sequence = fc.sequence_categorical_column_with_vocabulary_list("a", drawn.WORDS)
    column = tpu_columns.embedding_column(sequence, 3, max_sequence_length=2)

    def build(features):
        return tpu_columns.sequence_input_layer(features, [column])

    drawn.check(build, WORDS, [column])


@pytest.mark.parametrize("policy", ["drop", "clip", 1])
def test_invalid_ids_of_tpu_sequences(policy):
    """Invalid ids of sequences become steps, or don't count, as in the column."""
    sequence = fc.sequence_categorical_column_with_identity("i", 5)
    column = tpu_columns.embedding_column(sequence, 2, max_sequence_length=3, invalid_ids=policy)

    def build(features):
        return tpu_columns.sequence_input_layer(features, [column])

    batch = {"i": Feature([[1, 9], [9, 2], [3], [9]], "sparse", tf.int64)}
    drawn.check(build, batch, [column])


@pytest.mark.parametrize("policy", ["drop", "mod"])
def test_weights_of_invalid_ids(policy):
    """Weights at other places than the ids go with them, also where invalid ids are dropped."""
    weighted = fc.weighted_categorical_column(fc.categorical_column_with_identity("i", 5), "w")
    column = tpu_columns.embedding_column(weighted, 2, "sum", invalid_ids=policy)

    def build(features):
        return tpu_columns.input_layer(features, [column])

    batch = {
        "i": Feature([[9, 1], [2, 9, 3], [4]], "sparse", tf.int64),
        "w": Feature([[0.5, 1.0, 2.0], [4.0], [8.0, 16.0]], "sparse", tf.float32),
    }
    drawn.check(build, batch, [column])


def test_shared_tpu_sequences():
    """TPU columns that share a table, one of each kind of API, have one layer."""
    columns = tpu_columns.shared_embedding_columns(
        [words("a"), words("b")], 2, shared_embedding_collection_name="shared"
    )

    def build(features):
        return tpu_columns.input_layer(features, columns)

    model = drawn.check(build, WORDS, columns)
    assert list(model.conversion.variables) == ["shared"]


FEW = {
    "of unlike numbers": [["dog", "cow"], ["bee"], ["cow", "cow", "dog"]],
    "in some examples": [["dog", "cow"], [], ["bee"]],
    "in one example": [[], ["cow"], []],
    "in no example": [[], [], []],
}


@pytest.mark.parametrize("case", FEW)
@pytest.mark.parametrize("is_weighted", [True, False])
def test_rows_of_few_ids(case, is_weighted):
    """A step looks up the rows that columns look up: those of ids, and 0 for lack of any."""
    columns, batch = [], {}
    for combiner in ("sum", "mean"):
        for safe in (True, False):
            key = f"{combiner}_{safe}"
            column, batch[key] = words(key), Feature(FEW[case], "sparse", tf.string)
            if is_weighted:
                column = fc.weighted_categorical_column(column, f"{key}_w")
                weights = [[-1.0, 2.0, 0.0][: len(row)] for row in FEW[case]]
                batch[f"{key}_w"] = Feature(weights, "sparse", tf.float32)
            columns.append(
                tpu_columns.embedding_column(column, 2, combiner, use_safe_embedding_lookup=safe)
            )

    def build(features):
        return tpu_columns.input_layer(features, columns)

    drawn.check(build, batch, columns)


@pytest.mark.parametrize("case", FEW)
@pytest.mark.parametrize("length", [1, 3, 5])
def test_rows_of_few_steps(case, length):
    """A step of training looks up the rows of the steps that the column has, and no more."""
    sequence = fc.sequence_categorical_column_with_vocabulary_list("a", drawn.WORDS)
    column = tpu_columns.embedding_column(sequence, 2, max_sequence_length=length)

    def build(features):
        return tpu_columns.sequence_input_layer(features, [column])

    drawn.check(build, {"a": Feature(FEW[case], "sparse", tf.string)}, [column])


@pytest.mark.parametrize("combiner", drawn.COMBINERS)
def test_steps_of_several_ids(combiner):
    """The ids of each step are combined, as in the column."""
    sequence = fc.sequence_categorical_column_with_hash_bucket("a", 7)
    column = fc.embedding_column(sequence, 2, combiner)
    steps = tf.SparseTensor(
        [[0, 0, 0], [0, 0, 1], [0, 1, 0], [2, 0, 0], [2, 1, 0], [2, 1, 1]],
        ["ant", "bee", "ant", "zzz", "cow", "dog"],
        [3, 2, 2],
    )
    layer = keras_2().experimental.SequenceFeatures([column])
    expected = layer({"a": steps})
    model = to_keras([column])
    (table,) = model.core.trainable_variables
    table.assign(layer.weights[0])
    found = model({"a": steps})
    np.testing.assert_allclose(found["sequence_input"], expected[0], rtol=1e-6, atol=1e-6)
    np.testing.assert_array_equal(found["sequence_length"], expected[1])


@pytest.mark.parametrize("oov", [0, 2])
def test_a_compressed_vocabulary(oov, tmp_path):
    """A vocabulary of a gzip file of records, of which the column takes the first words."""
    path = str(tmp_path / "words.gz")
    with tf.io.TFRecordWriter(path, "GZIP") as writer:
        for word in drawn.WORDS:
            writer.write(word)
    column = fc.indicator_column(
        fc.categorical_column_with_vocabulary_file(
            "b", path, 3, num_oov_buckets=oov, file_format="tfrecord_gzip"
        )
    )
    drawn.check(keras_2().layers.DenseFeatures([column]), WORDS, [column])


def test_unlike_uses_of_one_column():
    """One categorical column in several dense ones is read once, and its tables are apart."""
    column = words("a", num_oov_buckets=1)
    columns = [fc.embedding_column(column, 2), fc.indicator_column(column)]
    model = drawn.check(keras_2().layers.DenseFeatures(columns), WORDS, columns)
    assert sorted(model.core.input) == ["a_ids", "a_weights"]


def test_names_that_python_has_not():
    """Keys that are no Python names, equal another one without their signs, or are reserved."""
    batch = dict.fromkeys(("a-b", "a.b", "class", "1", "numbers", "a_b_ids"), TEXTS)
    columns = [fc.embedding_column(words(key), 2) for key in batch]
    drawn.check(keras_2().layers.DenseFeatures(columns), batch, columns)


def test_the_core_is_saved(tmp_path):
    """The model behind the reading of features is saved by Keras, and read again without us."""
    columns = [words("a"), fc.numeric_column("n")]
    batch = {"a": TEXTS.tensor(True), "n": tf.constant([[1.0], [2.0], [3.0]])}
    model = to_keras(columns)
    model.compile("adagrad", "mse")
    model.fit(tf.data.Dataset.from_tensors((batch, tf.ones([3, 1]))), verbose=0)
    model.core.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    found = again(model.preprocess(batch))
    assert np.abs(found).min() > 0
    np.testing.assert_array_equal(found, model(batch))


def test_the_origin_of_layers():
    """The conversion says how each column became layers, and what isn't equal."""
    column = fc.embedding_column(words("a", default_value=1), 2, max_norm=1.0)
    conversion = to_keras([column, fc.numeric_column("n")]).conversion
    assert [origin.column for origin in conversion.origins] == ["a_embedding", "n"]
    assert "ClippedEmbedReduce(4, 2" in conversion.origins[0].layers
    assert {difference.what for difference in conversion.differences} == {"default_value"}


def test_gradients_of_clipped_rows():
    """Rows of norm 0, of the largest norm and above have the gradients of TensorFlow's lookup."""
    layer_class = TENSORFLOW.keras_classes()["ClippedEmbedReduce"]
    rows = tf.Variable([[0.0, 0.0], [0.6, 0.8], [3.0, 4.0], [0.1, 0.2]])
    ids, factors = tf.constant([[0, 1], [2, 3], [2, 1]]), tf.constant([[1.0], [2.0], [3.0]])
    layer = layer_class(4, 2, combiner="sum", max_norm=1.0)
    layer.build()
    layer.embeddings.assign(rows)
    with tf.GradientTape(persistent=True) as tape:
        expected = factors * tf.reduce_sum(tf.nn.embedding_lookup(rows, ids, max_norm=1.0), 1)
        found = factors * layer(ids)
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    values, variables = (expected, found), (rows, layer.embeddings.value)
    old, new = (tape.gradient(*each) for each in zip(values, variables, strict=True))
    np.testing.assert_allclose(*map(tf.convert_to_tensor, (new, old)), rtol=1e-6)


def test_a_batch_of_no_examples():
    """A model of several linear terms, and with a deep part, predicts nothing for no example."""
    columns = [words("a"), words("b")]
    deep = [fc.embedding_column(column, 2) for column in columns]
    estimator = estimator_spec.DNNLinearCombinedClassifier(
        linear_feature_columns=columns,
        dnn_feature_columns=deep,
        dnn_hidden_units=[3],
        n_classes=4,
    )

    def batch():
        return {key: value.tensor(for_columns=True) for key, value in WORDS.items()}

    estimator.train(lambda: (batch(), tf.constant([0, 1, 2])), steps=1)
    empty = {key: tf.sparse.slice(value, [0, 0], [0, 3]) for key, value in batch().items()}
    found = to_keras(estimator).predictions(empty)
    assert {name: tuple(value.shape) for name, value in found.items()} == {
        **dict.fromkeys(("logits", "probabilities", "all_class_ids", "all_classes"), (0, 4)),
        **dict.fromkeys(("class_ids", "classes"), (0, 1)),
    }


@pytest.mark.parametrize("word", ["", "two\nlines", np.str_("numpy"), b"bytes"])
def test_a_long_vocabulary_of_any_words(word, tmp_path):
    """The written program has a list of many words, also of those that a file can't have."""
    many = [*(f"word {n}" for n in range(30)), word]
    column = fc.categorical_column_with_vocabulary_list("a", many)
    plan = ModelPlan(inline_words=20)
    assembly.add_layer(plan, [fc.indicator_column(column)], None, 1, "sum")
    (tmp_path / "model.py").write_text(source.write_model(plan, "words"), encoding="utf-8")
    (tmp_path / "vocabularies").mkdir()
    for name, lines in plan.vocabularies.items():
        file = [line if isinstance(line, bytes) else str(line).encode() for line in lines]
        (tmp_path / "vocabularies" / name).write_bytes(b"\n".join(file) + b"\n")
    module = written.load_module(str(tmp_path))
    given = tf.sparse.from_dense([[1, 0], [1, 0]]).with_values(tf.constant([word, "word 3"]))
    found = module.build_model()(module.preprocess({"a": given}))
    assert np.argmax(found, axis=-1).tolist() == [30, 3]


def test_long_vocabularies_and_functions_without_a_source():
    """A model, unlike a program, takes them as they are; AutoGraph finds the rest of its source."""
    words = fc.categorical_column_with_vocabulary_list("word", [f"word {n}" for n in range(50)])
    added = functools.partial(lambda a, x: x + a, tf.constant(2.0))
    columns = [fc.indicator_column(words), fc.numeric_column("x", normalizer_fn=added)]
    model = to_keras(columns)
    features = {"word": tf.constant([["word 49"]]), "x": tf.constant([[1.0]])}
    (found,) = tf.data.Dataset.from_tensors(features).map(model.preprocess)
    assert found["word_ids"].numpy().tolist() == [[49]]
    assert found["x"].numpy().tolist() == [[3.0]]
    assert "def preprocess" in inspect.getsource(model._program.preprocess)
