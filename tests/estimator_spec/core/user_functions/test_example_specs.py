# SPDX-License-Identifier: Apache-2.0
"""Parsing specs of canned models: features, label and weight, and names that collide."""

from __future__ import annotations

import pytest
import tensorflow as tf

import estimator_spec as es

A = tf.feature_column.numeric_column("a")
B = tf.feature_column.embedding_column(
    tf.feature_column.categorical_column_with_hash_bucket("b", 10), 2
)
FEATURES = {"a": tf.io.FixedLenFeature((1,), tf.float32), "b": tf.io.VarLenFeature(tf.string)}
BOTH = pytest.mark.parametrize(
    "make", [es.classifier_parse_example_spec, es.regressor_parse_example_spec]
)


def test_a_class_is_an_integer():
    """A classifier's label is one class id."""
    spec = es.classifier_parse_example_spec([A, B], "c")
    assert spec == {**FEATURES, "c": tf.io.FixedLenFeature((1,), tf.int64)}


def test_a_class_may_be_a_word():
    """A classifier's label may be a name with a default, and examples may have weights."""
    spec = es.classifier_parse_example_spec(
        [A, B], "c", label_dtype=tf.string, label_default="none", weight_column="w"
    )
    assert spec == {
        **FEATURES,
        "c": tf.io.FixedLenFeature((1,), tf.string, "none"),
        "w": tf.io.FixedLenFeature((1,), tf.float32),
    }


def test_a_value_is_a_float():
    """A regressor's label has as many floats as it has dimensions."""
    spec = es.regressor_parse_example_spec([A, B], "c", label_dimension=2, label_default=[0.0, 1.0])
    assert spec == {**FEATURES, "c": tf.io.FixedLenFeature((2,), tf.float32, [0.0, 1.0])}


@BOTH
def test_a_weight_column_may_be_numeric(make):
    """The weight may be a column, whose dtype the spec has."""
    weight = tf.feature_column.numeric_column("w", dtype=tf.int64)
    assert make([A], "c", weight_column=weight)["w"].dtype == tf.int64


@BOTH
def test_serialized_examples_are_parsed(make):
    """`tf.io.parse_example` takes the spec."""
    spec = make([A], "c", label_dtype=tf.int64, weight_column="w")
    feature = {
        "a": tf.train.Feature(float_list=tf.train.FloatList(value=[0.5])),
        "c": tf.train.Feature(int64_list=tf.train.Int64List(value=[3])),
        "w": tf.train.Feature(float_list=tf.train.FloatList(value=[2.0])),
    }
    example = tf.train.Example(features=tf.train.Features(feature=feature))
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        parsed = session.run(tf.io.parse_example([example.SerializeToString()], spec))
    assert {key: value.tolist() for key, value in parsed.items()} == {
        "a": [[0.5]],
        "c": [[3]],
        "w": [[2.0]],
    }


@BOTH
def test_a_label_must_not_be_a_feature(make):
    """A label with the name of a feature is refused."""
    with pytest.raises(ValueError, match="label should not be used as feature. label_key: a"):
        make([A, B], "a")


@BOTH
@pytest.mark.parametrize("name", ["a", "c"])
def test_a_weight_must_not_be_a_feature_or_label(make, name):
    """A weight with the name of a feature or of the label is refused."""
    with pytest.raises(ValueError, match="weight_column should not be used as feature"):
        make([A, B], "c", weight_column=name)


@BOTH
def test_a_weight_column_must_be_numeric(make):
    """A weight column of another kind is refused."""
    with pytest.raises(ValueError, match="weight_column should be an instance of.*numeric_column"):
        make([A], "c", weight_column=B)


@BOTH
def test_same_as_the_old_functions(old_estimator, make):
    """TensorFlow 2.15's functions give the same specs, and take the same arguments."""
    for theirs in (old_estimator, tf.estimator):
        old = getattr(theirs, make.__name__)
        for arguments in ({}, {"weight_column": "w"}, {"label_default": 1}):
            assert make([A, B], label_key="c", **arguments) == old(
                [A, B], label_key="c", **arguments
            )
