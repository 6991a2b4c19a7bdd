# SPDX-License-Identifier: Apache-2.0
"""Tables in float16 and int8: what each value becomes."""

from __future__ import annotations

import numpy as np
import pytest

from estimator_spec.core.checkpoints import quantization


@pytest.mark.parametrize("value", [65504.0, 65520.0, 1e6, 3e38])
def test_float16_has_no_infinity(value):
    """Values beyond float16's range become its largest ones."""
    narrow, worth, scales = quantization.to_float16(np.array([[value, -value]], np.float32))
    assert narrow.tolist() == worth.tolist() == [[65504.0, -65504.0]]
    assert scales is None


def test_int8_steps():
    """Each row has its own scale, its largest value over 127; a row of zeros stays one."""
    rows = np.array([[1.27, -0.635, 0.004], [-254.0, 2.0, 1.1], [0, 0, 0]], np.float32)
    narrow, worth, scales = quantization.to_int8(rows)
    assert narrow.tolist() == [[127, -64, 0], [-127, 1, 1], [0, 0, 0]]
    np.testing.assert_allclose(scales, [[0.01], [2.0], [0.0]], rtol=1e-6)
    np.testing.assert_allclose(worth, narrow * scales, rtol=1e-6)
