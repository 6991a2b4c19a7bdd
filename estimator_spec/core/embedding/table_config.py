# SPDX-License-Identifier: Apache-2.0
"""Configurations of one table and of one feature, for specs in dict mode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from estimator_spec.core.common import argument_rules
from estimator_spec.core.embedding.optimizer_base import check_learning_rate
from estimator_spec.core.embedding.optimizers import OptimizationParameters
from tpu_columns.checks import is_int
from tpu_columns.kernels.calls import check_combiner
from tpu_columns.tables import default_initializer


class _TableFields(NamedTuple):
    vocabulary_size: int
    dimension: int
    initializer: Callable[..., Any]
    combiner: str | None
    hot_id_replication: bool
    learning_rate: float | None
    learning_rate_fn: Callable[..., Any] | None
    optimization_parameters: OptimizationParameters | None


class TableConfig(_TableFields):
    """Configuration of one embedding table.

    >>> TableConfig(1000, 16, combiner='sum').dimension
    16

    Args:
        vocabulary_size: number of rows V, an int >= 1.
        dimension: length of a row D, an int >= 1.
        initializer: initializer of the table. Default: truncated normal, mean 0, standard deviation
            1/√dimension.
        combiner: reduction of an example's rows: 'mean' (the default), 'sum', 'sqrtn', or None for
            features with one id per example.
        hot_id_replication: whether a TPU replicates frequently used rows. Default False; changes
            speed only.
        learning_rate: learning rate of this table; excludes `learning_rate_fn`. None (the default)
            and 0 take the optimizer's (a `learning_rate_fn` may return 0).
        learning_rate_fn: function of the global step that returns this table's learning rate.
        optimization_parameters: optimizer of this table. None (the default) takes the spec's.

    Raises:
        ValueError: a value is out of range, or both rates are given.
        TypeError: the learning rate is no number.
    """

    __slots__ = ()

    def __new__(
        cls,
        vocabulary_size: int,
        dimension: int,
        initializer: Callable[..., Any] | None = None,
        combiner: str | None = "mean",
        hot_id_replication: bool = False,
        learning_rate: float | None = None,
        learning_rate_fn: Callable[..., Any] | None = None,
        optimization_parameters: OptimizationParameters | None = None,
    ) -> TableConfig:
        """Checks the values; see the class."""
        argument_rules.check("TableConfig", locals())
        if not is_int(vocabulary_size) or vocabulary_size < 1:
            raise ValueError(
                f"vocabulary_size must >= 1. It must be an int. Received: {vocabulary_size!r}."
            )
        if not is_int(dimension) or dimension < 1:
            raise ValueError(f"dimension must be a positive int. Received: {dimension!r}.")
        if initializer is not None and not callable(initializer):
            raise ValueError(
                f"initializer must be callable if specified. Received: {initializer!r}."
            )
        check_combiner(
            combiner, f'combiner must be "mean", "sum", "sqrtn" or None. Received: {combiner!r}.'
        )
        if learning_rate is not None and learning_rate_fn is not None:
            raise ValueError(
                "At most one of learning_rate and learning_rate_fn can be given. Received: "
                f"{learning_rate} and {learning_rate_fn}"
            )
        check_learning_rate("TableConfig: learning_rate", learning_rate)
        if learning_rate_fn is not None and not callable(learning_rate_fn):
            raise ValueError(
                "learning_rate_fn must be callable if specified, a function of the global step. "
                f"Received: {learning_rate_fn!r}."
            )
        _check_table_optimizer(optimization_parameters)
        return super().__new__(
            cls,
            int(vocabulary_size),
            int(dimension),
            initializer or default_initializer(dimension),
            combiner,
            hot_id_replication,
            learning_rate,
            learning_rate_fn,
            optimization_parameters,
        )


class _FeatureFields(NamedTuple):
    table_id: str
    max_sequence_length: int
    weight_key: str | None


class FeatureConfig(_FeatureFields):
    """Configuration of one feature that is looked up in a table.

    Args:
        table_id: key of the table.
        max_sequence_length: length L to which a sequence feature is truncated or padded; 0 (the
            default) for features that are no sequences.
        weight_key: key of the weights in the features dict, or None.

    Raises:
        ValueError: the length is not an int, or negative.
        TypeError: a key isn't a string.
    """

    __slots__ = ()

    def __new__(
        cls, table_id: str, max_sequence_length: int = 0, weight_key: str | None = None
    ) -> FeatureConfig:
        """Checks the values; see the class."""
        if not isinstance(table_id, str):
            raise TypeError(
                f"FeatureConfig: table_id must be a string, the key of the feature's table in "
                f"table_to_config_dict; got {table_id!r}."
            )
        if weight_key is not None and not isinstance(weight_key, str):
            raise TypeError(
                "FeatureConfig: weight_key must be a string, the key of the weights in the "
                f"features dict, or None; got {weight_key!r}."
            )
        if not is_int(max_sequence_length) or max_sequence_length < 0:
            raise ValueError(
                f"max_sequence_length must be zero or a positive int, got {max_sequence_length!r}."
            )
        return super().__new__(cls, table_id, int(max_sequence_length), weight_key)


def _check_table_optimizer(parameters: Any) -> None:
    if parameters is not None and not isinstance(parameters, OptimizationParameters):
        raise ValueError(
            "`optimization_parameters` must be one of estimator_spec's parameter classes, such as "
            "AdagradParameters. Received: `type(optimization_parameters)`="
            f"{type(parameters)}."
        )
