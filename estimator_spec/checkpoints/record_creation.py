# SPDX-License-Identifier: Apache-2.0
"""Writes the record of a checkpoint that has none."""

from __future__ import annotations

from collections.abc import Collection

from estimator_spec.core.checkpoints import records, variable_roles
from estimator_spec.core.checkpoints.bundle import Checkpoint, CheckpointPath
from estimator_spec.core.embedding.spec import EmbeddingConfigSpec


def record(
    path: CheckpointPath,
    spec: EmbeddingConfigSpec | None = None,
    *,
    strategy: str | None = None,
    shards: int | None = None,
    tables: Collection[str] | None = None,
) -> str:
    """Writes the record of a checkpoint that has none; the checkpoint is only read.

    Args:
        path: checkpoint prefix, or a directory, of which the latest checkpoint is taken.
        spec: the checkpoint's spec.
        strategy: layout of its tables, 'div' or 'mod'. None: the spec's, or 'div'.
        shards: number of shards. None: the number of slices that a table is stored in.
        tables: names of the tables, if neither spec nor variables identify them.

    Returns:
        The path of the record.

    Raises:
        CheckpointError: the checkpoint is missing or damaged, or its tables aren't the spec's.
        ValueError: the checkpoint has a record, or no tables.
    """
    with Checkpoint(path) as checkpoint:
        found = variable_roles.classify(checkpoint, spec, strategy, shards, tables)
    target = records.path_of(checkpoint.prefix)
    if found.record is not None:
        raise ValueError(f"{target!r} is there already. Move it away if it is wrong.")
    if not found.tables:
        raise ValueError(
            f"No table is known in {checkpoint.prefix!r}. Give the names of its tables."
        )
    data = {
        name: records.TableRecord(table.layout, table.variable.shape[1], table.key)
        for name, table in found.tables.items()
    }
    spec_data = records.describe_spec(spec) if spec is not None else None
    records.write(checkpoint.prefix, records.CheckpointRecord(data, spec_data))
    return target
