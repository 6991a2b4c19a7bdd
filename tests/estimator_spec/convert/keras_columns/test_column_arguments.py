# SPDX-License-Identifier: Apache-2.0
"""Each argument of each constructor of columns moves, is refused, or changes nothing."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
import tensorflow as tf

import column_strategies as drawn
import column_table
import tpu_columns
from argument_table import MOVES, NO_EFFECT
from column_table import BATCH, COLUMNS, CONSTRUCTORS
from estimator_spec.convert.keras_columns.dense import is_sequence
from estimator_spec.core.common.legacy_keras import keras_2

fc = tf.feature_column


@pytest.mark.parametrize("name", CONSTRUCTORS)
def test_the_table_has_every_argument(name):
    """Each argument of the constructor of this TensorFlow has a verdict, and each verdict one."""
    assert set(inspect.signature(CONSTRUCTORS[name]).parameters) == set(COLUMNS[name].arguments)
    verdicts = COLUMNS[name].arguments.values()
    assert all(verdict.value for verdict in verdicts if verdict.kind == NO_EFFECT)


def layer_of(columns):
    """Returns the layer of columns that reads all of them."""
    sequences = any(map(is_sequence, columns))
    if isinstance(columns[0], tpu_columns.TPUEmbeddingColumn):
        layer = tpu_columns.sequence_input_layer if sequences else tpu_columns.input_layer
        return lambda features: layer(features, columns)
    if "_Shared" in type(columns[0]).__name__:
        return lambda features: tf.compat.v1.feature_column.input_layer(features, columns)
    if sequences:
        return keras_2().experimental.SequenceFeatures(columns)
    return keras_2().layers.DenseFeatures(columns)


def values_of(name, options, folder):
    """Returns what a layer of a column gives, and the shapes of trained tables, in both."""
    from estimator_spec.convert import to_keras

    columns = COLUMNS[name].columns(options)
    expected, checkpoint, _ = drawn.run_columns(layer_of(columns), BATCH, folder)
    model = to_keras(columns, checkpoint)
    found = model({key: value.tensor(for_columns=True) for key, value in BATCH.items()})
    found = list(found.values()) if isinstance(found, dict) else [found]
    expected = list(expected) if isinstance(expected, tuple) else [expected]
    for old, new in zip(expected, found, strict=True):
        np.testing.assert_allclose(new, old, rtol=1e-6, atol=1e-6)
    return expected, [tuple(table.shape) for table in model.core.trainable_variables]


CASES = [
    (name, argument, verdict)
    for name, row in COLUMNS.items()
    for argument, verdict in row.arguments.items()
    if verdict.kind == MOVES
]


@pytest.mark.parametrize(
    ("name", "argument", "verdict"), CASES, ids=[f"{case[0]}-{case[1]}" for case in CASES]
)
def test_an_argument_moves(name, argument, verdict, tmp_path):
    """The layer gives the column's values with the argument, which are others than without it."""
    pytest.importorskip("keras_rs", reason="needs the extra keras-rs")
    values, shapes = values_of(
        name, {**verdict.others, argument: verdict.value}, str(tmp_path / "with")
    )
    try:
        usual, usual_shapes = values_of(name, verdict.others, str(tmp_path / "without"))
    except (TypeError, ValueError, tf.errors.InvalidArgumentError):
        return  # the column itself needs the argument with such features
    assert shapes != usual_shapes or any(
        not np.array_equal(old, new, equal_nan=True) for old, new in zip(usual, values, strict=True)
    )


def test_columns_of_tensorflow_for_tpus():
    """TensorFlow's own columns for TPUs are refused by their names."""
    pytest.importorskip("keras_rs", reason="needs the extra keras-rs")
    from estimator_spec.convert import to_keras

    with tf.Graph().as_default():
        made = column_table.of_tensorflow_for_tpus()
    for columns in made.values():
        with pytest.raises(ValueError, match="has no counterpart"):
            to_keras(columns)
