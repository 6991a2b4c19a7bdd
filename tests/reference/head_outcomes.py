# SPDX-License-Identifier: Apache-2.0
"""Compares outcomes of heads, as `head_calls` encodes them."""

from __future__ import annotations

from head_calls import decoded

import goldens

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


def assert_same_outcome(actual, expected, tolerance):
    """Asserts equal names, dtypes, shapes, values; or a refusal with the reference's key words."""
    if "error" not in expected:
        assert "error" not in actual, actual
        found = list(
            goldens.differences(decoded(actual), decoded(expected), lambda entry: tolerance)
        )
        assert not found, "\n".join(found[:20])
        return
    assert "error" in actual, f"accepted, but the reference says {expected}"
    for words in KEY_WORDS:
        if words in expected["message"]:
            assert words in actual["message"], (actual, expected)
