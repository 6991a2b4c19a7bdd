# SPDX-License-Identifier: Apache-2.0
"""Inputs that a feature layer passes to a column, with ragged features and errors handled."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from tpu_columns import _tensorflow as private
from tpu_columns import categorical, placement
from tpu_columns.categorical import BuilderCache, CategoricalFeature
from tpu_columns.lookup_errors import check_counts


class LayerInputs(NamedTuple):
    """Inputs of one column's lookup.

    Attributes:
        cache: transformation cache over the features dict.
        state_manager: owner of vocabulary tables, or None in a TF1 graph.
        table: returns the table.
        features: the features by key, as the model passed them to the layer.
    """

    cache: Any
    state_manager: Any
    table: Callable[[], Any]
    features: Mapping[Any, Any]


class _ReplacingCache(BuilderCache):
    """Transformation cache with some features in place of those of another cache."""

    def __init__(self, cache: Any, features: dict[str, Any]) -> None:
        super().__init__(cache)
        self._features = features

    def _feature(self, key: str, state_manager: Any) -> Any:
        feature = self._features.get(key)
        return self._builder.get(key, state_manager) if feature is None else feature


def convert_ragged(inputs: LayerInputs, feature: CategoricalFeature) -> LayerInputs:
    """Returns inputs whose cache has a column's ragged ids and weights as sparse tensors.

    TensorFlow's caches accept dense and sparse features only.

    Args:
        inputs: the inputs of the column.
        feature: its categorical feature.
    """
    sparse: dict[str, tf.SparseTensor] = {
        key: inputs.features[key].to_sparse()
        for key in (feature.feature_key, feature.weight_key)
        if key is not None and isinstance(inputs.features.get(key), tf.RaggedTensor)
    }
    return inputs._replace(cache=_ReplacingCache(inputs.cache, sparse)) if sparse else inputs


def cast_weights(inputs: LayerInputs, feature: CategoricalFeature) -> LayerInputs:
    """Returns inputs whose weights have the column's dtype, if CPUs replace a TPU.

    A TPU casts weights of any number type to floats; TensorFlow's column on a CPU refuses them.

    Args:
        inputs: the inputs of the column, without ragged tensors.
        feature: its categorical feature.
    """
    key, dtype = feature.weight_key, feature.weight_dtype
    if key is None or dtype is None or not dtype.is_floating or not placement.replaces_tpu():
        return inputs
    weights = inputs.cache.get(key, inputs.state_manager)
    given = weights.dtype
    if given == dtype or not (given.is_integer or given.is_floating or given.is_bool):
        return inputs
    cast = tf.cast(weights, dtype)
    return inputs._replace(cache=_ReplacingCache(inputs.cache, {key: cast}))


def check_features_of(column: Any, features: Mapping[Any, Any], ragged: Iterable[Any] = ()) -> None:
    """Checks that the features that a column of TensorFlow reads are of a kind that it can take.

    Args:
        column: a feature column of any kind; other objects are left out.
        features: the features by key.
        ragged: keys of the features that may be ragged.

    Raises:
        ValueError: a numeric column's feature holds strings, a feature is ragged, or the weights of
            a weighted column are missing, of a wrong dtype or of another number than its ids.
    """
    for parent, key in _features_read(column):
        feature = features.get(key)
        if isinstance(parent, private.WeightedCategoricalColumn):
            _check_weights(column.name, parent, features)
        is_numeric = isinstance(parent, private.NumericColumn)
        where = f"Column {column.name!r}: feature {key!r}"
        # A normalizer_fn may make numbers of strings.
        if is_numeric and parent.normalizer_fn is None and _holds_strings(feature):
            raise ValueError(
                f"{where} holds strings, but numeric_column casts it to {parent.dtype.name}. "
                "Convert it in input_fn by tf.strings.to_number, or make a categorical column."
            )
        if isinstance(feature, tf.RaggedTensor) and (is_numeric or key not in ragged):
            remedy = (
                f"pad or cut its rows to numeric_column's shape {parent.shape} by to_tensor()"
                if is_numeric
                else "turn it into a sparse one by to_sparse()"
            )
            raise ValueError(
                f"{where} is a ragged tensor of {feature.dtype.name}, which TensorFlow's columns "
                f"don't take: in input_fn {remedy}."
            )


def _check_weights(name: str, column: Any, features: Mapping[Any, Any]) -> None:
    """Checks the weights of a weighted categorical column, as far as the graph knows them."""
    feature = categorical.read(column)
    ids, weights = (features.get(key) for key in (feature.feature_key, feature.weight_key))
    where = f"Column {name!r} of feature {feature.feature_key!r}"
    if feature.weight_key not in features:
        raise ValueError(
            f"{where}: Feature {feature.weight_key} is not in features dictionary. "
            f"{_given(features)}"
        )
    dtype = getattr(weights, "dtype", None)
    if isinstance(dtype, tf.DType) and dtype != column.dtype:
        raise ValueError(
            f"{where}: Bad dtype, expected {column.dtype}, but got {dtype}. "
            f"{_cast_weights(feature.weight_key)}"
        )
    if isinstance(ids, tf.SparseTensor) and isinstance(weights, tf.SparseTensor):
        check_counts(name, feature.feature_key, ids, weights, feature.weight_key)


def _given(features: Mapping[Any, Any]) -> str:
    return f"The features are {sorted(key for key in features if isinstance(key, str))}."


def _cast_weights(key: str | None) -> str:
    return (
        f"The weights {key!r} must have the dtype of the weighted_categorical_column: cast them in "
        "input_fn, or declare their dtype there."
    )


def _features_read(column: Any) -> Iterator[tuple[Any, str]]:
    """Yields the keys of the features that a column reads, each with the column that reads it."""
    for parent in getattr(column, "parents", ()):
        if isinstance(parent, str):
            yield column, parent
        else:
            yield from _features_read(parent)


def _holds_strings(feature: Any) -> bool:
    dtype = getattr(feature, "dtype", None)
    if feature is None or isinstance(dtype, tf.DType):
        return dtype == tf.string
    return np.asarray(feature).dtype.kind in "SU"


@contextlib.contextmanager
def explain_feature_errors(
    inputs: LayerInputs, column_name: str, feature: CategoricalFeature
) -> Iterator[None]:
    """Adds column and remedy to TensorFlow's errors of missing features and wrong dtypes.

    Args:
        inputs: the inputs of the column.
        column_name: its name.
        feature: its categorical feature.

    Raises:
        ValueError: such an error was raised in the block.
    """
    try:
        yield
    except ValueError as error:
        known = {
            "is not in features dictionary": _given(inputs.features),
            "Bad dtype, expected": _cast_weights(feature.weight_key),
            "None values not supported": "Its ids or weights are None: input_fn must give tensors.",
            "Invalid input, not integer": "Map the values to integer ids in input_fn.",
        }
        for text, remedy in known.items():
            if text in str(error):
                raise ValueError(
                    f"Column {column_name!r} of feature {feature.feature_key!r}: {error} {remedy}"
                ) from error
        raise
