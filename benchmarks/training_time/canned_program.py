# SPDX-License-Identifier: Apache-2.0
"""Defines canned estimators over the workload's columns: TensorFlow 2.15.1's or ours.

Those of the first generation, with the optimizers that are their defaults. Which implementation
it is, the path decides (see `reference/`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

import estimator_spec as tf_estimator
from training_time import batches, workloads
from training_time.workloads import Workload

HIDDEN_UNITS = (64,)


def ids_of(workload: Workload) -> list[Any]:
    """Returns a column of ids for each feature."""
    return [
        tf.feature_column.categorical_column_with_identity(feature.name, feature.rows)
        for feature in workload.features
    ]


def embeddings_of(workload: Workload) -> list[Any]:
    """Returns an embedding column for each feature."""
    return [
        tf.feature_column.embedding_column(ids, feature.width)
        for ids, feature in zip(ids_of(workload), workload.features, strict=True)
    ]


def input_fn_of(workload: Workload) -> Callable[[], Any]:
    """Returns an endless input_fn."""

    def split(arrays: dict[str, Any]) -> tuple[dict[str, Any], Any]:
        features = {feature.name: arrays[feature.name] for feature in workload.features}
        return features, tf.cast(arrays["label"], tf.int64)

    def input_fn() -> Any:
        made = batches.dataset_of(workload, workloads.BATCH_SIZE, split)
        return made.repeat().prefetch(2)

    return input_fn


def make(workload: Workload, model_dir: str) -> tuple[Any, Any]:
    """Returns the estimator and its input_fn.

    Args:
        workload: 'canned/' and the kind of model.
        model_dir: for summaries; no checkpoint is written.
    """
    config = tf_estimator.RunConfig(
        model_dir=model_dir,
        tf_random_seed=1,
        save_checkpoints_steps=None,
        save_checkpoints_secs=None,
        log_step_count_steps=workload.interval,
    )
    canned = tf_estimator.canned.v1
    kind = workload.name.removeprefix("canned/")
    if kind.startswith("linear"):
        estimator = canned.LinearClassifier(ids_of(workload), config=config)
    elif kind == "deep":
        estimator = canned.DNNClassifier(HIDDEN_UNITS, embeddings_of(workload), config=config)
    else:
        estimator = canned.DNNLinearCombinedClassifier(
            linear_feature_columns=ids_of(workload),
            dnn_feature_columns=embeddings_of(workload),
            dnn_hidden_units=HIDDEN_UNITS,
            config=config,
        )
    return estimator, input_fn_of(workload)
