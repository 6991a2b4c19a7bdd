# SPDX-License-Identifier: Apache-2.0
"""Reads the scalars of earlier evaluations from TensorBoard's event files.

Early stopping and `BestExporter` thus include evaluations of earlier processes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import tensorflow as tf


def read_scalars(pattern: str) -> Iterator[tuple[int, dict[str, float]]]:
    """Reads event files in the order of their names, which is their order in time.

    A file that is damaged or incomplete is read up to its last valid event.

    Args:
        pattern: glob pattern of the files, such as '/models/census/eval/*.tfevents.*'.

    Yields:
        (global step, value by tag) for each event with simple values.
    """
    for path in sorted(tf.io.gfile.glob(pattern)):
        for event in _events(path):
            values = {
                value.tag: value.simple_value
                for value in event.summary.value
                if value.HasField("simple_value")
            }
            if values:
                yield event.step, values


def _events(path: str) -> Iterator[Any]:
    try:
        yield from tf.compat.v1.train.summary_iterator(path)
    except tf.errors.DataLossError as error:
        tf.compat.v1.logging.warning(
            "Skipping the rest of event file %s, which is damaged: %s", path, error.message
        )
