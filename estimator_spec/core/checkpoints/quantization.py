# SPDX-License-Identifier: Apache-2.0
"""Quantizes tables (float16, int8) and reports the error.

The formats are those of `tpu_columns.storage`.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from estimator_spec.core.checkpoints.bundle import Checkpoint, StoredVariable
from estimator_spec.core.checkpoints.output_variables import OutputVariable, Writes
from estimator_spec.core.checkpoints.row_mapping import PieceShapes
from estimator_spec.core.checkpoints.rows import RowReader, chunks
from estimator_spec.core.checkpoints.writing import CheckpointWriter, PieceWriter
from tpu_columns.partition import RowPartition
from tpu_columns.storage import SCALE, table_bytes

_CHUNK = 4 << 20


@dataclasses.dataclass
class QuantizationStats:
    """Quantization error of a table, accumulated while it is written.

    Attributes:
        largest: largest absolute error of an element.
        rms: root mean square of the error of all elements.
        table_rms: root mean square of the table's elements.
    """

    largest: float = 0.0
    rms: float = 0.0
    table_rms: float = 0.0
    _squares: float = 0.0
    _table_squares: float = 0.0
    _count: int = 0

    def add(self, before: np.ndarray, after: np.ndarray) -> None:
        """Adds rows before and after quantization."""
        error = np.abs(before - after)
        self.largest = max(self.largest, float(error.max(initial=0.0)))
        self._squares += float(np.square(error, dtype=np.float64).sum())
        self._table_squares += float(np.square(before, dtype=np.float64).sum())
        self._count += before.size
        if self._count:
            self.rms = (self._squares / self._count) ** 0.5
            self.table_rms = (self._table_squares / self._count) ** 0.5

    def __str__(self) -> str:
        part = self.rms / self.table_rms if self.table_rms else 0.0
        return f"largest error {self.largest:.3g}, root mean square {part:.2%} of the table's"


def to_float16(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, None]:
    """Rounds rows to float16: (quantized, dequantized, None)."""
    limit = np.finfo(np.float16).max
    narrow = np.clip(rows, -limit, limit).astype(np.float16)
    return narrow, narrow.astype(np.float32), None


def to_int8(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rounds each row to int8 by its own scale: (quantized, dequantized, scales [n, 1]).

    >>> narrow, _, scale = to_int8(np.array([[1.0, -0.5, 0.0], [0.0, 0.0, 0.0]], np.float32))
    >>> narrow.tolist(), (scale * 127).round(3).tolist()
    ([[127, -64, 0], [0, 0, 0]], [[1.0], [0.0]])
    """
    scales = np.abs(rows).max(axis=1, keepdims=True, initial=0.0) / np.float32(127)
    steps = np.divide(rows, scales, out=np.zeros_like(rows), where=scales > 0)
    narrow = np.clip(np.rint(steps), -127, 127).astype(np.int8)
    return narrow, narrow * scales, scales.astype(np.float32)


def quantized(
    name: str,
    variable: StoredVariable,
    before: RowPartition,
    dtype: str,
    stats: QuantizationStats,
) -> OutputVariable:
    """Returns a quantized table, unsharded and in row order; for int8 it writes its scales, too.

    Args:
        name: name in the target.
        variable: the variable of the source, float32.
        before: layout in the source.
        dtype: 'float16' or 'int8'.
        stats: quantization error, filled in during writing.
    """
    rows, width = variable.shape
    num_bytes = table_bytes(rows, width, dtype)
    kind = tf.as_dtype(dtype)

    def writes(source: Checkpoint, target: CheckpointWriter) -> Writes:
        pieces: PieceShapes = [((), (rows, width), rows * width * kind.size)]
        writers = target.add(name, kind, (rows, width), pieces)
        if dtype == "int8":
            pieces = [((), (rows, 1), rows * 4)]
            writers += target.add(name + SCALE, tf.float32, (rows, 1), pieces)
        reader = RowReader(source, variable, before)
        for first, last in chunks(rows, variable.rows_in(_CHUNK)):
            values = reader.read(first, last).view(np.float32)
            if last == rows:
                reader.finish()  # before the last rows are judged
            _check_finite(values, first, variable.name, dtype)
            narrow, dequantized, scales = (to_int8 if dtype == "int8" else to_float16)(values)
            stats.add(values, dequantized)
            parts = (narrow,) if scales is None else (narrow, scales)
            yield functools.partial(_write_all, writers, parts), (last - first) * num_bytes // rows

    return OutputVariable(name, num_bytes, writes)


def _write_all(writers: Sequence[PieceWriter], parts: Sequence[np.ndarray]) -> None:
    for writer, part in zip(writers, parts, strict=True):
        writer.write(part)


def _check_finite(rows: np.ndarray, first: int, name: str, dtype: str) -> None:
    """Checks that rows are finite; others can't be quantized."""
    bad = ~np.isfinite(rows).all(axis=1)
    if bad.any():
        raise ValueError(
            f"Row {first + int(bad.argmax())} of {name!r} holds NaN or infinity, and can't be "
            f"stored as {dtype}. Look for what broke the training, or leave the table in float32."
        )
