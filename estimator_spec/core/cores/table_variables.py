# SPDX-License-Identifier: Apache-2.0
"""Names and creates the variables of an embedding core's tables and slots."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import tensorflow as tf

from estimator_spec.core.embedding.spec import EmbeddingConfigSpec, table_name
from tpu_columns import initial_rows, initializers, tables
from tpu_columns.partition import RowPartition

tf1 = tf.compat.v1


def op_name(key: str) -> str:
    """Returns a key with the characters that names of ops can't have replaced."""
    return "".join(c if (c.isascii() and c.isalnum()) or c in "_.-" else "_" for c in key)


def variable_names(spec: EmbeddingConfigSpec, table_keys: Iterable[str]) -> dict[str, str]:
    """Returns the full variable name of each table, by table key.

    Args:
        spec: the spec of the run. Without columns a table's name is its key; with columns it comes
            from the feature layer that uses the column in the current graph.
        table_keys: the tables of the spec.

    Raises:
        RuntimeError: a column of the spec is in no feature layer of the model.
    """
    if spec.feature_columns is None:
        return {key: key for key in table_keys}
    recorded = tables.core_tables(tf1.get_default_graph())
    names = {table_name(key): table.variable_name for key, table in recorded.items()}
    missing = sorted(set(table_keys) - set(names))
    if missing:
        raise RuntimeError(
            f"Embedding feature column did not capture any thing for tables {missing}. Make "
            "sure the feature columns passed to TPUEstimator constructor is properly used in "
            "model_fn: give them to input_layer, DenseFeatures or one of the sequence layers."
        )
    return names


def create_variable(
    name: str,
    shape: Any,
    initializer: Any,
    reuse: Any = tf1.AUTO_REUSE,
    layout: RowPartition | None = None,
    **options: Any,
) -> Any:
    """Creates the float32 variable of a table or slot, which the model's optimizers don't train.

    Args:
        name: full name of the variable.
        shape: (vocabulary size, dimension).
        initializer: initializer of the variable.
        reuse: whether to return an existing variable, as in `tf.compat.v1.variable_scope`.
        layout: the shards, each a variable of its own; None: one variable.
        **options: further arguments of `tf.compat.v1.get_variable`.
    """
    with (
        tf1.variable_scope(tf1.VariableScope(reuse=reuse), auxiliary_name_scope=False),
        initializers.explain_errors(name, shape, initializer),
    ):
        if layout is not None:
            options["partitioner"] = tf1.fixed_size_partitioner(layout.num_shards)
            initializer = initial_rows.for_shards(
                initializer, tuple(tf.TensorShape(shape).as_list()), layout
            )
        return tf1.get_variable(
            name,
            shape=shape,
            dtype=tf.float32,
            initializer=initializer,
            trainable=False,
            use_resource=True,
            **options,
        )
