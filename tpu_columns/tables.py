# SPDX-License-Identifier: Apache-2.0
"""What columns keep in a graph: shared tables, and the names of an embedding core's tables."""

from __future__ import annotations

import dataclasses
import re
import weakref
from typing import Any

import tensorflow as tf

from tpu_columns import callables, storage

tf1 = tf.compat.v1

WEIGHTS = "embedding_weights"

# Tuples, so that TensorFlow leaves these collections out of exported graphs.
_SHARED = ("tpu_columns", "shared_tables")
_SCOPES = ("tpu_columns", "embedding_core_tables")

_REPLICA = re.compile(r"^replica_\d+/")

# Outside of any graph a table lives as long as somebody (a layer) holds it.
_eager_shared: weakref.WeakValueDictionary[Any, Any] = weakref.WeakValueDictionary()


@dataclasses.dataclass(frozen=True)
class CoreTable:
    """Where a table would be as a variable of the model; an embedding core names it so.

    Attributes:
      scope: variable scope, without a closing slash; '' at the top.
      name: name within the scope.
    """

    scope: str
    name: str

    @property
    def variable_name(self) -> str:
        """Full name of the variable, and of the checkpoint entry.

        >>> CoreTable("input_layer/words_embedding", "embedding_weights").variable_name
        'input_layer/words_embedding/embedding_weights'
        """
        return f"{self.scope}/{self.name}" if self.scope else self.name


def shared_variable(
    name: str,
    shape: tuple[int, int],
    initializer: Any,
    scope: str | None = None,
    trainable: bool = True,
) -> Any:
    """Returns the variable of a shared table: the same one for all its columns and their copies.

    Args:
      name: collection name; the variable's name within the scope.
      shape: (rows, dimension).
      initializer: of the variable.
      scope: full name of the variable scope; None for the current one.
      trainable: whether optimizers see the variable.

    Raises:
      ValueError: the graph has a shared table of that name and another shape.
    """
    if tf.executing_eagerly():
        key = (name, shape, callables.identity(initializer))
        held = _eager_shared.get(key)
        if held is None:
            held = _eager_shared[key] = tf.Variable(
                lambda: initializer(shape, dtype=tf.float32),
                trainable=trainable,
                name=name,
                shape=shape,
            )
        return held
    collection = tf1.get_default_graph().get_collection_ref(_SHARED)
    if not collection:
        collection.append({})
    variables = collection[0]
    if name not in variables:
        with tf1.variable_scope(_scope_named(scope), auxiliary_name_scope=False):
            variables[name] = get_table(name, shape, initializer, trainable)
    variable = variables[name]
    if tuple(variable.shape.as_list()) != shape:
        raise ValueError(
            f"Shared embedding {name!r} already has shape {tuple(variable.shape.as_list())} in "
            "this graph, "
            f"but a column wants {shape}. Give the two shared_embedding_columns different "
            "shared_embedding_collection_names."
        )
    return variable


def get_table(
    name: str,
    shape: tuple[int, int],
    initializer: Any,
    trainable: bool = True,
    collections: Any = None,
) -> Any:
    """Makes a table in the current variable scope, or finds it there, stored as `storage` says.

    Args:
      name: of the variable within the scope.
      shape: (rows, dimension).
      initializer: of the variable.
      trainable: whether optimizers see the variable.
      collections: names of graph collections for it; None for the usual ones.

    Returns:
      What lookups take.
    """
    made = {}

    def make(name: str, shape: Any, dtype: Any, initializer: Any, trainable: bool) -> Any:
        made[name] = tf1.get_variable(
            name,
            shape=shape,
            dtype=dtype,
            initializer=initializer,
            trainable=trainable,
            collections=collections,
        )
        return made[name]

    storage.make_table(make, name, shape, initializer, trainable)
    return storage.table(made.__getitem__, name)


def record_core_table(
    table: str, name: str, *, scope: str | None = None, column_name: str = "", shared: bool
) -> None:
    """Notes in the default graph in which variable scope a table of the embedding core is used.

    Args:
      table: the column's `get_embedding_var_name()`.
      name: name that the variable has within the current scope.
      scope: full name of the variable scope; None for the current one.
      column_name: the layer's scope for the column ends with it; '' for a table of no layer.
      shared: shared tables may be used in several scopes; the first one names them.

    Raises:
      ValueError: the table is used under another scope already.
    """
    collection = tf1.get_default_graph().get_collection_ref(_SCOPES)
    if not collection:
        collection.append({})
    if scope is None:
        scope = tf1.get_variable_scope().name
    if not scope.endswith(column_name):
        # Keras' newer layers name variables by the name scope, but for that of a replica.
        scope = _REPLICA.sub("", tf1.get_default_graph().get_name_scope())
    known = collection[0].setdefault(table, CoreTable(scope, name))
    if known.scope != scope and not shared:
        raise ValueError(
            f"For embedding var name {table}, the variable scope name is different, got {scope}; "
            f"expected {known.scope}. "
            "A table has one name, so use its column in one feature layer only, or share it by "
            "shared_embedding_columns."
        )
    if known.name != name:
        raise ValueError(
            f"For embedding var name {table}, the embedding name is different, got {name}; "
            f"expected {known.name}."
        )


def core_tables(graph: tf.Graph) -> dict[str, CoreTable]:
    """Returns an embedding core's tables in `graph`, by the columns' `get_embedding_var_name()`."""
    collection = graph.get_collection(_SCOPES)
    return dict(collection[0]) if collection else {}


def _scope_named(name: str | None) -> Any:
    """The current variable scope, under another full name."""
    now = tf1.get_variable_scope()
    if name is None:
        return now
    return tf1.VariableScope(
        reuse=now.reuse,
        name=name,
        initializer=now.initializer,
        regularizer=now.regularizer,
        caching_device=now.caching_device,
        partitioner=now.partitioner,
        custom_getter=now.custom_getter,
        dtype=now.dtype,
        use_resource=now.use_resource,
        constraint=now.constraint,
    )
