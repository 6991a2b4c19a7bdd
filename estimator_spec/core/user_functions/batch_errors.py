# SPDX-License-Identifier: Apache-2.0
"""Explains the assertions of heads about the labels and weights of a batch, when one fails."""

from __future__ import annotations

import re

import tensorflow as tf

# What an Assert op reports: the message, a condition, the name and the values of a tensor.
_FAILED = re.compile(r"assertion failed: \[(.+?)\s*\] \[(?:(?:Condition|Tensor) |\w+_shape: \])")
_VALUES = re.compile(
    r"\[(?:x \([^)]*\) = |(?:labels|weights|loss)_shape: )\] (\[.*?\])(?: \[y \(|\s*\n|\s*$)"
)
_OF_HEADS = re.compile(r"[Ll]abels must |(labels|weights|logits) shape must |loss_fn must ")


class BatchError(tf.errors.InvalidArgumentError, ValueError):
    """The labels, weights or logits of a batch aren't what a head expects."""


def explain(error: tf.errors.InvalidArgumentError) -> BatchError | None:
    """Returns an error with the message of a head's assertion and the values that failed it.

    Args:
        error: error of a session.

    Returns:
        An error to raise from `error`, or None if no assertion of a head failed.
    """
    failed = _FAILED.search(error.message or "")
    if failed is None or not _OF_HEADS.match(failed.group(1)):
        return None
    values = _VALUES.search(error.message)
    text = failed.group(1).replace("\\'", "'").rstrip(".")
    if values:
        text += f". The batch has {values.group(1)}"
    return BatchError(error.node_def, error.op, f"{text}. Correct them in input_fn.")
