# SPDX-License-Identifier: Apache-2.0
"""Describes heads by plain values, for conversions to other systems."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

from estimator_spec.core.common.signatures import argument_names
from estimator_spec.heads import regression
from estimator_spec.heads.binary_class import BinaryClassHead
from estimator_spec.heads.metrics import HeadMetric
from estimator_spec.heads.multi_class import MultiClassHead
from estimator_spec.heads.multi_label import MultiLabelHead

_KINDS: dict[type, str] = {
    BinaryClassHead: "binary",
    MultiClassHead: "classes",
    MultiLabelHead: "labels",
    regression.RegressionHead: "numbers",
    regression.LogisticRegressionHead: "logistic",
    regression.PoissonRegressionHead: "poisson",
}


class HeadDescription(NamedTuple):
    """A head by plain values.

    Attributes:
        kind: 'binary', 'classes', 'labels', 'numbers', 'logistic' or 'poisson'.
        logits_dimension: number of logits.
        label_vocabulary: labels of the classes, or None.
        weight_column: name of the feature with the examples' weights, a numeric column, or None.
        loss_reduction: a value of either `Reduction`.
        thresholds: probabilities with metrics of their own.
        full_loss: whether the loss of a Poisson regression has Stirling's term.
        name: the head's name in a model with several, else ''.
        weight: factor of its loss.
        loss_fn: function of labels and logits that returns the losses, or None.
        inverse_link_fn: function of the logits that returns the predictions, or None.
        prediction_keys: names of the predictions.
        metrics_of_classes: class id, and the names of its mean probability and areas under curves.
        metrics: all metrics but those of losses.
    """

    kind: str
    logits_dimension: int
    label_vocabulary: tuple[str, ...] | None
    weight_column: Any
    loss_reduction: str
    thresholds: tuple[float, ...]
    full_loss: bool
    name: str = ""
    weight: float = 1.0
    loss_fn: Callable[..., Any] | None = None
    inverse_link_fn: Callable[[Any], Any] | None = None
    prediction_keys: tuple[str, ...] = ()
    metrics_of_classes: tuple[tuple[int, tuple[str, str, str]], ...] = ()
    metrics: tuple[HeadMetric, ...] = ()


def describe(head: Any) -> tuple[HeadDescription, ...]:
    """Returns the description of a head of either generation; several of a `MultiHead`.

    Raises:
        ValueError: it is of another class, or its loss is a function of the features.
    """
    if not hasattr(head, "_head_weights"):
        return (_describe(head, "", 1.0),)
    pairs = zip(head._heads, head._head_weights, strict=True)
    return tuple(_describe(each, str(each.name), float(weight)) for each, weight in pairs)


def _describe(head: Any, name: str, weight: float) -> HeadDescription:
    inner = getattr(head, "wrapped", head)
    kind = _KINDS.get(type(inner))
    if kind is None:
        raise ValueError(
            f"A {type(inner).__name__} has no counterpart. Those of "
            f"{', '.join(kind.__name__ for kind in _KINDS)} have one, and a MultiHead of them."
        )
    vocabulary = getattr(inner, "_label_vocabulary", None)
    return HeadDescription(
        kind,
        int(inner.logits_dimension),
        None if vocabulary is None else tuple(vocabulary),
        inner._weight_column,
        head.loss_reduction,
        tuple(getattr(inner, "thresholds", ())),
        bool(getattr(inner, "_compute_full_loss", False)),
        name,
        weight,
        _loss_fn(inner, head.loss_reduction),
        inner._inverse_link_fn if kind == "numbers" else None,
        tuple(head.prediction_keys),
        tuple(
            (number, inner.class_metric_keys(number))
            for number in getattr(inner, "classes_with_metrics", ())
        ),
        tuple(inner.metric_rows()),
    )


def has_inverse_link(head: Any) -> bool:
    """Returns whether the predictions of a regression's head are a function of its logits.

    Args:
        head: a head of either generation.
    """
    inner = getattr(head, "wrapped", head)
    return isinstance(inner, regression.RegressionHead) and inner._inverse_link_fn is not None


def class_labels(head: Any) -> tuple[str, ...] | None:
    """Returns the labels of a head whose examples have one class each; None for a regression.

    Args:
        head: a head of either generation.

    Raises:
        ValueError: examples have several labels, or the prediction is a function of the number.
    """
    inner = getattr(head, "wrapped", head)
    kind = _KINDS.get(type(inner))
    if kind in ("binary", "classes"):
        vocabulary = inner._label_vocabulary or range(max(2, int(inner.logits_dimension)))
        return tuple(map(tf.compat.as_str_any, vocabulary))
    if kind == "numbers" and inner.logits_dimension == 1 and not has_inverse_link(head):
        return None
    raise ValueError(
        f"The {type(inner).__name__} with {inner.logits_dimension} logits predicts neither a class "
        "nor a number: one that does can be converted."
    )


def _loss_fn(head: Any, reduction: str) -> Callable[..., Any] | None:
    """Returns a head's loss function as one of labels and logits only."""
    function: Callable[..., Any] | None = head._loss_fn
    names = () if function is None else argument_names(function)
    if "features" in names:
        raise ValueError(
            f"The loss_fn of the {type(head).__name__} takes the features, which a Keras loss "
            "doesn't get. Leave it out for the conversion, and train the Keras model by a loop of "
            "your own."
        )
    if function is not None and "loss_reduction" in names:
        return functools.partial(function, loss_reduction=reduction)
    return function
