# SPDX-License-Identifier: Apache-2.0
"""Losses, metrics and predictions of each head against formulas in NumPy."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest
import tensorflow as tf

from estimator_spec import heads

LOGITS = np.array([[2.0], [-1.0], [0.5]], np.float32)
CLASS_LOGITS = np.array([[1, 2, 0.5], [0, 0, 1], [3, -1, 2]], np.float32)
WEIGHTS = np.array([[1.0], [2.0], [0.5]], np.float32)


def sigmoid(x):
    """Returns the logistic function."""
    return 1 / (1 + np.exp(-x))


def cross_entropy(labels, logits):
    """Returns the losses of a logistic model."""
    p = sigmoid(logits)
    return -labels * np.log(p) - (1 - labels) * np.log(1 - p)


def softmax_cross_entropy(ids, logits):
    """Returns the losses of a multi-class model, `[B, 1]`."""
    p = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    return -np.log(np.take_along_axis(p, ids, -1))


IDS = np.array([[1], [0], [0]])
CLASS_IDS = np.array([[1], [0], [2]])
SETS = np.array([[0, 1, 1], [0, 0, 0], [1, 1, 0]])
COUNTS = np.array([[3.0], [0.0], [2.0]], np.float32)

CASES = {
    "binary": (lambda **o: heads.BinaryClassHead(**o), IDS, LOGITS, cross_entropy(IDS, LOGITS)),
    "multi-class": (
        lambda **o: heads.MultiClassHead(3, **o),
        CLASS_IDS,
        CLASS_LOGITS,
        softmax_cross_entropy(CLASS_IDS, CLASS_LOGITS),
    ),
    "multi-label": (
        lambda **o: heads.MultiLabelHead(3, **o),
        SETS,
        CLASS_LOGITS,
        cross_entropy(SETS, CLASS_LOGITS).mean(-1, keepdims=True),
    ),
    "regression": (lambda **o: heads.RegressionHead(**o), COUNTS, LOGITS, (COUNTS - LOGITS) ** 2),
    "poisson": (
        lambda **o: heads.PoissonRegressionHead(compute_full_loss=False, **o),
        COUNTS,
        LOGITS,
        np.exp(LOGITS) - LOGITS * COUNTS,
    ),
    "logistic": (
        lambda **o: heads.LogisticRegressionHead(**o),
        IDS,
        LOGITS,
        cross_entropy(IDS, LOGITS),
    ),
}
every_head = pytest.mark.parametrize("name", CASES)


@every_head
@pytest.mark.parametrize("loss_reduction", ["sum", "sum_over_batch_size"])
def test_weighted_losses(name, loss_reduction):
    """The loss is the weighted sum over the examples, or that sum over their number."""
    make, labels, logits, losses = CASES[name]
    head = make(weight_column="weight", loss_reduction=loss_reduction)
    loss = head.loss(labels, logits, {"weight": WEIGHTS})
    total = (losses * WEIGHTS).sum()
    expected = total if loss_reduction == "sum" else total / losses.size
    np.testing.assert_allclose(loss, expected, rtol=1e-5)


@every_head
def test_regularization_losses_are_added(name):
    """The loss has the sum of the regularization losses too."""
    make, labels, logits, losses = CASES[name]
    loss = make().loss(labels, logits, regularization_losses=[1.5, tf.constant(0.25)])
    np.testing.assert_allclose(loss, losses.mean() + 1.75, rtol=1e-5)


@every_head
def test_average_loss(name):
    """The metric is the weighted average over all batches, whatever the reduction."""
    make, labels, logits, losses = CASES[name]
    head = make(weight_column="weight", loss_reduction="sum", name="h")
    metrics = head.metrics()
    for features in ({"weight": WEIGHTS}, {"weight": 3 * WEIGHTS}):
        head.update_metrics(metrics, features, tf.constant(logits), labels)
    expected = (losses * WEIGHTS).sum() / WEIGHTS.sum()
    np.testing.assert_allclose(metrics["average_loss/h"].result(), expected, rtol=1e-5)


@every_head
def test_labels_without_their_last_dimension(name):
    """Labels of shape [B] are those of shape [B, 1]."""
    make, labels, logits, losses = CASES[name]
    if labels.shape[-1] == 1:
        loss = make().loss(labels[:, 0], logits)
        np.testing.assert_allclose(loss, losses.mean(), rtol=1e-5)
    else:
        with pytest.raises(ValueError, match="labels must have rank at least 2"):
            make().loss(labels[:, 0], logits)


@every_head
@pytest.mark.parametrize(
    "labels, words",
    [
        (None, "You must provide a labels Tensor"),
        (np.zeros([2, 1], np.int64), "label"),
        (np.zeros([3, 7], np.int64), "label"),
    ],
)
def test_labels_of_another_shape(name, labels, words):
    """Missing labels, and labels of another shape than the logits', are refused."""
    make, _, logits, _ = CASES[name]
    with pytest.raises((ValueError, tf.errors.InvalidArgumentError), match=words):
        make().loss(labels, logits)


@every_head
def test_logits_of_another_shape(name):
    """Logits with another last dimension are refused, with the one that is expected."""
    make, labels, logits, _ = CASES[name]
    head = make()
    expected = rf"logits shape must be .* logits_dimension is {head.logits_dimension}"
    with pytest.raises(ValueError, match=expected):
        head.loss(labels, np.concatenate([logits, logits], -1))
    with pytest.raises(ValueError, match=expected):
        head.predictions(np.concatenate([logits, logits], -1))


def test_binary_metrics():
    """Accuracy, precision, recall and means of a weighted batch, also at a threshold."""
    head = heads.BinaryClassHead(weight_column="weight", thresholds=[0.9])
    metrics = head.update_metrics(
        head.metrics(), {"weight": WEIGHTS}, tf.constant(LOGITS), np.array([[1], [0], [0]])
    )
    found = {key: float(metric.result()) for key, metric in metrics.items()}
    # Predicted: 1, 0, 1; the last one, of weight 0.5, is wrong.
    expected = {
        "accuracy": 3 / 3.5,
        "precision": 1 / 1.5,
        "recall": 1.0,
        "label/mean": 1 / 3.5,
        "accuracy_baseline": 2.5 / 3.5,
        "prediction/mean": float((sigmoid(LOGITS) * WEIGHTS).sum() / 3.5),
        "accuracy/positive_threshold_0.9": 2.5 / 3.5,
        "precision/positive_threshold_0.9": 0.0,
        "recall/positive_threshold_0.9": 0.0,
        "auc": 1.0,
    }
    assert {key: found[key] for key in expected} == pytest.approx(expected, abs=1e-6)


def test_multi_class_accuracy():
    """Accuracy weighs the examples."""
    head = heads.MultiClassHead(3, weight_column="weight")
    metrics = head.update_metrics(
        head.metrics(), {"weight": WEIGHTS}, tf.constant(CLASS_LOGITS), [[1], [2], [1]]
    )
    np.testing.assert_allclose(metrics["accuracy"].result(), 3 / 3.5)


def test_regression_means():
    """The means of predictions and labels are weighted, for each value of a label."""
    logits = tf.constant([[1.0, 2.0], [3.0, 4.0]])
    weights = {"weight": np.array([[1.0, 0.0], [1.0, 2.0]])}
    head = heads.RegressionHead(2, weight_column="weight")
    metrics = head.update_metrics(head.metrics(), weights, logits, [[0, 9], [1, 1]])
    assert float(metrics["prediction/mean"].result()) == pytest.approx((1 + 3 + 8) / 4)
    assert float(metrics["label/mean"].result()) == pytest.approx(3 / 4)


def test_class_based_metrics():
    """A class' mean probability and areas are named after its id, or its word."""
    options = {"n_classes": 3, "classes_for_class_based_metrics": [2]}
    assert "probability_mean/class2" in heads.MultiLabelHead(**options).metrics()
    head = heads.MultiLabelHead(
        3, label_vocabulary=["a", "b", "c"], classes_for_class_based_metrics=["c"]
    )
    metrics = head.update_metrics(head.metrics(), {}, tf.constant(CLASS_LOGITS), SETS)
    (key,) = (key for key in metrics if key.startswith("probability_mean/"))
    expected = sigmoid(CLASS_LOGITS[:, 2]).mean()
    np.testing.assert_allclose(metrics[key].result(), expected, rtol=1e-5)


def test_words_are_labels():
    """With a vocabulary, labels are its words, and predicted classes too."""
    head = heads.MultiClassHead(3, label_vocabulary=["ant", "bee", "cat"])
    ids = heads.MultiClassHead(3)
    words = np.array([["bee"], ["ant"], ["cat"]])
    assert float(head.loss(words, CLASS_LOGITS)) == float(ids.loss(CLASS_IDS, CLASS_LOGITS))
    classes = head.predictions(CLASS_LOGITS)["classes"].numpy()
    np.testing.assert_array_equal(classes, [[b"bee"], [b"cat"], [b"ant"]])
    with pytest.raises(ValueError, match="Labels must be"):
        head.loss(np.array([["dog"]]), CLASS_LOGITS[:1])


def test_sparse_labels_of_several_classes():
    """Sparse ids and words are the same labels as zeros and ones."""
    indices, ids = np.argwhere(SETS), np.argwhere(SETS)[:, 1]
    expected = heads.MultiLabelHead(3).loss(SETS, CLASS_LOGITS)
    sparse = tf.SparseTensor(indices, ids, SETS.shape)
    assert float(heads.MultiLabelHead(3).loss(sparse, CLASS_LOGITS)) == float(expected)
    words = ["ant", "bee", "cat"]
    sparse = tf.SparseTensor(indices, np.array(words)[ids], SETS.shape)
    head = heads.MultiLabelHead(3, label_vocabulary=words)
    assert float(head.loss(sparse, CLASS_LOGITS)) == float(expected)


def test_a_loss_function_of_the_user():
    """A loss_fn gets processed labels, features and the reduction, and returns each loss."""
    seen = {}

    def loss_fn(labels, logits, features, loss_reduction):
        seen.update(labels=labels, features=features, loss_reduction=loss_reduction)
        return tf.abs(logits - labels)

    head = heads.BinaryClassHead(
        label_vocabulary=["no", "yes"], loss_fn=loss_fn, weight_column="weight"
    )
    features = {"weight": WEIGHTS}
    loss = head.loss(np.array([["yes"], ["no"], ["no"]]), LOGITS, features)
    np.testing.assert_allclose(loss, (np.abs(LOGITS - IDS) * WEIGHTS).mean(), rtol=1e-6)
    np.testing.assert_array_equal(seen["labels"], IDS)
    assert seen["features"] is features
    assert seen["loss_reduction"] == "sum_over_batch_size"


def test_weights_by_a_column():
    """A numeric column for the weights applies its normalizer."""
    column = tf.feature_column.numeric_column("weight", normalizer_fn=lambda x: 2 * x)
    plain, twice = heads.RegressionHead(weight_column="weight"), heads.RegressionHead(1, column)
    features = {"weight": WEIGHTS}
    loss = plain.loss(COUNTS, LOGITS, features)
    np.testing.assert_allclose(twice.loss(COUNTS, LOGITS, features), 2 * loss)


def test_fractions_and_negative_weights():
    """A label between 0 and 1 is a probability, and a weight may be negative, as in TensorFlow."""
    logits = np.array([[0.0], [2.0]], np.float32)
    of_one, of_zero = np.log1p(np.exp(-2.0)), np.log1p(np.exp(2.0))
    head = heads.BinaryClassHead(weight_column="w", loss_reduction="sum")
    loss = head.loss([[0.5], [0.25]], logits, {"w": np.array([[-1.0], [2.0]], np.float32)})
    expected = -np.log(2) + 2 * (0.25 * of_one + 0.75 * of_zero)
    assert float(loss) == pytest.approx(expected, rel=1e-5)


def test_several_heads():
    """The loss is the weighted sum, metrics are those of all heads, predictions named by tuples."""
    price, sold = heads.RegressionHead(name="price"), heads.BinaryClassHead(name="sold")
    head = heads.MultiHead([price, sold], head_weights=[1.0, 0.5])
    logits = {"price": tf.constant(LOGITS), "sold": tf.constant(LOGITS)}
    labels = {"price": COUNTS, "sold": IDS}
    loss = float(price.loss(COUNTS, LOGITS)) + 0.5 * float(sold.loss(IDS, LOGITS))
    assert float(head.loss(labels, logits)) == pytest.approx(loss)
    joined = np.concatenate([LOGITS, LOGITS], -1)
    assert float(head.loss(labels, joined)) == pytest.approx(loss)
    metrics = head.update_metrics(head.metrics(), {}, logits, labels)
    own = {**price.metrics(), **sold.metrics()}
    assert set(metrics) == {*own, "loss/price", "loss/sold"}
    assert float(metrics["loss/sold"].result()) == pytest.approx(float(sold.loss(IDS, LOGITS)))
    assert ("sold", "probabilities") in head.predictions(logits)


@pytest.mark.parametrize(
    "made, words",
    [
        (lambda: heads.MultiHead([heads.RegressionHead()]), "must have name specified"),
        (
            lambda: (
                heads.MultiHead(
                    [
                        heads.RegressionHead(name="a"),
                        heads.RegressionHead(name="b", loss_reduction="sum"),
                    ]
                ).loss_reduction
            ),
            "loss_reduction must be the same",
        ),
        (lambda: heads.MultiClassHead(3, label_vocabulary=["a"]), "Length of label_vocabulary"),
    ],
)
def test_refused_arguments(made, words):
    """Arguments that don't fit are refused when the head is made."""
    with pytest.raises(ValueError, match=words):
        made()


def test_the_number_of_classes_may_be_a_tensor():
    """A head takes n_classes as a tensor or an array whose value is known."""
    for n_classes in (tf.constant(3), np.int32(3), np.array(3)):
        assert heads.MultiClassHead(n_classes).logits_dimension == 3


@pytest.mark.parametrize(
    ("name", "shape", "reported"),
    [
        ("labels", [2], r"\[expected_labels_shape: \] \[2 2\] \[labels_shape: \] \[2\]"),
        ("labels", [3, 2], r"\[expected_labels_shape: \] \[2 2\] \[labels_shape: \] \[3 2\]"),
        ("weights", [2, 3], r"\[logits_shape: \] \[2 2\] \[weights_shape: \] \[2 3\]"),
        ("losses", [2], r"\[logits_shape: \] \[2 2\] \[loss_shape: \] \[2\]"),
        ("losses", [2, 1], r"\[logits_shape: \] \[2 2\] \[loss_shape: \] \[2 1\]"),
    ],
    ids=["rank of labels", "labels", "weights", "rank of losses", "losses"],
)
def test_shapes_of_a_batch_that_are_reported(name, shape, reported):
    """A shape that only a step knows is an error with key words of TensorFlow's own heads."""
    shapes = {"labels": [2, 2], "weights": [2, 1], "losses": [2, 2], name: shape}
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        given = {
            each: tf.compat.v1.placeholder_with_default(np.ones(dims, np.float32), None)
            for each, dims in shapes.items()
        }

        def loss_fn(labels, logits):
            with tf.control_dependencies([labels]):
                return tf.identity(given["losses"])

        column = tf.feature_column.numeric_column("w", shape=(shapes["weights"][-1],))
        head = heads.RegressionHead(label_dimension=2, weight_column=column, loss_fn=loss_fn)
        loss = head.loss(given["labels"], np.ones([2, 2], np.float32), {"w": given["weights"]})
        with pytest.raises(tf.errors.InvalidArgumentError, match=reported):
            session.run(loss)


def test_a_loss_of_known_shape():
    """A loss of another shape is an error at once, where the shape is known."""
    head = heads.RegressionHead(loss_fn=lambda labels, logits: tf.constant([1.0, 2.0, 3.0]))
    with pytest.raises(ValueError, match=r"D0, D1.* expected_loss_shape: .*loss_shape: \(3,\)"):
        head.loss(LOGITS, LOGITS)


@pytest.mark.parametrize(
    ("loss_fn", "weights", "reported"),
    [
        (lambda labels, logits: tf.ones([2]), None, r"\[2 1\] \[loss_shape: \] \[2\]"),
        (None, [[[1.0], [2.0]]], r"\[2 1\] \[weights_shape: \] \[1 2 1\]"),
    ],
    ids=["losses", "weights"],
)
def test_known_shapes_that_broadcast_fail_in_the_step(loss_fn, weights, reported):
    """A graph can be built with such a shape, as with TensorFlow's heads; running it fails."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        head = heads.BinaryClassHead(loss_fn=loss_fn, weight_column=weights and "w")
        features = {"w": tf.constant(weights)} if weights else {}
        loss = head.loss([[1], [0]], [[1.0], [2.0]], features)
        with pytest.raises(tf.errors.InvalidArgumentError, match=reported):
            session.run(loss)


@pytest.mark.parametrize("graph", [True, False])
def test_labels_that_are_known_and_too_large(graph):
    """The error is both of the kinds that TensorFlow's heads raise, in a graph and outside."""
    words = "Labels must be <= n_classes - 1" if graph else "Labels must be <= 2 - 1"
    with contextlib.ExitStack() as stack:
        if graph:
            stack.enter_context(tf.Graph().as_default())
        with pytest.raises(ValueError, match=words) as raised:
            heads.BinaryClassHead().loss([[1.2], [0.4]], [[0.5], [-0.3]])
    assert isinstance(raised.value, tf.errors.InvalidArgumentError)
