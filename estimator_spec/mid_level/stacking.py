# SPDX-License-Identifier: Apache-2.0
"""Layout of tables in the stacked variables of `TPUEmbeddingV2`.

The layout is that of a TPU's SparseCores: row r of a table of a stack over S of them is in shard
(r + rotation) mod S, at row offset + r div S of that shard; a stacked variable has its shards one
after the other.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from estimator_spec.core._tensorflow import private


class Stack(NamedTuple):
    """A variable with the rows of several tables.

    Attributes:
        name: its name.
        configs: the `TableConfig`s, by name of the table.
        shape: its shape.
    """

    name: str
    configs: list[Any]
    shape: tuple[int, int]


def layouts(
    configs: Sequence[Any],
    features: Sequence[Any],
    num_chips: int,
    cores_per_chip: int,
    disable_stacking: bool,
) -> dict[str, Any]:
    """Returns the `SparseCoreTableLayout` of each table, as TensorFlow computes it.

    Args:
        configs: the `TableConfig`s; one that has a layout keeps it.
        features: the `FeatureConfig`s.
        num_chips: number of replicas.
        cores_per_chip: SparseCores of a chip.
        disable_stacking: whether each table has a variable of its own.
    """
    stacker = private.sparse_core_layout_stacker(
        num_partitions=num_chips,
        sparse_cores_per_partition=cores_per_chip,
        disable_table_stacking=disable_stacking,
    )
    kinds: list[Any] = []
    found = {}
    for config in sorted(configs, key=lambda each: str(each.name)):
        if config.layout is not None:
            found[config.name] = config.layout
            continue
        kind = config.optimizer, repr(config.quantization_config)
        if kind not in kinds:
            kinds.append(kind)
        own = [each for each in features if each.table is config]
        private.add_table(
            stacker,
            table_name=config.name,
            table_height=config.vocabulary_size,
            table_width=config.dim,
            group=f"optimizer_{kinds.index(kind)}",
            output_samples=sum(math.prod(each.output_shape.as_list()) for each in own),
            num_features=len(own),
        )
    found.update((layout.table_name, layout) for layout in stacker.GetLayouts().tables)
    return found


def parse_layouts(message: bytes) -> dict[str, Any]:
    """Returns the layouts of a serialized `SparseCoreTableLayouts` by name of the table."""
    stacker = private.sparse_core_layout_stacker(
        num_partitions=1, sparse_cores_per_partition=1, disable_table_stacking=False
    )
    found = type(stacker.GetLayouts())()
    found.ParseFromString(message)
    return {layout.table_name: layout for layout in found.tables}


def stacks(configs: Sequence[Any], found: dict[str, Any]) -> list[Stack]:
    """Returns the stacks of tables by name of the first table."""
    by_name: dict[str, list[Any]] = {}
    for config in sorted(configs, key=lambda each: str(each.name)):
        by_name.setdefault(found[config.name].stacked_table_name, []).append(config)
    return [
        Stack(name, members, _shape(found[members[0].name])) for name, members in by_name.items()
    ]


def _shape(layout: Any) -> tuple[int, int]:
    rows = layout.num_sparse_cores * layout.total_rows_per_sparse_core_shard
    return int(rows), int(layout.unsharded_padded_shape[1])


def positions(layout: Any, ids: Any) -> Any:
    """Returns the rows of a stacked variable that ids of a table have.

    An id out of range gets a row that the variable hasn't got.

    Args:
        layout: layout of the table.
        ids: int64, [N].
    """
    cores = tf.constant(layout.num_sparse_cores, tf.int64)
    rows = layout.total_rows_per_sparse_core_shard
    shard = (ids % cores + layout.sparse_core_shard_rotation) % cores
    found = shard * rows + layout.sparse_core_shard_row_offset + ids // cores
    is_valid = (ids >= 0) & (ids < layout.unsharded_shape[0])
    return tf.where(is_valid, found, tf.where(ids < 0, ids, ids + cores * rows))


def initializer(stack: Stack, found: dict[str, Any]) -> Any:
    """Returns the initializer of a stacked variable, of the initializers of its tables.

    Rows and columns that pad tables are 0.
    """

    def initial(shape: Any, dtype: Any = tf.float32) -> Any:
        value = tf.zeros(shape, dtype)
        for config in stack.configs:
            size = config.vocabulary_size, config.dim
            rows = tf.cast(config.initializer(size, dtype=dtype), dtype)
            rows = tf.pad(rows, [[0, 0], [0, stack.shape[1] - config.dim]])
            ids = tf.range(config.vocabulary_size, dtype=tf.int64)
            places = positions(found[config.name], ids)[:, tf.newaxis]
            value = tf.tensor_scatter_nd_update(value, places, rows)
        return value

    return initial
