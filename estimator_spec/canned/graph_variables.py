# SPDX-License-Identifier: Apache-2.0
"""Finds the variables and update ops that a part of a model adds to the graph."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
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
def collecting(others: Iterable[Any] = ()) -> Iterator[Added]:
    """Yields an `Added`, which has the variables and ops once the context has ended.

    Unlike a search by scope, this finds a table of shared columns, whose name has no scope.

    Args:
        others: variables of other parts of the model, which this one may use, too.
    """
    added, known = Added(), {id(variable) for variable in others}

    def add(variables: Iterable[Any]) -> None:
        for variable in variables:
            if variable.trainable and id(variable) not in known:
                known.add(id(variable))
                added.variables.append(variable)

    def get(getter: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        variable = getter(*args, **kwargs)
        add(variable if storage.is_partitioned(variable) else [variable])
        return variable

    kinds = (tf1.GraphKeys.TRAINABLE_VARIABLES, tf1.GraphKeys.UPDATE_OPS)
    before = [len(tf1.get_collection(kind)) for kind in kinds]
    # When the second replica of a MirroredStrategy gets its variables, the first one has put them
    # into the collection.
    scope = tf1.get_variable_scope()
    with tf1.variable_scope(scope, custom_getter=get, auxiliary_name_scope=False):
        yield added
    # What a column makes by tf.Variable isn't got by name.
    variables, added.update_ops = (
        tf1.get_collection(kind)[start:] for kind, start in zip(kinds, before, strict=True)
    )
    add(variables)
