# SPDX-License-Identifier: Apache-2.0
"""Takes ids and weights out of a step's features for an embedding core, as a TPU does.

| ids                 | combiner         | activation of a row                                   |
|---------------------|------------------|-------------------------------------------------------|
| sparse or ragged    | mean, sum, sqrtn | that combination, weighted if the feature has weights |
| sparse or ragged    | None             | sum                                                   |
| dense [B] or [B, n] | mean, sum, sqrtn | that combination; ids 0 are padding and dropped       |
| dense [B] or [B, 1] | None             | embedding of its only id, 0 included                  |
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import MutableMapping
from typing import Any, Protocol

import tensorflow as tf

from estimator_spec.core.embedding.table_config import FeatureConfig
from tpu_columns import lookup, lookup_errors
from tpu_columns.invalid_ids import IdRule
from tpu_columns.partition import RowPartition


class _Table(Protocol):
    """A `TableConfig` or a TPU embedding column."""

    @property
    def combiner(self) -> str | None: ...


@dataclasses.dataclass(eq=False)
class Enqueued:
    """The ids of one feature in one step on one replica.

    Attributes:
        key: the feature's key.
        sparse: integers, SparseTensor [B, n]; None if there is only the matrix.
        weights: float32 SparseTensor with the same indices, or None.
        combiner: 'mean', 'sum' or 'sqrtn'.
        max_sequence_length: steps L if each id has an embedding of its own, else 0.
        matrix: the dense ids, [B, n], whose zeros are padding; None for other ids.
        replica: number of the replica.
        activation: the tensor of the model that gets the result; set by the core, as all below.
        layout: layout of the feature's table.
        first_row: first row of the table in its variable.
    """

    key: str
    sparse: tf.SparseTensor | None
    weights: tf.SparseTensor | None
    combiner: str
    max_sequence_length: int
    matrix: tf.Tensor | None = None
    replica: int = 0
    activation: Any = None
    layout: RowPartition | None = None
    first_row: int = 0

    @functools.cached_property
    def ids(self) -> tf.SparseTensor:
        """Sparse ids [B, n]; if there is only the matrix, its conversion, eight ops."""
        return tf.sparse.from_dense(self.matrix) if self.sparse is None else self.sparse

    @functools.cached_property
    def rows(self) -> tuple[tf.SparseTensor, tf.SparseTensor | None]:
        """Ids and weights of each row of the result; each step of a truncated sequence is a row."""
        if not self.max_sequence_length:
            return self.ids, self.weights
        ids = steps_as_rows(self.ids, self.max_sequence_length)
        if self.weights is None:
            return ids, None
        return ids, steps_as_rows(self.weights, self.max_sequence_length)

    @property
    def padded(self) -> tf.Tensor | None:
        """Dense ids [B, n], with n known, that are looked up as a matrix; None: use `rows`."""
        if self.matrix is None or self.max_sequence_length:
            return None
        return self.matrix if self.matrix.shape.as_list()[1] else None

    @property
    def shape(self) -> tf.TensorShape:
        """Static shape of the ids."""
        return self.ids.shape if self.matrix is None else self.matrix.shape


def take(
    key: str,
    feature: FeatureConfig,
    table: _Table,
    features: MutableMapping[str, Any],
    rule: IdRule | None = None,
) -> Enqueued:
    """Takes a feature's ids and weights out of `features`.

    Args:
        key: the feature's key.
        feature: its configuration.
        table: its `TableConfig` or column.
        features: tensors by key; the keys of ids and sparse weights are removed.
        rule: the policy for invalid ids, or None.

    Raises:
        ValueError: ids or weights are missing, or have a type or shape that a TPU can't look up.
    """
    ids, matrix = _ids(key, feature, features, table.combiner)
    dense = matrix is not None
    weights = _weights(key, feature.weight_key, features, dense, table.combiner)
    if ids is None and (rule is not None or table.combiner is None):
        ids = tf.sparse.from_dense(matrix)
    if ids is not None:
        lookup_errors.check_counts(key, key, ids, weights, feature.weight_key)
        if rule is not None:
            ids, weights, matrix = _apply_rule(rule, ids, weights, matrix, table.combiner)
    matrix = None if table.combiner is None else matrix
    combiner, length = table.combiner or "sum", feature.max_sequence_length
    return Enqueued(key, ids, weights, combiner, length, matrix)


def _apply_rule(
    rule: IdRule,
    ids: tf.SparseTensor,
    weights: tf.SparseTensor | None,
    matrix: tf.Tensor | None,
    combiner: str | None,
) -> tuple[tf.SparseTensor, tf.SparseTensor | None, tf.Tensor | None]:
    """Returns ids, weights and matrix of a feature without invalid ids."""
    if matrix is None:
        return *rule.apply(ids, weights), None
    # -1 is missing in dense input, as on a CPU.
    ids = tf.sparse.retain(ids, tf.not_equal(ids.values, tf.constant(-1, ids.dtype)))
    ids, _ = rule.apply(ids, None)
    if combiner is None or rule.policy != "drop":
        # In the matrix, a valid id 0 in place of an invalid one would be padding.
        return ids, weights, None
    kept = (matrix > 0) & (tf.cast(matrix, tf.int64) < rule.num_rows)
    return ids, weights, tf.compat.v1.where(kept, matrix, tf.zeros_like(matrix))


def _ids(
    key: str, feature: FeatureConfig, features: MutableMapping[str, Any], combiner: str | None
) -> tuple[tf.SparseTensor | None, tf.Tensor | None]:
    """Takes a feature's ids out of `features`.

    Returns:
        The sparse ids, and the dense ones as a matrix; both for one dense id a row without a
        combiner.
    """
    if key not in features:
        raise ValueError(
            f"Feature {key!r} of the embedding_config_spec is missing. input_fn gave "
            f"{sorted(map(str, features))}."
        )
    ids = features.pop(key)
    if ids is None:
        raise ValueError(f"Feature {key!r} of the embedding_config_spec is None; expected ids.")
    if not isinstance(ids, (tf.Tensor, tf.SparseTensor, tf.RaggedTensor)):
        ids = tf.convert_to_tensor(ids)
    if not ids.dtype.is_integer:
        raise ValueError(
            f"Feature {key!r} has ids of type {ids.dtype.name}: SparseTensor with string as "
            "values are not supported (nor other types than integers). Turn them into integer "
            "ids in input_fn, for example with a lookup table."
        )
    if isinstance(ids, tf.RaggedTensor):
        ids = ids.to_sparse()
    if isinstance(ids, tf.SparseTensor):
        return ids, None
    if combiner is None:
        return _one_id_each(key, ids), ids
    rank = ids.shape.rank
    if rank == 0 or (rank is not None and rank > 2 and not feature.max_sequence_length):
        raise ValueError(
            f"Feature {key!r}: dense ids must have the shape [B] or [B, n], but have {ids.shape}."
        )
    if rank == 1:
        ids = ids[:, tf.newaxis]
    return None, ids


def _one_id_each(key: str, ids: Any) -> tf.SparseTensor:
    """Returns dense ids of a table without a combiner: one per row, 0 included."""
    rank = ids.shape.rank
    if rank not in (1, 2) or (rank == 2 and tf.compat.dimension_value(ids.shape[1]) != 1):
        raise ValueError(
            f"Feature {key!r}: dense ids of a table with combiner None must have the shape [B] or "
            f"[B, 1], one id a row, but have {ids.shape}. Give the table a combiner, or make the "
            "ids sparse."
        )
    ids = tf.reshape(ids, [-1])
    rows = tf.range(tf.size(ids, out_type=tf.int64))
    indices = tf.stack([rows, tf.zeros_like(rows)], axis=1)
    return tf.SparseTensor(indices, ids, [tf.size(ids, out_type=tf.int64), 1])


def _weights(
    key: str,
    weight_key: str | None,
    features: MutableMapping[str, Any],
    dense: bool,
    combiner: str | None,
) -> tf.SparseTensor | None:
    """Takes a feature's weights out of `features`."""
    if weight_key is None:
        return None
    if dense and combiner is None:
        raise ValueError(
            f"Found weights {weight_key} for weighted_categorical_column, which is not "
            f"compatible with sparse feature {key} enqueued as dense tensor. Make ids and "
            "weights sparse."
        )
    if dense:
        # A TPU ignores the weights of dense ids, so an error would refuse programs that run there.
        tf.compat.v1.logging.warning(
            "The weights %s of feature %s have no effect: its ids are dense.", weight_key, key
        )
        return None
    if weight_key not in features:
        raise ValueError(
            f"Cannot find weights {weight_key} of feature {key}. Please check if the weights are "
            "present in feature dict. Also note weight-sharing among weighted_categorical_column "
            "is not supported on TPU."
        )
    weights = features.pop(weight_key)
    if isinstance(weights, tf.RaggedTensor):
        weights = weights.to_sparse()
    if not isinstance(weights, tf.SparseTensor):
        raise ValueError(
            f"Feature {key} with weight key name {weight_key} has dense weights. Dense weights "
            "are not supported on TPU. Please use sparse weights instead."
        )
    if not (weights.dtype.is_floating or weights.dtype.is_integer or weights.dtype == tf.bool):
        raise ValueError(
            f"Feature {key!r}: weights {weight_key!r} must be numbers, but have the type "
            f"{weights.dtype.name}. Convert them in input_fn, for example by tf.strings.to_number."
        )
    return tf.cast(weights, tf.float32)


def steps_as_rows(ids: tf.SparseTensor, length: int) -> tf.SparseTensor:
    """Truncates ids [B, T] or [B, T, n] to L steps, and reshapes them to [B·L, 1] or [B·L, n].

    Args:
        ids: ids or weights of a sequence feature.
        length: L.
    """
    multivalent = ids.shape.rank == 3
    ids = lookup.truncate_steps(ids, length)
    row = ids.indices[:, 0] * length + ids.indices[:, 1]
    column = ids.indices[:, 2] if multivalent else tf.zeros_like(row)
    width = ids.dense_shape[2] if multivalent else tf.constant(1, tf.int64)
    shape = tf.stack([ids.dense_shape[0] * length, width])
    return tf.SparseTensor(tf.stack([row, column], 1), ids.values, shape)
