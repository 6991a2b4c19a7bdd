# SPDX-License-Identifier: Apache-2.0
"""Checkpoints that fit a graph, and copies of those that don't."""

from __future__ import annotations

import os

import numpy as np
import pytest

from estimator_spec.core.checkpoints import relayout
from tpu_columns import RowPartition

TABLE = np.arange(21, dtype=np.float32).reshape(7, 3)


@pytest.mark.parametrize(
    ("before", "now", "copied"),
    [
        (("div", 3), ("div", 2), False),
        (("div", 2), ("mod", 1), False),
        (("mod", 1), ("div", 4), False),
        (("mod", 3), ("mod", 3), False),
        (("mod", 3), ("mod", 2), True),
        (("mod", 2), ("div", 1), True),
        (("div", 2), ("mod", 2), True),
    ],
)
def test_copies_are_made_of_permuted_rows_only(files, before, now, copied):
    """TensorFlow joins slices itself, so only another order of rows needs a copy."""
    prefix = files.write({"table": TABLE, "step": 3}, {"table": before})
    layout = RowPartition(now[0], 7, now[1])
    with relayout.adapt_checkpoint(prefix, {"table": layout}) as found:
        assert (found.prefix != prefix) == copied
        read = files.read(found.prefix)
        np.testing.assert_array_equal(read["table"], TABLE[layout.inverse_permutation()])
    assert os.path.exists(found.prefix + ".index") == (not copied)
