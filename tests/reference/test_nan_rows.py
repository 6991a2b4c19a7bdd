# SPDX-License-Identifier: Apache-2.0
"""NaN and infinity in tables and gradients, under TensorFlow 2.15.1's own TPUEstimator and ours."""

from __future__ import annotations

import numpy as np
import pytest

import goldens
from goldens import NAN_ROWS

pytestmark = [pytest.mark.reference, pytest.mark.slow]


@pytest.mark.parametrize("optimizer", NAN_ROWS.names)
def test_nan_and_infinity_stay_where_the_reference_has_them(sides, optimizer):
    """Tables, slots, metrics, predictions and a served model are spoiled in the same elements."""
    run = sides(NAN_ROWS, optimizer)
    pair = []
    for side in (run.ours, run.reference):
        # An infinite slot is NaN after the next step of the fused op.
        slots = {n: np.where(np.isfinite(v), v, np.nan) for n, v in side.items() if "/Adam" in n}
        pair.append({**side, **slots})
    groups = ("predictions", "metrics", "variables", "served")
    goldens.assert_same(run.name, *pair, *groups, tolerance=run.tolerance)
    variables = goldens.group(run.reference, "variables")
    tables = [value for name, value in variables.items() if name.endswith("embedding_weights")]
    assert all(0 < np.isfinite(table).mean() < 1 for table in tables)
    assert 0 < np.isfinite(run.reference["predictions:x"]).mean() < 1
