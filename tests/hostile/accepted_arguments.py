# SPDX-License-Identifier: Apache-2.0
"""Unusual arguments that TensorFlow 2.15 trains with: those that get a warning, and others."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from constructors import AGE, CONFIGS, GOOD, X
from refusal import INF


class Tolerated(NamedTuple):
    """A value that TensorFlow 2.15 trains with, and what the warning about it says."""

    name: str
    call: Any
    words: tuple[str, ...]


def tolerated(constructor: str, argument: str, value: Any, words: str) -> Tolerated:
    """Returns a value that is accepted with a warning; `words` as in `refused`."""
    name = f"{constructor} {argument} {value!r}"
    return Tolerated(
        name, lambda: GOOD[constructor](**{argument: value}), tuple(words.split(" … "))
    )


TOLERATED = [
    *(
        tolerated(name, "hidden_units", value, f"hidden_units … have {units}")
        for name in ("v1 DNNClassifier", "v2 DNNRegressor")
        for value, units in (([2.5], "[2]"), ([np.float32(3.5), 2], "[3, 2]"), ("48", "[4, 8]"))
    ),
    *(
        tolerated(name, "batch_norm", value, f"batch_norm must be True or False … {counts}")
        for name in ("v1 DNNEstimator", "v2 DNNClassifier", "v2 DNNLinearCombinedRegressor")
        for value, counts in (("no", "counts as True"), ("", "counts as False"), (2, "as True"))
    ),
    *(
        tolerated(name, "dnn_hidden_units", [2], "dnn_hidden_units=[2] has no effect")
        for name in ("v1 DNNLinearCombinedClassifier", "v2 DNNLinearCombinedRegressor")
    ),
    tolerated("PoissonRegressionHead", "compute_full_loss", "no", "compute_full_loss must be True"),
    tolerated("FinalExporter", "as_text", "no", "as_text must be True or False … counts as True"),
    *(
        tolerated(name, "checkpoint_save_graph_def", "no", "checkpoint_save_graph_def must be True")
        for name in CONFIGS
    ),
    tolerated("TableConfig", "hot_id_replication", "no", "hot_id_replication must be True or"),
    tolerated("EmbeddingConfigSpec", "pipeline_execution_with_tensor_core", 3, "counts as True"),
    *(
        tolerated(name, "use_safe_embedding_lookup", "no", "use_safe_embedding_lookup must be True")
        for name in ("embedding_column", "shared_embedding_columns")
    ),
    tolerated("TPUConfig", "per_host_input_for_training", "yes", "InputPipelineConfig … PER_HOST"),
    tolerated(
        "TPUConfig", "experimental_allow_per_host_v2_parallel_get_next", "no", "counts as True"
    ),
]

# Unusual values that TensorFlow 2.15 takes, or that are as good as those, without a warning.
ACCEPTED = [
    (constructor, {argument: value})
    for constructor, argument, values in (
        ("v1 DNNClassifier", "hidden_units", [["8", "4"], [2.0], (3,), np.array([3, 2]), []]),
        ("v2 DNNClassifier", "hidden_units", [[np.int64(4)], [" 8 "], {4: 1}, iter([3])]),
        ("v2 DNNRegressor", "dropout", [0, 0.5, np.float32(0.5), None]),
        ("v1 DNNRegressor", "batch_norm", [1, 0, None, np.bool_(True)]),
        ("v2 DNNRegressor", "activation_fn", ["relu", None, tf.nn.tanh]),
        ("v2 LinearClassifier", "n_classes", [np.int64(3), np.array(3)]),
        ("v1 LinearRegressor", "label_dimension", [np.int64(2), True]),
        ("v1 LinearClassifier", "label_vocabulary", [("a", "b"), [b"a", b"b"]]),
        ("v2 LinearClassifier", "optimizer", [None]),
        ("v1 LinearClassifier", "optimizer", [None]),
        ("v1 DNNLinearCombinedClassifier", "linear_feature_columns", [AGE, iter(X)]),
        ("v2 DNNLinearCombinedClassifier", "linear_feature_columns", [AGE, tuple(X)]),
        ("BinaryClassHead", "thresholds", [(0.5,), np.array([0.5]), iter([0.5]), []]),
        ("BinaryClassHead", "name", ["a/b", ""]),
        ("MultiHead", "head_weights", [(1, 2), np.array([1.0, 2.0]), [-1, 0], [True, 1.0], []]),
        ("RunConfig", "save_summary_steps", [2.5, np.int64(3), True, None]),
        ("RunConfig", "keep_checkpoint_max", [0, None, np.int64(3)]),
        ("RunConfig", "save_checkpoints_steps", [1e3, 0]),
        ("TPUConfig", "num_shards", [np.int64(2), None]),
        ("TPUConfig", "initial_infeed_sleep_secs", [0, None]),
        ("numpy_input_fn", "num_epochs", [2.5, None]),
        ("numpy_input_fn", "queue_capacity", [-1, np.int64(5)]),
        ("stop_if_higher_hook", "run_every_secs", [0, 2.5]),
        ("stop_if_higher_hook", "threshold", [np.float32(0.5), INF]),
        ("TrainSpec", "max_steps", [2.5, 1e3, None]),
        ("EvalSpec", "steps", [2.5, None]),
        ("LatestExporter", "exports_to_keep", [None, np.int64(3)]),
        ("FinalExporter", "assets_extra", [{"a/b": "/c"}, {}]),
        ("WarmStartSettings", "vars_to_warm_start", [None, ["a"], [], ".*"]),
        ("WarmStartSettings", "var_name_to_prev_var_name", [{"a": "b"}, None]),
    )
    for value in values
]
