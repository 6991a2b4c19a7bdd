# SPDX-License-Identifier: Apache-2.0
"""Checks that the tables of a model are those of the embedding specification."""

from __future__ import annotations

import tensorflow as tf

from estimator_spec.checkpoints import spec_tables
from estimator_spec.embedding.spec import EmbeddingConfigSpec
from tpu_columns import storage

tf1 = tf.compat.v1


def check_dimensions(spec: EmbeddingConfigSpec) -> None:
    """Checks that the tables of the default graph have the dimensions of the specification.

    Args:
        spec: the embedding specification.

    Raises:
        ValueError: a column of the model has another dimension than the column of the spec.
    """
    recorded = storage.layouts(tf1.get_default_graph())
    matches = spec_tables.match_variables(spec_tables.list_tables(spec), recorded)
    for variable in tf1.global_variables():
        table = matches.get(variable.op.name)
        if table is not None and variable.shape.rank == 2 and variable.shape[1] != table.width:
            raise ValueError(
                f"Table {variable.op.name!r} of feature {table.features[0]!r} has dimension "
                f"{variable.shape[1]} in the model, but dimension {table.width} in the "
                "embedding_config_spec. Use the same columns in both."
            )
