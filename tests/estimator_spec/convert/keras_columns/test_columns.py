# SPDX-License-Identifier: Apache-2.0
"""Models of any feature columns equal the columns themselves, with their trained tables."""

from __future__ import annotations

import pytest
import tensorflow as tf
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import column_strategies as drawn
import goldens
import tpu_columns
from estimator_spec.core.common.legacy_keras import keras_2

pytest.importorskip("keras_rs", reason="needs the extra keras-rs")

tf1 = tf.compat.v1

# Two thousand examples at night, over the three properties.
LIVE = goldens.all_are_live()
SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large]


def some(at_night: int, with_each_change: int):
    """Returns the settings of a property: the same examples with each change, new ones at night."""
    number = at_night if LIVE else with_each_change
    return settings(
        max_examples=number, deadline=None, suppress_health_check=SLOW, derandomize=not LIVE
    )


@pytest.mark.timeout(7200)
@some(1200, 15)
@given(columns=drawn.DENSE, batch=drawn.features())
def test_input_layers_are_equal(columns, batch):
    """Dense columns of every kind give the same values, concatenated in the same order."""

    def build(features):
        return tpu_columns.input_layer(features, columns)

    drawn.check(build, batch, columns, layer="input_layer")


@pytest.mark.timeout(7200)
@some(600, 10)
@given(
    columns=drawn.LINEAR,
    batch=drawn.features(min_size=1),
    units=st.integers(1, 3),
    combiner=st.sampled_from(drawn.COMBINERS),
)
def test_linear_models_are_equal(columns, batch, units, combiner):
    """Categorical and dense columns give the same weighted sums, with a bias."""

    def build(features):
        return tf1.feature_column.linear_model(features, columns, units, combiner)

    drawn.check(build, batch, columns, layer="linear_model", units=units, sparse_combiner=combiner)


@pytest.mark.timeout(7200)
@some(400, 6)
@given(sequences=drawn.sequences())
def test_sequences_are_equal(sequences):
    """Sequences of embeddings, counts and numbers are the same, and as long."""
    columns, batch = sequences

    def build(features):
        return keras_2().experimental.SequenceFeatures(columns)(features)

    drawn.check(build, batch, columns)
