# SPDX-License-Identifier: Apache-2.0
"""Columns and checkpoints that can't move are refused before anything is made."""

from __future__ import annotations

import tempfile

import pytest
import tensorflow as tf

import tpu_columns
from estimator_spec import CheckpointError
from estimator_spec.convert import to_keras
from refusal import Refusal, refused

pytest.importorskip("keras_rs", reason="needs the extra keras-rs")

tf1 = tf.compat.v1
fc = tf.feature_column


def write_checkpoint(**shapes: list[int]) -> str:
    """Writes a checkpoint of variables by name, `_` for a slash between words of two."""
    folder = tempfile.mkdtemp()
    with tf.Graph().as_default(), tf1.Session() as session:
        for name, shape in shapes.items():
            tf1.get_variable(name.replace("__", "/"), shape)
        session.run(tf1.global_variables_initializer())
        return tf1.train.Saver().save(session, f"{folder}/model.ckpt", global_step=7)


def words(key: str = "a", size: int = 3):
    """Returns a hash column."""
    return fc.categorical_column_with_hash_bucket(key, size)


def embedding(key: str = "a", size: int = 3, dimension: int = 2, **options):
    """Returns an embedding column."""
    return fc.embedding_column(words(key, size), dimension, **options)


def file_column(path: str, size: int | None):
    """Returns a column of a vocabulary file."""
    return fc.categorical_column_with_vocabulary_file("a", path, size)


def missing_file():
    """Returns a column whose file was removed."""
    return fc.indicator_column(file_column("/nowhere/words.txt", 3))


def short_file():
    """Returns a column whose file has fewer words than it was made for."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt", delete=False) as file:
        file.write("ant\nbee\n")
    return fc.indicator_column(file_column(file.name, 3))


class Mine(type(fc.numeric_column("n"))):
    """A column class of a program, derived from TensorFlow's."""


class Namesake:
    """An object that has a name, as columns do."""

    name = "a"


def weighted():
    """Returns a weighted column."""
    return fc.weighted_categorical_column(words(), "w")


def sequence():
    """Returns a sequence column."""
    return fc.sequence_categorical_column_with_hash_bucket("s", 5)


TABLE = "input_layer__a_embedding__embedding_weights"
WEIGHTS = "linear__linear_model__a__weights"


def restored(column=None, names=None, **shapes):
    """Makes a model of one embedding column with a checkpoint of other variables."""
    return to_keras([column or embedding()], write_checkpoint(**shapes), variable_names=names)


REFUSALS = [
    refused("no column", lambda: to_keras([]), ValueError, "must not be empty"),
    refused("None", lambda: to_keras(None), ValueError, "list of feature columns", "None"),
    refused("a number", lambda: to_keras(3), ValueError, "list of feature columns", "int"),
    refused("a text", lambda: to_keras("a"), ValueError, "list of feature columns", "'a'"),
    refused("a dict", lambda: to_keras({"a": embedding()}), ValueError, "list of", "dict"),
    refused("a text in a list", lambda: to_keras(["a"]), ValueError, "'a'", "no counterpart"),
    refused("None in a list", lambda: to_keras([None]), ValueError, "None", "counterpart"),
    refused(
        "a subclass",
        lambda: to_keras([Mine("n", (1,), None, tf.float32, None)]),
        ValueError,
        "'n'",
        "Mine",
        "input_fn",
    ),
    refused("a namesake", lambda: to_keras([Namesake()]), ValueError, "'a'", "Namesake"),
    refused("a tensor", lambda: to_keras([tf.ones(3)]), ValueError, "counterpart"),
    refused(
        "two of one name",
        lambda: to_keras([embedding(), embedding(dimension=3)]),
        ValueError,
        "Duplicate feature column name",
        "a_embedding",
    ),
    refused(
        "two numbers of one name",
        lambda: to_keras([fc.numeric_column("n"), fc.numeric_column("n", 2)]),
        ValueError,
        "Duplicate feature column name",
    ),
    refused(
        "two of one name, linear",
        lambda: to_keras([words(), words(size=4)]),
        ValueError,
        "Duplicate feature column name",
    ),
    refused(
        "categorical in an input layer",
        lambda: to_keras([words()], layer="input_layer"),
        ValueError,
        "'a'",
        "categorical",
        "embedding_column or indicator_column",
    ),
    refused(
        "weighted in an input layer",
        lambda: to_keras([weighted()], layer="input_layer"),
        ValueError,
        "a_weighted_by_w",
        "embedding_column",
    ),
    refused(
        "a sequence in an input layer",
        lambda: to_keras([fc.embedding_column(sequence(), 2)], layer="input_layer"),
        ValueError,
        "s_embedding",
        "sequence_input_layer",
    ),
    refused(
        "a TPU sequence in an input layer",
        lambda: to_keras(
            [
                tpu_columns.embedding_column(
                    fc.sequence_categorical_column_with_identity("s", 5), 2, max_sequence_length=3
                )
            ],
            layer="input_layer",
        ),
        ValueError,
        "s_embedding",
        "sequence",
    ),
    refused(
        "a sequence in a linear model",
        lambda: to_keras([sequence()], layer="linear_model"),
        ValueError,
        "'s'",
        "linear_model",
        "without sequence_",
    ),
    refused(
        "numbers of steps in an input layer",
        lambda: to_keras([fc.sequence_numeric_column("s")], layer="input_layer"),
        ValueError,
        "'s'",
        "sequence",
    ),
    refused(
        "no sequence among sequences",
        lambda: to_keras([embedding()], layer="sequence_input_layer"),
        ValueError,
        "a_embedding",
        "is no sequence",
    ),
    refused(
        "sequences and others",
        lambda: to_keras([fc.embedding_column(sequence(), 2), embedding()], layer="input_layer"),
        ValueError,
        "s_embedding",
        "sequence",
    ),
    refused(
        "weights in a cross",
        lambda: to_keras([fc.crossed_column([weighted(), "b"], 5)]),
        ValueError,
        "does not support weight_tensor",
    ),
    refused(
        "another layer",
        lambda: to_keras([embedding()], layer="dense"),
        ValueError,
        "layer must be one of",
        "'dense'",
    ),
    refused(
        "another combiner",
        lambda: to_keras([words()], sparse_combiner="max"),
        ValueError,
        "sparse_combiner",
        "'max'",
    ),
    refused(
        "no combiner",
        lambda: to_keras([words()], sparse_combiner=None),
        ValueError,
        "sparse_combiner",
        "None",
    ),
    refused("no units", lambda: to_keras([words()], units=0), ValueError, "units", "0"),
    refused("half units", lambda: to_keras([words()], units=1.5), ValueError, "units", "1.5"),
    refused(
        "a missing vocabulary",
        lambda: to_keras([missing_file()]),
        ValueError,
        "/nowhere/words.txt",
        "'a'",
        "doesn't exist",
    ),
    refused(
        "a short vocabulary",
        lambda: to_keras([short_file()]),
        ValueError,
        "2 words",
        "'a'",
        "vocabulary_size is 3",
    ),
    refused(
        "no checkpoint", lambda: to_keras([embedding()], "/nowhere"), CheckpointError, "/nowhere"
    ),
    refused(
        "an empty directory",
        lambda: to_keras([embedding()], tempfile.mkdtemp()),
        CheckpointError,
        "checkpoint",
    ),
    refused(
        "a checkpoint of another model",
        lambda: restored(other=[3, 2]),
        CheckpointError,
        "a_embedding",
        "other",
        "variable_names",
    ),
    refused(
        "a table of more rows",
        lambda: restored(**{TABLE: [4, 2]}),
        CheckpointError,
        "[3, 2]",
        "[4, 2]",
        "vocabulary",
    ),
    refused(
        "a table of another dimension",
        lambda: restored(**{TABLE: [3, 4]}),
        CheckpointError,
        "[3, 2]",
        "[3, 4]",
    ),
    refused(
        "two tables",
        lambda: restored(**{f"x__{TABLE}": [3, 2], f"y__{TABLE}": [3, 2]}),
        ValueError,
        "a_embedding",
        "x/input_layer",
        "y/input_layer",
        "variable_names",
    ),
    refused(
        "an unknown layer",
        lambda: restored(names={"b": "x"}, **{TABLE: [3, 2]}),
        ValueError,
        "variable_names names the layer 'b'",
        "a_embedding",
    ),
    refused(
        "an unknown variable",
        lambda: restored(names={"a_embedding": "x"}, **{TABLE: [3, 2]}),
        CheckpointError,
        "'x'",
    ),
    refused(
        "a linear model without bias",
        lambda: to_keras([words()], write_checkpoint(**{WEIGHTS: [3, 1]})),
        CheckpointError,
        "linear_bias",
        "bias_weights",
    ),
    refused(
        "other units in the checkpoint",
        lambda: to_keras(
            [words()], write_checkpoint(**{WEIGHTS: [3, 2], "linear_model__bias_weights": [2]})
        ),
        CheckpointError,
        "[3, 1]",
        "[3, 2]",
    ),
    refused(
        "a missing feature",
        lambda: to_keras([embedding()])({"b": tf.constant(["x"])}),
        ValueError,
        "'a'",
        "missing",
        "'b'",
    ),
]


@pytest.mark.parametrize("refusal", REFUSALS, ids=lambda refusal: refusal.name)
def test_refused(refusal: Refusal, tmp_path, monkeypatch):
    """The error has its class and names what is wrong, where it is, and what to do."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(refusal.error) as raised:
        refusal.call()
    message = str(raised.value)
    assert [word for word in refusal.words if word not in message] == [], message


def test_a_graph_is_refused():
    """Within a graph, and so in programs without eager mode, the error names the command."""
    with tf.Graph().as_default(), pytest.raises(RuntimeError, match="estimator_spec to-keras"):
        to_keras([fc.numeric_column("x")])


def test_good_input_is_taken(tmp_path, monkeypatch):
    """The same columns and checkpoint without the mistakes make a model."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert restored(**{TABLE: [3, 2]}).conversion.variables == {
        "a_embedding": TABLE.replace("__", "/")
    }
    assert restored(names={"a_embedding": "x"}, x=[3, 2]).conversion.variables == {
        "a_embedding": "x"
    }
    names = {WEIGHTS: [3, 1], "linear_model__bias_weights": [1]}
    assert len(to_keras([words()], write_checkpoint(**names)).conversion.variables) == 2
