# SPDX-License-Identifier: Apache-2.0
"""Creates the tables of a graph with their number of shards and dtype.

A driver enters `storing(...)` around a model; within it `create_table` creates the tables. Outside
of a driver a table is one variable of float32.

Dtypes of tables that aren't trained:

    float32  as trained
    float16  half the size; rounded to 11 bits
    int8     a quarter of the size, and 4 bytes per row: row r is its integers times the scale of r,
             which is the largest absolute element of the row over 127
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import tensorflow as tf

from tpu_columns import initial_rows, initializers, shared_state
from tpu_columns.partition import RowPartition

tf1 = tf.compat.v1

VARIABLE_OPS = frozenset({"VarHandleOp", "Variable", "VariableV2"})
"""Ops that make a variable or its handle."""

DTYPES = ("float32", "float16", "int8")

SCALE = "_scale"
"""Suffix of the name of a table's scales; float32, [rows, 1]."""


def table_bytes(rows: int, width: int, dtype: str = "float32") -> int:
    """Returns the bytes of a table, with the scales of int8.

    >>> table_bytes(100, 8), table_bytes(100, 8, "float16"), table_bytes(100, 8, "int8")
    (3200, 1600, 1200)

    Args:
        rows: number of rows.
        width: elements of a row.
        dtype: one of `DTYPES`.
    """
    if dtype == "int8":
        return rows * (width + tf.float32.size)
    return rows * width * int(tf.as_dtype(dtype).size)


# A variable, a `ShardedTable` or a `QuantizedTable`.
Table = Any


@dataclasses.dataclass(frozen=True)
class TableStorage:
    """Number of shards and dtype of tables.

    Attributes:
        strategy: 'div' or 'mod'; see `RowPartition`.
        num_shards: number of shards of each table; a table with fewer rows has as many shards as
            rows, and a table of a newer Keras layer has one.
        dtype: 'float32', 'float16' or 'int8'; the latter two need one shard and can't be trained.

    Raises:
        ValueError: a value is out of range.
        TypeError: the number of shards isn't an int.
    """

    strategy: str = "div"
    num_shards: int = 1
    dtype: str = "float32"

    def __post_init__(self) -> None:
        RowPartition(self.strategy, 0, self.num_shards)
        if self.dtype not in DTYPES:
            raise ValueError(f"Tables can be stored as {DTYPES}, not as {self.dtype!r}.")
        if self.dtype != "float32" and self.num_shards != 1:
            raise ValueError(f"Tables of {self.dtype} can't be cut into {self.num_shards} shards.")


_PLAIN = TableStorage()


def storing(storage: TableStorage) -> AbstractContextManager[None]:
    """Sets the storage of the tables that are created within this context.

    Args:
        storage: number of shards and dtype.
    """
    return shared_state.setting(shared_state.STORAGE, storage)


def current() -> TableStorage:
    """Returns the storage of the innermost `storing()`."""
    return shared_state.STORAGE.get() or _PLAIN


@dataclasses.dataclass(frozen=True)
class ShardedTable:
    """Table of several shards, for lookups.

    Attributes:
        shards: variables, [rows of the shard, D] each.
        layout: distribution of the rows over the shards.
    """

    shards: tuple[Any, ...]
    layout: RowPartition

    @property
    def shape(self) -> tf.TensorShape:
        """Shape of the whole table, [rows, D]."""
        return tf.TensorShape([self.layout.num_rows, self.shards[0].shape[1]])

    def gather(self, ids: tf.Tensor) -> tf.Tensor:
        """Gathers rows.

        Args:
            ids: integers, [n].

        Returns:
            Floats, [n, D]; differentiable.
        """
        # The error of a shard's gather would name the local row.
        inside = (ids >= 0) & (ids < tf.cast(self.layout.num_rows, ids.dtype))
        wrong = tf.boolean_mask(ids, ~inside)[:1]
        size = self.layout.num_rows
        text = tf.strings.format(f"ids = {{}} is not in [0, {size})", tf.reduce_sum(wrong))
        with tf.control_dependencies([tf1.Assert(tf.reduce_all(inside), [text])]):
            ids = tf.identity(ids)
        return tf1.nn.embedding_lookup(
            list(self.shards), ids, partition_strategy=self.layout.strategy
        )

    def split(self, ids: tf.Tensor, rows: tf.Tensor) -> list[tuple[tf.Tensor, tf.Tensor]]:
        """Splits ids and what belongs to them by shard.

        Args:
            ids: integers in the table, [n].
            rows: any dtype, [n, ...].

        Returns:
            For each shard its local ids, [m], and their part of `rows`, [m, ...].
        """
        count = len(self.shards)
        if self.layout.strategy == "mod":
            owners, local = ids % count, ids // count
        else:
            least, extra = divmod(self.layout.num_rows, count)
            longer = ids // (least + 1)
            owners = tf.where(longer < extra, longer, (ids - extra) // max(least, 1))
            local = ids - (owners * least + tf.minimum(owners, tf.constant(extra, ids.dtype)))
        owners = tf.cast(owners, tf.int32)
        parts = (tf.dynamic_partition(value, owners, count) for value in (local, rows))
        return list(zip(*parts, strict=True))


@dataclasses.dataclass(frozen=True)
class QuantizedTable:
    """Table of float16 or int8, for lookups.

    Attributes:
        values: float16 or int8, [rows, D].
        scales: float32, [rows, 1], for int8; None for float16.
    """

    values: Any
    scales: Any = None

    @property
    def shape(self) -> tf.TensorShape:
        """Shape of the table, [rows, D]."""
        return self.values.shape

    def gather(self, ids: tf.Tensor) -> tf.Tensor:
        """Gathers rows and converts them to float32.

        Args:
            ids: integers, [n].

        Returns:
            float32, [n, D].
        """
        rows = tf.cast(tf1.nn.embedding_lookup(self.values, ids), tf.float32)
        if self.scales is None:
            return rows
        return rows * tf1.nn.embedding_lookup(self.scales, ids)


def create_table(
    create: Callable[..., Any],
    name: str,
    shape: tuple[int, int],
    initializer: Any,
    trainable: bool = True,
) -> Table:
    """Creates a table in the current storage, and records its layout in the graph.

    Args:
        create: creates a variable from the keyword arguments `name`, `shape`, `dtype`,
            `initializer` and `trainable`; the partitioner of the current variable scope shards it.
        name: the variable's name, for `create`.
        shape: (rows, dimension).
        initializer: initializer of float32 values.
        trainable: whether optimizers see the variable.

    Returns:
        The table in the form that lookups take.

    Raises:
        ValueError: the initializer returns no float32 tensor of this shape.
        TypeError: it can't be called with a shape and a dtype.
    """
    storage = current()
    variables: dict[str, Any] = {}
    layout: RowPartition | None = None  # of ranges of rows, if the program has a partitioner
    scope = tf1.get_variable_scope()

    def add(name: str, shape: tuple[int, int], dtype: Any, initializer: Any, train: bool) -> None:
        with initializers.explain_errors(name, shape, initializer):
            if tf1.get_variable_scope().partitioner is not None and not tf.executing_eagerly():
                initializer = initial_rows.for_shards(initializer, shape, layout)
            variables[name] = create(
                name=name, shape=shape, dtype=dtype, initializer=initializer, trainable=train
            )

    if storage.dtype != "float32":
        zeros = tf1.zeros_initializer()
        with tf1.variable_scope(scope, auxiliary_name_scope=False) as unpartitioned:
            # One variable, though a program or a canned model of TF1 partitions its variables.
            unpartitioned.set_partitioner(None)
            add(name, shape, tf.as_dtype(storage.dtype), zeros, False)
            if storage.dtype == "int8":
                add(name + SCALE, (shape[0], 1), tf.float32, zeros, False)
    elif storage.num_shards == 1:
        add(name, shape, tf.float32, initializer, trainable)
    else:
        layout = RowPartition(storage.strategy, shape[0], min(storage.num_shards, shape[0]))
        partitioner = tf1.fixed_size_partitioner(storage.num_shards)
        with tf1.variable_scope(scope, partitioner=partitioner, auxiliary_name_scope=False):
            add(name, shape, tf.float32, initializer, trainable)
    record_layout(variables[name], _layout(variables[name], shape[0]))
    return find_table(variables.__getitem__, name)


def find_table(find: Callable[[str], Any], name: str) -> Table:
    """Returns a table that `create_table` created, in the form that lookups take.

    Args:
        find: returns the variable of a name.
        name: name of the table, as passed to `create_table`.
    """
    storage = current()
    variable = find(name)
    if storage.dtype != "float32":
        return QuantizedTable(variable, find(name + SCALE) if storage.dtype == "int8" else None)
    if storage.num_shards == 1 or not is_partitioned(variable):
        return variable
    return ShardedTable(tuple(variable), _layout(variable, int(variable.shape[0])))


def record_layout(variable: Any, layout: RowPartition) -> None:
    """Records the layout of a table in the default graph; does nothing in eager mode.

    Args:
        variable: the variable, or its full name.
        layout: distribution of the rows over the shards.
    """
    if not tf.executing_eagerly():
        name = variable if isinstance(variable, str) else variable.name.split(":")[0]
        shared_state.graph_dict(tf1.get_default_graph(), shared_state.LAYOUTS)[name] = layout


def is_partitioned(variable: Any) -> bool:
    """Returns whether a variable is a `PartitionedVariable`, which TensorFlow doesn't export."""
    return hasattr(variable, "as_tensor")


def _layout(variable: Any, num_rows: int) -> RowPartition:
    """Returns the layout of a new table; newer Keras layers don't partition variables."""
    storage = current()
    if storage.num_shards == 1 or not is_partitioned(variable):
        return RowPartition("div", num_rows, 1)
    return RowPartition(storage.strategy, num_rows, len(tuple(variable)))


def layouts(graph: tf.Graph) -> dict[str, RowPartition]:
    """Returns the recorded layouts of a graph's tables, by full variable name."""
    return dict(shared_state.graph_dict(graph, shared_state.LAYOUTS))
