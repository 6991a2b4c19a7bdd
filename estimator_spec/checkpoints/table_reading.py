# SPDX-License-Identifier: Apache-2.0
"""Reads tables from checkpoints as arrays in row order, whatever their layout."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

import numpy as np

from estimator_spec.core.checkpoints import variable_roles
from estimator_spec.core.checkpoints.bundle import Checkpoint, CheckpointPath
from estimator_spec.core.checkpoints.rows import RowReader
from estimator_spec.core.embedding.spec import EmbeddingConfigSpec


def read_table(
    path: CheckpointPath, name: str, spec: EmbeddingConfigSpec | None = None, **layout: Any
) -> np.ndarray:
    """Reads a table, or one of its slots, into memory.

    Args:
        path: checkpoint prefix, or a directory, of which the latest checkpoint is read.
        name: full name of the table or slot, a part of the table's between slashes, its key in the
            spec, or a feature that looks it up.
        spec: the checkpoint's spec; see `inspect`.
        **layout: `strategy` and `shards` of a checkpoint without a record, and `tables`; see
            `inspect`.

    Returns:
        An array, [rows, width]; row r is the embedding of id r.

    Raises:
        CheckpointError: the checkpoint is missing or damaged.
        ValueError: the checkpoint has no such table.
    """
    parts = [part for _, part in iterate_table(path, name, spec, **layout)]
    return np.concatenate(parts)


def iterate_table(
    path: CheckpointPath,
    name: str,
    spec: EmbeddingConfigSpec | None = None,
    *,
    strategy: str | None = None,
    shards: int | None = None,
    tables: Collection[str] | None = None,
    rows_at_once: int | None = None,
) -> Iterator[tuple[int, np.ndarray]]:
    """Reads a table, or one of its slots, in blocks of rows.

    Args:
        path: as for `read_table`.
        name: as for `read_table`.
        spec: as for `read_table`.
        strategy: as for `inspect`.
        shards: as for `inspect`.
        tables: as for `inspect`.
        rows_at_once: rows of a block. None: about 4 MiB.

    Yields:
        (index of the first row, array [n, width]).

    Raises:
        CheckpointError: the checkpoint is missing or damaged; a wrong checksum is found after
            the last block.
        ValueError: the checkpoint has no such table.
    """
    with Checkpoint(path) as checkpoint:
        found = variable_roles.classify(checkpoint, spec, strategy, shards, tables, may_grow=True)
        table = found.table_of(name)
        if table is None:
            table = found.find_table(name, "name", checkpoint.prefix)
            name = table.name
        variable = checkpoint.variables[name]
        reader = RowReader(checkpoint, variable, table.layout)
        size = rows_at_once * variable.row_bytes if rows_at_once else 4 << 20
        kind = variable.dtype.as_numpy_dtype
        for first, rows in reader.blocks(size):
            yield first, rows.view(kind).reshape(len(rows), *variable.shape[1:])


def tables_of(
    path: CheckpointPath, spec: EmbeddingConfigSpec | None = None, **layout: Any
) -> dict[str, str]:
    """Returns the full variable names of a checkpoint's tables, by key in the spec.

    Args:
        path: as for `read_table`.
        spec: as for `read_table`.
        **layout: as for `read_table`.

    Raises:
        CheckpointError: the checkpoint is missing or damaged.
    """
    with Checkpoint(path) as checkpoint:
        found = variable_roles.classify(checkpoint, spec, may_grow=True, **layout)
        return {table.key or name: name for name, table in found.tables.items()}
