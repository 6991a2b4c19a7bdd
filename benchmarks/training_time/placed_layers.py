# SPDX-License-Identifier: Apache-2.0
"""Puts feature layers, and with them their tables, on a device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

import tpu_columns


def place_feature_layers(device: str) -> None:
    """Wraps `tpu_columns.input_layer` and `sequence_input_layer` of this process in a device.

    Args:
        device: as for `tf.device`.
    """

    def placed(layer: Callable[..., Any]) -> Callable[..., Any]:
        def build(*args: Any, **kwargs: Any) -> Any:
            with tf.device(device):
                return layer(*args, **kwargs)

        return build

    tpu_columns.input_layer = placed(tpu_columns.input_layer)
    tpu_columns.sequence_input_layer = placed(tpu_columns.sequence_input_layer)
