# SPDX-License-Identifier: Apache-2.0
"""Writes summaries in host calls: scalars without TensorBoard, and writers of `contrib.summary`.

`tf.summary.scalar` is defined in TensorBoard, which TensorFlow installed up to 2.20. Host calls of
TPU programs write scalars; images, histograms and others need TensorBoard.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from estimator_spec.core._tensorflow import private

_SCALARS = tf.compat.v1.SummaryMetadata(
    plugin_data=tf.compat.v1.SummaryMetadata.PluginData(plugin_name="scalars"),
    data_class=1,  # DATA_CLASS_SCALAR
)


def scalar(name: str, data: Any, step: Any = None, description: str | None = None) -> Any:
    """Writes a number to the default summary writer, as `tf.summary.scalar` does.

    Args:
        name: the tag, prefixed by the current name scopes.
        data: a scalar.
        step: training step; None takes the default step.
        description: a description to show.

    Returns:
        Whether the summary was written: a boolean, or in a graph the writing op.
    """
    metadata = _SCALARS
    if description:
        metadata = tf.compat.v1.SummaryMetadata(summary_description=description)
        metadata.MergeFrom(_SCALARS)
    scope = tf.summary.experimental.summary_scope(name, "scalar_summary", values=[data, step])
    with scope as (tag, _):
        tf.debugging.assert_scalar(data)
        return tf.summary.write(tag, tf.cast(data, tf.float32), step, metadata=metadata)


def create_file_writer(*args: Any, **kwargs: Any) -> Any:
    """Creates a writer as `tf.contrib.summary.create_file_writer` did; also in a training loop.

    The writer belongs to the graph around the loop, whose session opens it.

    Args:
        *args: `logdir`, `max_queue`, `flush_millis`, `filename_suffix` and `name`.
        **kwargs: the same by name.
    """
    with tf.init_scope():
        return private.summary_ops.create_file_writer(*args, **kwargs)
