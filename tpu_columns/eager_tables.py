# SPDX-License-Identifier: Apache-2.0
"""Finds the shared tables of eager code, each of which belongs to a model, a layer or a scope.

In a graph all columns of a collection share one table. Outside of graphs, where several models live
side by side, the first of these owns a table:

    the innermost `with sharing_tables():`
    the outermost Keras model (or `tf.Module`) that is called, when its feature layers are built
    the feature layer; or the call of `input_layer`
"""

from __future__ import annotations

import contextlib
import inspect
import weakref
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any

import tensorflow as tf

from tpu_columns import shared_state


class _Scope:
    """Owner of the tables of a `sharing_tables()`."""


# By the id of the owner, which may have no hash; an owner that is gone has no entry.
_owners: dict[int, tuple[weakref.ref[Any], dict[str, Any]]] = {}


@contextlib.contextmanager
def sharing_tables() -> Iterator[None]:
    """Makes the feature layers that are built within this context share tables, outside of graphs.

    Needed for the layers of a functional Keras model, which is made after they are built: columns
    of one `shared_embedding_columns` in two `DenseFeatures` then look up one table.
    """
    with shared_state.setting(shared_state.TABLES_SCOPE, _Scope()):
        yield


def calling_input_layer() -> AbstractContextManager[None]:
    """Makes this call of an input layer the owner of its tables, if no model or scope is."""
    return shared_state.setting(shared_state.INPUT_LAYER_CALL, _Scope())


def tables_of(default: Any) -> dict[str, Any]:
    """Returns the tables of the current owner, by name; to be filled.

    Args:
        default: the owner without a scope or model: what builds the lookup.
    """
    call = shared_state.INPUT_LAYER_CALL.get()
    owner = shared_state.TABLES_SCOPE.get() or _outermost_module() or call or default
    key = id(owner)
    if key not in _owners:
        _owners[key] = weakref.ref(owner), {}
        weakref.finalize(owner, _owners.pop, key, None)
    return _owners[key][1]


def check_one_table(name: str, table: Any) -> None:
    """Checks that no other layer of a functional Keras model has another table of this name.

    Args:
        name: name of the table.
        table: the table of a layer that is called.

    Raises:
        ValueError: another layer has one, and an op of the model reads both layers.
    """
    mine: list[Any] = []
    others: list[Any] = []
    for owner, tables in list(_owners.values()):
        layer = owner()
        if name in tables and hasattr(layer, "outbound_nodes"):
            (mine if tables[name].variable is table else others).append(layer)
    for layer in mine:
        read = _nodes_after(layer)
        for other in others:
            if not read.isdisjoint(_nodes_after(other)):
                raise ValueError(
                    f"Layers {layer.name!r} and {other.name!r} of one model have a table of the "
                    f"shared embedding {name!r} each, because they were built before the model was "
                    "made. Build the model within `with tpu_columns.sharing_tables():`, or give "
                    "the columns to one layer."
                )


@tf.autograph.experimental.do_not_convert  # AutoGraph would call `currentframe` elsewhere
def _outermost_module() -> Any:
    """Returns the outermost model or layer whose call is building something, or None.

    Neither Keras nor TensorFlow tells a layer which model calls it.
    """
    found = None
    frame = inspect.currentframe()
    while frame is not None:
        # AutoGraph, which converts some Keras, puts a prefix.
        if frame.f_code.co_name.removeprefix("tf__") in ("__call__", "call", "build"):
            called = frame.f_locals.get("self")
            if isinstance(called, tf.Module):
                found = called
        frame = frame.f_back
    return found


def _nodes_after(layer: Any) -> set[int]:
    """Returns the ids of the nodes of functional Keras models that depend on a layer's output."""
    found: dict[int, Any] = {}
    queue = list(layer.outbound_nodes)
    while queue:
        node = queue.pop()
        if id(node) not in found:
            found[id(node)] = node
            after = node.layer.outbound_nodes
            queue += [n for n in after if any(parent is node for parent in n.parent_nodes)]
    return set(found)
