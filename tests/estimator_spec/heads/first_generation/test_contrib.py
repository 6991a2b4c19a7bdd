# SPDX-License-Identifier: Apache-2.0
"""Heads of `tf.contrib.estimator`, and of `canned.head`, under their old names."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

import estimator_spec as es
from estimator_spec import heads
from estimator_spec.heads import first_generation
from estimator_spec.heads.first_generation import contrib

tf1 = tf.compat.v1

LOGITS = np.array([[2.0, 1.0, 0.5], [-1.0, 0.0, 3.0]], np.float32)
WEIGHTS = np.array([[1.0], [3.0]], np.float32)

PAIRS = {
    "binary": (
        contrib.binary_classification_head,
        heads.BinaryClassHead,
        {"thresholds": [0.25]},
        [[1], [0]],
    ),
    "multi-class": (contrib.multi_class_head, heads.MultiClassHead, {"n_classes": 3}, [[1], [2]]),
    "multi-label": (
        contrib.multi_label_head,
        heads.MultiLabelHead,
        {"n_classes": 3, "thresholds": [0.25], "classes_for_class_based_metrics": [0, 2]},
        [[1, 0, 1], [0, 0, 1]],
    ),
    "regression": (
        contrib.regression_head,
        heads.RegressionHead,
        {"label_dimension": 3},
        [[1, 0, 2], [3, 0, 1]],
    ),
    "poisson": (
        contrib.poisson_regression_head,
        heads.PoissonRegressionHead,
        {"label_dimension": 3, "compute_full_loss": False},
        [[1, 0, 2], [3, 0, 1]],
    ),
    "logistic": (contrib.logistic_regression_head, heads.LogisticRegressionHead, {}, [[1], [0]]),
}


def evaluated(head, labels):
    """Returns loss, metrics and predictions of a batch in a graph."""
    with tf.Graph().as_default(), tf1.Session() as session:
        spec = head.create_estimator_spec(
            features={"weight": tf.constant(WEIGHTS)},
            mode="eval",
            logits=tf.constant(LOGITS[:, : head.logits_dimension]),
            labels=tf.constant(labels),
            regularization_losses=[tf.constant(0.5)],
        )
        session.run([tf1.local_variables_initializer(), tf1.tables_initializer()])
        session.run([update for _, update in spec.eval_metric_ops.values()])
        values = {key: value for key, (value, _) in spec.eval_metric_ops.items()}
        return session.run({"loss": spec.loss, "metrics": values, "said": spec.predictions})


@pytest.mark.parametrize("name", PAIRS)
def test_heads_of_both_generations_agree(name):
    """A head of contrib has the loss, metrics and predictions of its successor."""
    old, new, options, labels = PAIRS[name]
    options = {**options, "weight_column": "weight", "name": "h"}
    actual, expected = evaluated(old(**options), labels), evaluated(new(**options), labels)
    assert sorted(actual["metrics"]) == sorted(expected["metrics"])
    for key, value in expected["metrics"].items():
        if not key.startswith("auc_precision_recall"):  # TensorFlow 1 interpolates otherwise
            np.testing.assert_allclose(actual["metrics"][key], value, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(actual["loss"], expected["loss"], rtol=1e-6)
    later = {"classes"} if name == "multi-label" else set()  # predictions that contrib's lacks
    assert sorted(actual["said"]) == sorted(set(expected["said"]) - later)


def test_multi_head():
    """The loss is the weighted sum of the heads' losses, in evaluation and in training."""
    parts = [contrib.regression_head(name="a"), contrib.binary_classification_head(name="b")]
    head = contrib.multi_head(parts, head_weights=[1.0, 2.0])
    assert (head.name, head.logits_dimension) == ("a_b", 2)
    with tf.Graph().as_default(), tf1.Session() as session:
        tf1.train.get_or_create_global_step()
        weight = tf1.get_variable("weight", [], initializer=tf1.ones_initializer())
        logits = {"a": LOGITS[:, :1] * weight, "b": LOGITS[:, 1:2] * weight}
        labels = {"a": tf.constant([[1.0], [2.0]]), "b": tf.constant([[1], [0]])}
        specs = {
            mode: head.create_estimator_spec(
                {}, mode, logits, labels, tf1.train.GradientDescentOptimizer(0.1)
            )
            for mode in ("train", "eval", "infer")
        }
        of_each = [
            part.create_loss({}, "train", logits[part.name], labels[part.name]) for part in parts
        ]
        session.run(tf1.global_variables_initializer())
        a, b = session.run([spec.training_loss for spec in of_each])
        assert session.run(specs["train"].loss) == pytest.approx(a + 2 * b)
        assert session.run(specs["eval"].loss) == pytest.approx(a + 2 * b)
        session.run(specs["train"].train_op)
        assert session.run(specs["eval"].loss) < a + 2 * b
        assert {"loss/a", "loss/b", "average_loss/a", "auc/b"} <= set(specs["eval"].eval_metric_ops)
        assert ("b", "classes") in specs["infer"].predictions
        assert {"serving_default", "a", "a/predict", "b/classification"} <= set(
            specs["infer"].export_outputs
        )


def test_reductions():
    """The losses are those of `tf.compat.v1.losses.Reduction`; 'none' and others are refused."""
    labels = [[0.0], [0.0]]
    losses, weights = LOGITS[:, :1] ** 2, WEIGHTS
    total = float((losses * weights).sum())
    for reduction, expected in {
        "weighted_sum": total,
        "weighted_mean": total / 4,
        "weighted_sum_over_batch_size": total / 2,
    }.items():
        head = first_generation.regression_head("weight", loss_reduction=reduction)
        assert evaluated(head, labels)["loss"] == pytest.approx(expected + 0.5)
    for reduction in ("none", "sum", None):
        with pytest.raises(ValueError, match=f"Invalid loss_reduction: {reduction}"):
            first_generation.regression_head(loss_reduction=reduction)


def test_create_loss():
    """The losses of a batch come reduced, one by one, with weights and labels as numbers."""
    head = first_generation.binary_logistic_head_with_sigmoid_cross_entropy_loss(
        "weight", label_vocabulary=["no", "yes"]
    )
    with tf.Graph().as_default(), tf1.Session() as session:
        spec = head.create_loss(
            features={"weight": tf.constant(WEIGHTS)},
            mode="eval",
            logits=tf.zeros([2, 1]),
            labels=tf.constant([["yes"], ["no"]]),
        )
        session.run(tf1.tables_initializer())
        found = first_generation.LossSpec(*session.run(tuple(spec)))
    assert found.training_loss == pytest.approx(4 * np.log(2))
    np.testing.assert_allclose(found.unreduced_loss, np.full([2, 1], np.log(2)), rtol=1e-6)
    np.testing.assert_array_equal(found.weights, WEIGHTS)
    np.testing.assert_array_equal(found.processed_labels, [[1], [0]])


def test_old_names():
    """Every old spelling leads to these heads, and to the names of metrics and predictions."""
    with es.install(replace=True):
        from tensorflow.contrib import estimator as contrib_estimator
        from tensorflow_estimator.python.estimator.canned import head as head_lib
        from tensorflow_estimator.python.estimator.canned import metric_keys, prediction_keys
        from tensorflow_estimator.python.estimator.head import base_head, regression_head

        assert contrib_estimator.multi_head is contrib.multi_head
        assert head_lib._Head is first_generation.HeadV1
        assert head_lib._regression_head is first_generation.regression_head
        assert metric_keys.MetricKeys.AUC == "auc"
        assert prediction_keys.PredictionKeys.CLASS_IDS == "class_ids"
        assert base_head.Head is tf.estimator.Head is heads.Head
        assert regression_head.PoissonRegressionHead is heads.PoissonRegressionHead


def test_a_head_without_a_spec():
    """A subclass that has neither form of a spec is an error that names both."""

    class Incomplete(first_generation.base.HeadV1):
        name, logits_dimension = "incomplete", 1
        create_loss = None

    with pytest.raises(NotImplementedError, match="Subclasses of _Head must implement"):
        Incomplete().create_estimator_spec({}, "train", None)
