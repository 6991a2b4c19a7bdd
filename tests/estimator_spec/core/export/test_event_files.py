# SPDX-License-Identifier: Apache-2.0
"""Scalars of event files."""

from __future__ import annotations

import tensorflow as tf

from estimator_spec.core.export import event_files

tf1 = tf.compat.v1


def test_only_simple_values_are_read(tmp_path):
    """Tensors and texts beside an evaluation's metrics are no metrics, nor are they alone."""
    text = tf.make_tensor_proto("model.ckpt-3", dtype=tf.string)
    with tf.Graph().as_default(), tf1.summary.FileWriter(str(tmp_path)) as writer:
        for step, values in (
            (1, [tf1.Summary.Value(tag="loss", simple_value=0.5)]),
            (1, [tf1.Summary.Value(tag="checkpoint_path", tensor=text)]),
            (
                2,
                [
                    tf1.Summary.Value(tag="loss", simple_value=0.0),
                    tf1.Summary.Value(tag="note", tensor=text),
                ],
            ),
        ):
            writer.add_summary(tf1.Summary(value=values), step)
    found = list(event_files.read_scalars(str(tmp_path / "*.tfevents.*")))
    assert found == [(1, {"loss": 0.5}), (2, {"loss": 0.0})]
