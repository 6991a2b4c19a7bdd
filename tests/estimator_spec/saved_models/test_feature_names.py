# SPDX-License-Identifier: Apache-2.0
"""Keys of features that are found where a receiver gave its inputs other names."""

from __future__ import annotations

import pytest
import tensorflow as tf

from estimator_spec.saved_models import feature_names
from estimator_spec.saved_models.columns import RecoveredColumn

fc = tf.feature_column

IDS = fc.categorical_column_with_identity("in_2", 9)
BUCKETS = fc.bucketized_column(fc.numeric_column("in_1"), [0.0, 1.0])
AGE = (fc.numeric_column("in_1"), "linear/linear_model/age/weights")


def recovered(column, place):
    """Returns a column with a variable, or with the tensor of a deep model's input."""
    is_variable = place.endswith("weights")
    return RecoveredColumn(column, "" if is_variable else place, place if is_variable else None)


@pytest.mark.parametrize(
    ("generation", "columns", "expected"),
    [
        (1, [AGE], {"in_1": "age"}),
        (1, [(BUCKETS, "linear/linear_model/age_bucketized/weights")], {"in_1": "age"}),
        (
            2,
            [
                (
                    fc.weighted_categorical_column(IDS, "in_3"),
                    "linear/linear_model/word_weighted_by_share/weights",
                )
            ],
            {"in_2": "word", "in_3": "share"},
        ),
        (
            1,
            [(fc.embedding_column(IDS, 2), "dnn/layer/word_embedding/embedding_weights")],
            {"in_2": "word"},
        ),
        (1, [(BUCKETS, "dnn/input_layer/x_1_bucketized/Reshape:0")], {"in_1": "x_1"}),
        (2, [(BUCKETS, "dnn/input_layer/age_bucketized_1/Reshape:0")], {"in_1": "age"}),
        (2, [(BUCKETS, "dnn/input_layer/concat/concat:0")], {}),
        (1, [(fc.numeric_column("a b"), "linear/linear_model/a_b/weights")], {}),
        (  # one of a cross is known by another column, and the other one is what is left
            1,
            [
                AGE,
                (
                    fc.crossed_column([BUCKETS, "in_4"], 9),
                    "linear/linear_model/age_bucketized_X_city/weights",
                ),
            ],
            {"in_1": "age", "in_4": "city"},
        ),
        (1, [(fc.crossed_column(["c", "d"], 9), "linear/linear_model/a_X_b/weights")], {}),
    ],
)
def test_keys_are_those_of_the_scopes(generation, columns, expected):
    """Renamed columns have the names that their scopes have; what stays unknown is named."""
    found = [recovered(*each) for each in columns]
    keys = feature_names.own_keys(found, generation)
    assert {old: new for each in keys for old, new in each.items()} == expected
    renamed = [
        recovered(feature_names.rename(column, names), place)
        for (column, place), names in zip(columns, keys, strict=True)
    ]
    if expected:
        assert not list(feature_names.misfits(renamed, ()))


def test_names_that_are_not_found_are_told():
    """Columns of other names than their variables, or in another order, are misfits."""
    cross = recovered(fc.crossed_column(["c", "d"], 9), "linear/linear_model/a_X_b/weights")
    deep = [recovered(fc.numeric_column(key), f"layer/{key}:0") for key in ("b", "a", "c")]
    one, other = feature_names.misfits([cross], deep)
    assert one.startswith("linear/linear_model/a_X_b/weights: the graph's inputs make")
    assert other.startswith("layer/a:0: the input layer has 'a' after 'b'")
