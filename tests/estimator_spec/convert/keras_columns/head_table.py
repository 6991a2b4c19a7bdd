# SPDX-License-Identifier: Apache-2.0
"""What becomes of each argument of each head and canned estimator; see `argument_table`."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from argument_table import Verdict, moves, no_effect
from estimator_spec import canned, heads
from estimator_spec.heads.first_generation import contrib

tf1 = tf.compat.v1
fc = tf.feature_column
SIZE = 12
X = np.linspace(-1, 1, SIZE).astype(np.float32)
FEATURES = {
    "x": X,
    "weight": np.linspace(0.5, 2, SIZE).astype(np.float32),
    "word": np.array(["ant", "bee", "cow"] * (SIZE // 3)),
    "words": np.array([["ant", "bee"], ["cow", "cow"], ["bee", ""]] * (SIZE // 3)),
}
IDS = (X * X > 0.3).astype(np.int64)
NAMES = np.where(IDS == 1, "yes", "no")
CLASSES = np.arange(SIZE) % 3
SETS = np.stack([IDS, 1 - IDS, CLASSES > 0], 1).astype(np.int64)


@dataclasses.dataclass(frozen=True)
class HeadRow:
    """A head: how it is made, arguments that it needs, labels, what becomes of its arguments."""

    make: Callable[..., Any]
    labels: Any
    arguments: dict[str, Verdict]
    needed: dict[str, Any] = dataclasses.field(default_factory=dict)
    word_labels: Any = None


def doubled(labels: Any, logits: Any) -> Any:
    """Returns a loss of a program."""
    return tf.reduce_mean(tf.square(tf.cast(labels, tf.float32) - logits), -1, keepdims=True) * 2.0


def of_classes(labels: Any, logits: Any) -> Any:
    """Returns a loss of classes, which are integers."""
    return tf.nn.sparse_softmax_cross_entropy_with_logits(labels[:, 0], logits)[:, None] * 2.0


def with_features(labels: Any, logits: Any, features: Any) -> Any:
    """Returns a loss that reads the features, which Keras' losses don't get."""
    return doubled(labels, logits) + features["x"][:, None]


def plus_one(x: Any) -> Any:
    """Returns what Keras has no function for."""
    return x + 1.0


NAME = no_effect(
    "it names outputs and metrics of a MultiHead; alone it has no other head beside it"
)
WEIGHT = moves("weight")
V2_SUM, V1_SUM = moves("sum"), moves(tf1.losses.Reduction.SUM)


def rows(module: Any, reduction: Verdict, names: tuple[str, ...]) -> dict[str, HeadRow]:
    """Returns the heads of a generation, by the names of their functions or classes."""
    binary, classes, labels, numbers, counts, logistic = names
    common = {"weight_column": WEIGHT, "loss_reduction": reduction, "name": NAME}
    vocabulary = {"label_vocabulary": moves(["no", "yes"])}
    return {
        binary: HeadRow(
            getattr(module, binary),
            IDS,
            {**common, **vocabulary, "thresholds": moves([0.45]), "loss_fn": moves(doubled)},
            word_labels=NAMES,
        ),
        classes: HeadRow(
            getattr(module, classes),
            CLASSES,
            {
                **common,
                "n_classes": moves(4),
                "label_vocabulary": moves(["a", "b", "c"]),
                "loss_fn": moves(of_classes),
            },
            {"n_classes": 3},
            word_labels=np.array(["a", "b", "c"])[CLASSES],
        ),
        labels: HeadRow(
            getattr(module, labels),
            SETS,
            {
                **common,
                "n_classes": no_effect("the labels have it"),
                "thresholds": moves([0.45]),
                "label_vocabulary": moves(["a", "b", "c"]),
                "loss_fn": moves(doubled),
                "classes_for_class_based_metrics": moves([0, 2]),
            },
            {"n_classes": 3},
            word_labels=SETS,
        ),
        numbers: HeadRow(
            getattr(module, numbers),
            X,
            {
                **common,
                "label_dimension": no_effect("the labels have it"),
                "loss_fn": moves(doubled),
                "inverse_link_fn": moves(tf.exp),
            },
        ),
        counts: HeadRow(
            getattr(module, counts),
            CLASSES.astype(np.float32),
            {
                **common,
                "label_dimension": no_effect("the labels have it"),
                "compute_full_loss": moves(False),
            },
        ),
        logistic: HeadRow(getattr(module, logistic), IDS.astype(np.float32), common),
    }


HEADS = {
    2: rows(
        heads,
        V2_SUM,
        (
            *("BinaryClassHead", "MultiClassHead", "MultiLabelHead"),
            *("RegressionHead", "PoissonRegressionHead", "LogisticRegressionHead"),
        ),
    ),
    1: rows(
        contrib,
        V1_SUM,
        (
            *("binary_classification_head", "multi_class_head", "multi_label_head"),
            *("regression_head", "poisson_regression_head", "logistic_regression_head"),
        ),
    ),
}
REFUSED_HEADS = {
    "loss_fn": lambda: heads.BinaryClassHead(loss_fn=with_features),
    "inverse_link_fn": lambda: heads.RegressionHead(inverse_link_fn=plus_one),
}

RUNNING = no_effect("it is about where and how the estimator runs")
OF_HEAD = no_effect("the head has it: see HEADS")
CANNED = {
    **dict.fromkeys(("model_dir", "config"), RUNNING),
    "warm_start_from": no_effect("it is where training starts; the checkpoint is newer"),
    **dict.fromkeys(("partitioner", "input_layer_partitioner"), moves("partitions")),
    **dict.fromkeys(("optimizer", "linear_optimizer", "dnn_optimizer"), moves("optimizers")),
    **dict.fromkeys(
        (
            *("n_classes", "weight_column", "label_vocabulary", "loss_reduction"),
            "label_dimension",
        ),
        OF_HEAD,
    ),
    "head": OF_HEAD,
    **dict.fromkeys(
        (
            *("feature_columns", "linear_feature_columns", "dnn_feature_columns"),
            *("hidden_units", "dnn_hidden_units", "activation_fn", "dnn_activation_fn"),
            *("batch_norm", "sparse_combiner", "linear_sparse_combiner"),
            *("dropout", "dnn_dropout"),
        ),
        moves("layers"),
    ),
}
X_COLUMN = fc.numeric_column("x")
WORDS_COLUMN = fc.categorical_column_with_hash_bucket("words", 5)
DEEP = {"hidden_units": [3], "feature_columns": [X_COLUMN]}
WIDE = {"feature_columns": [WORDS_COLUMN]}
BOTH = {
    "linear_feature_columns": [WORDS_COLUMN],
    "dnn_feature_columns": [X_COLUMN],
    "dnn_hidden_units": [3],
}
# The estimator of each argument, those that it needs, and another value than the default.
LAYERS = {
    "hidden_units": ("DNN", DEEP, [4, 2]),
    "feature_columns": ("DNN", DEEP, [X_COLUMN, fc.numeric_column("weight")]),
    "activation_fn": ("DNN", DEEP, tf.nn.tanh),
    "batch_norm": ("DNN", DEEP, True),
    "dropout": ("DNN", DEEP, 0.25),
    "sparse_combiner": ("Linear", WIDE, "mean"),
    "linear_feature_columns": ("DNNLinearCombined", BOTH, [WORDS_COLUMN, X_COLUMN]),
    "dnn_feature_columns": (
        *("DNNLinearCombined", BOTH),
        [X_COLUMN, fc.embedding_column(WORDS_COLUMN, 2)],
    ),
    "dnn_hidden_units": ("DNNLinearCombined", BOTH, [4, 2]),
    "dnn_activation_fn": ("DNNLinearCombined", BOTH, tf.nn.tanh),
    "dnn_dropout": ("DNNLinearCombined", BOTH, 0.75),
    "linear_sparse_combiner": ("DNNLinearCombined", BOTH, "sqrtn"),
}
CLASSES_OF_MODELS = [
    getattr(module, f"{kind}{task}")
    for module in (canned, canned.v1)
    for kind in ("DNN", "Linear", "DNNLinearCombined", "Baseline")
    for task in ("Classifier", "Regressor", "Estimator")
]
