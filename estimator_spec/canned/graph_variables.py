# SPDX-License-Identifier: Apache-2.0
"""Finds the variables and update ops that a part of a model adds to the graph."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import tensorflow as tf

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

    Unlike a search by scope, this finds a table of shared columns, whose name has no scope.
    """
    kinds = {
        "variables": tf1.GraphKeys.TRAINABLE_VARIABLES,
        "update_ops": tf1.GraphKeys.UPDATE_OPS,
    }
    before = {key: len(tf1.get_collection(key)) for key in kinds.values()}
    added = Added()
    yield added
    for name, key in kinds.items():
        setattr(added, name, tf1.get_collection(key)[before[key] :])
