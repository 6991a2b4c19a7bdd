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
from refusal import INF, NAN, each, in_graph, refused

CANNED_MODELS = [
    *bad(DEEP, "hidden_units", [4, None, 2.5], TypeError, "hidden_units must be a list", "[100, "),
    *bad(
        DEEP,
        "hidden_units",
        [["a"], [0], [-1], [[3]], ["8.5"], [None], [NAN], [INF], "a b"],
        ValueError,
        "hidden_units must be positive integers",
    ),
    *bad(
        COMBINED,
        "dnn_hidden_units",
        [["a"], [0]],
        ValueError,
        "hidden_units must be positive integers",
        dnn_feature_columns=X,
    ),
    *bad(
        COMBINED,
        "dnn_hidden_units",
        [None, []],
        ValueError,
        "dnn_hidden_units must be defined when dnn_feature_columns is specified",
        dnn_feature_columns=X,
    ),
    *bad(
        COMBINED,
        "linear_feature_columns",
        [3, {"age": AGE}, "age"],
        ValueError,
        "Expected linear_feature_columns to be iterable",
    ),
    *bad(
        ["v1 LinearClassifier", "v2 LinearRegressor", "v2 LinearEstimator"],
        "sparse_combiner",
        ["max", 3, None, ["sum"]],
        ValueError,
        "sparse_combiner must be 'mean', 'sqrtn' or 'sum'",
    ),
    *bad(COMBINED, "linear_sparse_combiner", ["max"], ValueError, "linear_sparse_combiner must be"),
    *bad(
        DEEP,
        "dropout",
        ["0.5", 2, -1, 1, NAN, [0.5]],
        ValueError,
        "dropout must be a number between 0 and 1",
    ),
    *bad(COMBINED, "dnn_dropout", [2, "x"], ValueError, "dnn_dropout must be a number between 0"),
    *bad(DEEP, "activation_fn", [3, ["relu"]], TypeError, "activation_fn must be a function"),
    *bad(COMBINED, "dnn_activation_fn", [3], TypeError, "dnn_activation_fn must be a function"),
    *bad(
        WITH_HEAD,
        "head",
        [None, 3, "head"],
        TypeError,
        "head must be a head, such as estimator_spec.heads.RegressionHead()",
    ),
    *bad(
        [name for name in WITH_HEAD if name.startswith("v2")],
        "head",
        [heads_v1.regression_head()],
        TypeError,
        "those of TensorFlow 1 are for estimator_spec.canned.v1",
    ),
    *bad(
        CLASSIFIERS,
        "n_classes",
        [2.5, "3", 3.0, [3]],
        ValueError,
        "n_classes must be a whole number",
    ),
    *bad(
        CLASSIFIERS,
        "n_classes",
        [1, 0, -1, True],
        ValueError,
        "n_classes must be >= 2",
    ),
    *bad(["v1 LinearClassifier"], "n_classes", [None], ValueError, "n_classes cannot be None"),
    *bad(
        CLASSIFIERS,
        "label_vocabulary",
        [["a", "a"], [b"a", "a"]],
        ValueError,
        "label_vocabulary has the label",
        "twice",
    ),
    *bad(
        REGRESSORS,
        "label_dimension",
        ["2", 2.5, None, [1], NAN],
        TypeError,
        "label_dimension must be a whole number",
    ),
    *bad(
        REGRESSORS,
        "label_dimension",
        [0, -1],
        ValueError,
        "Invalid label_dimension",
        "at least 1",
    ),
    *bad("v2 DNNClassifier", "warm_start_from", [3, []], ValueError, "warm_start_from must be"),
    *bad("v1 DNNClassifier", "config", [3, "c", {}], ValueError, "config must be an instance of"),
    refused(
        "optimizer by a wrong name",
        in_graph(
            lambda: es.DNNClassifier([2], X, optimizer="sgd").model_fn(
                {"age": tf.zeros([2, 1])}, tf.zeros([2, 1]), "train", None
            )
        ),
        ValueError,
        "Unsupported optimizer name: sgd",
        "SGD",
    ),
    refused(
        "activation by a wrong name",
        in_graph(
            lambda: es.DNNClassifier([2], X, activation_fn="rel").model_fn(
                {"age": tf.zeros([2, 1])}, tf.zeros([2, 1]), "train", None
            )
        ),
        ValueError,
        "activation_fn='rel'",
        "tf.keras.activations",
    ),
]

OF_HEADS = [
    *bad(
        ("BinaryClassHead", "MultiLabelHead", "binary head of TF1"),
        "thresholds",
        [0.5, "0.5", ["0.5"], [None]],
        TypeError,
        "thresholds must be a list of numbers between 0 and 1",
    ),
    *bad(
        ("BinaryClassHead", "MultiLabelHead", "binary head of TF1"),
        "thresholds",
        [[2.0], [NAN], [0], [1]],
        ValueError,
        "thresholds not in (0, 1)",
    ),
    *bad(
        ("BinaryClassHead", "MultiClassHead", "RegressionHead", "regression head of TF1"),
        "loss_fn",
        [3, "f", []],
        TypeError,
        "loss_fn must be a function",
    ),
    *bad(
        ("BinaryClassHead", "MultiLabelHead", "multi-class head of TF1"),
        "loss_fn",
        [lambda labels: labels],
        ValueError,
        "loss_fn must contain argument: logits",
    ),
    *bad(
        ("RegressionHead", "regression head of TF1"),
        "inverse_link_fn",
        [3, "exp"],
        TypeError,
        "inverse_link_fn must be a function",
    ),
    *bad(HEADS, "name", [3, ["h"], True], TypeError, "name must be a string"),
    *bad(
        HEADS, "weight_column", [3, ["w"], b"w"], TypeError, "Weight column must be either a string"
    ),
    *bad(HEADS, "weight_column", [""], ValueError, "weight_column must be the name of a feature"),
    *bad(HEADS, "loss_reduction", [3, None, "x"], ValueError, "Invalid loss_reduction"),
    *bad(
        ("MultiClassHead", "MultiLabelHead", "multi-class head of TF1"),
        "n_classes",
        [3.7, "3", [3]],
        ValueError,
        "n_classes must be a whole number",
    ),
    *bad("MultiClassHead", "n_classes", [1, 2], ValueError, "n_classes must be > 2"),
    *bad("MultiLabelHead", "n_classes", [1, 0], ValueError, "n_classes must be > 1"),
    *bad(
        ("RegressionHead", "PoissonRegressionHead", "regression head of TF1"),
        "label_dimension",
        [1.5, "1", None],
        TypeError,
        "label_dimension must be a whole number",
    ),
    *bad(
        ("MultiClassHead", "MultiLabelHead", "multi-class head of TF1"),
        "label_vocabulary",
        ["abc", {"a"}, 3],
        ValueError,
        "label_vocabulary should be a list or a tuple",
    ),
    *bad(
        ("MultiClassHead", "MultiLabelHead", "multi-class head of TF1"),
        "label_vocabulary",
        [[1, 2, 3], ["a", None, "b"]],
        TypeError,
        "label_vocabulary must be a list of strings",
    ),
    *bad(
        ("MultiClassHead", "MultiLabelHead", "multi-class head of TF1"),
        "label_vocabulary",
        [["a", "b", "a"]],
        ValueError,
        "label_vocabulary has the label 'a' twice",
    ),
    *bad("BinaryClassHead", "label_vocabulary", [["a"]], ValueError, "must be n_classes (2)"),
    *bad(
        "MultiLabelHead",
        "classes_for_class_based_metrics",
        [[5], [-1]],
        ValueError,
        "must be in range [0, 2]",
    ),
    *bad(
        MULTI_HEADS,
        "head_weights",
        [[NAN, "x"], ["1", "2"], [None, 1], 3, "ab"],
        TypeError,
        "head_weights must be a list of numbers",
    ),
    *bad(
        MULTI_HEADS,
        "head_weights",
        [[NAN, 1], [INF, 1]],
        ValueError,
        "head_weights must be finite",
    ),
    *bad(MULTI_HEADS, "head_weights", [[1]], ValueError, "must have the same size"),
    *each("heads", [None, []], heads.MultiHead, ValueError, "Must specify heads"),
    *each("heads", [[3], "ab"], heads.MultiHead, TypeError, "heads must be Head objects"),
    refused("number of heads", lambda: heads.MultiHead(3), TypeError, "heads must be a list of"),
    refused(
        "a head as heads",
        lambda: heads.MultiHead(heads.RegressionHead(name="a")),
        TypeError,
        "heads must be a list of heads",
    ),
    refused(
        "head without a name",
        lambda: heads.MultiHead([heads.RegressionHead()]),
        ValueError,
        "All given heads must have name specified",
    ),
    *each(
        "two heads of one name",
        [
            (heads.MultiHead, heads.RegressionHead),
            (heads_v1.MultiHeadV1, heads_v1.regression_head),
        ],
        lambda v: v[0]([v[1](name="a"), v[1](name="a")]),
        ValueError,
        "heads must have different names",
        "'a'",
    ),
]

REFUSALS = [*CANNED_MODELS, *OF_HEADS]
