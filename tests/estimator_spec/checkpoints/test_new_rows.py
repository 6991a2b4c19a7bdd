# SPDX-License-Identifier: Apache-2.0
"""Rows that a table gains."""

from __future__ import annotations

import math

import numpy as np
import pytest
import tensorflow as tf

import estimator_spec
from estimator_spec import checkpoints
from estimator_spec.checkpoints import new_rows


def rows_of(name, seed, first=0, last=1000, width=4):
    """Returns some of a table's new rows."""
    return new_rows.truncated_normal(name, last, width, tf.float32, seed)(first, last)


def test_each_table_and_seed_has_its_own_rows():
    """The same table and seed give the same rows, another of either gives others."""
    np.testing.assert_array_equal(rows_of("a", 1), rows_of("a", 1))
    for other in (rows_of("b", 1), rows_of("a", 2)):
        assert (rows_of("a", 1) != other).mean() > 0.99


def test_values_are_within_two_deviations():
    """The deviation is 1/√width before the cut, which leaves 0.88 of it."""
    values = rows_of("a", 1, last=20_000, width=16)
    assert np.abs(values).max() <= 2 / math.sqrt(16)
    assert abs(values.std() - 0.8796 / math.sqrt(16)) < 0.002
    assert abs(values.mean()) < 0.002


@pytest.mark.parametrize(
    ("classifier", "suffix", "initial"),
    [
        (estimator_spec.canned.v1.DNNClassifier, "/Ftrl", 0.1),
        (estimator_spec.DNNClassifier, "/m", 0),
    ],
)
def test_slots_of_canned_models_grow_with_their_tables(tmp_path, classifier, suffix, initial):
    """A canned model's table with more rows trains on, whatever its generation calls the slots."""

    def make(rows, directory):
        ids = tf.feature_column.categorical_column_with_identity("user", rows)
        columns = [tf.feature_column.embedding_column(ids, 4)]
        optimizer = "Ftrl" if suffix == "/Ftrl" else "Adam"
        return classifier([4], columns, str(tmp_path / directory), optimizer=optimizer)

    def input_fn():
        users = np.arange(20)[:, np.newaxis]
        return tf.data.Dataset.from_tensors(({"user": users}, users % 2)).repeat(2)

    make(20, "old").train(input_fn)
    grow = {"user_embedding": 30}
    checkpoints.convert(tmp_path / "old", tmp_path / "new" / "model.ckpt-2", grow=grow)
    grown = make(30, "new")
    grown.train(input_fn)
    assert grown.get_variable_value("global_step") == 4
    (slot,) = [
        name
        for name in grown.get_variable_names()
        if "user_embedding" in name and name.endswith(suffix)
    ]
    np.testing.assert_allclose(grown.get_variable_value(slot)[20:], initial)
