# SPDX-License-Identifier: Apache-2.0
"""Finds the variables and update ops that a part of a model adds to the graph."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf

from tpu_columns import storage

tf1 = tf.compat.v1


class Added:
    """Variables and update ops that a part of a model has added to the default graph.

    Attributes:
        variables: its trainable variables.
        update_ops: ops to run in each training step, such as those of batch normalization.
    """

    def __init__(self) -> None:
        self.variables: list[Any] = []
        self.update_ops: list[Any] = []


@contextlib.contextmanager
def collecting() -> Iterator[Added]:
    """Yields an `Added`, which has the variables and ops once the context has ended.

    Unlike a search by scope, this finds a table of shared columns, whose name has no scope. Unlike
    one by collection, it finds the variables on each replica of a `MirroredStrategy`: when the
    second one asks for them, the first has put them into the collection.
    """
    added = Added()

    def get(getter: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        variable = getter(*args, **kwargs)
        parts = list(variable) if storage.is_partitioned(variable) else [variable]
        known = {id(each) for each in added.variables}
        added.variables += [part for part in parts if part.trainable and id(part) not in known]
        return variable

    scope = tf1.get_variable_scope()
    before = len(tf1.get_collection(tf1.GraphKeys.UPDATE_OPS))
    with tf1.variable_scope(scope, custom_getter=get, auxiliary_name_scope=False):
        yield added
    added.update_ops = tf1.get_collection(tf1.GraphKeys.UPDATE_OPS)[before:]
