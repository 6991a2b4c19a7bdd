# SPDX-License-Identifier: Apache-2.0
"""How the tables of a graph are stored: cut into shards, and in which kind of number.

A driver enters `storing(...)` around a model. Columns (and whoever else makes tables) make them by
`make_table` and give lookups what `table` returns. Outside of any driver a table is one variable of
float32.

Kinds of number, for tables that are only read:

    float32  as trained
    float16  half the size; rounded to 11 bits
    int8     a quarter of the size and 4 bytes a row: row r is its integers times the scale of r,
             which is the largest absolute element of the row over 127
"""

from __future__ import annotations

import contextlib
import contextvars
import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf

from tpu_columns.partition import RowPartition

tf1 = tf.compat.v1

DTYPES = ("float32", "float16", "int8")

SCALE = "_scale"
"""What follows a table's name in that of its scales; float32, [rows, 1]."""

# Tuples, so that TensorFlow leaves these collections out of exported graphs.
_LAYOUTS = ("tpu_columns", "layouts")
_DTYPE = ("tpu_columns", "dtype of tables")


@dataclasses.dataclass(frozen=True)
class TableStorage:
    """How tables are stored.

    Attributes:
      strategy: 'div' or 'mod': how rows lie on shards.
      num_shards: shards of each table; a table with fewer rows has as many shards as rows, and
        one that a newer Keras layer owns isn't cut.
      dtype: 'float32', 'float16' or 'int8'; the latter two are for one shard and no training.

    Raises:
      ValueError: a value out of range.
      TypeError: a number of shards that is no int.
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
_current: contextvars.ContextVar[TableStorage] = contextvars.ContextVar(
    "tpu_columns.storage", default=_PLAIN
)


@contextlib.contextmanager
def storing(storage: TableStorage) -> Iterator[None]:
    """Tables that are made within are stored so.

    Args:
      storage: how.
    """
    token = _current.set(storage)
    try:
        yield
    finally:
        _current.reset(token)


def current() -> TableStorage:
    """Returns the storage of the innermost `storing()`."""
    return _current.get()


@dataclasses.dataclass(frozen=True)
class ShardedTable:
    """A table cut into shards, as lookups take it.

    Attributes:
      shards: variables, [rows of the shard, D] each.
      layout: how rows lie on them.
    """

    shards: tuple[Any, ...]
    layout: RowPartition

    @property
    def shape(self) -> tf.TensorShape:
        """Shape of the whole table, [rows, D]."""
        return tf.TensorShape([self.layout.num_rows, self.shards[0].shape[1]])

    def rows(self, ids: tf.Tensor) -> tf.Tensor:
        """Gathers rows.

        Args:
          ids: integers, [n].

        Returns:
          Floats, [n, D]; differentiable.
        """
        # A shard's own complaint would name its local row.
        inside = (ids >= 0) & (ids < tf.cast(self.layout.num_rows, ids.dtype))
        wrong = tf.boolean_mask(ids, ~inside)[:1]
        size = self.layout.num_rows
        text = tf.strings.format(f"ids = {{}} is not in [0, {size})", tf.reduce_sum(wrong))
        with tf.control_dependencies([tf1.Assert(tf.reduce_all(inside), [text])]):
            ids = tf.identity(ids)
        return tf1.nn.embedding_lookup(
            list(self.shards), ids, partition_strategy=self.layout.strategy
        )


@dataclasses.dataclass(frozen=True)
class NarrowTable:
    """A table of narrow numbers, as lookups take it.

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

    def rows(self, ids: tf.Tensor) -> tf.Tensor:
        """Gathers rows and widens them.

        Args:
          ids: integers, [n].

        Returns:
          float32, [n, D].
        """
        rows = tf.cast(tf1.nn.embedding_lookup(self.values, ids), tf.float32)
        if self.scales is None:
            return rows
        return rows * tf1.nn.embedding_lookup(self.scales, ids)


def make_table(
    make: Callable[..., Any],
    name: str,
    shape: tuple[int, int],
    initializer: Any,
    trainable: bool = True,
) -> None:
    """Makes a table as the current storage says, and notes its layout in the graph.

    Args:
      make: called with name, shape, dtype, initializer and trainable, returns a variable; within
        a variable scope whose partitioner cuts it.
      name: of the variable, for `make`.
      shape: (rows, dimension).
      initializer: of float32 values.
      trainable: whether optimizers see the variable.
    """
    storage = current()
    if storage.dtype != "float32":
        zeros = tf1.zeros_initializer()
        variable = make(name, shape, tf.as_dtype(storage.dtype), zeros, False)
        if storage.dtype == "int8":
            make(name + SCALE, (shape[0], 1), tf.float32, zeros, False)
        tf1.get_default_graph().get_collection_ref(_DTYPE)[:] = [storage.dtype]
    elif storage.num_shards == 1:
        variable = make(name, shape, tf.float32, initializer, trainable)
    else:
        scope = tf1.get_variable_scope()
        cut = tf1.fixed_size_partitioner(storage.num_shards)
        with tf1.variable_scope(scope, partitioner=cut, auxiliary_name_scope=False):
            variable = make(name, shape, tf.float32, initializer, trainable)
    note_layout(variable, _layout(variable, shape[0]))


def table(find: Callable[[str], Any], name: str) -> Any:
    """What lookups take for a table that `make_table` made.

    Args:
      find: returns the variable that `make` made under a name.
      name: of the table, as it was given to `make_table`.

    Returns:
      A variable, a `ShardedTable` or a `NarrowTable`.
    """
    storage = current()
    variable = find(name)
    if storage.dtype != "float32":
        return NarrowTable(variable, find(name + SCALE) if storage.dtype == "int8" else None)
    if storage.num_shards == 1 or not _is_cut(variable):
        return variable
    return ShardedTable(tuple(variable), _layout(variable, int(variable.shape[0])))


def note_layout(variable: Any, layout: RowPartition) -> None:
    """Notes in the default graph how the rows of a table lie in its variable.

    Args:
      variable: it, or its full name.
      layout: how.
    """
    if tf.executing_eagerly():
        return
    collection = tf1.get_default_graph().get_collection_ref(_LAYOUTS)
    if not collection:
        collection.append({})
    name = variable if isinstance(variable, str) else variable.name.split(":")[0]
    collection[0][name] = layout


def _is_cut(variable: Any) -> bool:
    """Whether it is a partitioned variable, a class that TensorFlow doesn't export."""
    return hasattr(variable, "as_tensor")


def _layout(variable: Any, num_rows: int) -> RowPartition:
    """How the rows lie: Keras' newer layers don't cut their variables."""
    storage = current()
    if storage.num_shards == 1 or not _is_cut(variable):
        return RowPartition("div", num_rows, 1)
    return RowPartition(storage.strategy, num_rows, len(tuple(variable)))


def layouts(graph: tf.Graph) -> dict[str, RowPartition]:
    """Returns how the tables of `graph` lie, by full variable names."""
    collection = graph.get_collection(_LAYOUTS)
    return dict(collection[0]) if collection else {}


def dtype(graph: tf.Graph) -> str:
    """Returns the kind of number that the tables of `graph` are stored as."""
    return (graph.get_collection(_DTYPE) or ["float32"])[0]
