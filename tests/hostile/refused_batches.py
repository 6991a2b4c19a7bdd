# SPDX-License-Identifier: Apache-2.0
"""Bad labels and weights of a batch, for heads."""

from __future__ import annotations

import tensorflow as tf

from constructors import GOOD
from estimator_spec import heads
from refusal import NAN, case, each

_VOCABULARY = ["no", "yes"]
_SHORT = "here (2, 1); got (3, 1)"


def _loss(head, labels, features=None):
    """Computes the loss of two examples."""
    logits = tf.zeros([2, head.logits_dimension])
    return head.loss(labels, logits, features or {}, "train")


def _binary(labels):
    return _loss(heads.BinaryClassHead(), labels)


def _of_three(labels):
    return _loss(heads.MultiClassHead(3), labels)


def _binary_of_tf1(labels):
    head = GOOD["binary head of TF1"]()
    return head.create_loss({}, "train", tf.zeros([2, 1]), labels)


def _weighted(weights, kind=heads.BinaryClassHead):
    return _loss(kind(weight_column="w"), [[0], [1]], {"w": weights})


REFUSALS = [
    *each("binary label", [[[-1], [1]]], _binary, "Labels must be >= 0"),
    *each("label", [[[2], [1]], [[NAN], [1.0]]], _binary, "Labels must be <= 2 - 1 (1)"),
    *each("label of TF1", [[[2], [1]]], _binary_of_tf1, "Labels must <= 2 - 1 (1)"),
    *each("class", [[[3], [1]]], _of_three, "Labels must be <= 3 - 1 (2)"),
    *each("class", [[[-1], [1]]], _of_three, "Labels must be >= 0"),
    *each(
        "dtype of classes",
        [[[0.5], [1.0]], [["a"], ["b"]], [[True], [False]]],
        _of_three,
        "Labels dtype should be integer",
    ),
    *each(
        "labels of classes",
        [[[2, 0], [0, 1]], [[-1, 0], [0, 1]]],
        lambda v: _loss(heads.MultiLabelHead(2), v),
        "with values in [0, 1]",
    ),
    *each(
        "probability",
        [[[-0.5], [1.0]], [[2.0], [1.0]]],
        lambda v: _loss(heads.LogisticRegressionHead(), v),
        "Labels must be in range [0, 1]",
    ),
    *each(
        "number",
        [[["a"], ["b"]], [["1"], ["2"]]],
        lambda v: _loss(heads.RegressionHead(), v),
        "Labels dtype should be a number's … tf.strings.to_number",
    ),
    *each(
        "number of labels",
        [heads.BinaryClassHead(), heads.MultiClassHead(3), heads.RegressionHead()],
        lambda v: _loss(v, [[1], [0], [1]]),
        f"Labels don't fit the examples … {_SHORT}",
    ),
    *each(
        "label that the vocabulary lacks",
        [
            heads.BinaryClassHead(label_vocabulary=_VOCABULARY),
            heads.MultiClassHead(3, label_vocabulary=[*_VOCABULARY, "?"]),
        ],
        lambda v: _loss(v, [["no"], ["maybe"]]),
        "Labels must be >= 0 … isn't in label_vocabulary … 'no', 'yes'",
    ),
    case("no labels", lambda: _binary(None), "You must provide a labels Tensor"),
    case(
        "ragged labels",
        lambda: _binary(tf.ragged.constant([[1], [1, 0]])),
        "RaggedTensor labels are not supported … to_tensor()",
    ),
    case(
        "sparse labels",
        lambda: _binary(tf.sparse.from_dense([[1], [0]])),
        "SparseTensor labels are not supported",
    ),
    *each(
        "number of weights",
        [heads.BinaryClassHead, heads.RegressionHead],
        lambda v: _weighted(tf.ones([3, 1]), v),
        f"Weights (feature 'w') don't fit the examples … {_SHORT}",
    ),
    *each(
        "weights of strings",
        [heads.BinaryClassHead, heads.RegressionHead],
        lambda v: _weighted(tf.constant([["1"], ["2"]]), v),
        "feature 'w' holds strings … tf.strings.to_number",
    ),
    case(
        "two weights an example",
        lambda: _weighted(tf.ones([2, 2])),
        "Weights (feature 'w') don't fit … here (2, 1); got (2, 2)",
    ),
    case(
        "ragged weights of examples",
        lambda: _weighted(tf.ragged.constant([[1.0], [1.0, 2.0]])),
        "feature 'w' is a ragged tensor … to_tensor()",
    ),
    case(
        "no weights",
        lambda: _loss(heads.BinaryClassHead(weight_column="w"), [[0], [1]], {"v": 1}),
        "Feature w is not in features dictionary … weight_column … ['v']",
    ),
]
