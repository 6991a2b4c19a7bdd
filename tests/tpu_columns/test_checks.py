# SPDX-License-Identifier: Apache-2.0
"""Checks of argument types."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tpu_columns.checks import is_int


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (3, True),
        (-1, True),
        (np.int32(3), True),
        (tf.compat.v1.Dimension(3), True),
        (True, False),
        (np.bool_(True), False),
        (3.0, False),
        (np.float32(3), False),
        ("3", False),
        (None, False),
        (tf.compat.v1.Dimension(None), False),
    ],
    ids=repr,
)
def test_is_int(value, expected):
    """Integers of any library are ints; bools, floats, strings and unknown sizes are not."""
    assert is_int(value) is expected
