# SPDX-License-Identifier: Apache-2.0
"""A checkpoint as a graph needs it: its tables' rows in the places where the graph looks for them.

Shards alone need nothing: TensorFlow restores any slices of a variable from any others. Rows that
mod sharding permuted, and tables of other numbers, need a copy.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import tempfile
from collections.abc import Iterator, Mapping

import tensorflow as tf

from estimator_spec.checkpoints import conversion, planning, records, variable_roles
from estimator_spec.checkpoints.bundle import Checkpoint
from estimator_spec.checkpoints.options import ConversionOptions
from estimator_spec.checkpoints.quantization import QuantizationStats
from tpu_columns.partition import RowPartition


@dataclasses.dataclass(frozen=True)
class AdaptedCheckpoint:
    """A checkpoint that a graph can restore.

    Attributes:
        prefix: of the checkpoint itself, or of its copy.
        quantization_stats: what narrow numbers lost, by table.
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
    """Gives the checkpoint, or a copy of it for as long as the context lasts.

    Args:
        prefix: the checkpoint.
        layouts: how the graph's tables lie, by their names in the checkpoint.
        strategy: how those of a checkpoint without a record lie; its shards are those that a table
            is stored in. None: 'div'.
        dtype: the kind of number of the graph's tables, see `tpu_columns.storage`.

    Raises:
        CheckpointError: the checkpoint is damaged.
        OSError: there is no room for a copy in the directory for temporary files (TMPDIR).
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
            if not _lies_alike(found.tables[name].layout, layout)
        ]
        if not moved and dtype == "float32":
            yield AdaptedCheckpoint(prefix)
            return
        tf.compat.v1.logging.info(
            "The tables %s of %s are copied: this graph needs other rows together, or other "
            "numbers.",
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
                raise OSError(
                    f"{error} This graph wants the rows of {moved or sorted(wanted)} in other "
                    "places, or other numbers, and reads a copy in the directory for temporary "
                    "files. Set TMPDIR to a directory with more room; or lay the rows out once and "
                    f"for all: python -m estimator_spec checkpoint convert {prefix} NEW "
                    "--strategy div --shards 1."
                ) from error
            yield AdaptedCheckpoint(copy, plan.quantization_stats)


def _lies_alike(one: RowPartition, other: RowPartition) -> bool:
    """Whether a table's rows are in the same places in both."""
    return one == other or (one.in_row_order and other.in_row_order)
