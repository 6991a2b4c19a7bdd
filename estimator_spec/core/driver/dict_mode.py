# SPDX-License-Identifier: Apache-2.0
"""Looks up the features of a specification without columns, before `model_fn` is called.

As on a TPU, the activations replace the ids in the features, and every kind of input has the same
meaning. The tables are ordinary variables.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from estimator_spec.core.cores import enqueue
from estimator_spec.core.cores.table_variables import op_name
from estimator_spec.core.embedding.spec import EmbeddingConfigSpec, id_rules, tables_and_features
from estimator_spec.core.embedding.table_config import TableConfig
from tpu_columns import categorical, lookup, lookup_errors
from tpu_columns.placement import updates_tables
from tpu_columns.tables import get_table

tf1 = tf.compat.v1


def look_up(spec: EmbeddingConfigSpec, features: Any) -> dict[str, Any]:
    """Replaces the ids of every feature of `spec` by their activations.

    `cores.enqueue` defines the accepted inputs. An example without ids has the activation 0; a
    sequence is padded with zeros to max_sequence_length L.

    Args:
        spec: an `EmbeddingConfigSpec` with `feature_to_config_dict` and `table_to_config_dict`.
        features: tensors by name; not modified.

    Returns:
        A new dict with the activations in place of the ids: float32 `[B, D]`, or `[B, L, D]` for a
        sequence, whose lengths (int64 `[B]`) are under `<feature>_seq_length_`. Weights are
        removed.

    Raises:
        ValueError: a feature or its weights are missing, or have a dtype or shape that a TPU can't
            look up.
    """
    if not isinstance(features, Mapping):
        raise ValueError(
            "With feature_to_config_dict, features must be a dict of tensors by name, but "
            f"input_fn returned {type(features).__name__}."
        )
    found = dict(features)
    table_configs, feature_configs = tables_and_features(spec)
    tables = make_tables(table_configs)
    rules = id_rules(spec)
    for key, config in sorted(feature_configs.items()):
        enqueued = enqueue.take(key, config, table_configs[config.table_id], found, rules[key])
        _look_up_one(key, tables[config.table_id], enqueued, found)
    return found


def make_tables(configs: Mapping[str, TableConfig]) -> dict[str, Any]:
    """Creates the variables of all tables, or reuses them; their names are the table keys.

    Args:
        configs: the configuration of each table, by table key.

    Returns:
        The tables, by table key.
    """
    tables = {}
    # In the root variable scope, whatever the caller's scope is.
    with tf1.variable_scope(tf1.VariableScope(reuse=tf1.AUTO_REUSE), auxiliary_name_scope=False):
        for key, config in sorted(configs.items()):
            shape = (config.vocabulary_size, config.dimension)
            tables[key] = get_table(key, shape, config.initializer)
    return tables


def _look_up_one(
    key: str, table: Any, enqueued: enqueue.Enqueued, features: dict[str, Any]
) -> None:
    """Puts the activations of one feature into `features`."""
    ids, weights, combiner = enqueued.ids, enqueued.weights, enqueued.combiner
    length = enqueued.max_sequence_length
    batch = ids.shape[0]
    with tf.name_scope("lookup_" + op_name(key)) as scope:
        lookup_errors.record_site(scope, key, key, int(table.shape[0]))
        if not length:
            # safe=False: a TPU drops neither negative ids nor weights.
            rows = lookup.pooled_lookup(
                table, ids, weights, combiner, safe=False, unique=updates_tables()
            )
            rows.set_shape([batch, table.shape[1]])
            features[key] = rows
            return
        rows, lengths = lookup.sequence_lookup(
            table, ids, weights, combiner, length, unique=updates_tables()
        )
        rows.set_shape([batch, length, table.shape[1]])
        lengths.set_shape([batch])
        features[key] = rows
        features[categorical.sequence_length_key(key)] = lengths
