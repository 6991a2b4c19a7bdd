# SPDX-License-Identifier: Apache-2.0
"""Numbers the features that boosted trees split by, in the order of their columns' names."""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from estimator_spec.core._tensorflow import private
from estimator_spec.heads.feature_columns import sorted_columns


class TreeFeatureKind(enum.Enum):
    """Meaning of a feature's integers.

    QUANTILE: number of the interval between quantiles of a numeric column's element.
    BUCKET: numbers of a bucketized column's buckets.
    COUNT: how often an example has one of an indicator column's ids.
    ID: the id of a categorical column.
    """

    QUANTILE = "quantile"
    BUCKET = "bucket"
    COUNT = "count"
    ID = "id"


class TreeFeature(NamedTuple):
    """A feature of boosted trees; trees name it by its position among all features.

    Attributes:
        name: under which importances and contributions are added up.
        kind: what its integers are.
        column: its feature column.
        element: which element of the column it is.
        width: number of its integers; only those of a bucketized column may be more than one.
    """

    name: str
    kind: TreeFeatureKind
    column: Any
    element: int = 0
    width: int = 1


class BoostedTreesModel(NamedTuple):
    """The model of a boosted trees estimator; each has it as the attribute `boosted_trees_model`.

    Attributes:
        head: its head.
        features: its features.
    """

    head: Any
    features: tuple[TreeFeature, ...]


def number_features(feature_columns: Any) -> tuple[TreeFeature, ...]:
    """Returns the features of columns.

    >>> import tensorflow as tf
    >>> age = tf.feature_column.numeric_column("age")
    >>> place = tf.feature_column.numeric_column("place", shape=(2,))
    >>> columns = [place, tf.feature_column.bucketized_column(age, [20, 40])]
    >>> [feature.name for feature in number_features(columns)]
    ['age_bucketized', 'place', 'place']

    Args:
        feature_columns: numeric, bucketized, indicator and categorical columns.

    Raises:
        ValueError: a column is of another kind, or two have the same name.
    """
    kinds = (private.DenseColumn, private.CategoricalColumn)
    columns = sorted_columns(feature_columns, kinds, "DenseColumn or CategoricalColumn")
    return tuple(feature for column in columns for feature in _features_of(column))


def _features_of(column: Any) -> Iterator[TreeFeature]:
    make = _MAKERS.get(type(column).__name__)
    if make is None and not isinstance(column, private.CategoricalColumn):
        raise ValueError(
            f"Column {column.name!r}, a {type(column).__name__}, can't be a feature of boosted "
            "trees: they take numeric, bucketized, indicator and categorical columns."
        )
    yield from (make or _of_ids)(column)


def _of_numbers(column: Any) -> Iterator[TreeFeature]:
    for element in range(math.prod(column.shape)):
        yield TreeFeature(column.name, TreeFeatureKind.QUANTILE, column, element)


def _of_buckets(column: Any) -> Iterator[TreeFeature]:
    yield TreeFeature(
        column.name, TreeFeatureKind.BUCKET, column, width=math.prod(column.source_column.shape)
    )


def _of_counts(column: Any) -> Iterator[TreeFeature]:
    categorical = column.categorical_column
    for element in range(categorical.num_buckets):
        yield TreeFeature(categorical.name, TreeFeatureKind.COUNT, column, element)


def _of_ids(column: Any) -> Iterator[TreeFeature]:
    yield TreeFeature(column.name, TreeFeatureKind.ID, column)


# By the names of classes: a bucketized column is both a dense and a categorical column.
_MAKERS: dict[str, Callable[[Any], Iterator[TreeFeature]]] = {
    "NumericColumn": _of_numbers,
    "BucketizedColumn": _of_buckets,
    "IndicatorColumn": _of_counts,
}
