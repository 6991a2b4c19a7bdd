# SPDX-License-Identifier: Apache-2.0
"""Assigns the columns of a spec to the embedding core or the tensor core.

A column requests its device, or the size of its table decides. `tpu_columns.route` maps requested
devices to those of a run.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tpu_columns.column_types import TPUEmbeddingColumn
from tpu_columns.placement import Hardware, LookupDevice, Mode, route


def split_columns(columns: Iterable[Any], below: int | None) -> tuple[list[Any], list[Any]]:
    """Splits columns into those of the embedding core and those of the tensor core.

    A table of fewer than `below` rows is assigned to the tensor core if each of its columns
    requests no device, is no sequence column and has a combiner.

    Args:
        columns: of any kind.
        below: a number of rows. None: only columns that request the tensor core are assigned to it.

    Returns:
        Columns of the embedding core (and those that use no core), columns of the tensor core.

    Raises:
        ValueError: a small table's column has no `tensor_core_shape`.
    """
    columns = list(columns)
    small = _small_tables(columns, below)
    embedding_core: list[Any] = []
    tensor_core: list[Any] = []
    for column in columns:
        device = getattr(column, "embedding_lookup_device", None)
        if device is None and _table(column) in small:
            if column.tensor_core_shape is None:
                raise ValueError(
                    f"Column {column.name} has {column.get_embedding_table_size()[0]} rows, fewer "
                    f"than tensor_core_below={below}, but the tensor core needs to know how many "
                    "ids a row of the batch has at most. Give the column tensor_core_shape=[None, "
                    "n], or embedding_lookup_device='tpu_embedding_core' to keep it where it was."
                )
            device = LookupDevice.TPU_TENSOR_CORE
        on_tensor_core = device is LookupDevice.TPU_TENSOR_CORE
        (tensor_core if on_tensor_core else embedding_core).append(column)
    return embedding_core, tensor_core


def embedding_core_columns(
    columns: Iterable[Any], tensor_core_tables: set[str], mode: Mode
) -> list[Any]:
    """Returns the columns that the embedding core looks up in a mode.

    Args:
        columns: of any kind, without those of the tensor core.
        tensor_core_tables: tables of the tensor core.
        mode: mode of the graph, on hardware with an embedding core.

    Raises:
        ValueError: a column's device is forbidden in this mode, or columns of one table are on
            different devices.
    """
    kept: list[Any] = []
    elsewhere: set[str | None] = set(tensor_core_tables)
    for column in columns:
        if _table(column) is not None and (
            route(column, mode, Hardware.TPU) is not LookupDevice.TPU_EMBEDDING_CORE
        ):
            elsewhere.add(_table(column))
        else:
            kept.append(column)
    for column in kept:
        if _table(column) in elsewhere:
            raise ValueError(
                f"The table of column {column.name} is shared by columns of different lookup "
                "devices. It can be in one place only: give all columns of a "
                "shared_embedding_columns call the same embedding_lookup_device."
            )
    return kept


def _small_tables(columns: list[Any], below: int | None) -> set[str]:
    """Returns the tables that `below` assigns to the tensor core."""
    if below is None:
        return set()
    small: set[str] = set()
    on_other_devices: set[str] = set()
    for column in columns:
        table = _table(column)
        if table is None:
            continue
        eligible = not column.is_sequence_column() and column.combiner is not None
        if eligible and column.embedding_lookup_device is None:
            if column.get_embedding_table_size()[0] < below:
                small.add(table)
        elif column.embedding_lookup_device is not LookupDevice.TPU_TENSOR_CORE:
            on_other_devices.add(table)
    return small - on_other_devices


def _table(column: Any) -> str | None:
    """Returns the table of a TPU embedding column, None for other columns."""
    is_tpu_column = isinstance(column, TPUEmbeddingColumn)
    return column.get_embedding_var_name() if is_tpu_column else None
