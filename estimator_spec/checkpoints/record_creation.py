# SPDX-License-Identifier: Apache-2.0
"""Telling once and for all how the tables of an old checkpoint lie."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from estimator_spec.checkpoints import records, variable_roles
from estimator_spec.checkpoints.bundle import Checkpoint
from estimator_spec.embedding.spec import EmbeddingConfigSpec


def record(
    path: Any,
    spec: EmbeddingConfigSpec | None = None,
    *,
    strategy: str | None = None,
    shards: int | None = None,
    tables: Collection[str] | None = None,
) -> str:
    """Writes the record beside a checkpoint that has none. The checkpoint is only read.

    Args:
        path: its prefix, or a directory, whose latest checkpoint is meant.
        spec: the spec it belongs to.
        strategy: how the rows of its tables lie, 'div' or 'mod'. None: the spec's, or 'div'.
        shards: number of shards. None: as many as a table is stored in.
        tables: full names of the tables, if neither spec nor names tell them.

    Returns:
        The path of the record.

    Raises:
        CheckpointError: there is no checkpoint, it is damaged, or its tables are not the spec's.
        ValueError: it has a record already, or no tables.
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
