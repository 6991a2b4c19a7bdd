# SPDX-License-Identifier: Apache-2.0
"""Chooses the head of a classifier by its number of classes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from estimator_spec.heads import losses
from estimator_spec.heads.base import Head
from estimator_spec.heads.binary_class import BinaryClassHead
from estimator_spec.heads.multi_class import MultiClassHead


def binary_or_multi_class_head(
    n_classes: int,
    weight_column: Any,
    label_vocabulary: Sequence[str] | None,
    loss_reduction: str = losses.SUM_OVER_BATCH_SIZE,
    loss_fn: Callable[..., Any] | None = None,
) -> Head:
    """Returns a `BinaryClassHead` for two classes, and a `MultiClassHead` for more.

    Args:
        n_classes: number of classes.
        weight_column: as in the heads.
        label_vocabulary: as in the heads.
        loss_reduction: as in the heads.
        loss_fn: as in the heads.
    """
    if n_classes == 2:
        return BinaryClassHead(
            weight_column,
            label_vocabulary=label_vocabulary,
            loss_reduction=loss_reduction,
            loss_fn=loss_fn,
        )
    return MultiClassHead(n_classes, weight_column, label_vocabulary, loss_reduction, loss_fn)
