# SPDX-License-Identifier: Apache-2.0
"""Creates the variables of feature columns in TF1 variable scopes; checks features."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf


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
        variable = tf.compat.v1.get_variable(
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


def flat(tensor: Any, column: Any) -> Any:
    """Returns the tensor of a dense column as a matrix, [batch, number of elements].

    Args:
        tensor: floats, [batch, …].
        column: the column.
    """
    return tf.reshape(tensor, [-1, column.variable_shape.num_elements()])
