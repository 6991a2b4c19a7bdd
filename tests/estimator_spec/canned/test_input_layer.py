# SPDX-License-Identifier: Apache-2.0
"""The input of deep models: values and variables of TensorFlow's own `input_layer`."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from estimator_spec.canned import input_layer

tf1 = tf.compat.v1
fc = tf.feature_column


def initializer(seed):
    """Returns a seeded initializer of tables."""
    return tf1.truncated_normal_initializer(seed=seed)


def features():
    """Returns dense and sparse features; the second example has no id."""
    return {
        "x": tf.constant([[1.0], [2.0], [3.0]]),
        "word": tf.constant([["a", "b"], ["", ""], ["c", "a"]]),
        "id": tf.SparseTensor([[0, 0], [0, 1], [2, 0]], [3, 1, 3], [3, 2]),
        "weight": tf.SparseTensor([[0, 0], [0, 1], [2, 0]], [0.5, 2.0, 1.0], [3, 2]),
    }


def columns():
    """Returns dense columns of all kinds."""
    ids = fc.categorical_column_with_identity("id", 5)
    words = fc.categorical_column_with_hash_bucket("word", 6)
    buckets = fc.bucketized_column(fc.numeric_column("x"), [1.5])
    return [
        fc.numeric_column("x"),
        buckets,
        fc.indicator_column(words),
        fc.embedding_column(ids, 2, initializer=initializer(1)),
        fc.embedding_column(
            fc.weighted_categorical_column(ids, "weight"), 3, "sum", initializer(2)
        ),
        fc.embedding_column(words, 2, "sqrtn", initializer(3)),
        fc.embedding_column(fc.crossed_column(["word", buckets], 9), 2, "mean", initializer(4)),
    ]


def evaluate(layer):
    """Returns the values of a layer, and its variables' names."""
    with tf.Graph().as_default():
        tensor = layer(features(), columns())
        with tf1.Session() as session:
            session.run([tf1.global_variables_initializer(), tf1.tables_initializer()])
            return session.run(tensor), [v.op.name for v in tf1.trainable_variables()]


def test_values_and_variables_are_those_of_input_layer():
    """The layer equals `tf.compat.v1.feature_column.input_layer`, whose lookups are slower."""
    (ours, names), (theirs, their_names) = map(
        evaluate, (input_layer.build, tf1.feature_column.input_layer)
    )
    np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-6)
    assert sorted(names) == sorted(their_names)


def test_v1_shared_columns():
    """Shared columns of TF1, which have its protocol only, are accepted."""
    ids = fc.categorical_column_with_identity("id", 5)
    others = fc.categorical_column_with_identity("other", 5)
    with tf.Graph().as_default():
        shared = tf1.feature_column.shared_embedding_columns([ids, others], 2)
        tensor = input_layer.build(
            {**features(), "other": tf.constant([[1], [2], [3]])}, [*shared, fc.numeric_column("x")]
        )
        assert tensor.shape[1] == 5
        assert len(tf1.trainable_variables()) == 1


@pytest.mark.parametrize(
    ("options", "is_fast"),
    [({}, True), ({"max_norm": 1.0}, False), ({"trainable": False}, True)],
    ids=["plain", "max_norm", "frozen"],
)
def test_which_columns_are_looked_up_fast(options, is_fast):
    """Columns that this project's lookup can't represent keep TensorFlow's."""
    ids = fc.categorical_column_with_identity("id", 5)
    column = fc.embedding_column(ids, 2, **options)
    assert input_layer.is_looked_up_fast(column) is is_fast
    assert not input_layer.is_looked_up_fast(fc.numeric_column("x"))
    with tf.Graph().as_default():
        assert input_layer.build(features(), [column]).shape[1] == 2
        (variable,) = tf1.global_variables()
        assert variable.trainable is options.get("trainable", True)
