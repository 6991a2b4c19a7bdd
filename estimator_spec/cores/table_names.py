# SPDX-License-Identifier: Apache-2.0
"""How the tables of an embedding core are called in checkpoints: as the model's variables would."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import tensorflow as tf

from estimator_spec.embedding.spec import table_name
from tpu_columns import tables


def variable_names(spec: Any, table_keys: Iterable[str]) -> dict[str, str]:
    """Returns the full name of each table, by table key.

    Args:
        spec: an `EmbeddingConfigSpec`. By dictionaries, a table is called by its key; with columns,
            by the place of the feature layer that uses the column in the current graph.
        table_keys: the tables of the spec.

    Raises:
        RuntimeError: a column of the spec is in no feature layer of the model.
    """
    if spec.feature_columns is None:
        return {key: key for key in table_keys}
    recorded = tables.core_tables(tf.compat.v1.get_default_graph())
    names = {table_name(key): table.variable_name for key, table in recorded.items()}
    missing = sorted(set(table_keys) - set(names))
    if missing:
        raise RuntimeError(
            f"Embedding feature column did not capture any thing for tables {missing}. Make "
            "sure the feature columns passed to TPUEstimator constructor is properly used in "
            "model_fn: give them to input_layer, DenseFeatures or one of the sequence layers."
        )
    return names
