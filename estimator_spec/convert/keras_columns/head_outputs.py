# SPDX-License-Identifier: Apache-2.0
"""Plans what a head makes of logits: predictions, the loss, metrics and the reading of labels."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from estimator_spec.convert.keras_columns.expressions import DictItem, FunctionCall, Name, call
from estimator_spec.convert.keras_columns.plan import (
    FEATURES,
    LABELS,
    ModelPlan,
    Objective,
    output_name,
)
from estimator_spec.heads.description import HeadDescription
from estimator_spec.heads.keys import MetricKeys, PredictionKeys, with_head_name
from estimator_spec.heads.metrics import LABELS as LABELS_OF_METRICS

_REDUCTIONS = {
    "auto": "sum_over_batch_size",
    "sum_over_batch_size": "sum_over_batch_size",
    "sum": "sum",
    "weighted_sum": "sum",
    "weighted_mean": "mean_with_sample_weight",
    "weighted_sum_over_batch_size": "sum_over_batch_size",
    "weighted_sum_by_nonzero_weights": "sum_over_batch_size",
}

# Names of the classes of Keras, among its losses and its metrics.
_LOSSES: dict[str, tuple[str, dict[str, Any]]] = {
    "binary": ("BinaryCrossentropy", {"from_logits": True}),
    "logistic": ("BinaryCrossentropy", {"from_logits": True}),
    "labels": ("BinaryCrossentropy", {"from_logits": True}),
    "classes": ("SparseCategoricalCrossentropy", {"from_logits": True}),
    "numbers": ("MeanSquaredError", {}),
}


# Functions of Keras that are those of TensorFlow.
_LINKS = {
    tf.exp: "exp",
    tf.identity: "identity",
    tf.sigmoid: "sigmoid",
    tf.nn.softplus: "softplus",
    tf.nn.relu: "relu",
    tf.square: "square",
    tf.tanh: "tanh",
}


def add_heads(
    plan: ModelPlan, heads: Sequence[HeadDescription], logits: Name, generation: int
) -> None:
    """Adds the heads of a model to a plan.

    Args:
        plan: the plan.
        heads: the heads.
        logits: the model's logits, those of all heads side by side.
        generation: that of the canned model.

    Raises:
        ValueError: an inverse_link_fn has no counterpart.
    """
    plan.generation = generation
    parts: list[Name] = [logits]
    if len(heads) > 1:
        ends = list(itertools.accumulate(head.logits_dimension for head in heads[:-1]))
        split = plan.layer("logits_of_heads", call("keras.ops.split", logits, ends, axis=-1))
        parts = [
            plan.layer(f"{head.name}_logits", DictItem(split, number))
            for number, head in enumerate(heads)
        ]
    for head, part in zip(heads, parts, strict=True):
        before = set(plan.outputs)
        _add_predictions(plan, head, part)
        _add_loss(plan, head)
        _add_metrics(plan, head)
        for row in head.metrics if generation == 1 else ():
            if row.options.get("curve") == "PR":
                plan.differ(
                    _of_head("the metrics", head),
                    row.key,
                    "TensorFlow 1 adds up trapezoids, Keras interpolates",
                    of_keras=True,
                )
        outputs = tuple(name for name in plan.outputs if name not in before)
        weights = None if head.weight_column is None else _weights(head.weight_column, plan)
        plan.objectives.append(_objective(plan, head, outputs, weights))
    if plan.loss_weights:  # Keras wants one for each loss
        plan.loss_weights = {name: plan.loss_weights.get(name, 1.0) for name in plan.loss}


def _add_predictions(plan: ModelPlan, head: HeadDescription, logits: Name) -> None:
    prefix = f"{head.name}_" if head.name else ""

    def output(key: str, expression: Any) -> None:
        is_logits = expression is logits
        variable = logits if is_logits else plan.layer(f"{prefix}{key}", expression)
        plan.outputs[output_name(head.name, key)] = variable

    sigmoid = call("keras.ops.sigmoid", logits)
    if head.kind == "binary":
        zero = call("keras.ops.zeros_like", logits)
        both = plan.layer(
            f"{prefix}two_class_logits", call("keras.ops.concatenate", [zero, logits], axis=-1)
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
    elif head.kind == "numbers" and head.inverse_link_fn is None:
        output("predictions", logits)
    elif head.kind == "numbers":
        output("predictions", call(_link(head.inverse_link_fn), logits))
        output("logits", logits)
    else:
        exponential = call("keras.ops.exp", logits)
        output("predictions", sigmoid if head.kind == "logistic" else exponential)
        output("logits", logits)


def _class_ids(logits: Name) -> FunctionCall:
    return call("keras.ops.expand_dims", call("keras.ops.argmax", logits, axis=-1), -1)


def _link(function: Any) -> str:
    """Returns Keras' name of an inverse link function."""
    known = _LINKS.get(function)
    if known is None:
        names = ", ".join(f"tf.{name}" for name in _LINKS.values())
        raise ValueError(
            f"The inverse_link_fn {function!r} of a RegressionHead has no counterpart. Those "
            f"of {names} have one. Leave it out for the conversion, and add it to the new model."
        )
    return f"keras.ops.{known}"


def _logits_key(head: HeadDescription) -> str:
    """Returns the key of the logits among the head's predictions."""
    only = head.kind == "numbers" and head.inverse_link_fn is None
    return "predictions" if only else "logits"


def _add_loss(plan: ModelPlan, head: HeadDescription) -> None:
    reduction = _REDUCTIONS[head.loss_reduction]
    if head.loss_fn is not None:
        loss = _own_loss(plan, head, reduction)
        plan.differ(
            _of_head("the loss", head),
            "loss_fn",
            "the program's own function of TensorFlow's ops: it trains under that backend only",
        )
    elif head.kind == "poisson":
        loss = call("PoissonLoss", full=head.full_loss, reduction=reduction)
    else:
        name, options = _LOSSES[head.kind]
        loss = call(f"keras.losses.{name}", **options, reduction=reduction)
    output = output_name(head.name, _logits_key(head))
    plan.loss[output] = loss
    weight = head.weight
    per_logit = head.kind in ("numbers", "poisson")
    if reduction == "sum" and per_logit and head.logits_dimension > 1:
        # Keras takes the mean over a label's values, a head their sum.
        weight *= float(head.logits_dimension)
    if weight != 1.0:
        plan.loss_weights[output] = weight
    if head.loss_reduction == "weighted_sum_by_nonzero_weights" and head.weight_column is not None:
        plan.differ(
            _of_head("the loss", head),
            "loss_reduction",
            "the sum is divided by the batch size, and not by the number of weights that aren't 0",
            of_keras=True,
        )


def _own_loss(plan: ModelPlan, head: HeadDescription, reduction: str | None) -> FunctionCall:
    """Returns the expression of a loss function of the program's own."""
    name = f"{head.name}_loss" if head.name else "loss_of_examples"
    integers = {"dtype_of_labels": "int64"} if head.kind == "classes" else {}
    function = plan.named(plan.losses, name, head.loss_fn)
    return call("OwnLoss", function, **integers, reduction=reduction)


def _of_head(what: str, head: HeadDescription) -> str:
    return f"{what} of {head.name}" if head.name else what


def _add_metrics(plan: ModelPlan, head: HeadDescription) -> None:
    def metric(key: str, name: str, function: str, *arguments: Any, **options: Any) -> None:
        found = plan.metrics.setdefault(output_name(head.name, key), [])
        name = with_head_name(name, head.name)
        found.append(call(function, *arguments, name=name, **options))

    mean, logits = "keras.metrics.MeanMetricWrapper", _logits_key(head)
    if head.loss_fn is not None:
        metric(logits, MetricKeys.LOSS_MEAN, mean, _own_loss(plan, head, None))
    elif head.kind == "poisson":
        loss = call("PoissonLoss", full=head.full_loss, reduction=None)
        metric(logits, MetricKeys.LOSS_MEAN, mean, loss)
    else:
        name, options = _LOSSES[head.kind]
        metric(logits, MetricKeys.LOSS_MEAN, f"keras.metrics.{name}", **options)
    for row in head.metrics:
        if row.values == LABELS_OF_METRICS:
            function = "AccuracyBaseline" if row.is_baseline else mean
            metric(logits, row.key, function, Name("label_value"))
        elif row.kind == "Mean":
            of_class = {} if row.class_id is None else {"class_id": row.class_id}
            metric(row.values, row.key, mean, Name("prediction_value"), **of_class)
        else:
            # Keras' AUC is that of the ROC curve unless told otherwise.
            options = {key: value for key, value in row.options.items() if value != "ROC"}
            if row.class_id is not None:
                number = head.logits_dimension
                options |= {"multi_label": True, "num_labels": number}
                options["label_weights"] = [float(n == row.class_id) for n in range(number)]
            metric(row.values, row.key, f"keras.metrics.{row.kind}", **options)
    _add_differences_of_metrics(plan, head)


def _add_differences_of_metrics(plan: ModelPlan, head: HeadDescription) -> None:
    if head.thresholds:
        plan.differ(
            _of_head("the metrics", head),
            "thresholds",
            "Keras counts probabilities above a threshold, heads those equal to it, too",
            of_keras=True,
        )
    plan.differ(
        "the metrics",
        "loss of several batches",
        "Keras weighs each batch by its number of examples, an estimator takes the plain mean",
        of_keras=True,
    )
    plan.differ(
        "the metrics",
        "names",
        "Keras' names begin with the output that they are of, such as `logits_average_loss`",
        of_keras=True,
    )


def _objective(
    plan: ModelPlan, head: HeadDescription, outputs: tuple[str, ...], weights: Any
) -> Objective:
    options: dict[str, Any] = {}
    class_names = head.label_vocabulary
    if head.label_vocabulary is not None:
        words = call("words_in_order", list(head.label_vocabulary))
        table = _constant(plan, head, "LABEL_VOCABULARY")
        plan.constants[table] = call("vocabulary_table", words)
        options["vocabulary"] = Name(table)
    if head.kind == "labels":
        options["size"] = head.logits_dimension
    if head.kind in ("binary", "classes", "labels", "logistic"):
        options["largest"] = head.logits_dimension - 1 if head.kind == "classes" else 1
    number = max(head.logits_dimension, 2)
    class_names = class_names or tuple(map(str, range(number)))
    labels = DictItem(LABELS, head.name) if head.name else LABELS
    numbers = call("label_numbers", labels, **options)
    classes = _constant(plan, head, "CLASSES")
    of_classes = None
    if PredictionKeys.CLASSES in head.prediction_keys:
        is_one = PredictionKeys.CLASS_IDS in head.prediction_keys
        key = PredictionKeys.CLASS_IDS if is_one else PredictionKeys.LOGITS
        output = DictItem(Name("outputs"), output_name(head.name, key))
        prefix = filter(None, [output_name(head.name, "")])
        function = "class_predictions" if is_one else "classes_of_all"
        of_classes = call(function, output, Name(classes), *prefix)
    return Objective(head.name, outputs, numbers, weights, class_names, classes, head, of_classes)


def _constant(plan: ModelPlan, head: HeadDescription, name: str) -> str:
    """Returns the name of a constant of a head."""
    if not head.name:
        return name
    return plan.identifier(f"{head.name}_{name}".upper(), ("constant", head.name, name))


def _weights(column: Any, plan: ModelPlan) -> FunctionCall:
    if isinstance(column, str):
        return call("example_weights", FEATURES, column)
    arguments: list[Any] = [FEATURES, column.key]
    if column.normalizer_fn is not None:
        arguments.append(plan.normalizer(column))
    return call("example_weights", *arguments)
