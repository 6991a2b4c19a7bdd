# SPDX-License-Identifier: Apache-2.0
"""Describes heads by plain values, for conversions to other systems."""

from __future__ import annotations

from typing import Any, NamedTuple

import tensorflow as tf

from estimator_spec.heads.binary_class import BinaryClassHead
from estimator_spec.heads.multi_class import MultiClassHead
from estimator_spec.heads.multi_label import MultiLabelHead
from estimator_spec.heads.regression import (
    LogisticRegressionHead,
    PoissonRegressionHead,
    RegressionHead,
)

_KINDS: dict[type, str] = {
    BinaryClassHead: "binary",
    MultiClassHead: "classes",
    MultiLabelHead: "labels",
    RegressionHead: "numbers",
    LogisticRegressionHead: "logistic",
    PoissonRegressionHead: "poisson",
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
    """

    kind: str
    logits_dimension: int
    label_vocabulary: tuple[str, ...] | None
    weight_column: Any
    loss_reduction: str
    thresholds: tuple[float, ...]
    full_loss: bool


def describe(head: Any) -> HeadDescription:
    """Returns the description of a head of either generation.

    Raises:
        ValueError: it is no head of one loss, or has functions of the user's.
    """
    inner = getattr(head, "wrapped", head)
    kind = _KINDS.get(type(inner))
    if kind is None:
        raise ValueError(
            f"A {type(inner).__name__} has no Keras counterpart. Those of "
            f"{', '.join(kind.__name__ for kind in _KINDS)} have one; move each objective of a "
            "MultiHead by itself."
        )
    own_link = kind == "numbers" and inner._inverse_link_fn is not None
    if inner._loss_fn is not None or own_link:
        argument = "inverse_link_fn" if inner._loss_fn is None else "loss_fn"
        raise ValueError(
            f"The {type(inner).__name__} has a {argument} of its own, which can't be moved. Leave "
            "it out for the conversion, and give it to the Keras model's compile."
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
    )


def has_inverse_link(head: Any) -> bool:
    """Returns whether the predictions of a regression's head are a function of its logits.

    Args:
        head: a head of either generation.
    """
    inner = getattr(head, "wrapped", head)
    return isinstance(inner, RegressionHead) and inner._inverse_link_fn is not None


def class_labels(head: Any) -> tuple[str, ...] | None:
    """Returns the labels of the classes of which each example has one; None for a number.

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
