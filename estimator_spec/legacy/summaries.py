# SPDX-License-Identifier: Apache-2.0
"""Summaries where TensorBoard isn't installed.

`tf.summary.scalar` lives in TensorBoard, which older TensorFlows brought along. Host calls of TPU
programs write scalars; images, histograms and the like need TensorBoard to be installed.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

_SCALARS = tf.compat.v1.SummaryMetadata(
    plugin_data=tf.compat.v1.SummaryMetadata.PluginData(plugin_name="scalars"),
    data_class=1,  # DATA_CLASS_SCALAR
)


def scalar(name: str, data: Any, step: Any = None, description: str | None = None) -> Any:
    """Writes a number to the default summary writer, as `tf.summary.scalar` does.

    Args:
        name: its tag, behind the name scopes around.
        data: a scalar.
        step: of the training; None takes the default step.
        description: a text for people.

    Returns:
        Whether a writer took it: a boolean, or in a graph the operation that writes.
    """
    metadata = _SCALARS
    if description:
        metadata = tf.compat.v1.SummaryMetadata(summary_description=description)
        metadata.MergeFrom(_SCALARS)
    scope = tf.summary.experimental.summary_scope(name, "scalar_summary", values=[data, step])
    with scope as (tag, _):
        tf.debugging.assert_scalar(data)
        return tf.summary.write(tag, tf.cast(data, tf.float32), step, metadata=metadata)
