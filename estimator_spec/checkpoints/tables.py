# SPDX-License-Identifier: Apache-2.0
"""Tables of a checkpoint as arrays, with the rows in their own order.

What turns a checkpoint into something else (another API's object, a file of vectors) reads it
here, and needn't know how it was sharded.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

import numpy as np

from estimator_spec.checkpoints import variable_roles
from estimator_spec.checkpoints.bundle import Checkpoint
from estimator_spec.checkpoints.output_variables import chunks
from estimator_spec.checkpoints.rows import RowReader
from estimator_spec.embedding.spec import EmbeddingConfigSpec


def read_table(
    path: Any, name: str, spec: EmbeddingConfigSpec | None = None, **layout: Any
) -> np.ndarray:
    """A table, or one of its slots, in memory.

    Args:
        path: prefix of a checkpoint, or a directory, whose latest checkpoint is meant.
        name: full name of the table or slot, an ending of the table's, or its key in the spec.
        spec: the spec that the checkpoint belongs to; see `inspect`.
        **layout: `strategy` and `shards` of a checkpoint without a record, and `tables`; see
            `inspect`.

    Returns:
        An array, [rows, width]; row r is the embedding of id r.

    Raises:
        CheckpointError: the checkpoint is missing or damaged.
        ValueError: it has no such table.
    """
    parts = [part for _, part in iterate_table(path, name, spec, **layout)]
    return np.concatenate(parts)


def iterate_table(
    path: Any,
    name: str,
    spec: EmbeddingConfigSpec | None = None,
    *,
    strategy: str | None = None,
    shards: int | None = None,
    tables: Collection[str] | None = None,
    rows_at_once: int | None = None,
) -> Iterator[tuple[int, np.ndarray]]:
    """A table, or one of its slots, some rows at a time.

    Args:
        path: as for `read_table`.
        name: as for `read_table`.
        spec: as for `read_table`.
        strategy: as for `inspect`.
        shards: as for `inspect`.
        tables: as for `inspect`.
        rows_at_once: how many. None: about 4 MiB of them.

    Yields:
        (number of the first row, an array [n, width]).

    Raises:
        CheckpointError: the checkpoint is missing or damaged; a wrong checksum is found at the
            end.
        ValueError: it has no such table.
    """
    with Checkpoint(path) as checkpoint:
        found = variable_roles.read(checkpoint, spec, strategy, shards, tables, may_grow=True)
        table = found.table_of(name)
        if table is None:
            name = variable_roles.find_table(found, name, "name", checkpoint.prefix)
            table = found.tables[name]
        variable = checkpoint.variables[name]
        reader = RowReader(checkpoint, variable, table.layout)
        size = rows_at_once or max(1, (4 << 20) // max(1, variable.row_bytes))
        kind = variable.dtype.as_numpy_dtype
        for first, last in chunks(variable.num_rows, size):
            rows, _ = reader.read(first, last)
            yield first, rows.view(kind).reshape(last - first, *variable.shape[1:])
        reader.finish()


def tables_of(path: Any, spec: EmbeddingConfigSpec | None = None, **layout: Any) -> dict[str, str]:
    """Full variable names of a checkpoint's tables, by their keys in the spec.

    Args:
        path: as for `read_table`.
        spec: as for `read_table`.
        **layout: as for `read_table`.

    Raises:
        CheckpointError: the checkpoint is missing or damaged.
    """
    with Checkpoint(path) as checkpoint:
        found = variable_roles.read(checkpoint, spec, may_grow=True, **layout)
        return {table.key or name: name for name, table in found.tables.items()}
