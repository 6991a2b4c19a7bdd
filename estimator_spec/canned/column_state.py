# SPDX-License-Identifier: Apache-2.0
"""Checks feature columns; creates their variables in TF1 variable scopes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import tensorflow as tf

tf1 = tf.compat.v1

_INVALID = re.compile(r"[^A-Za-z0-9_.\-]")


class ScopedState:
    """State manager of feature columns, with variables in the current TF1 variable scope.

    Feature layers pass such an object to the methods of columns, which create their variables and
    vocabulary tables by it. Keras' layers own theirs; here the variable scope names a variable and
    chooses its kind and its partitions.
    """

    def __init__(self) -> None:
        self._variables: dict[tuple[Any, str], Any] = {}
        self._resources: dict[tuple[Any, str], Any] = {}

    def create_variable(
        self,
        feature_column: Any,
        name: str,
        shape: Any,
        dtype: Any = None,
        trainable: bool = True,
        use_resource: bool = True,
        initializer: Any = None,
    ) -> Any:
        """Creates and returns a variable of a column; its kind is that of the scope."""
        del use_resource
        variable = tf1.get_variable(
            name, tuple(shape), dtype or tf.float32, initializer, trainable=trainable
        )
        self._variables[feature_column, name] = variable
        return variable

    def get_variable(self, feature_column: Any, name: str) -> Any:
        """Returns a variable that a column created, or raises a ValueError."""
        if (feature_column, name) not in self._variables:
            raise ValueError(f"Column {feature_column.name!r} has no variable {name!r}.")
        return self._variables[feature_column, name]

    def add_resource(self, feature_column: Any, name: str, resource: Any) -> None:
        """Keeps a resource of a column, such as its vocabulary table."""
        self._resources[feature_column, name] = resource

    def has_resource(self, feature_column: Any, name: str) -> bool:
        """Returns whether a column has a resource of this name."""
        return (feature_column, name) in self._resources

    def get_resource(self, feature_column: Any, name: str) -> Any:
        """Returns a resource of a column, or raises a ValueError."""
        if not self.has_resource(feature_column, name):
            raise ValueError(f"Column {feature_column.name!r} has no resource {name!r}.")
        return self._resources[feature_column, name]


def check_features(features: Any) -> None:
    """Checks that features are a dict, or raises a ValueError."""
    if not isinstance(features, Mapping):
        raise ValueError(
            "features should be a dictionary of `Tensor`s. Given type: "
            f"{type(features)}. Return a dict by feature key in input_fn."
        )


def list_of_columns(
    columns: Any, kinds: tuple[type, ...], argument: str = "feature_columns"
) -> list[Any]:
    """Returns one column or an iterable of columns as a list.

    Args:
        columns: the columns.
        kinds: classes of columns; columns are tuples, too.
        argument: name of the argument, for the message.

    Raises:
        ValueError: it is something else.
    """
    if isinstance(columns, kinds):
        return [columns]
    if isinstance(columns, (Mapping, str)) or not isinstance(columns, Iterable):
        raise ValueError(
            f"Expected {argument} to be iterable, found "
            f"{'dict' if isinstance(columns, Mapping) else repr(columns)}. Pass a list of columns."
        )
    return list(columns)


def sorted_columns(columns: Any, kinds: tuple[type, ...], expected: str) -> list[Any]:
    """Returns columns sorted by name, the order of their sums and concatenation.

    Args:
        columns: one column or an iterable of columns.
        kinds: classes of accepted columns.
        expected: names of these classes, for the message.

    Raises:
        ValueError: there is none, a column is of another class, or two have the same name.
    """
    columns = list_of_columns(columns, kinds)
    wrong = [column for column in columns if not isinstance(column, kinds)]
    if wrong:
        raise ValueError(
            f"Items of feature_columns must be a {expected}. Given (type {type(wrong[0])}): "
            f"{wrong[0]}. You can wrap a categorical column with an embedding_column or "
            "indicator_column, for a deep model."
        )
    found: dict[str, Any] = {}
    for column in columns:
        if column.name in found:
            raise ValueError(
                "Duplicate feature column name found for columns: "
                f"{found[column.name]} and {column}. Leave one out, or give the feature a second "
                "key in input_fn."
            )
        found[column.name] = column
    if not found:
        raise ValueError("feature_columns must not be empty.")
    return [found[name] for name in sorted(found)]


def scope_name(column: Any) -> str:
    """Returns the name of a column's variable scope: its name, with `_` for invalid characters."""
    return _INVALID.sub("_", column.name)


def flat(tensor: Any, column: Any) -> Any:
    """Returns the tensor of a dense column as a matrix, [batch, number of elements].

    Args:
        tensor: floats, [batch, …].
        column: the column.
    """
    return tf.reshape(tensor, [-1, column.variable_shape.num_elements()])
