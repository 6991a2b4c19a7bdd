# SPDX-License-Identifier: Apache-2.0
"""Lookups of a specification without columns, before the model, as a TPU hands them over.

A TPU takes the ids out of the features and puts what it looked up in their place. This is the
same for a host, with the same meaning of every kind of input; the tables are ordinary variables.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from estimator_spec.spec import tables_and_features
from tpu_columns import categorical, lookup

tf1 = tf.compat.v1

_NOT_IN_SCOPES = re.compile(r"[^A-Za-z0-9_.-]")


def look_up(spec: Any, features: Any) -> dict[str, Any]:
    """Replaces the ids of every feature of `spec` by what they look up.

    | ids                        | combiner         | what a row becomes                          |
    |----------------------------|------------------|---------------------------------------------|
    | sparse (or ragged)         | mean, sum, sqrtn | that combination, weighted if it has weights |
    | sparse (or ragged)         | None             | their sum                                   |
    | dense [B] or [B, n]        | mean, sum, sqrtn | the same; ids 0 are padding and dropped     |
    | dense [B] or [B, 1]        | None             | the row of its only id, 0 included          |
    | any, max_sequence_length L | any              | a row for each of L steps, zeros at the end |

    A row without ids becomes zeros.

    Args:
        spec: an `EmbeddingConfigSpec` with `feature_to_config_dict` and `table_to_config_dict`.
        features: tensors by name; left as they are.

    Returns:
        A new dict. In place of its ids a feature has float32 `[B, D]`; a sequence feature `[B, L,
        D]`, and its lengths (int64, `[B]`) are under `<feature>_seq_length_`. Weights are gone.

    Raises:
        ValueError: a feature or its weights are missing, or have a type or shape that a TPU
            can't look up.
    """
    if not isinstance(features, Mapping):
        raise ValueError(
            "With feature_to_config_dict, features must be a dict of tensors by name, but "
            f"input_fn returned {type(features).__name__}."
        )
    found = dict(features)
    table_configs, feature_configs = tables_and_features(spec)
    tables = _tables(table_configs)
    for key, config in sorted(feature_configs.items()):
        combiner = table_configs[config.table_id].combiner
        ids, dense = _ids(key, found, combiner)
        weights = _weights(key, config.weight_key, found, dense, combiner)
        _look_up_one(key, config, tables[config.table_id], ids, weights, combiner, found)
    return found


def _tables(configs: Mapping[str, Any]) -> dict[str, Any]:
    """The variables of all tables, named by their bare keys."""
    tables = {}
    # At the top, whatever scope the caller is in.
    with tf1.variable_scope(tf1.VariableScope(reuse=tf1.AUTO_REUSE), auxiliary_name_scope=False):
        for key, config in sorted(configs.items()):
            tables[key] = tf1.get_variable(
                key,
                shape=(config.vocabulary_size, config.dimension),
                dtype=tf.float32,
                initializer=config.initializer,
            )
    return tables


def _ids(key: str, features: dict[str, Any], combiner: str | None) -> tuple[tf.SparseTensor, bool]:
    """Takes a feature's ids out; the second value tells whether they were dense."""
    if key not in features:
        raise ValueError(
            f"Feature {key!r} of feature_to_config_dict is missing. input_fn gave "
            f"{sorted(map(str, features))}."
        )
    ids = features.pop(key)
    if not ids.dtype.is_integer:
        raise ValueError(
            f"Feature {key!r} has ids of type {ids.dtype.name}: SparseTensor with string as "
            "values are not supported (nor other types than integers). Turn them into integer "
            "ids in input_fn, for example with a lookup table."
        )
    if isinstance(ids, tf.RaggedTensor):
        ids = ids.to_sparse()
    if isinstance(ids, tf.SparseTensor):
        return ids, False
    if combiner is None:
        return _one_id_each(key, ids), True
    if ids.shape.rank == 1:
        ids = ids[:, tf.newaxis]
    return tf.sparse.from_dense(ids), True


def _one_id_each(key: str, ids: Any) -> tf.SparseTensor:
    """Dense ids of a table without a combiner: a row has one, and 0 is an id like any other."""
    if ids.shape.rank not in (1, 2) or (ids.shape.rank == 2 and ids.shape[1] != 1):
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
    key: str, weight_key: str | None, features: dict[str, Any], dense: bool, combiner: str | None
) -> tf.SparseTensor | None:
    """Takes a feature's weights out."""
    if weight_key is None:
        return None
    if dense and combiner is None:
        raise ValueError(
            f"Found weights {weight_key} for weighted_categorical_column, which is not "
            f"compatible with sparse feature {key} enqueued as dense tensor. Make ids and "
            "weights sparse."
        )
    if dense:
        # A TPU gets dense ids without them; refusing here would refuse what runs there.
        tf1.logging.warning(
            "The weights %s of feature %s have no effect: its ids are dense.", weight_key, key
        )
        return None
    if weight_key not in features:
        raise ValueError(
            f"Cannot find weights {weight_key} of feature {key}. Please check if the weights are "
            "present in feature dict. Two features can't have the same weights."
        )
    weights = features.pop(weight_key)
    if isinstance(weights, tf.RaggedTensor):
        weights = weights.to_sparse()
    if not isinstance(weights, tf.SparseTensor):
        raise ValueError(
            f"Feature {key} with weight key name {weight_key} has dense weights. Dense weights "
            "are not supported on TPU. Please use sparse weights instead."
        )
    return tf.cast(weights, tf.float32)


def _look_up_one(
    key: str,
    config: Any,
    table: Any,
    ids: tf.SparseTensor,
    weights: tf.SparseTensor | None,
    combiner: str | None,
    features: dict[str, Any],
) -> None:
    """Puts the result of one feature into `features`."""
    combiner = combiner or "sum"
    batch = ids.shape[0]
    with tf.name_scope("lookup_" + _NOT_IN_SCOPES.sub("_", key)) as scope:
        lookup.record_site(scope, key, key, int(table.shape[0]))
        if not config.max_sequence_length:
            # Not the safe one: a TPU neither drops negative ids nor weights.
            rows = lookup.pooled_lookup(table, ids, weights, combiner, safe=False)
            rows.set_shape([batch, table.shape[1]])
            features[key] = rows
            return
        rows, lengths = lookup.sequence_lookup(
            table, ids, weights, combiner, config.max_sequence_length
        )
        rows.set_shape([batch, config.max_sequence_length, table.shape[1]])
        lengths.set_shape([batch])
        features[key] = rows
        features[categorical.sequence_length_key(key)] = lengths
