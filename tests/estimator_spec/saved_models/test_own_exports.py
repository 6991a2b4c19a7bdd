# SPDX-License-Identifier: Apache-2.0
"""What is read back of SavedModels that this project's own estimators export."""

from __future__ import annotations

import os

import numpy as np
import pytest
import tensorflow as tf

import estimator_spec as es
import tpu_columns
from estimator_spec import canned, saved_models
from estimator_spec.saved_models import text
from estimator_spec.saved_models.columns import RecoveredColumn

tf1 = tf.compat.v1
fc = tf.feature_column

WORDS = [f"w{number}" for number in range(8)]


def identity(key, size=9, **named):
    """Returns a column of ids."""
    return fc.categorical_column_with_identity(key, size, **named)


def words(key, **named):
    """Returns a column of words."""
    return fc.categorical_column_with_vocabulary_list(key, WORDS, **named)


def weighted(key):
    """Returns a column of weighted words."""
    return fc.weighted_categorical_column(words(key), f"{key}_weights")


def buckets(key, size=1):
    """Returns a bucketized column."""
    return fc.bucketized_column(fc.numeric_column(key, [size]), [-1.0, 0.25, 2.0])


def wide_columns():
    """Returns columns of a linear part."""
    return [
        fc.numeric_column("number"),
        buckets("bucket"),
        buckets("pair", 2),
        identity("id"),
        identity("id_default", default_value=2),
        words("word"),
        words("oov", num_oov_buckets=2),
        words("other", default_value=3),
        weighted("weighted"),
        fc.categorical_column_with_hash_bucket("hashed", 20),
        fc.categorical_column_with_hash_bucket("hashed_id", 20, tf.int64),
        fc.crossed_column([words("word"), "hashed"], 15),
        fc.crossed_column([buckets("bucket"), "oov"], 15, hash_key=5),
    ]


def embedded(embed):
    """Returns embedding columns that TensorFlow and this project make by a function."""
    return [
        embed(identity("id"), 2, "sum"),
        embed(identity("id_default", default_value=2), 2, "mean"),
        embed(words("word"), 2, "sqrtn"),
        embed(words("oov", num_oov_buckets=2), 3, "mean"),
        embed(words("other", default_value=3), 3, "sum"),
        embed(weighted("weighted"), 4, "mean"),
        embed(weighted("weighted_sum"), 4, "sum"),
        embed(weighted("weighted_sqrtn"), 4, "sqrtn"),
    ]


def other_deep_columns(path):
    """Returns deep columns that only TensorFlow makes, and some of a vocabulary file."""
    vocabulary = fc.categorical_column_with_vocabulary_file("file", path, 7, num_oov_buckets=1)
    cross = fc.crossed_column([words("word"), "hashed"], 15)
    return [
        fc.numeric_column("number"),
        buckets("bucket"),
        fc.indicator_column(words("word")),
        fc.indicator_column(words("oov", num_oov_buckets=2)),
        fc.indicator_column(weighted("weighted")),
        fc.indicator_column(identity("id")),
        fc.indicator_column(cross),
        fc.embedding_column(cross, 2, "sum"),
        fc.embedding_column(buckets("pair", 2), 3),
        fc.embedding_column(vocabulary, 2),
        fc.embedding_column(fc.categorical_column_with_hash_bucket("hashed", 20), 2, max_norm=0.5),
        fc.embedding_column(fc.categorical_column_with_hash_bucket("hashed_id", 20, tf.int64), 2),
    ]


def shared(share, named):
    """Returns columns of a shared table."""
    return list(share([words("left"), words("right")], 3, "sqrtn", **named))


def make_columns(kind, generation, path):
    """Returns the deep columns of a model, and those that are to be read back."""
    share = fc.shared_embeddings
    if generation == "v1":
        share = tf1.feature_column.shared_embedding_columns
    named = {"shared_embedding_collection_name": "both"}
    other = other_deep_columns(path)
    with tf.Graph().as_default():
        expected = embedded(fc.embedding_column) + shared(share, named) + other
        if kind == "tensorflow":
            return expected, expected
        ours = embedded(tpu_columns.embedding_column)
        ours += shared(tpu_columns.shared_embedding_columns, named)
        return ours + other, expected


def features():
    """Returns training features of two rows."""
    made = {
        "number": [[1.0], [2.0]],
        "bucket": [[0.5], [2.5]],
        "pair": [[0.5, 1.0], [2.5, -3.0]],
        "hashed_id": [[5], [7]],
        "id": [[1, 3], [2, 4]],
        "id_default": [[1], [20]],
    }
    for key in ("word", "oov", "other", "hashed", "file", "left", "right"):
        made[key] = [["w1", "w2"], ["w9", "w3"]]
    for key in ("weighted", "weighted_sum", "weighted_sqrtn"):
        made[key] = [["w1", "w2"], ["w9", "w3"]]
        made[f"{key}_weights"] = [[1.0, 2.0], [0.5, 1.0]]
    arrays = {key: np.array(value) for key, value in made.items()}
    return {
        key: array.astype(np.float32) if array.dtype.kind == "f" else array
        for key, array in arrays.items()
    }


def input_fn():
    """Returns a batch."""
    return tf.data.Dataset.from_tensors((features(), np.array([[0], [1]])))


def renamed_receiver():
    """Returns placeholders of the features, whose order by their own names is another."""
    placed = {
        key: tf1.placeholder(
            tf.string if array.dtype.kind == "U" else array.dtype, [None, array.shape[1]], name=key
        )
        for key, array in features().items()
    }
    names = {key: f"in_{99 - place}" for place, key in enumerate(sorted(placed))}
    return es.ServingInputReceiver(placed, {names[key]: placed[key] for key in placed})


def source(columns, home=""):
    """Returns the source text of columns, sorted; files of `home` by their names."""
    plain = [RecoveredColumn(column, str(place), None) for place, column in enumerate(columns)]
    return sorted(line.replace(home, "") for line in text.column_lines(plain))


@pytest.fixture(scope="module")
def vocabulary(tmp_path_factory):
    """A vocabulary file."""
    path = tmp_path_factory.mktemp("words") / "words.txt"
    path.write_text("".join(f"{word}\n" for word in WORDS))
    return path


OTHERS = pytest.mark.nightly("TPU columns of the second generation are with every change")


@pytest.mark.parametrize(
    ("kind", "generation"),
    [
        ("tpu", "v2"),
        *(
            pytest.param(kind, generation, marks=OTHERS)
            for kind, generation in [("tpu", "v1"), ("tensorflow", "v1"), ("tensorflow", "v2")]
        ),
    ],
)
def test_columns_are_read_back(tmp_path, vocabulary, kind, generation):
    """Columns of both parts of a canned model are read from both kinds of receivers.

    One names its inputs otherwise; its export has tables of int8, which no other model takes.
    """
    classes = canned.v1 if generation == "v1" else es
    wide = wide_columns()
    deep, expected = make_columns(kind, generation, str(vocabulary))
    estimator = classes.DNNLinearCombinedClassifier(
        model_dir=str(tmp_path / "model"),
        linear_feature_columns=wide,
        linear_sparse_combiner="sqrtn",
        dnn_feature_columns=deep,
        dnn_hidden_units=[4],
    )
    estimator.train(input_fn, steps=1)
    make_spec = (tf1.feature_column if generation == "v1" else fc).make_parse_example_spec
    spec = make_spec([*wide, *expected])
    exports = [
        ("parsed", es.build_parsing_serving_input_receiver_fn(spec), "float32"),
        ("raw", renamed_receiver, "int8" if kind == "tpu" else "float32"),
    ]
    for name, receiver, tables in exports:
        path = os.fsdecode(estimator.export_saved_model(tmp_path / name, receiver, tables=tables))
        model = saved_models.read(path)
        if (name, kind, generation) == ("raw", "tensorflow", "v1"):
            # Scopes of TensorFlow 1's shared tables don't have the keys of features.
            (unknown,) = model.unknown
            assert "_shared_embedding' after" in unknown and "isn't found" in unknown
            continue
        assert model.unknown == ()
        assert model.sparse_combiner == "sqrtn"
        assert source([each.column for each in model.linear]) == source(wide)
        assert source([each.column for each in model.deep], f"{path}/assets/") == source(
            expected, f"{vocabulary.parent}/"
        )
    if kind == "tpu":
        with pytest.raises(saved_models.UnknownPartError, match=r"int8.*tables='float32'"):
            _ = model.canned_model
