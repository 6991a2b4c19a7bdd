# SPDX-License-Identifier: Apache-2.0
"""Restores tables whose layout or dtype in the checkpoint differs from the graph's.

TensorFlow restores any slices of a variable from any others, so a different number of shards needs
no work. Rows permuted by mod sharding, and quantized tables, are restored from a converted copy.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import tempfile
from collections.abc import Iterator, Mapping

import tensorflow as tf

from estimator_spec.checkpoints import conversion, planning
from estimator_spec.checkpoints.options import ConversionOptions
from estimator_spec.core.checkpoints import records, variable_roles
from estimator_spec.core.checkpoints.bundle import Checkpoint
from estimator_spec.core.checkpoints.quantization import QuantizationStats
from tpu_columns.partition import RowPartition


@dataclasses.dataclass(frozen=True)
class AdaptedCheckpoint:
    """A checkpoint that a graph can restore.

    Attributes:
        prefix: checkpoint prefix of the original, or of its copy.
        quantization_stats: quantization errors by table.
    """

    prefix: str
    quantization_stats: Mapping[str, QuantizationStats] = dataclasses.field(default_factory=dict)


@contextlib.contextmanager
def adapt_checkpoint(
    prefix: str,
    layouts: Mapping[str, RowPartition],
    strategy: str | None = None,
    dtype: str = "float32",
) -> Iterator[AdaptedCheckpoint]:
    """Yields the checkpoint, or a converted copy that is deleted at the end of the context.

    Args:
        prefix: checkpoint prefix.
        layouts: layouts of the graph's tables, by name in the checkpoint.
        strategy: layout of a checkpoint without a record; each slice is a shard. None: 'div'.
        dtype: dtype of the graph's tables, see `tpu_columns.storage`.

    Raises:
        CheckpointError: the checkpoint is damaged.
        OSError: the directory for temporary files (TMPDIR) has no room for a copy.
    """
    recorded = records.read(prefix)
    ordered = all(layout.in_row_order for layout in layouts.values())
    if dtype == "float32" and ordered and recorded is None and strategy != "mod":
        yield AdaptedCheckpoint(prefix)
        return
    with Checkpoint(prefix) as checkpoint:
        found = variable_roles.classify(
            checkpoint,
            strategy=None if recorded else strategy,
            tables=[name for name in layouts if name in checkpoint.variables],
            may_grow=True,
        )
        wanted = {
            name: RowPartition(
                layout.strategy, found.tables[name].layout.num_rows, layout.num_shards
            )
            for name, layout in layouts.items()
            if name in found.tables
        }
        moved = [
            name
            for name, layout in wanted.items()
            if not _is_same_layout(found.tables[name].layout, layout)
        ]
        if not moved and dtype == "float32":
            yield AdaptedCheckpoint(prefix)
            return
        tf.compat.v1.logging.info(
            "The tables %s of %s are copied, as the graph needs another layout or dtype.",
            moved or sorted(wanted),
            prefix,
        )
        options = ConversionOptions(layouts=wanted, dtype=dtype)
        plan = planning.make_plan(checkpoint, found, options)
        with tempfile.TemporaryDirectory(prefix="tables-") as directory:
            copy = os.path.join(directory, os.path.basename(prefix))
            try:
                conversion.write_plan(checkpoint, copy, plan, durable=False)
            except OSError as error:
                if str(error.filename or "").startswith(prefix):
                    raise  # the checkpoint can't be read
                raise OSError(
                    f"{error} The graph needs {moved or sorted(wanted)} in another layout or "
                    "dtype, and reads a copy in the directory for temporary files. Set TMPDIR to a "
                    "directory with more room; or convert the checkpoint once: "
                    f"python -m estimator_spec checkpoint convert {prefix} NEW "
                    "--strategy div --shards 1."
                ) from error
            yield AdaptedCheckpoint(copy, plan.quantization_stats)


def _is_same_layout(one: RowPartition, other: RowPartition) -> bool:
    """Returns whether two layouts place all rows alike."""
    return one == other or (one.in_row_order and other.in_row_order)
