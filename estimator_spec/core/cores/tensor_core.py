# SPDX-License-Identifier: Apache-2.0
"""Pads the features of the tensor core's columns before the model, as on a TPU.

The tensor core runs compiled programs of static shapes: ids are padded to the column's
`tensor_core_shape`, and a mask, or the weights, is added to the features.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import tensorflow as tf

from estimator_spec.core.cores import enqueue
from estimator_spec.core.embedding.table_config import FeatureConfig
from tpu_columns import categorical, invalid_ids, padded_lookup
from tpu_columns.column_types import TPUEmbeddingColumn


def pad(columns: Iterable[TPUEmbeddingColumn], features: Any) -> dict[str, Any]:
    """Pads the ids of columns to dense matrices.

    Args:
        columns: columns with a `tensor_core_shape` (…, n).
        features: tensors by key; not modified. Dense ids of 0 are padding.

    Returns:
        A new dict with int32 [B, n] in place of a feature's ids, and float32 [B, n] under
        `<key>__TENSOR_CORE_MASK`: 0 at padding, else the weight or 1. Sparse weights are removed.

    Raises:
        ValueError: a TPU can't look up the ids, the batch size differs from
            `tensor_core_shape`'s, or the mask's key is in use.
    """
    found = dict(features)
    for column in columns:
        key = column.get_feature_key_name()
        config = FeatureConfig("", weight_key=column.get_weight_key_name())
        rule = invalid_ids.rule_for_column(column)
        enqueued = enqueue.take(key, config, column, found, rule)
        mask_key = categorical.tensor_core_mask_key(key)
        if mask_key in found:
            raise ValueError(
                f"Mask key {mask_key} for Tensor Core embedding is already in use. Rename the "
                "feature, or look it up by one column only."
            )
        assert column.tensor_core_shape is not None  # checked by the column, or by the spec
        batch, width = column.tensor_core_shape
        ids = enqueued.ids
        given = tf.compat.dimension_value(ids.shape[0])
        if batch not in (None, -1, given) and given is not None:
            raise ValueError(
                f"Column {column.name} has tensor_core_shape {[batch, width]}, but the batch has "
                f"{given} rows. Give None for the size of the batch."
            )
        found[key], found[mask_key] = padded_lookup.pad_for_tensor_core(
            ids, enqueued.weights, width
        )
    return found
