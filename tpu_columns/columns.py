# SPDX-License-Identifier: Apache-2.0
"""Constructors of TPU embedding columns: `embedding_column` and `shared_embedding_columns`.

A column holds the feature, the table and the combiner of a lookup. It is independent of estimators,
optimizers and hardware: `placement.route` selects the device of the lookup, for the mode and
hardware that the driver sets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tpu_columns import categorical
from tpu_columns.checks import FLAG, check_rule
from tpu_columns.column_types import (
    EmbeddingColumn,
    SharedEmbeddingColumn,
    TPUEmbeddingColumn,
    check_dimension,
    parse_tensor_core_shape,
)
from tpu_columns.placement import LookupDevice
from tpu_columns.tables import default_initializer


def embedding_column(
    categorical_column: Any,
    dimension: int,
    combiner: str | None = "mean",
    initializer: Callable[..., Any] | None = None,
    max_sequence_length: int = 0,
    learning_rate_fn: Callable[..., Any] | None = None,
    embedding_lookup_device: str | LookupDevice | None = None,
    tensor_core_shape: Sequence[int | None] | None = None,
    use_safe_embedding_lookup: bool = True,
    invalid_ids: str | int | None = None,
) -> EmbeddingColumn:
    """Creates a column that looks up a categorical feature in a table of its own.

    Replaces `tf.compat.v1.tpu.experimental.embedding_column` and
    `tf.contrib.tpu.feature_column.embedding_column`.

    Args:
        categorical_column: from `tf.feature_column.categorical_column_with_identity`,
            `…_with_vocabulary_list`, `…_with_vocabulary_file`, `weighted_categorical_column`, or a
            `sequence_` form of the first three (weighted, too).
        dimension: width of the table, > 0.
        combiner: reduction of a row's embeddings to one vector: 'mean', 'sqrtn' or 'sum'. None is
            mean on a CPU and sum on a TPU.
        initializer: makes the table's initial values; default: truncated normal with mean 0 and
            standard deviation 1/√dimension.
        max_sequence_length: steps of a sequence column (> 0): longer sequences are truncated,
            shorter ones padded with zeros. 0 for other columns.
        learning_rate_fn: global step -> learning rate of this table on an embedding core. Pass the
            same function object to all columns with the same rate.
        embedding_lookup_device: 'cpu', 'tpu_tensor_core', 'tpu_embedding_core', or None; see
            `tpu_columns.route`.
        tensor_core_shape: [batch or None, n] of ids padded for the tensor core; required by
            'tpu_tensor_core'.
        use_safe_embedding_lookup: drop negative ids and ids of weight <= 0, return zeros for rows
            without ids. False is faster.
        invalid_ids: policy for ids that are negative or beyond the vocabulary, on every lookup
            device: 'error', 'drop', 'clip', 'mod', or the number of a default row. None takes the
            estimator's; without one, devices differ as in the legacy system. See
            `tpu_columns.invalid_ids`.

    Returns:
        The column.

    Raises:
        TypeError: the categorical column isn't supported (hashed, bucketized, crossed), or an
            argument has a wrong type.
        ValueError: an argument is out of range, or two contradict each other.

    >>> import tensorflow as tf
    >>> words = tf.feature_column.categorical_column_with_identity("words", num_buckets=1000)
    >>> column = embedding_column(words, dimension=16)
    >>> column.name, column.get_embedding_table_size()
    ('words_embedding', (1000, 16))
    """
    categorical.check_supported(categorical_column, "embedding_column")
    check_dimension(dimension)
    _check_initializer(initializer, categorical_column.name)
    check_rule(FLAG, "use_safe_embedding_lookup", use_safe_embedding_lookup)
    return EmbeddingColumn(
        categorical_column=categorical_column,
        dimension=dimension,
        combiner=combiner,
        initializer=initializer or default_initializer(dimension),
        max_sequence_length=max_sequence_length,
        learning_rate_fn=_check_learning_rate_fn(learning_rate_fn, categorical_column.name),
        embedding_lookup_device=LookupDevice.parse(embedding_lookup_device),
        tensor_core_shape=parse_tensor_core_shape(tensor_core_shape),
        use_safe_embedding_lookup=bool(use_safe_embedding_lookup),
        invalid_ids=invalid_ids,
    )


def shared_embedding_columns(
    categorical_columns: Iterable[Any],
    dimension: int,
    combiner: str | None = "mean",
    initializer: Callable[..., Any] | None = None,
    shared_embedding_collection_name: str | None = None,
    max_sequence_lengths: Sequence[int] | None = None,
    learning_rate_fn: Callable[..., Any] | None = None,
    embedding_lookup_device: str | LookupDevice | None = None,
    tensor_core_shape: Sequence[int | None] | None = None,
    use_safe_embedding_lookup: bool = True,
    invalid_ids: str | int | None = None,
) -> list[SharedEmbeddingColumn]:
    """Creates columns that look up several categorical features in one table.

    Replaces `tf.compat.v1.tpu.experimental.shared_embedding_columns`.

    Args:
        categorical_columns: as for `embedding_column`; all with the same number of buckets.
        dimension: width of the table, > 0.
        combiner: as for `embedding_column`.
        initializer: as for `embedding_column`.
        shared_embedding_collection_name: name of the table's variable; default: the sorted names of
            the categorical columns, joined by `_`, and `_shared_embedding`.
        max_sequence_lengths: one entry per column: > 0 for a sequence column, 0 for others. None
            or empty: all 0.
        learning_rate_fn: as for `embedding_column`.
        embedding_lookup_device: as for `embedding_column`.
        tensor_core_shape: as for `embedding_column`.
        use_safe_embedding_lookup: as for `embedding_column`.
        invalid_ids: as for `embedding_column`.

    Returns:
        One column per categorical column, in their order.

    Raises:
        TypeError: as for `embedding_column`.
        ValueError: as for `embedding_column`; or the columns differ in their number of buckets.

    >>> import tensorflow as tf
    >>> make = tf.feature_column.categorical_column_with_identity
    >>> columns = shared_embedding_columns([make("watched", 50), make("liked", 50)], dimension=8)
    >>> [column.name for column in columns], columns[0].get_embedding_var_name()
    (['watched_shared_embedding', 'liked_shared_embedding'], 'liked_watched_shared_embedding')
    """
    categorical_columns = _as_list(categorical_columns, "categorical_columns")
    if not categorical_columns:
        raise ValueError(
            "shared_embedding_columns needs at least one categorical column, got none."
        )
    for column in categorical_columns:
        categorical.check_supported(column, "shared_embedding_columns")
    lengths = _as_list(
        max_sequence_lengths or [0] * len(categorical_columns), "max_sequence_lengths"
    )
    if len(lengths) != len(categorical_columns):
        raise ValueError(
            "max_sequence_lengths and categorical_columns must be of the same length. "
            f"len(max_sequence_lengths)={len(lengths)} "
            f"len(categorical_columns)={len(categorical_columns)}."
        )
    check_dimension(dimension)
    names = sorted(column.name for column in categorical_columns)
    _check_initializer(initializer, ", ".join(names))
    check_rule(FLAG, "use_safe_embedding_lookup", use_safe_embedding_lookup)
    _check_same_buckets(categorical_columns)
    name = shared_embedding_collection_name or "_".join(names) + "_shared_embedding"
    if not isinstance(name, str):
        raise TypeError(
            f"shared_embedding_collection_name must be a string, got {name!r}. Columns: {names}."
        )
    # One object for all columns: initializers without a config compare by identity.
    initializer = initializer or default_initializer(dimension)
    return [
        SharedEmbeddingColumn(
            categorical_column=column,
            dimension=dimension,
            combiner=combiner,
            initializer=initializer,
            shared_embedding_collection_name=name,
            max_sequence_length=length,
            learning_rate_fn=_check_learning_rate_fn(learning_rate_fn, column.name),
            embedding_lookup_device=LookupDevice.parse(embedding_lookup_device),
            tensor_core_shape=parse_tensor_core_shape(tensor_core_shape),
            use_safe_embedding_lookup=bool(use_safe_embedding_lookup),
            invalid_ids=invalid_ids,
        )
        for column, length in zip(categorical_columns, lengths, strict=True)
    ]


def split_sequence_columns(
    feature_columns: Iterable[TPUEmbeddingColumn],
) -> tuple[list[TPUEmbeddingColumn], list[TPUEmbeddingColumn]]:
    """Splits columns into sequence columns and others, which need different feature layers.

    Args:
        feature_columns: TPU embedding columns.

    Returns:
        Sequence columns (for `SequenceFeatures`, `sequence_input_layer`) and other columns (for
        `DenseFeatures`, `input_layer`), each in the given order.

    Raises:
        TypeError: an element isn't a TPU embedding column.
    """
    sequence: list[TPUEmbeddingColumn] = []
    pooled: list[TPUEmbeddingColumn] = []
    for column in _as_list(feature_columns, "feature_columns"):
        if not isinstance(column, TPUEmbeddingColumn):
            raise TypeError(
                f"Unsupported feature column {column}: a column must be a TPU embedding column, "
                f"made by embedding_column or shared_embedding_columns, but got {type(column)}."
            )
        (sequence if column.is_sequence_column() else pooled).append(column)
    return sequence, pooled


def _as_list(values: Any, argument: str) -> list[Any]:
    if not isinstance(values, Iterable):
        raise TypeError(f"{argument} must be a list, got {values!r}.")
    return list(values)


def _check_initializer(initializer: Any, column_name: str) -> None:
    if initializer is not None and not callable(initializer):
        raise ValueError(
            f"initializer must be callable if specified. Embedding of column_name: {column_name}, "
            f"got {initializer!r}."
        )


def _check_learning_rate_fn(learning_rate_fn: Any, column_name: str) -> Any:
    if learning_rate_fn is not None and not callable(learning_rate_fn):
        raise ValueError(
            "learning_rate_fn must be callable if specified: a function of the global step. "
            f"Embedding of column_name: {column_name}, got {learning_rate_fn!r}. A constant rate "
            "belongs in the spec's optimization_parameters."
        )
    return learning_rate_fn


def _check_same_buckets(categorical_columns: list[Any]) -> None:
    first, *others = sorted(categorical_columns, key=lambda column: column.name)
    for other in others:
        if other.num_buckets != first.num_buckets:
            raise ValueError(
                "To use shared_embedding_column, all categorical_columns must have the same "
                f"number of buckets. Given column: {first.name} with buckets: "
                f"{first.num_buckets} does not match column: {other.name} with buckets: "
                f"{other.num_buckets}."
            )
