# SPDX-License-Identifier: Apache-2.0
"""Defines `MetricSpec`, a metric that an evaluation of `tf.contrib.learn` adds."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any

# What metric functions call their arguments.
_SPELLINGS = {
    "labels": ("labels", "label", "targets", "target", "true_labels"),
    "predictions": ("predictions", "prediction", "pred", "preds", "scores", "logits"),
    "weights": ("weights", "weight", "example_weights"),
}


@dataclasses.dataclass(eq=False, repr=False)
class MetricSpec:
    """A metric, and which predictions, labels and weights it takes.

    Args:
        metric_fn: function of predictions, labels and weights, by these or similar names, or by
            position in this order. It returns a pair of a value and an update op.
        prediction_key: name of the prediction; None: the only one.
        label_key: name of the labels; None: the only ones.
        weight_key: name of the feature that has the weights of examples, or None.
    """

    metric_fn: Callable[..., Any]
    prediction_key: str | None = None
    label_key: str | None = None
    weight_key: str | None = None

    def __str__(self) -> str:
        name = getattr(self.metric_fn, "__name__", repr(self.metric_fn))
        return (
            f"MetricSpec(metric_fn={name}, prediction_key={self.prediction_key}, "
            f"label_key={self.label_key}, weight_key={self.weight_key})"
        )

    def create_metric_ops(self, inputs: Any, labels: Any, predictions: Any) -> Any:
        """Returns the pair of a value and an update op.

        Args:
            inputs: features.
            labels: a tensor, or tensors by name.
            predictions: a tensor, or tensors by name.

        Raises:
            ValueError: a name is missing or unknown.
        """
        given = {
            "labels": self._choose("label", labels, self.label_key),
            "predictions": self._choose("prediction", predictions, self.prediction_key),
            "weights": None,
        }
        if self.weight_key is not None:
            given["weights"] = self._choose("weight", inputs, self.weight_key)
        return _call(self.metric_fn, given)

    def _choose(self, what: str, values: Any, key: str | None) -> Any:
        """Returns one of the values by its key."""
        if key is None:
            if not isinstance(values, Mapping):
                return values
            if len(values) == 1:
                return next(iter(values.values()))
            raise ValueError(
                f"{self} has no {what}_key, and there are several values: {sorted(values)}. Give "
                "one of these."
            )
        if not isinstance(values, Mapping):
            raise ValueError(f"{self} has a {what}_key, but there is one {what} without a name.")
        if key not in values:
            raise ValueError(f"{self}: {what}_key is none of {sorted(map(str, values))}.")
        return values[key]


def _call(metric_fn: Callable[..., Any], given: dict[str, Any]) -> Any:
    """Calls a metric function by the names of its arguments, or by position."""
    function = metric_fn
    bound: Mapping[str, Any] = {}
    while isinstance(function, functools.partial):
        bound, function = {**function.keywords, **bound}, function.func
    names = [name for name in inspect.signature(function).parameters if name not in bound]
    by_name = {}
    for argument, spellings in _SPELLINGS.items():
        name = next((name for name in spellings if name in names), None)
        if name is not None and (argument != "weights" or given[argument] is not None):
            by_name[name] = given[argument]
    if len(by_name) == (2 if given["weights"] is None else 3):
        return metric_fn(**by_name)
    values = [given["predictions"], given["labels"]]
    return metric_fn(*values) if given["weights"] is None else metric_fn(*values, given["weights"])


def make_metric_ops(
    metrics: Mapping[Any, Any] | None, features: Any, labels: Any, predictions: Any
) -> dict[str, Any]:
    """Returns the metrics of an evaluation by name.

    Args:
        metrics: a `MetricSpec` or metric function by name, or by a pair of a name and the
            prediction's name.
        features: features.
        labels: labels.
        predictions: predictions.

    Raises:
        ValueError: a key is neither a name nor such a pair, or as for `MetricSpec`.
    """
    made = {}
    for key, metric in (metrics or {}).items():
        name, prediction_key = key if isinstance(key, tuple) else (key, None)
        if isinstance(metric, MetricSpec):
            spec = metric
        else:
            named = isinstance(predictions, Mapping)
            spec = MetricSpec(metric, prediction_key if named else None)
        made[name] = spec.create_metric_ops(features, labels, predictions)
    return made
