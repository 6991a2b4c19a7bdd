# SPDX-License-Identifier: Apache-2.0
"""Infers real valued columns from what an estimator will train on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from estimator_spec.legacy.contrib.learn import arrays, column_layers
from estimator_spec.legacy.contrib.learn.column_types import RealValuedColumn


def infer_real_valued_columns_from_input_fn(input_fn: Callable[[], Any]) -> list[RealValuedColumn]:
    """Returns a real valued column for each feature of an input_fn.

    Args:
        input_fn: function that returns (features, labels), called in a graph of its own.

    Raises:
        ValueError: a feature isn't [batch, elements], or no number.
    """
    with tf.Graph().as_default():
        result = input_fn()
        if isinstance(result, tf.data.Dataset):
            result = tf.compat.v1.data.make_one_shot_iterator(result).get_next()
        features = result[0] if isinstance(result, (tuple, list)) else result
        return column_layers.infer_real_valued_columns(features)


def infer_real_valued_columns_from_input(x: Any) -> list[RealValuedColumn]:
    """Returns a real valued column for each feature of arrays.

    Args:
        x: an array [examples, elements], or arrays by name.

    Raises:
        ValueError: an array has another shape, or no numbers.
    """
    return infer_real_valued_columns_from_input_fn(arrays.input_fn_of(x))
