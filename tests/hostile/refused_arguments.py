# SPDX-License-Identifier: Apache-2.0
"""Bad arguments of canned models and heads."""

from __future__ import annotations

import tensorflow as tf

import estimator_spec as es
from constructors import (
    AGE,
    CLASSIFIERS,
    COMBINED,
    DEEP,
    HEADS,
    MULTI_HEADS,
    REGRESSORS,
    WITH_HEAD,
    X,
    bad,
)
from estimator_spec import heads
from estimator_spec.heads import first_generation as heads_v1
from refusal import INF, NAN, case, each


def _build(**arguments):
    """Builds the graph of a deep model."""
    with tf.Graph().as_default():
        features, labels = {"age": tf.zeros([2, 1])}, tf.zeros([2, 1])
        es.DNNClassifier([2], X, **arguments).model_fn(features, labels, "train", None)


CANNED_MODELS = [
    *bad(DEEP, "hidden_units", [4, None, 2.5], "hidden_units must be a list … [100, ", TypeError),
    *bad(
        DEEP,
        "hidden_units",
        [["a"], [0], [-1], [[3]], ["8.5"], [None], [NAN], [INF], "a b"],
        "hidden_units must be positive integers",
    ),
    *bad(
        COMBINED,
        "dnn_hidden_units",
        [["a"], [0]],
        "hidden_units must be positive integers",
        dnn_feature_columns=X,
    ),
    *bad(
        COMBINED,
        "dnn_hidden_units",
        [None, []],
        "dnn_hidden_units must be defined when dnn_feature_columns is specified",
        dnn_feature_columns=X,
    ),
    *bad(
        COMBINED,
        "linear_feature_columns",
        [3, {"age": AGE}, "age"],
        "Expected linear_feature_columns to be iterable",
    ),
    *bad(
        ["v1 LinearClassifier", "v2 LinearRegressor", "v2 LinearEstimator"],
        "sparse_combiner",
        ["max", 3, None, ["sum"]],
        "sparse_combiner must be 'mean', 'sqrtn' or 'sum'",
    ),
    *bad(COMBINED, "linear_sparse_combiner", ["max"], "linear_sparse_combiner must be"),
    *bad(
        DEEP, "dropout", ["0.5", 2, -1, 1, NAN, [0.5]], "dropout must be a number between 0 and 1"
    ),
    *bad(COMBINED, "dnn_dropout", [2, "x"], "dnn_dropout must be a number between 0"),
    *bad(DEEP, "activation_fn", [3, ["relu"]], "activation_fn must be a function", TypeError),
    *bad(COMBINED, "dnn_activation_fn", [3], "dnn_activation_fn must be a function", TypeError),
    *bad(
        WITH_HEAD,
        "head",
        [None, 3, "head"],
        "head must be a head, such as estimator_spec.heads.RegressionHead()",
        TypeError,
    ),
    *bad(
        [name for name in WITH_HEAD if name.startswith("v2")],
        "head",
        [heads_v1.regression_head()],
        "those of TensorFlow 1 are for estimator_spec.canned.v1",
        TypeError,
    ),
    *bad(CLASSIFIERS, "n_classes", [2.5, "3", 3.0, [3]], "n_classes must be a whole number"),
    *bad(CLASSIFIERS, "n_classes", [1, 0, -1, True], "n_classes must be >= 2"),
    *bad(["v1 LinearClassifier"], "n_classes", [None], "n_classes cannot be None"),
    *bad(
        CLASSIFIERS,
        "label_vocabulary",
        [["a", "a"], [b"a", "a"]],
        "label_vocabulary has the label … twice",
    ),
    *bad(
        REGRESSORS,
        "label_dimension",
        ["2", 2.5, None, [1], NAN],
        "label_dimension must be a whole number",
        TypeError,
    ),
    *bad(REGRESSORS, "label_dimension", [0, -1], "Invalid label_dimension … at least 1"),
    *bad("v2 DNNClassifier", "warm_start_from", [3, []], "warm_start_from must be"),
    *bad("v1 DNNClassifier", "config", [3, "c", {}], "config must be an instance of"),
    *bad(_build, "optimizer", ["sgd"], "Unsupported optimizer name: sgd … SGD"),
    *bad(_build, "activation_fn", ["rel"], "activation_fn='rel' … tf.keras.activations"),
]

WITH_CLASSES = ("MultiClassHead", "MultiLabelHead", "multi-class head of TF1")
WITH_THRESHOLDS = ("BinaryClassHead", "MultiLabelHead", "binary head of TF1")
REGRESSION_HEADS = ("RegressionHead", "regression head of TF1")
OF_HEADS = [
    *bad(
        WITH_THRESHOLDS,
        "thresholds",
        [0.5, "0.5", ["0.5"], [None]],
        "thresholds must be a list of numbers between 0 and 1",
        TypeError,
    ),
    *bad(WITH_THRESHOLDS, "thresholds", [[2.0], [NAN], [0], [1]], "thresholds not in (0, 1)"),
    *bad(
        ("BinaryClassHead", "MultiClassHead", "RegressionHead", "regression head of TF1"),
        "loss_fn",
        [3, "f", []],
        "loss_fn must be a function",
        TypeError,
    ),
    *bad(
        ("BinaryClassHead", "MultiLabelHead", "multi-class head of TF1"),
        "loss_fn",
        [lambda labels: labels],
        "loss_fn must contain argument: logits",
    ),
    *bad(
        REGRESSION_HEADS,
        "inverse_link_fn",
        [3, "exp"],
        "inverse_link_fn must be a function",
        TypeError,
    ),
    *bad(HEADS, "name", [3, ["h"], True], "name must be a string", TypeError),
    *bad(
        HEADS, "weight_column", [3, ["w"], b"w"], "Weight column must be either a string", TypeError
    ),
    *bad(HEADS, "weight_column", [""], "weight_column must be the name of a feature"),
    *bad(HEADS, "loss_reduction", [3, None, "x"], "Invalid loss_reduction"),
    *bad(WITH_CLASSES, "n_classes", [3.7, "3", [3]], "n_classes must be a whole number"),
    *bad("MultiClassHead", "n_classes", [1, 2], "n_classes must be > 2"),
    *bad("MultiLabelHead", "n_classes", [1, 0], "n_classes must be > 1"),
    *bad(
        ("RegressionHead", "PoissonRegressionHead", "regression head of TF1"),
        "label_dimension",
        [1.5, "1", None],
        "label_dimension must be a whole number",
        TypeError,
    ),
    *bad(
        WITH_CLASSES,
        "label_vocabulary",
        ["abc", {"a"}, 3],
        "label_vocabulary should be a list or a tuple",
    ),
    *bad(
        WITH_CLASSES,
        "label_vocabulary",
        [[1, 2, 3], ["a", None, "b"]],
        "label_vocabulary must be a list of strings",
        TypeError,
    ),
    *bad(
        WITH_CLASSES,
        "label_vocabulary",
        [["a", "b", "a"]],
        "label_vocabulary has the label 'a' twice",
    ),
    *bad("BinaryClassHead", "label_vocabulary", [["a"]], "must be n_classes (2)"),
    *bad(
        "MultiLabelHead", "classes_for_class_based_metrics", [[5], [-1]], "must be in range [0, 2]"
    ),
    *bad(
        MULTI_HEADS,
        "head_weights",
        [[NAN, "x"], ["1", "2"], [None, 1], 3, "ab"],
        "head_weights must be a list of numbers",
        TypeError,
    ),
    *bad(MULTI_HEADS, "head_weights", [[NAN, 1], [INF, 1]], "head_weights must be finite"),
    *bad(MULTI_HEADS, "head_weights", [[1]], "must have the same size"),
    *each("heads", [None, []], heads.MultiHead, "Must specify heads"),
    *each("heads", [[3], "ab"], heads.MultiHead, "heads must be Head objects", TypeError),
    case("number of heads", lambda: heads.MultiHead(3), "heads must be a list of", TypeError),
    case(
        "a head as heads",
        lambda: heads.MultiHead(heads.RegressionHead(name="a")),
        "heads must be a list of heads",
        TypeError,
    ),
    case(
        "head without a name",
        lambda: heads.MultiHead([heads.RegressionHead()]),
        "All given heads must have name specified",
    ),
    *each(
        "two heads of one name",
        [(heads.MultiHead, heads.RegressionHead), (heads_v1.MultiHeadV1, heads_v1.regression_head)],
        lambda v: v[0]([v[1](name="a"), v[1](name="a")]),
        "heads must have different names … 'a'",
    ),
]

REFUSALS = [*CANNED_MODELS, *OF_HEADS]
