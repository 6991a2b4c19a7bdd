# SPDX-License-Identifier: Apache-2.0
"""Creates and shares the variables of tables; records the names of an embedding core's tables."""

from __future__ import annotations

import dataclasses
import functools
import math
import re
from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

from tpu_columns import callables, eager_tables, initializers, shared_state, storage
from tpu_columns.checks import check_name

tf1 = tf.compat.v1

WEIGHTS = "embedding_weights"

_REPLICA = re.compile(r"^replica_\d+/")


class _SharedTable(NamedTuple):
    """A shared table of a graph, or of an owner outside of graphs.

    Attributes:
        variable: the table in the form that lookups take.
        initializer: the initializer that made it.
    """

    variable: Any
    initializer: Any


@dataclasses.dataclass(frozen=True)
class CoreTable:
    """Name that an embedding core's table would have as a variable of the model.

    Attributes:
        scope: variable scope, without a closing slash; '' for the root scope.
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


def default_initializer(dimension: int) -> Callable[..., Any]:
    """Returns the default initializer of tables: truncated normal, deviation 1/√dimension.

    Args:
        dimension: width of the table.
    """
    return tf1.truncated_normal_initializer(mean=0.0, stddev=1 / math.sqrt(dimension))


def get_shared_table(
    name: str,
    shape: tuple[int, int],
    initializer: Any,
    scope: str | None = None,
    trainable: bool = True,
    owner: Any = None,
) -> Any:
    """Returns a shared table, one for all its columns and their copies; creates it if necessary.

    Args:
        name: collection name; the variable's name within the scope.
        shape: (rows, dimension).
        initializer: initializer of the variable.
        scope: full name of the variable scope; None for the current one.
        trainable: whether optimizers see the variable.
        owner: what calls the column outside of graphs; see `eager_tables`.

    Raises:
        ValueError: there is a shared table of this name with another shape or initializer.
    """

    def create() -> Any:
        reuse = tf1.AUTO_REUSE if tf.executing_eagerly() else None  # of an EagerVariableStore
        with tf1.variable_scope(scope_named(scope), reuse=reuse, auxiliary_name_scope=False):
            return get_table(name, shape, initializer, trainable)

    if tf.executing_eagerly():
        known = eager_tables.tables_of(owner)
    else:
        known = shared_state.graph_dict(tf1.get_default_graph(), shared_state.SHARED_TABLES)
    return _find_or_create(known, name, shape, initializer, create)


def get_layer_table(name: str, shape: tuple[int, int], initializer: Any, owner: Any) -> Any:
    """Returns a shared table of an eager Keras layer; creates it if necessary.

    Args:
        name: collection name; the variable's name within the current name scope.
        shape: (rows, dimension).
        initializer: initializer of the variable.
        owner: the layer's state manager; see `eager_tables`.

    Raises:
        ValueError: there is a shared table of this name with another shape or initializer.
    """

    def create() -> Any:
        with initializers.explain_errors(name, shape, initializer):
            return tf.Variable(lambda: initializer(shape, dtype=tf.float32), name=name, shape=shape)

    return _find_or_create(eager_tables.tables_of(owner), name, shape, initializer, create)


def _find_or_create(
    known: dict[str, _SharedTable],
    name: str,
    shape: tuple[int, int],
    initializer: Any,
    create: Callable[[], Any],
) -> Any:
    """Returns the table of a name; adds it to the known ones if they lack it."""
    if name not in known:
        known[name] = _SharedTable(create(), initializer)
    variable, first = known[name]
    if tuple(variable.shape.as_list()) != shape:
        raise ValueError(
            f"Shared embedding {name!r} already has shape {tuple(variable.shape.as_list())} in "
            f"this {_place()}, but a column wants {shape}. Give the two shared_embedding_columns "
            "different shared_embedding_collection_names."
        )
    same = first is initializer or (
        callables.equality_key(first) == callables.equality_key(initializer)
    )
    if not same:
        raise ValueError(
            f"Shared embedding {name!r} already has the initializer {callables.describe(first)} in "
            f"this {_place()}, but a column wants another: {callables.describe(initializer)}. Make "
            "its columns in one call of shared_embedding_columns, or with equal initializers, or "
            "give them another shared_embedding_collection_name."
        )
    return variable


def _place() -> str:
    return "model or layer" if tf.executing_eagerly() else "graph"


def get_table(
    name: str,
    shape: tuple[int, int],
    initializer: Any,
    trainable: bool = True,
    collections: Any = None,
) -> Any:
    """Returns a table of the current variable scope; creates it if necessary.

    Args:
        name: name of the variable within the scope.
        shape: (rows, dimension).
        initializer: initializer of the variable.
        trainable: whether optimizers see the variable.
        collections: names of the variable's graph collections; None for the default.

    Returns:
        The table in the form that lookups take.

    Raises:
        ValueError: the graph can't have a variable of this name, or the initializer makes none of
            this shape.
    """
    check_name(name, "Table", in_scope=bool(tf1.get_variable_scope().name))
    create = functools.partial(tf1.get_variable, collections=collections)
    return storage.create_table(create, name, shape, initializer, trainable)


def record_core_table(
    table: str, name: str, *, scope: str | None = None, column_name: str = "", shared: bool
) -> None:
    """Records in the default graph the variable scope that uses a table of the embedding core.

    Args:
        table: the column's `get_embedding_var_name()`.
        name: name of the variable within the scope.
        scope: full name of the variable scope; None for the current one.
        column_name: suffix of the layer's scope for the column; '' without a layer.
        shared: whether the table may be used in several scopes; the first one names it.

    Raises:
        ValueError: the table is already used in another scope.
    """
    recorded = shared_state.graph_dict(tf1.get_default_graph(), shared_state.CORE_TABLES)
    if scope is None:
        scope = tf1.get_variable_scope().name
    if not scope.endswith(column_name):
        # Newer Keras layers name variables by the name scope without a replica's prefix.
        scope = _REPLICA.sub("", tf1.get_default_graph().get_name_scope())
    known = recorded.setdefault(table, CoreTable(scope, name))
    if known.scope != scope and not shared:
        raise ValueError(
            f"For embedding var name {table}, the variable scope name is different, got {scope}; "
            f"expected {known.scope}. A table has one name, so use its column in one feature "
            "layer only, or share it by shared_embedding_columns."
        )
    if known.name != name:
        raise ValueError(
            f"For embedding var name {table}, the embedding name is different, got {name}; "
            f"expected {known.name}."
        )


def core_tables(graph: tf.Graph) -> dict[str, CoreTable]:
    """Returns the recorded tables of the embedding core, by `get_embedding_var_name()`."""
    return dict(shared_state.graph_dict(graph, shared_state.CORE_TABLES))


def scope_named(name: str | None) -> Any:
    """Returns the current variable scope under another full name; None: as it is."""
    current = tf1.get_variable_scope()
    if name is None:
        return current
    return tf1.VariableScope(
        reuse=current.reuse,
        name=name,
        initializer=current.initializer,
        regularizer=current.regularizer,
        caching_device=current.caching_device,
        partitioner=current.partitioner,
        custom_getter=current.custom_getter,
        dtype=current.dtype,
        use_resource=current.use_resource,
        constraint=current.constraint,
    )
