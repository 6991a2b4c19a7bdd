# SPDX-License-Identifier: Apache-2.0
"""Compares outcomes of heads, as `head_calls` encodes them."""

from __future__ import annotations

import numpy as np
from head_calls import decoded

# What errors of the reference say; ours say the same, of whatever class.
KEY_WORDS = (
    "You must provide a labels Tensor",
    "logits shape must be",
    "labels shape must be",
    "weights shape must be",
    "Mismatched label shape",
    "Labels must",
    "labels must be",
    "must have rank at least 2",
    "has missing values for head",
    "Could not split logits",
)


def assert_same(actual, expected, tolerance, where="outcome"):
    """Asserts that two outcomes have the same structure, names, dtypes and shapes, and values."""
    assert type(actual) is type(expected), where
    if isinstance(expected, dict):
        assert sorted(actual, key=str) == sorted(expected, key=str), where
        for key, value in expected.items():
            assert_same(actual[key], value, tolerance, f"{where}, {key}")
    elif isinstance(expected, (list, tuple)):
        assert len(actual) == len(expected), where
        for number, value in enumerate(expected):
            assert_same(actual[number], value, tolerance, f"{where}, {number}")
    elif isinstance(expected, np.ndarray):
        assert (actual.dtype, actual.shape) == (expected.dtype, expected.shape), where
        if expected.dtype.kind == "f":
            largest = float(np.abs(expected).max(initial=0.0))
            atol = tolerance * max(1e-2, largest)
            np.testing.assert_allclose(actual, expected, tolerance, atol, err_msg=where)
        else:
            np.testing.assert_array_equal(actual, expected, err_msg=where)
    else:
        assert actual == expected, where


def assert_same_outcome(actual, expected, tolerance):
    """Asserts equal values, or a refusal with the key words of the reference's."""
    if "error" not in expected:
        assert "error" not in actual, actual
        assert_same(decoded(actual), decoded(expected), tolerance)
        return
    assert "error" in actual, f"accepted, but the reference says {expected}"
    for words in KEY_WORDS:
        if words in expected["message"]:
            assert words in actual["message"], (actual, expected)
