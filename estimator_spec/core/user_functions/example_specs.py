# SPDX-License-Identifier: Apache-2.0
"""Makes the specs by which `tf.io.parse_example` reads features and labels of canned models."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import tensorflow as tf

from estimator_spec.core._tensorflow import private
from estimator_spec.core.common import argument_rules

Spec = dict[str, Any]


def classifier_parse_example_spec(
    feature_columns: Iterable[Any],
    label_key: str,
    label_dtype: Any = tf.int64,
    label_default: Any = None,
    weight_column: Any = None,
) -> Spec:
    """Returns the parsing spec of a classifier's features, label and weight.

    >>> age = tf.feature_column.numeric_column('age')
    >>> spec = classifier_parse_example_spec([age], 'income', label_dtype=tf.string)
    >>> spec['income']
    FixedLenFeature(shape=(1,), dtype=tf.string, default_value=None)

    Args:
        feature_columns: all feature columns of the model.
        label_key: name of the label in the `tf.Example`s, one value each.
        label_dtype: dtype of the label: `tf.int64` for class ids, `tf.string` for names of classes.
        label_default: label of an example without one. None: parsing it is an error.
        weight_column: name of the examples' weights, or a numeric column of them; or None.

    Returns:
        Parsing features by name, the argument `features` of `tf.io.parse_example`.

    Raises:
        ValueError: the label or the weight has the name of a feature, or the default isn't of the
            label's dtype.
        TypeError: the columns are no list, or the label's name is no string.
    """
    argument_rules.check("parse_example_spec", locals())
    label = tf.io.FixedLenFeature((1,), label_dtype, label_default)
    return _with_label(feature_columns, label_key, label, weight_column)


def regressor_parse_example_spec(
    feature_columns: Iterable[Any],
    label_key: str,
    label_dtype: Any = tf.float32,
    label_default: Any = None,
    label_dimension: int = 1,
    weight_column: Any = None,
) -> Spec:
    """Returns the parsing spec of a regressor's features, label and weight.

    >>> age = tf.feature_column.numeric_column('age')
    >>> regressor_parse_example_spec([age], 'price', label_dimension=2)['price'].shape
    (2,)

    Args:
        feature_columns: as for `classifier_parse_example_spec`.
        label_key: name of the label in the `tf.Example`s.
        label_dtype: dtype of the label.
        label_default: label of an example without one. None: parsing it is an error.
        label_dimension: number of values of a label.
        weight_column: as for `classifier_parse_example_spec`.

    Returns:
        As `classifier_parse_example_spec`.

    Raises:
        ValueError, TypeError: as for `classifier_parse_example_spec`.
    """
    argument_rules.check("parse_example_spec", locals())
    label = tf.io.FixedLenFeature((label_dimension,), label_dtype, label_default)
    return _with_label(feature_columns, label_key, label, weight_column)


def _with_label(columns: Iterable[Any], key: str, label: Any, weight_column: Any) -> Spec:
    """Returns the columns' parsing spec with a label and a weight."""
    spec = dict(tf.feature_column.make_parse_example_spec(columns))
    if key in spec:
        raise ValueError(
            f"label should not be used as feature. label_key: {key}, features: {sorted(spec)}. "
            "Give the label another name, or leave the column out."
        )
    spec[key] = label
    if weight_column is None:
        return spec
    if isinstance(weight_column, str):
        weight_column = tf.feature_column.numeric_column(weight_column)
    if not isinstance(weight_column, private.NumericColumn):
        raise ValueError(
            "weight_column should be an instance of tf.feature_column.numeric_column. Given type: "
            f"{type(weight_column)} value: {weight_column}"
        )
    weights = tf.feature_column.make_parse_example_spec([weight_column])
    for name in weights:
        if name in spec:
            raise ValueError(
                f"weight_column should not be used as feature. weight_column: {name}, features and "
                f"label: {sorted(spec)}. Give the weight another name."
            )
    return {**spec, **weights}
