# SPDX-License-Identifier: Apache-2.0
"""What an op's input tells of the variable that it is."""

from __future__ import annotations

from typing import Any

import tensorflow as tf


def shape_of(variable: Any) -> tf.TensorShape | None:
    """Returns a variable's shape, or None where that can't be told.

    Args:
      variable: a handle, or what was read of a reference variable.
    """
    if variable.dtype != tf.resource:
        return variable.shape
    if variable.op.type != "VarHandleOp":
        return None
    return tf.TensorShape(variable.op.get_attr("shape"))


def is_reference(value: Any) -> bool:
    """Whether a tensor is a reference variable's memory: one value now, another later."""
    return bool(value.dtype != value.dtype.base_dtype)
