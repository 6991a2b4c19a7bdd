# SPDX-License-Identifier: Apache-2.0
"""Checks exports with quantized tables, and reports what the quantization loses."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

import tensorflow as tf

from tpu_columns import storage

if TYPE_CHECKING:
    from estimator_spec.core.checkpoints.quantization import QuantizationStats

tf1 = tf.compat.v1


def check_saver(saver: tf1.train.Saver) -> None:
    """Checks that quantized tables exist, and that TensorFlow's default saver restores them.

    Args:
        saver: the saver of the model's scaffold, or None.

    Raises:
        ValueError: says what to do.
    """
    graph = tf1.get_default_graph()
    dtype = storage.current().dtype
    if dtype == "float32":
        return
    if not storage.layouts(graph):
        raise ValueError(
            f"tables={dtype!r}, but the model makes no table of a TPU embedding column. Use "
            "tpu_columns.embedding_column, or leave `tables` out."
        )
    if saver is not None:
        raise ValueError(
            f"tables={dtype!r} needs TensorFlow's own saver, but the model's scaffold has one "
            "(for moving averages?), which could fill tables from other variables. Leave `tables` "
            "out, or copy the averages into a checkpoint of their own before."
        )


def report_losses(losses: Mapping[str, QuantizationStats], dtype: str, directory: str) -> None:
    """Logs what quantized tables lose, and writes it to `assets.extra/tables.json`.

    Args:
        losses: losses by table.
        dtype: dtype of the exported tables.
        directory: directory of the SavedModel.
    """
    if not losses:
        return
    report = {}
    for name, loss in sorted(losses.items()):
        tf1.logging.info("Table %s is stored as %s: %s.", name, dtype, loss)
        report[name] = {
            "dtype": dtype,
            "largest_error": loss.largest,
            "rms_error": loss.rms,
            "rms_of_table": loss.table_rms,
        }
    path = os.path.join(directory, "assets.extra", "tables.json")
    tf.io.gfile.makedirs(os.path.dirname(path))
    with tf.io.gfile.GFile(path, "w") as file:
        file.write(json.dumps(report, indent=1) + "\n")
