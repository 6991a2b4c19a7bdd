# SPDX-License-Identifier: Apache-2.0
"""Rows that a table gains."""

from __future__ import annotations

import math

import numpy as np
import tensorflow as tf

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
