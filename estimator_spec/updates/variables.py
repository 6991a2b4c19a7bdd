# SPDX-License-Identifier: Apache-2.0
"""Reads a variable's static shape, and whether it is a reference variable, from its tensor."""

from __future__ import annotations

from typing import Any

import tensorflow as tf


def static_shape(variable: Any) -> tf.TensorShape | None:
    """Returns a variable's shape, or None if the graph doesn't tell it.

    Args:
        variable: a handle, or the value of a reference variable.
    """
    if variable.dtype != tf.resource:
        return variable.shape
    if variable.op.type != "VarHandleOp":
        return None
    return tf.TensorShape(variable.op.get_attr("shape"))


def is_reference(value: Any) -> bool:
    """Returns whether a tensor is a reference variable, whose value changes within a step."""
    return bool(value.dtype != value.dtype.base_dtype)
