# SPDX-License-Identifier: Apache-2.0
"""Defines `MultiHead`, the head of a model with several objectives."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import tensorflow as tf

from estimator_spec.core.common import argument_rules
from estimator_spec.core.export.export_outputs import PredictOutput
from estimator_spec.core.user_functions.model_spec import EstimatorSpec, ModeKeys
from estimator_spec.heads import inputs, losses, metrics, train_ops
from estimator_spec.heads.base import Head
from estimator_spec.heads.keys import (
    DEFAULT_SIGNATURE,
    PREDICT_SIGNATURE,
    MetricKeys,
    with_head_name,
)
from estimator_spec.heads.metrics import Metrics
from estimator_spec.heads.single import add_loss_summaries


def check_heads(
    heads: Any, head_weights: Any, interface: Any
) -> tuple[tuple[Any, ...], tuple[float, ...]]:
    """Returns the heads and their weights, after a check of names and numbers.

    Raises:
        ValueError: there are no heads, one has no name, two have the same one, or there isn't one
            finite weight for each.
        TypeError: a head or a weight is something else.
    """
    argument_rules.check("MultiHead", {"heads": heads, "head_weights": head_weights})
    found = tuple(heads) if heads is not None else ()
    if not found:
        raise ValueError(f"Must specify heads. Given: {heads}")
    weights = tuple(head_weights) if head_weights is not None else ()
    if weights and len(weights) != len(found):
        raise ValueError(
            f"heads and head_weights must have the same size. Given len(heads): {len(found)}. "
            f"Given len(head_weights): {len(weights)}."
        )
    names: set[str] = set()
    for head in found:
        if not isinstance(head, interface):
            raise TypeError(f"heads must be {interface.__name__} objects, got {head!r}.")
        if not head.name:
            raise ValueError(f"All given heads must have name specified. Given: {head}")
        if head.name in names:
            raise ValueError(
                f"heads must have different names, but two are named {head.name!r}: labels, logits "
                "and metrics are known by the head's name."
            )
        names.add(head.name)
    return found, weights or (1.0,) * len(found)


def split_logits(logits: Any, heads: Sequence[Any]) -> dict[str, Any]:
    """Returns the logits of each head by the head's name.

    Args:
        logits: tensors by name, or one tensor `[D0, …, DN, d]` whose last dimension is the sum of
            the heads' dimensions.
        heads: the heads.

    Raises:
        ValueError: a head has no logits, or the dimensions don't add up.
    """
    names = [head.name for head in heads]
    if isinstance(logits, dict):
        missing = [name for name in names if name not in logits]
        if missing:
            raise ValueError(
                f"logits has missing values for head(s): {missing}. Given: {sorted(logits)}"
            )
        return {name: logits[name] for name in names}
    sizes = [inputs.static_int(head.logits_dimension) for head in heads]
    logits = tf.convert_to_tensor(logits)
    if logits.shape.rank is not None and logits.shape[-1] not in (None, sum(sizes)):
        raise ValueError(
            f"Could not split logits of shape {logits.shape.as_list()} among the heads with "
            f"individual logits dimensions: {sizes}. The last dimension of the logits tensor "
            f"should equal {sum(sizes)}."
        )
    return dict(zip(names, tf.split(logits, sizes, axis=-1), strict=True))


def check_labels(labels: Any, heads: Sequence[Any]) -> dict[str, Any]:
    """Returns the labels by name of the head, after a check.

    Raises:
        ValueError: they aren't given by name, or a head has none.
    """
    names = [head.name for head in heads]
    if not isinstance(labels, dict):
        raise ValueError(f"labels must be a dict. Given: {labels}. The heads are {names}.")
    missing = [name for name in names if name not in labels]
    if missing:
        raise ValueError(
            f"labels has missing values for head(s): {missing}. Given: {sorted(labels)}"
        )
    return labels


def weighted_sum(losses_of_heads: Sequence[Any], head_weights: Sequence[float]) -> Any:
    """Returns the weighted sum of the heads' losses.

    Args:
        losses_of_heads: scalars.
        head_weights: a factor for each.
    """
    pairs = zip(losses_of_heads, head_weights, strict=True)
    return tf.add_n([loss if weight == 1.0 else loss * weight for loss, weight in pairs])


def merge_export_outputs(outputs: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Returns the outputs of all heads, each under `<head>/<signature>` or `<head>`.

    Args:
        outputs: outputs by signature, by name of the head; the first head's default is the default.
    """
    first = next(iter(outputs))
    merged: dict[str, Any] = {DEFAULT_SIGNATURE: outputs[first][DEFAULT_SIGNATURE]}
    of_predict: dict[str, Any] = {}
    for name, outputs_of_head in outputs.items():
        for key, output in outputs_of_head.items():
            merged[name if key == DEFAULT_SIGNATURE else f"{name}/{key}"] = output
            if key == PREDICT_SIGNATURE:
                for part, tensor in output.outputs.items():
                    of_predict[f"{name}/{part}"] = tensor
    merged[PREDICT_SIGNATURE] = PredictOutput(of_predict)
    return merged


def _predictions(head: Head, logits: Any, keys: Iterable[str] | None) -> dict[Any, Any]:
    """Returns a head's predictions; heads of users may take no keys."""
    return head.predictions(logits, keys=keys) if keys else head.predictions(logits)


class MultiHead(Head):
    """Head of a model with several objectives, each of which has a head of its own.

    The loss is the sum of the heads' losses, or of their products with `head_weights`. Labels are
    tensors by name of the head; logits too, or one tensor with those of all heads side by side in
    its last dimension. Metrics are those of the heads and `loss/<head>`; predictions have tuples
    `(head, key)` for names, and exported outputs `<head>/<signature>`.

    >>> from estimator_spec.heads import BinaryClassHead, RegressionHead
    >>> heads = MultiHead([RegressionHead(name="price"), BinaryClassHead(name="sold")])
    >>> logits = {"price": [[3.0]], "sold": [[0.0]]}
    >>> float(heads.loss({"price": [[1.0]], "sold": [[1]]}, logits))  # 2² + ln 2
    4.6931...

    Args:
        heads: the heads, all with different names and the same reduction.
        head_weights: a factor for each head's loss; None stands for 1.

    Raises:
        ValueError: there are no heads, or names, reductions or the number of weights don't fit.
        TypeError: a head is something else.
    """

    def __init__(self, heads: Sequence[Head], head_weights: Sequence[float] | None = None) -> None:
        self._heads, self._head_weights = check_heads(heads, head_weights, Head)

    @property
    def name(self) -> str:
        """The heads' names, joined by underscores."""
        return "_".join(str(head.name) for head in self._heads)

    @property
    def logits_dimension(self) -> int:
        """The sum of the heads' dimensions."""
        return sum(head.logits_dimension for head in self._heads)

    @property
    def loss_reduction(self) -> str:
        """The heads' common reduction; a ValueError if they differ."""
        reductions = [head.loss_reduction for head in self._heads]
        if len(set(reductions)) > 1:
            raise ValueError(
                f"The loss_reduction must be the same for different heads. Given: {reductions}"
            )
        return str(reductions[0])

    def _loss_of_each(self, labels: Any, logits: Any, features: Any, mode: Any) -> list[Any]:
        """Returns the loss of each head, without weights of heads."""
        labels = check_labels(labels, self._heads)
        parts = split_logits(logits, self._heads)
        return [
            head.loss(labels[head.name], parts[head.name], features=features, mode=mode)
            for head in self._heads
        ]

    def loss(
        self,
        labels: Any,
        logits: Any,
        features: Any = None,
        mode: str | None = None,
        regularization_losses: Sequence[Any] | None = None,
    ) -> Any:
        """Returns the sum of the heads' losses; see `Head.loss`."""
        of_each = self._loss_of_each(labels, logits, features, mode)
        return self._merged_loss(of_each, regularization_losses)

    def _merged_loss(self, of_each: Sequence[Any], regularization_losses: Any) -> Any:
        with tf.name_scope("merge_losses"):
            total = weighted_sum(of_each, self._head_weights)
            return losses.regularized(total, regularization_losses)

    def predictions(self, logits: Any, keys: Iterable[str] | None = None) -> dict[Any, Any]:
        """Returns predictions by tuples of head and name; see `Head.predictions`."""
        parts = split_logits(logits, self._heads)
        return {
            (head.name, key): tensor
            for head in self._heads
            for key, tensor in _predictions(head, parts[head.name], keys).items()
        }

    def metrics(self, regularization_losses: Sequence[Any] | None = None) -> Metrics:
        """Creates the metrics of all heads; see `Head.metrics`."""
        keys = self._loss_keys()
        if regularization_losses:
            keys.insert(0, self._summary_key(MetricKeys.LOSS_REGULARIZATION))
        found = metrics.create(map(metrics.mean, keys), None)
        for head in self._heads:
            found.update(head.metrics())
        return found

    def _loss_keys(self) -> list[str]:
        """Returns the names of the metrics of the heads' losses."""
        return [with_head_name(MetricKeys.LOSS, head.name) for head in self._heads]

    def update_metrics(  # type: ignore[override]  # as in TensorFlow, whose heads take no mode
        self,
        eval_metrics: Metrics,
        features: Any,
        logits: Any,
        labels: Any,
        regularization_losses: Sequence[Any] | None = None,
    ) -> Metrics:
        """Updates the metrics by a batch; see `Head.update_metrics`."""
        parts = split_logits(logits, self._heads)
        if regularization_losses:
            total = losses.regularization_loss(regularization_losses)
            key = self._summary_key(MetricKeys.LOSS_REGULARIZATION)
            eval_metrics[key].update_state(values=total)
        of_heads = self._loss_of_each(labels, logits, features, None)
        for key, loss in zip(self._loss_keys(), of_heads, strict=True):
            eval_metrics[key].update_state(loss)
        for head in self._heads:
            head.update_metrics(eval_metrics, features, parts[head.name], labels[head.name])
        return eval_metrics

    def create_estimator_spec(
        self,
        features: Any,
        mode: str,
        logits: Any,
        labels: Any = None,
        optimizer: Any = None,
        trainable_variables: Sequence[Any] | None = None,
        train_op_fn: Callable[[Any], Any] | None = None,
        update_ops: Iterable[Any] | None = None,
        regularization_losses: Sequence[Any] | None = None,
    ) -> EstimatorSpec:
        """Returns what a `model_fn` returns; see `Head.create_estimator_spec`."""
        with tf.compat.v1.name_scope(self.name, "multi_head"):
            predictions = self.predictions(logits)
            if mode == ModeKeys.PREDICT:
                outputs = self._export_outputs(features, logits)
                return EstimatorSpec(mode, predictions=predictions, export_outputs=outputs)
            of_each = self._loss_of_each(labels, logits, features, mode)
            loss = self._merged_loss(of_each, regularization_losses)
            if mode == ModeKeys.EVAL:
                updated = self.update_metrics(
                    self.metrics(regularization_losses=regularization_losses),
                    features=features,
                    logits=logits,
                    labels=labels,
                    regularization_losses=regularization_losses,
                )
                return EstimatorSpec(mode, predictions, loss, eval_metric_ops=updated)
            with tf.compat.v1.name_scope("training/"):  # as in `SingleHead`
                train_op = train_ops.make_train_op(
                    loss,
                    optimizer,
                    train_op_fn,
                    update_ops,
                    trainable_variables,
                    self.loss_reduction,
                )
        for head, part in zip(self._heads, of_each, strict=True):
            add_loss_summaries(part, None, head.name)
        add_loss_summaries(loss, regularization_losses, None)
        return EstimatorSpec(mode, predictions, loss, train_op)

    def _export_outputs(self, features: Any, logits: Any) -> dict[str, Any]:
        """Returns the exported outputs of all heads."""
        parts = split_logits(logits, self._heads)
        outputs = {
            str(head.name): head.create_estimator_spec(
                features=features, mode=ModeKeys.PREDICT, logits=parts[head.name]
            ).export_outputs
            for head in self._heads
        }
        return merge_export_outputs(outputs)
