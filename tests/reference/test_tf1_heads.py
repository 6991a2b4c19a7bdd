# SPDX-License-Identifier: Apache-2.0
"""Equality of the heads of `tf.contrib.estimator` with those of TensorFlow 1.15.5.

`write_tf1_heads.py` recorded what these make of a batch: TensorFlow 2.15.1 hasn't got them.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from head_calls import decoded, graph_outcome, outcome
from head_outcomes import assert_same_outcome

from estimator_spec.heads.first_generation import contrib

RECORD = Path(__file__).resolve().parents[1] / "data" / "tf1_15_heads.json"
CASES = json.loads(RECORD.read_text())["cases"]


@pytest.mark.parametrize("number", range(len(CASES)))
def test_same_as_tensorflow_1(number, tolerance):
    """Losses, metrics, predictions, outputs and one training step are the same."""
    case, expected = CASES[number]
    found = json.loads(json.dumps(outcome(contrib, decoded(case), graph_outcome)))
    assert_same_outcome(found, expected, tolerance)
