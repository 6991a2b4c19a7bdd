# SPDX-License-Identifier: Apache-2.0
"""Losses and metrics of an estimator's heads."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.nn import functional


class Head(NamedTuple):
    """A head: what its labels are, and how it weighs them.

    Attributes:
        kind: 'binary', 'classes', 'labels', 'numbers', 'logistic' or 'poisson'.
        size: number of its logits.
        logits: key of its logits in the model's outputs.
        name: the head's name in a model with several, else ''.
        weight: factor of its loss.
        reduction: how the examples' losses become one.
        full_loss: whether the loss of counts has Stirling's term.
        thresholds: probabilities with metrics of their own.
        class_metrics: class id, and the names of its mean probability and areas under curves.
        trapezoids: whether areas are sums of trapezoids, as TensorFlow 1 has them.
    """

    kind: str
    size: int
    logits: str = "logits"
    name: str = ""
    weight: float = 1.0
    reduction: str = "sum_over_batch_size"
    full_loss: bool = True
    thresholds: Sequence[float] = ()
    class_metrics: Sequence[tuple[int, tuple[str, str, str]]] = ()
    trapezoids: bool = False

    def key(self, key: str) -> str:
        """Returns the name of an output of the model."""
        return f"{self.name}/{key}" if self.name else key

    def metric(self, key: str) -> str:
        """Returns the name of a metric."""
        return f"{key}/{self.name}" if self.name else key

    def check_labels(self, labels: np.ndarray) -> None:
        """Raises a ValueError if labels have another shape, or are beyond the classes."""
        one = self.kind in ("binary", "classes", "logistic")
        size = 1 if one else self.size
        what = f"Labels of {self.name!r}" if self.name else "Labels"
        if labels.ndim != 2 or labels.shape[1] != size:
            raise ValueError(f"{what} must have the shape [B, {size}], not {list(labels.shape)}.")
        if self.kind in ("numbers", "poisson"):
            return
        largest = self.size - 1 if self.kind == "classes" else 1
        wrong = ~((labels >= 0) & (labels <= largest))
        if wrong.any():
            row = int(np.argwhere(wrong)[0, 0])
            value = labels[wrong][0]
            raise ValueError(f"{what} must be in [0, {largest}]; that of example {row} is {value}.")

    def losses(self, logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """Returns the losses of examples, [B, 1], or of each number of them, [B, size]."""
        if self.kind == "classes":
            return functional.cross_entropy(logits, labels[:, 0].long(), reduction="none")[:, None]
        if self.kind == "numbers":
            return (logits - labels).square()
        if self.kind == "poisson":
            return counts_loss(logits, labels, self.full_loss)
        losses = functional.binary_cross_entropy_with_logits(logits, labels, reduction="none")
        return losses.mean(-1, keepdim=True) if self.kind == "labels" else losses

    def loss(
        self, outputs: Mapping[str, torch.Tensor], labels: torch.Tensor, weights: torch.Tensor
    ) -> torch.Tensor:
        """Returns the loss of a batch.

        Args:
            outputs: what the model returns.
            labels: of this head, [B, d].
            weights: of the examples, [B].
        """
        losses = self.losses(outputs[self.logits], labels)
        shares = weights[:, None].expand_as(losses)
        total = (losses * shares).sum()
        if self.reduction in ("sum", "weighted_sum"):
            return total
        if self.reduction == "sum_over_batch_size":
            return total / max(1, losses.numel())
        is_mean = self.reduction == "weighted_mean"
        number = shares.sum() if is_mean else (shares != 0.0).sum()
        return torch.where(number == 0, 0.0, total / torch.where(number == 0, 1, number))


def counts_loss(logits: torch.Tensor, labels: torch.Tensor, full: bool) -> torch.Tensor:
    """Returns the negative log-likelihood of counts; with Stirling's approximation if full."""
    losses = logits.exp() - labels * logits
    if full:
        large = labels.clamp_min(1.0)
        stirling = large * large.log() - large + 0.5 * (2.0 * math.pi * large).log()
        losses = losses + torch.where(labels > 1.0, stirling, 0.0)
    return losses


def total_loss(
    heads: Sequence[Head],
    outputs: Mapping[str, torch.Tensor],
    labels: Mapping[str, torch.Tensor],
    weights: Mapping[str, torch.Tensor],
) -> torch.Tensor:
    """Returns the loss of all heads; labels and weights are by name of the head."""
    parts = [
        each.loss(outputs, labels[each.name], weights[each.name]) * each.weight for each in heads
    ]
    return torch.stack(parts).sum()


class Mean:
    """A weighted mean."""

    def __init__(self) -> None:
        self.total = self.weight = 0.0

    def add(self, values: Any, weights: Any = 1.0) -> None:
        """Adds values."""
        values = np.asarray(values, np.float64)
        weights = np.broadcast_to(np.asarray(weights, np.float64), values.shape)
        self.total += float((values * weights).sum())
        self.weight += float(weights.sum())

    def result(self) -> float:
        """Returns the mean; 0 without weight."""
        return divided(self.total, self.weight)


class Rates:
    """Counts of labels, and of those that are found, above thresholds.

    Args:
        thresholds: a probability above one is positive.
    """

    def __init__(self, thresholds: Sequence[float]) -> None:
        self.thresholds = np.asarray(thresholds, np.float32)
        self.true, self.false = (np.zeros(len(thresholds)) for _ in range(2))
        self.positive = self.negative = 0.0

    def add(self, labels: np.ndarray, probabilities: np.ndarray, weights: np.ndarray) -> None:
        """Adds examples; all arrays have one shape."""
        labels, weights = labels.ravel() > 0.5, weights.ravel().astype(np.float64)
        places = np.searchsorted(self.thresholds, probabilities.ravel().astype(np.float32), "left")
        for found, chosen in ((self.true, labels), (self.false, ~labels)):
            counts = np.bincount(places[chosen], weights[chosen], len(self.thresholds) + 1)
            found += np.cumsum(counts[::-1])[::-1][1:]
        self.positive += float(weights[labels].sum())
        self.negative += float(weights[~labels].sum())

    def precision(self) -> float:
        """Returns the share of positive ones among the found ones, of the first threshold."""
        return divided(self.true[0], self.true[0] + self.false[0])

    def recall(self) -> float:
        """Returns the share of found ones among the positive ones, of the first threshold."""
        return divided(self.true[0], self.positive)


class Area(Rates):
    """Area under a curve, of 200 thresholds.

    Args:
        curve: 'ROC', or 'PR' for precision and recall.
        trapezoids: as in `Head`.
    """

    def __init__(self, curve: str, trapezoids: bool) -> None:
        inner = (np.arange(198) + 1) / 199
        super().__init__([-1e-7, *inner, 1 + 1e-7])
        self.curve, self.trapezoids = curve, trapezoids

    def result(self) -> float:
        """Returns the area."""
        small = 1e-6 if self.trapezoids else 0.0
        found = self.true + self.false
        recall = divided(self.true + small, self.positive + small)
        if self.curve == "ROC":
            x, y = divided(self.false, self.negative + small), recall
        elif self.trapezoids:
            x, y = recall, divided(self.true + small, found + small)
        else:
            return self.interpolated()
        return float(((x[:-1] - x[1:]) * (y[:-1] + y[1:]) / 2.0).sum())

    def interpolated(self) -> float:
        """Returns the area under precision and recall, with counts between thresholds linear."""
        found = self.true + self.false
        more_true, more = self.true[:-1] - self.true[1:], found[:-1] - found[1:]
        slope = divided(more_true, np.maximum(more, 0))
        intercept = self.true[1:] - slope * found[1:]
        both = (found[:-1] > 0) & (found[1:] > 0)
        ratio = np.where(both, divided(found[:-1], np.maximum(found[1:], 0)), 1.0)
        parts = slope * (more_true + intercept * np.log(np.where(ratio > 0, ratio, 1.0)))
        return float(divided(parts, np.maximum(self.positive, 0)).sum())


def divided(value: Any, by: Any) -> Any:
    """Returns a quotient; 0 where the divisor is 0."""
    value, by = np.asarray(value, np.float64), np.asarray(by, np.float64)
    return np.where(by == 0, 0.0, value / np.where(by == 0, 1.0, by))[()]


class Metrics:
    """The metrics of an estimator's evaluation.

    Args:
        heads: of the model.
    """

    def __init__(self, heads: Sequence[Head]) -> None:
        self.heads = heads
        self.loss = Mean()
        self.found: dict[str, Any] = {}

    def add(
        self,
        outputs: Mapping[str, torch.Tensor],
        labels: Mapping[str, torch.Tensor],
        weights: Mapping[str, torch.Tensor],
    ) -> None:
        """Adds a batch; arguments are those of `total_loss`."""
        self.loss.add(total_loss(self.heads, outputs, labels, weights).cpu().numpy())
        arrays = {key: value.cpu().numpy() for key, value in outputs.items()}
        for head in self.heads:
            own, shares = labels[head.name], weights[head.name]
            losses = head.losses(outputs[head.logits], own).cpu().numpy()
            if head.name:
                batch = head.loss(outputs, own, shares).cpu().numpy()
                self.mean(head, "loss").add(batch)
            self.add_head(head, arrays, losses, own.cpu().numpy(), shares.cpu().numpy()[:, None])

    def mean(self, head: Head, key: str) -> Mean:
        """Returns the mean of a name."""
        return self.found.setdefault(head.metric(key), Mean())

    def rates(self, head: Head, key: str, threshold: float) -> Rates:
        """Returns the counts of a name."""
        return self.found.setdefault(head.metric(key), Rates([threshold]))

    def add_head(
        self, head: Head, outputs: Mapping[str, Any], losses: Any, labels: Any, weights: Any
    ) -> None:
        """Adds a batch of one head, as arrays; weights are [B, 1]."""
        self.mean(head, "average_loss").add(losses, weights)
        if head.kind in ("binary", "classes"):
            ids = outputs[head.key("class_ids")]
            self.mean(head, "accuracy").add(ids == labels, weights)
        if head.kind == "binary":
            chosen = (labels, ids, np.broadcast_to(weights, labels.shape))
            self.rates(head, "precision", 0.5).add(*chosen)
            self.rates(head, "recall", 0.5).add(*chosen)
            self.mean(head, "accuracy_baseline").add(labels, weights)
            self.add_means(head, outputs[head.key("logistic")], labels, weights)
            self.add_probabilities(head, outputs[head.key("logistic")], labels, weights)
        elif head.kind == "labels":
            probabilities = outputs[head.key("probabilities")]
            self.add_probabilities(head, probabilities, labels, weights)
            for number, (mean, *areas) in head.class_metrics:
                part = (labels[:, number], probabilities[:, number], weights[:, 0])
                self.mean(head, mean).add(part[1], part[2])
                self.add_areas(head, areas, *part)
        elif head.kind != "classes":
            self.add_means(head, outputs[head.key("predictions")], labels, weights)

    def add_means(self, head: Head, values: Any, labels: Any, weights: Any) -> None:
        """Adds predictions and labels to their means."""
        self.mean(head, "prediction/mean").add(values, weights)
        self.mean(head, "label/mean").add(labels, weights)

    def add_areas(
        self, head: Head, keys: Sequence[str], labels: Any, values: Any, weights: Any
    ) -> None:
        """Adds probabilities to both areas."""
        for key, curve in zip(keys, ("ROC", "PR"), strict=True):
            name = head.metric(key)
            self.found.setdefault(name, Area(curve, head.trapezoids)).add(labels, values, weights)

    def add_probabilities(self, head: Head, values: Any, labels: Any, weights: Any) -> None:
        """Adds probabilities to areas, and to the metrics of thresholds."""
        weights = np.broadcast_to(weights, labels.shape)
        self.add_areas(head, ("auc", "auc_precision_recall"), labels, values, weights)
        for threshold in head.thresholds:
            bound = np.float32(threshold)
            positive = values >= bound if head.trapezoids else values > bound
            key = "accuracy/positive_threshold_%g" % threshold  # noqa: UP031
            self.mean(head, key).add(positive == (labels > 0.5), weights)
            for kind in ("precision", "recall"):
                key = f"{kind}/positive_threshold_%g" % threshold
                self.rates(head, key, threshold).add(labels, values, weights)

    def result(self) -> dict[str, float]:
        """Returns the metrics by the estimator's names."""
        found = {"loss": self.loss.result()}
        for name, metric in self.found.items():
            if isinstance(metric, Rates) and not isinstance(metric, Area):
                is_precision = name.startswith("precision")
                found[name] = metric.precision() if is_precision else metric.recall()
            else:
                found[name] = metric.result()
            if name.startswith("accuracy_baseline"):
                found[name] = max(found[name], 1.0 - found[name])
        return {name: float(value) for name, value in found.items()}
