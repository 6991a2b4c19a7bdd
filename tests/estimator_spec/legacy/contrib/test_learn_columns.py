# SPDX-License-Identifier: Apache-2.0
"""Feature columns of `tf.contrib.layers`, and layers over them."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from estimator_spec.legacy.contrib.learn import column_layers, columns

tf1 = tf.compat.v1
WORDS = [["ant"], ["bee"], ["ant"]]


def run(build):
    """Evaluates what a function builds, in a session with initialized variables and tables."""
    with tf.Graph().as_default(), tf1.Session() as session:
        fetches = build()
        session.run([tf1.global_variables_initializer(), tf1.tables_initializer()])
        return session.run(fetches)


def sparse(rows):
    """Returns lists of values as a SparseTensor."""
    return tf.ragged.constant(rows).to_sparse()


def dense(column, features):
    """Returns the input of a deep model for one column."""
    return run(lambda: column_layers.input_from_feature_columns(features(), [column])).tolist()


def keys(default=-1):
    """Returns a column of three words."""
    return columns.sparse_column_with_keys("word", ["ant", "bee", "cat"], default)


def test_counts_of_ids():
    """A one-hot column counts the ids of an example, and leaves out unknown words."""
    rows = [["ant", "cat", "ant"], ["eel"], ["bee"]]
    column = columns.one_hot_column(keys())
    assert dense(column, lambda: {"word": sparse(rows)}) == [[2, 0, 1], [0, 0, 0], [0, 1, 0]]


def test_weighted_ids():
    """Weights of ids are those of another feature."""
    weighted = columns.weighted_sparse_column(keys(), "weight")
    column = columns.one_hot_column(weighted)
    found = dense(
        column,
        lambda: {"word": sparse([["ant", "bee"], ["bee"]]), "weight": sparse([[2.0, 3.0], [4.0]])},
    )
    assert found == [[2, 3, 0], [0, 4, 0]]


def test_default_id():
    """An unknown word has the default id, if there is one."""
    column = columns.one_hot_column(keys(default=2))
    assert dense(column, lambda: {"word": tf.constant([["eel"], ["ant"]])}) == [
        [0, 0, 1],
        [1, 0, 0],
    ]


def test_vocabulary_file(tmp_path):
    """Ids are lines of a file, and other words are hashed to the buckets after it."""
    (tmp_path / "words").write_text("ant\nbee\ncat\n")
    column = columns.one_hot_column(
        columns.sparse_column_with_vocabulary_file("word", str(tmp_path / "words"), 1, 2)
    )
    found = dense(column, lambda: {"word": tf.constant([["bee"], ["cat"]])})
    assert found == [[0, 1, 0], [0, 0, 1]]


def test_integers():
    """Ids of integers are remainders; -1 is no value in a dense feature."""
    column = columns.one_hot_column(columns.sparse_column_with_integerized_feature("id", 3))
    assert dense(column, lambda: {"id": tf.constant([4, -1])}) == [[0, 1, 0], [0, 0, 0]]


def test_numbers():
    """Numbers are normalized floats, [batch, dimension], or ones at their intervals."""
    features = lambda: {"x": tf.constant([1, 5])}  # noqa: E731
    number = columns.real_valued_column("x", normalizer=lambda value: value + 1)
    assert dense(number, features) == [[2.0], [6.0]]
    buckets = columns.bucketized_column(columns.real_valued_column("x"), [1, 3])
    assert dense(buckets, features) == [[0, 1, 0], [0, 0, 1]]


def test_several_elements_of_an_interval_column():
    """In linear models the intervals of a second element have weights of their own."""
    column = columns.bucketized_column(columns.real_valued_column("x", 2), [0])

    def build():
        features = {"x": tf.constant([[-1.0, 1.0], [1.0, 1.0]])}
        sums, weights, _ = column_layers.weighted_sum_from_feature_columns(features, [column], 1)
        return sums, tf.convert_to_tensor(tf.gradients(sums, weights[column])[0])

    sums, gradient = run(build)
    assert sums.tolist() == [[0], [0]]
    assert gradient.tolist() == [[1], [1], [0], [2]]


def test_embeddings_and_their_names():
    """Embeddings of an example are combined; tables have the names of TensorFlow 1.15."""
    ones = tf1.ones_initializer()

    def build():
        column = columns.embedding_column(keys(), 2, "sum", ones)
        shared = columns.shared_embedding_columns(
            [keys(), columns.sparse_column_with_keys("other", ["ant", "bee", "cat"])],
            1,
            "sum",
            ones,
        )
        features = {"word": sparse([["ant", "bee"], ["eel"]]), "other": sparse([["ant"], ["cat"]])}
        result = column_layers.input_from_feature_columns(features, [*shared, column])
        names = [variable.op.name for variable in tf1.trainable_variables()]
        assert names == [
            "input_from_feature_columns/other_shared_embedding/other_word_shared_embedding",
            "input_from_feature_columns/word_embedding/weights",
        ]
        return result

    assert sorted(run(build)[0]) == [1, 2, 2, 2]


def test_order_of_columns():
    """Inputs are sorted by TensorFlow 1.15's class names, then by the columns' own."""
    word, place = keys(), columns.sparse_column_with_hash_bucket("place", 5)
    number = columns.real_valued_column("a")
    given = [
        *(columns.real_valued_column("b"), number, columns.one_hot_column(word)),
        *(columns.embedding_column(word, 2), columns.embedding_column(place, 2)),
        columns.bucketized_column(number, [0]),
    ]
    assert [column.name for column in column_layers.sorted_columns(given)] == [
        *("a_bucketized", "place_embedding", "word_embedding", "word_one_hot", "a", "b")
    ]


def test_crosses(caplog):
    """A cross hashes raw values in the order of the columns' names; without a key it warns."""
    place = columns.sparse_column_with_hash_bucket("place", 5)
    column = columns.crossed_column([keys(), place], 100, hash_key=7)
    assert not caplog.records
    assert column.name == "place_X_word"
    columns.crossed_column([keys(), place], 100)
    assert "train the model here" in caplog.text

    def build():
        features = {"word": sparse([["ant"], ["bee"]]), "place": sparse([["x"], ["y"]])}
        values = column_layers.ColumnValues(features).ids(column).values
        return values, tf.sparse.cross_hashed([features["place"], features["word"]], 100, 7).values

    found, expected = run(build)
    assert found.tolist() == expected.tolist()


def test_initial_values_of_a_checkpoint(tmp_path):
    """An embedding starts with a variable of a checkpoint."""
    with tf.Graph().as_default(), tf1.Session() as session:
        tf1.get_variable("old", initializer=[[1.0], [2.0], [3.0]])
        session.run(tf1.global_variables_initializer())
        path = tf1.train.Saver().save(session, str(tmp_path / "model"))
    column = columns.embedding_column(keys(), 1, ckpt_to_load_from=path, tensor_name_in_ckpt="old")
    assert dense(column, lambda: {"word": sparse([["cat"], ["ant"]])}) == [[3], [1]]


def test_parsing():
    """Columns say how their features are parsed, and get placeholders."""
    number = columns.real_valued_column("x", 2, default_value=1)
    given = [
        columns.crossed_column([keys(), columns.bucketized_column(number, [0])], 9, hash_key=1)
    ]
    spec = column_layers.create_feature_spec_for_parsing(given)
    assert spec == {
        "word": tf.io.VarLenFeature(tf.string),
        "x": tf.io.FixedLenFeature([2], tf.float32, [1, 1]),
    }
    example = tf.train.Example()
    example.features.feature["word"].bytes_list.value.append(b"bee")
    text = example.SerializeToString()
    parsed = run(lambda: column_layers.parse_feature_columns_from_examples([text], given))
    assert parsed["x"].tolist() == [[1, 1]]
    assert parsed["word"].values.tolist() == [b"bee"]
    with tf.Graph().as_default():
        found = column_layers.make_place_holder_tensors_for_base_features(given)
        assert found["x"].shape.as_list() == [None, 2]
        assert isinstance(found["word"], tf.SparseTensor)


def test_inferred_columns():
    """Columns are inferred from arrays and from an input_fn; strings are refused."""
    (column,) = column_layers.infer_real_valued_columns_from_input(np.zeros([3, 4]))
    assert (column.name, column.dimension, column.dtype) == ("", 4, tf.float64)
    found = column_layers.infer_real_valued_columns_from_input_fn(
        lambda: ({"a": tf.zeros([3, 2]), "b": tf.zeros([3, 1], tf.int64)}, None)
    )
    assert [(column.name, column.dimension) for column in found] == [("a", 2), ("b", 1)]
    with pytest.raises(ValueError, match="Feature '' can't be a real valued column"):
        column_layers.infer_real_valued_columns_from_input(np.array(WORDS))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: columns.real_valued_column("x", None),
            "dimension must be an integer.*column_name: x",
        ),
        (lambda: columns.real_valued_column("x", 2, [1.0]), "length of default_value"),
        (lambda: columns.real_valued_column("x", normalizer=3), "normalizer must be a callable"),
        (lambda: columns.sparse_column_with_keys("w", []), "number of keys.*column_name: w"),
        (
            lambda: columns.sparse_column_with_keys("w", "a", combiner="max"),
            "combiner 'max' of col",
        ),
        (lambda: columns.sparse_column_with_hash_bucket("w", 0), "hash_bucket_size must be an int"),
        (
            lambda: columns.sparse_column_with_hash_bucket("w", 3, dtype=tf.float32),
            "dtype must be string or integer",
        ),
        (
            lambda: columns.sparse_column_with_integerized_feature("w", 3, dtype=tf.string),
            "dtype must be an integer",
        ),
        (lambda: columns.sparse_column_with_vocabulary_file("w", ""), "cannot be empty"),
        (lambda: columns.sparse_column_with_vocabulary_file("w", "f"), "vocab_size must be spec"),
        (lambda: columns.bucketized_column(keys(), [1]), "instance of _RealValuedColumn"),
        (
            lambda: columns.bucketized_column(columns.real_valued_column("x"), [2, 1]),
            "boundaries must be a sorted list",
        ),
        (lambda: columns.crossed_column([keys()], 5), "at least 2 elements"),
        (
            lambda: columns.crossed_column([keys(), columns.real_valued_column("x")], 5),
            "columns must be a set of _SparseColumn",
        ),
        (lambda: columns.embedding_column(columns.real_valued_column("x"), 2), "embedding_column"),
        (
            lambda: columns.embedding_column(keys(), 2, initializer=3),
            "initializer must be callable",
        ),
        (
            lambda: columns.embedding_column(keys(), 2, ckpt_to_load_from="c"),
            "`ckpt_to_load_from` and `tensor_name_in_ckpt`",
        ),
        (lambda: columns.shared_embedding_columns([], 2), "must not be empty"),
        (
            lambda: columns.shared_embedding_columns(
                [keys(), columns.sparse_column_with_hash_bucket("w", 7)], 2
            ),
            "not compatible",
        ),
        (lambda: columns.scattered_embedding_column("w", 9, 2, 1), "Use embedding_column"),
    ],
)
def test_wrong_columns(make, message):
    """A wrong argument of a column is an error that names the column and what is expected."""
    with pytest.raises((ValueError, TypeError, NotImplementedError), match=message):
        make()


@pytest.mark.parametrize(
    ("column", "feature", "message"),
    [
        (
            columns.real_valued_column("y"),
            [[1.0]],
            "Feature 'y' of a column is not in the features",
        ),
        (
            columns.real_valued_column("x", 2),
            [[1.0]],
            "dimension=2, but its feature has 1 elements",
        ),
        (keys(), [[1.0]], "Wrap it by embedding_column or one_hot_column"),
        (tf.feature_column.numeric_column("x"), [[1.0]], "no column of tf.contrib.layers"),
    ],
)
def test_wrong_layers(column, feature, message):
    """A layer refuses columns and features that don't fit, by name."""
    with (
        tf.Graph().as_default(),
        pytest.raises((ValueError, TypeError), match=message),
    ):
        column_layers.input_from_feature_columns({"x": tf.constant(feature)}, [column])


def test_embedding_in_a_linear_model():
    """A linear model refuses embeddings."""
    column = columns.embedding_column(keys(), 2)
    with tf.Graph().as_default(), pytest.raises(TypeError, match="Give the sparse column itself"):
        column_layers.weighted_sum_from_feature_columns({}, [column], 1)
    with tf.Graph().as_default(), pytest.raises(ValueError, match="must not be empty"):
        column_layers.weighted_sum_from_feature_columns({}, [], 1)
