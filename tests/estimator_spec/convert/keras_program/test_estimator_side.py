# SPDX-License-Identifier: Apache-2.0
"""What the estimator gives for a batch, and why it takes none."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf

from estimator_spec.convert.keras_program import estimator_side
from estimator_spec.convert.keras_program.batches import Batch
from estimator_spec.heads.canned_model import ModelPart

fc = tf.feature_column


@pytest.mark.parametrize(
    "wrap", [fc.indicator_column, lambda column: fc.embedding_column(column, 2)]
)
def test_refused_weights_are_named(wrap, tmp_path):
    """A batch with other numbers of ids and weights is refused by the names of the features."""
    words = fc.categorical_column_with_identity("words", 9)
    column = fc.indicator_column(fc.weighted_categorical_column(words, "weights"))
    features = {"words": np.array([[1, 2]]), "weights": np.array([[1.0, 0.0]], np.float32)}
    batch = Batch("edge values", features, None, is_made=True)
    sources = SimpleNamespace(found={}, checkpoint="")
    notes = []

    def outputs(batch):
        return estimator_side.part_columns(ModelPart("dnn", None, None, [column]), sources, batch)

    assert not [*estimator_side.accepted([batch], outputs, notes)]
    (note,) = notes
    assert note.startswith(
        f"The edge values weren't compared: the estimator refuses a batch: Column {column.name!r}: "
    )
    assert "feature 'words' must have a weight for each id" in note and "'weights'" in note
    with pytest.raises(estimator_side.EstimatorRefusesError):
        next(estimator_side.accepted([batch._replace(is_made=False)], outputs, notes))
