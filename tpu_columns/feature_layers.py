# SPDX-License-Identifier: Apache-2.0
"""Feature layers that map a features dict to one tensor: TF1's two functions, Keras' two layers."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from typing import Any

import tensorflow as tf

from tpu_columns import _tensorflow as private
from tpu_columns import categorical, eager_tables, engine, native_lookup
from tpu_columns.column_types import EmbeddingColumn, SharedEmbeddingColumn, TPUEmbeddingColumn
from tpu_columns.layer_inputs import check_features_of

tf1 = tf.compat.v1


def input_layer(
    features: dict[str, Any],
    feature_columns: Iterable[Any],
    weight_collections: Iterable[str] | None = None,
    trainable: bool = True,
    cols_to_vars: dict[Any, Any] | None = None,
    cols_to_output_tensors: dict[Any, Any] | None = None,
) -> tf.Tensor:
    """Looks up columns and concatenates the results, as TF1's `input_layer`.

    Unlike TF1's, it accepts shared columns. Variables are named
    `input_layer/<column name>/embedding_weights`; a shared table has its collection's name, outside
    of the layer's scope.

    Args:
        features: tensors by feature key.
        feature_columns: TPU embedding columns and any other dense columns.
        weight_collections: graph collections to which variables are added.
        trainable: whether variables are trainable.
        cols_to_vars: if given, filled with the variables of each column.
        cols_to_output_tensors: if given, filled with the tensor of each column.

    Returns:
        Floats, [batch, sum of dimensions], columns sorted by name.

    Raises:
        ValueError: a column is a sequence column or isn't dense, two columns have the same name,
            or a feature is missing.
        TypeError: the features are no dict, or the columns no list.
    """
    _check_features(features)
    columns = _as_list(feature_columns)
    for column in columns:
        if not isinstance(column, TPUEmbeddingColumn):
            check_features_of(column, features)
    build = _input_layer if _takes_few_ops(columns) else tf1.feature_column.input_layer
    with eager_tables.calling_input_layer():
        tensor = build(
            features,
            columns,
            weight_collections=weight_collections,
            trainable=trainable,
            cols_to_vars=cols_to_vars,
            cols_to_output_tensors=cols_to_output_tensors,
        )
        if cols_to_vars is not None:
            _add_shared_tables(columns, cols_to_vars)
    return tensor


def sequence_input_layer(
    features: dict[str, Any],
    feature_columns: Iterable[Any],
    weight_collections: Iterable[str] | None = None,
    trainable: bool = True,
) -> tuple[tf.Tensor, tf.Tensor]:
    """Looks up every step of sequence columns, as `tf.contrib`'s `sequence_input_layer`.

    Variables are named `sequence_input_layer/<column name>/embedding_weights`; shared tables as in
    `input_layer`.

    Args:
        features: tensors by feature key.
        feature_columns: sequence columns; all with the same `max_sequence_length`.
        weight_collections: graph collections to which variables are added.
        trainable: whether variables are trainable.

    Returns:
        embeddings: floats, [batch, max_sequence_length, sum of dimensions], columns sorted by name.
        lengths: int64, [batch]. The graph asserts that the columns' lengths agree.

    Raises:
        ValueError: a column isn't a sequence column, columns differ in max_sequence_length, or a
            feature is missing.
        TypeError: the features are no dict, or the columns no list.
    """
    _check_features(features)
    columns = _as_list(feature_columns)
    _check_sequence_columns(columns)
    columns.sort(key=lambda column: column.name)
    collections = _variable_collections(weight_collections)
    with tf1.variable_scope(None, default_name="sequence_input_layer"):
        builder = private.LazyBuilder(features)
        tensors, lengths = [], []
        for column in columns:
            is_v1 = isinstance(column, private.SequenceDenseColumnV1)
            name = private.scope_name(column) if is_v1 else column.name
            with tf1.variable_scope(None, default_name=name):
                if is_v1:
                    tensor, length = private.sequence_tensor(
                        column, builder, weight_collections=list(collections), trainable=trainable
                    )
                else:  # sequence_numeric_column
                    cache = categorical.BuilderCache(builder)
                    tensor, length = column.get_sequence_dense_tensor(cache, None)
                shape = tf.shape(tensor)
                width = column.variable_shape.num_elements()
                flat = tf.reshape(tensor, [shape[0], shape[1], width])
                flat.set_shape([tensor.shape[0], tensor.shape[1], width])
                tensors.append(flat)
                lengths.append(tf.cast(length, tf.int64))
        with tf.control_dependencies(_assert_equal_lengths(columns, lengths)):
            return tf.concat(tensors, -1), tf.identity(lengths[0])


def __getattr__(name: str) -> Any:
    """Returns Keras' layers; they are imported at the first access only."""
    if name in ("DenseFeatures", "SequenceFeatures"):
        return _legacy_keras_layer(name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _legacy_keras_layer(name: str) -> Any:
    layers = tf.keras.layers
    found = getattr(layers, name, None)
    if found is None:
        # SequenceFeatures is public under experimental only; Keras 3 has neither layer.
        found = getattr(getattr(tf.keras, "experimental", None), name, None)
    if found is None:
        raise RuntimeError(
            f"{name} needs legacy Keras, but tf.keras is Keras "
            f"{getattr(tf.keras, '__version__', '3')}. Install the tf_keras of your TensorFlow's "
            "version and set TF_USE_LEGACY_KERAS=1 before anything uses tf.keras."
        )
    return found


def _takes_few_ops(columns: list[Any]) -> bool:
    """Returns whether `_input_layer` may replace TensorFlow's function, which makes more ops.

    TensorFlow's raises the errors of columns that aren't dense, or have the same name.
    """
    return (
        engine.of_graph().is_native
        and all(isinstance(column, private.DenseColumnV1) for column in columns)
        and len({column.name for column in columns}) == len(columns)
    )


def _input_layer(
    features: dict[str, Any],
    columns: list[Any],
    *,
    weight_collections: Iterable[str] | None,
    trainable: bool,
    cols_to_vars: dict[Any, Any] | None,
    cols_to_output_tensors: dict[Any, Any] | None,
) -> tf.Tensor:
    """Builds an input layer from few ops; see `input_layer`."""
    columns = sorted(columns, key=lambda column: column.name)
    collections = _variable_collections(weight_collections)
    tensors: list[Any] = []
    with tf1.variable_scope(None, default_name="input_layer"):
        builder = private.LazyBuilder(features)
        for column in columns:
            with tf1.variable_scope(None, default_name=private.scope_name(column)) as scope:
                with _lookups_joined(column):
                    tensor = private.dense_tensor(column, builder, collections, trainable)
                tensors.append(_flat(column, tensor))
                if cols_to_vars is not None:
                    variables = tf1.get_collection(tf1.GraphKeys.GLOBAL_VARIABLES, scope.name)
                    cols_to_vars[column] = variables
        _check_batch_sizes(columns, tensors)
        layer = native_lookup.join(tensors)
        if cols_to_output_tensors is not None:
            if any(isinstance(tensor, native_lookup.Pending) for tensor in tensors):
                tensors = tf.split(layer, [int(tensor.shape[1]) for tensor in tensors], 1)
            cols_to_output_tensors.update(zip(columns, tensors, strict=True))
        return layer


def _lookups_joined(column: Any) -> contextlib.AbstractContextManager[None]:
    """Defers the lookup of a column that returns it as it is."""
    is_ours = type(column) in (EmbeddingColumn, SharedEmbeddingColumn)
    return native_lookup.deferring() if is_ours else contextlib.nullcontext()


def _flat(column: Any, tensor: tf.Tensor) -> tf.Tensor:
    """Returns a column's tensor as a matrix [batch, elements]."""
    elements = private.variable_shape(column).num_elements()
    if tensor.shape.rank == 2 and tensor.shape.as_list()[1] == elements:
        return tensor
    return tf.reshape(tensor, [tf.shape(tensor)[0], elements])


def _check_batch_sizes(columns: list[Any], tensors: list[Any]) -> None:
    """Checks that all columns have the same number of rows, where the graph knows the numbers.

    Args:
        columns: the columns.
        tensors: [batch, ...] of each.
    """
    pairs = zip(columns, tensors, strict=True)
    sizes = {column.name: tensor.shape.as_list()[0] for column, tensor in pairs}
    known = {name: size for name, size in sizes.items() if size is not None}
    if len(set(known.values())) > 1:
        raise ValueError(
            f"Batch size (first dimension) of each feature must be same, got {known} by column. "
            "Return features with the same number of rows in input_fn."
        )


def _variable_collections(names: Iterable[str] | None) -> list[str]:
    """Returns the graph collections of a layer's variables."""
    collections = list(names or [])
    for key in (tf1.GraphKeys.GLOBAL_VARIABLES, tf1.GraphKeys.MODEL_VARIABLES):
        if key not in collections:
            collections.append(key)
    return collections


def _check_features(features: Any) -> None:
    if not isinstance(features, Mapping):
        raise TypeError(
            "features must be a dict of tensors by feature key, but is a "
            f"{type(features).__name__}. Return a dict in input_fn."
        )


def _as_list(feature_columns: Any) -> list[Any]:
    if isinstance(feature_columns, dict):
        raise ValueError(
            "Expected feature_columns to be iterable, found dict. Pass "
            "list(feature_columns.values())."
        )
    if isinstance(feature_columns, TPUEmbeddingColumn):
        return [feature_columns]
    if not isinstance(feature_columns, Iterable):
        raise TypeError(f"feature_columns must be a list of columns, got {feature_columns!r}.")
    columns = list(feature_columns)
    if not columns:
        raise ValueError("feature_columns must not be empty.")
    return columns


def _add_shared_tables(columns: list[Any], cols_to_vars: dict[Any, Any]) -> None:
    """Adds shared tables, which aren't in the column's scope, where TensorFlow looks for them."""
    for column in columns:
        if isinstance(column, SharedEmbeddingColumn):
            # A core's tables aren't the model's variables.
            cols_to_vars[column] = [] if column._core_looks_up() else [column._shared_table()]


def _check_sequence_columns(columns: list[Any]) -> None:
    names = set()
    for column in columns:
        kinds = (private.SequenceDenseColumnV1, private.SequenceDenseColumn)
        if not isinstance(column, kinds):
            raise ValueError(
                "All feature_columns must be of type _SequenceDenseColumn. You can wrap a "
                "sequence_categorical_column with an embedding_column. Given (type "
                f"{type(column)}): {column}"
            )
        if column.name in names:
            raise ValueError(f"Duplicate feature column name found for columns: {column.name!r}.")
        names.add(column.name)
    lengths = {c.name: c.max_sequence_length for c in columns if isinstance(c, TPUEmbeddingColumn)}
    if len(set(lengths.values())) > 1:
        raise ValueError(
            "Columns of one sequence_input_layer must have the same max_sequence_length to be "
            f"joined along their last axis, got {lengths}. Use a layer for each length."
        )


def _assert_equal_lengths(columns: list[Any], lengths: list[tf.Tensor]) -> list[Any]:
    return [
        tf1.assert_equal(
            lengths[0],
            other,
            message=f"Sequences of {columns[0].name} and {column.name} differ in length",
        )
        for column, other in zip(columns[1:], lengths[1:], strict=True)
    ]
