# SPDX-License-Identifier: Apache-2.0
"""Which columns of a spec go to the embedding core, and which to the tensor core.

A column names its device, or its table's size decides. What a run then does with a device is for
`tpu_columns.route` to say.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tpu_columns import Hardware, LookupDevice, Mode, TPUEmbeddingColumn, route


def split(columns: Iterable[Any], below: int | None) -> tuple[list[Any], list[Any]]:
    """Splits columns by the core that they ask for.

    A table is small if it has fewer than `below` rows, and goes to the tensor core if each of its
    columns can: it names no device, is no sequence, and has a combiner. Otherwise it stays.

    Args:
        columns: of any kind.
        below: a number of rows; None: no table is small.

    Returns:
        The columns of the embedding core (and those of no core), and those of the tensor core.

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


def tensor_core_tables(spec: Any) -> set[str]:
    """The tables that a spec puts on the tensor core, by `get_embedding_var_name()`."""
    return {column.get_embedding_var_name() for column in spec.tensor_core_feature_columns or ()}


def for_embedding_core(spec: Any, mode: Mode) -> Any:
    """A spec of what the embedding core looks up in a mode: without columns that ask for the host.

    Args:
        spec: an `EmbeddingConfigSpec`, of either form.
        mode: what the graph is for, on hardware with an embedding core.

    Returns:
        The spec, less some columns; None if the core has nothing to look up.

    Raises:
        ValueError: a column's device is forbidden in this mode, or a table would be in two places.
    """
    if spec.feature_columns is None:
        return spec
    small = tensor_core_tables(spec)
    kept: list[Any] = []
    elsewhere: set[str | None] = set(small)
    for column in spec.feature_columns:
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
    if not kept:
        return None
    # The rule of sizes has been applied.
    return spec._replace(
        feature_columns=kept, tensor_core_feature_columns=[], tensor_core_below=None
    )


def _small_tables(columns: list[Any], below: int | None) -> set[Any]:
    if below is None:
        return set()
    small, staying = set(), set()
    for column in columns:
        table = _table(column)
        if table is None:
            continue
        can_go = not column.is_sequence_column() and column.combiner is not None
        if can_go and column.embedding_lookup_device is None:
            if column.get_embedding_table_size()[0] < below:
                small.add(table)
        elif column.embedding_lookup_device is not LookupDevice.TPU_TENSOR_CORE:
            staying.add(table)
    return small - staying


def _table(column: Any) -> str | None:
    is_tpu_column = isinstance(column, TPUEmbeddingColumn)
    return column.get_embedding_var_name() if is_tpu_column else None
