# SPDX-License-Identifier: Apache-2.0
"""Plans what a head makes of logits: predictions, the loss, metrics and the reading of labels."""

from __future__ import annotations

from typing import Any

from estimator_spec.convert.keras_columns import program_parts
from estimator_spec.convert.keras_columns.expressions import Call, Name, call
from estimator_spec.convert.keras_columns.plan import LABELS, Plan, feature
from estimator_spec.heads.description import HeadDescription
from estimator_spec.heads.keys import MetricKeys

_REDUCTIONS = {
    "auto": "sum_over_batch_size",
    "sum_over_batch_size": "sum_over_batch_size",
    "sum": "sum",
    "weighted_sum": "sum",
    "weighted_mean": "mean_with_sample_weight",
    "weighted_sum_over_batch_size": "sum_over_batch_size",
    "weighted_sum_by_nonzero_weights": "sum_over_batch_size",
}

_AT_THRESHOLD = (
    (MetricKeys.ACCURACY_AT_THRESHOLD, "BinaryAccuracy", "threshold"),
    (MetricKeys.PRECISION_AT_THRESHOLD, "Precision", "thresholds"),
    (MetricKeys.RECALL_AT_THRESHOLD, "Recall", "thresholds"),
)
_CROSS_ENTROPY = "keras.losses.BinaryCrossentropy"
_LOSSES = {
    "binary": (_CROSS_ENTROPY, {"from_logits": True}),
    "logistic": (_CROSS_ENTROPY, {"from_logits": True}),
    "labels": (_CROSS_ENTROPY, {"from_logits": True}),
    "classes": ("keras.losses.SparseCategoricalCrossentropy", {"from_logits": True}),
    "numbers": ("keras.losses.MeanSquaredError", {}),
}


def add_head(plan: Plan, head: HeadDescription, logits: Name) -> None:
    """Adds a head to a plan.

    Args:
        plan: the plan.
        head: the head.
        logits: the model's logits.
    """
    _add_predictions(plan, head, logits)
    _add_loss(plan, head)
    _add_metrics(plan, head)
    _add_labels(plan, head)
    if head.weight_column is not None:
        plan.weights = _weights(head.weight_column, plan)


def _add_predictions(plan: Plan, head: HeadDescription, logits: Name) -> None:
    def output(name: str, expression: Any) -> None:
        variable = logits if expression is logits else plan.layer(name, expression)
        plan.outputs[name] = variable

    sigmoid = call("keras.ops.sigmoid", logits)
    if head.kind == "binary":
        zero = call("keras.ops.zeros_like", logits)
        both = plan.layer(
            "two_class_logits", call("keras.ops.concatenate", [zero, logits], axis=-1)
        )
        output("logits", logits)
        output("logistic", sigmoid)
        output("probabilities", call("keras.ops.softmax", both))
        output("class_ids", _class_ids(both))
    elif head.kind == "classes":
        output("logits", logits)
        output("probabilities", call("keras.ops.softmax", logits))
        output("class_ids", _class_ids(logits))
    elif head.kind == "labels":
        output("logits", logits)
        output("probabilities", sigmoid)
    elif head.kind == "numbers":
        output("predictions", logits)
    else:
        exponential = call("keras.ops.exp", logits)
        output("predictions", sigmoid if head.kind == "logistic" else exponential)
        output("logits", logits)


def _class_ids(logits: Name) -> Call:
    return call("keras.ops.expand_dims", call("keras.ops.argmax", logits, axis=-1), -1)


def _loss_output(head: HeadDescription) -> str:
    return "predictions" if head.kind == "numbers" else "logits"


def _add_loss(plan: Plan, head: HeadDescription) -> None:
    reduction = _REDUCTIONS[head.loss_reduction]
    if head.kind == "poisson":
        loss = call("PoissonLoss", full=head.full_loss, reduction=reduction)
    else:
        function, options = _LOSSES[head.kind]
        loss = call(function, **options, reduction=reduction)
    output = _loss_output(head)
    plan.loss[output] = loss
    if reduction == "sum" and head.kind in ("numbers", "poisson") and head.logits_dimension > 1:
        # Keras takes the mean over a label's values, a head their sum.
        plan.loss_weights[output] = float(head.logits_dimension)
    if head.loss_reduction == "weighted_sum_by_nonzero_weights" and head.weight_column is not None:
        plan.differ(
            "the loss",
            "loss_reduction",
            "the sum is divided by the batch size, and not by the number of weights that aren't 0",
        )


def _add_metrics(plan: Plan, head: HeadDescription) -> None:
    def metric(output: str, name: str, function: str, *arguments: Any, **options: Any) -> None:
        found = plan.metrics.setdefault(output, [])
        found.append(call(function, *arguments, name=name, **options))

    def means(output: str) -> None:
        mean = "keras.metrics.MeanMetricWrapper"
        metric(output, "prediction/mean", mean, Name("prediction_value"))
        metric(output, "label/mean", mean, Name("label_value"))

    def areas(output: str) -> None:
        metric(output, "auc", "keras.metrics.AUC")
        metric(output, "auc_precision_recall", "keras.metrics.AUC", curve="PR")

    if head.kind == "binary":
        entropy = "keras.metrics.BinaryCrossentropy"
        metric("logits", "average_loss", entropy, from_logits=True)
        metric("class_ids", "accuracy", "keras.metrics.Accuracy")
        metric("logistic", "precision", "keras.metrics.Precision")
        metric("logistic", "recall", "keras.metrics.Recall")
        areas("logistic")
        means("logistic")
    elif head.kind == "classes":
        entropy = "keras.metrics.SparseCategoricalCrossentropy"
        metric("logits", "average_loss", entropy, from_logits=True)
        metric("class_ids", "accuracy", "keras.metrics.Accuracy")
    elif head.kind == "labels":
        metric("logits", "average_loss", "keras.metrics.BinaryCrossentropy", from_logits=True)
        areas("probabilities")
    else:
        if head.kind == "numbers":
            metric("predictions", "average_loss", "keras.metrics.MeanSquaredError")
        elif head.kind == "logistic":
            metric("logits", "average_loss", "keras.metrics.BinaryCrossentropy", from_logits=True)
        means("predictions")
    for threshold in head.thresholds:
        output = "logistic" if head.kind == "binary" else "probabilities"
        for key, function, argument in _AT_THRESHOLD:
            metric(output, key % threshold, f"keras.metrics.{function}", **{argument: threshold})
    _add_differences_of_metrics(plan, head)


def _add_differences_of_metrics(plan: Plan, head: HeadDescription) -> None:
    if head.kind == "binary":
        plan.differ(
            "the metrics",
            "accuracy_baseline",
            "no metric of Keras: it is max(m, 1 - m) of label/mean m",
        )
    if head.kind == "poisson":
        plan.differ("the metrics", "average_loss", "no metric: the loss has the same number")
    if head.thresholds:
        plan.differ(
            "the metrics",
            "thresholds",
            "Keras counts probabilities above a threshold, heads those equal to it, too",
        )
    plan.differ(
        "the metrics",
        "names",
        "Keras' names begin with the output that they are of, such as `logits_average_loss`",
    )


def _add_labels(plan: Plan, head: HeadDescription) -> None:
    options: dict[str, Any] = {}
    if head.label_vocabulary is not None:
        words = call("words_in_order", list(head.label_vocabulary))
        plan.constants["LABEL_VOCABULARY"] = call("vocabulary_table", words)
        options["vocabulary"] = Name("LABEL_VOCABULARY")
        plan.class_names = head.label_vocabulary
    if head.kind == "labels":
        options["size"] = head.logits_dimension
    elif head.kind in ("binary", "classes"):
        number = max(head.logits_dimension, 2)
        plan.class_names = plan.class_names or tuple(map(str, range(number)))
    plan.targets = call("label_numbers", LABELS, **options)


def _weights(column: Any, plan: Plan) -> Call:
    if isinstance(column, str):
        return call("example_weights", feature(column))
    arguments: list[Any] = [feature(column.key)]
    if column.normalizer_fn is not None:
        name = f"{column.key}_normalizer"
        arguments.append(program_parts.given(column.normalizer_fn, name, plan))
    return call("example_weights", *arguments)
