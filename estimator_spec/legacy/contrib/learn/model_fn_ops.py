# SPDX-License-Identifier: Apache-2.0
"""Defines what user functions of `tf.contrib.learn` return, and the names of its predictions."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import tensorflow as tf

from estimator_spec.core.user_functions import model_spec
from estimator_spec.core.user_functions.model_spec import EstimatorSpec

DEFAULT_OUTPUT_KEY = "default_output_alternative"


class ModeKeys:
    """Modes of a graph."""

    TRAIN = model_spec.ModeKeys.TRAIN
    EVAL = model_spec.ModeKeys.EVAL
    INFER = model_spec.ModeKeys.PREDICT

    @classmethod
    def validate(cls, key: str) -> None:
        """Raises a ValueError if a mode is unknown."""
        if key not in (cls.TRAIN, cls.EVAL, cls.INFER):
            raise ValueError(f"Invalid mode {key}.")


class PredictionKey:
    """Names of predictions."""

    CLASSES = "classes"
    PROBABILITIES = "probabilities"
    LOGITS = "logits"
    LOGISTIC = "logistic"
    SCORES = "scores"
    TOP_K = "top_k"
    GENERIC = "output"


class MetricKey:
    """Names of metrics."""

    LOSS = "loss"
    AUC = "auc"
    AUC_PR = "auc_precision_recall"
    PREDICTION_MEAN = "labels/prediction_mean"
    LABEL_MEAN = "labels/actual_label_mean"
    ACCURACY = "accuracy"
    ACCURACY_BASELINE = "accuracy/baseline_label_mean"
    ACCURACY_MEAN = "accuracy/threshold_%f_mean"
    PRECISION_MEAN = "precision/positive_threshold_%f_mean"
    RECALL_MEAN = "recall/positive_threshold_%f_mean"


class ProblemType(enum.Enum):
    """Kinds of models, for the signatures of their exports."""

    UNSPECIFIED = 0
    CLASSIFICATION = 1
    LINEAR_REGRESSION = 2
    LOGISTIC_REGRESSION = 3


class InputFnOps(NamedTuple):
    """Inputs of an exported model.

    Attributes:
        features: tensors by name, or a tensor.
        labels: ignored; None.
        default_inputs: tensors that a request has, by name.
    """

    features: Any
    labels: Any
    default_inputs: Any


class _ModelFnOpsFields(NamedTuple):
    predictions: Any
    loss: Any
    train_op: Any
    eval_metric_ops: dict[str, Any]
    output_alternatives: dict[str | None, tuple[ProblemType, dict[str, Any]]] | None
    training_chief_hooks: list[Any]
    training_hooks: list[Any]
    scaffold: Any
    mode: str


class ModelFnOps(_ModelFnOpsFields):
    """Ops of a model in one mode, returned by a `model_fn`.

    Args:
        mode: one of `ModeKeys`.
        predictions: a tensor, or tensors by name; needed but for training.
        loss: the loss; needed but for predictions.
        train_op: op of a training step; needed for training.
        eval_metric_ops: pairs of a value and an update op, by name.
        output_alternatives: (`ProblemType`, tensors by name) by name of the output, for exports.
        training_chief_hooks: session hooks of training on the chief.
        training_hooks: session hooks of training.
        scaffold: a `tf.compat.v1.train.Scaffold`, or None.

    Raises:
        ValueError: what the mode needs is missing, or the loss isn't a scalar.
    """

    __slots__ = ()

    def __new__(
        cls,
        mode: str,
        predictions: Any = None,
        loss: Any = None,
        train_op: Any = None,
        eval_metric_ops: Mapping[str, Any] | None = None,
        output_alternatives: Any = None,
        training_chief_hooks: Iterable[Any] | None = None,
        training_hooks: Iterable[Any] | None = None,
        scaffold: Any = None,
    ) -> ModelFnOps:
        """Checks the values; see the class."""
        ModeKeys.validate(mode)
        if train_op is None and mode == ModeKeys.TRAIN:
            raise ValueError("Missing training_op: in mode TRAIN, ModelFnOps needs train_op.")
        if loss is None and mode != ModeKeys.INFER:
            raise ValueError(f"Missing loss: in mode {mode!r}, ModelFnOps needs one.")
        if predictions is None and mode != ModeKeys.TRAIN:
            raise ValueError(f"Missing predictions: in mode {mode!r}, ModelFnOps needs them.")
        if isinstance(predictions, Mapping):
            predictions = {k: tf.convert_to_tensor(v) for k, v in predictions.items()}
        elif predictions is not None:
            predictions = tf.convert_to_tensor(predictions)
        return super().__new__(
            cls,
            *(predictions, loss, train_op, dict(eval_metric_ops or {}), output_alternatives),
            *(list(training_chief_hooks or ()), list(training_hooks or ()), scaffold, mode),
        )

    def estimator_spec(self, default_serving_output_alternative_key: Any = None) -> EstimatorSpec:
        """Returns the ops as what an `Estimator` runs.

        Args:
            default_serving_output_alternative_key: ignored; exports of this class choose their own
                signatures.
        """
        del default_serving_output_alternative_key
        return EstimatorSpec(
            self.mode,
            self.predictions,
            self.loss,
            self.train_op,
            eval_metric_ops={
                name: _pair(metric)
                for name, metric in self.eval_metric_ops.items()
                if name != MetricKey.LOSS
            },
            training_chief_hooks=self.training_chief_hooks,
            training_hooks=self.training_hooks,
            scaffold=self.scaffold,
        )


def _pair(metric: Any) -> Any:
    """Returns a metric as a pair of a value and an update op; a tensor is its own update."""
    return metric if isinstance(metric, (tuple, list)) else (metric, tf.no_op())


def from_result(result: Any, mode: str) -> ModelFnOps:
    """Returns what a `model_fn` returned, a triple in its oldest form, as `ModelFnOps`.

    Raises:
        ValueError: it is something else.
    """
    if isinstance(result, ModelFnOps):
        return result
    if isinstance(result, EstimatorSpec):
        return ModelFnOps(
            *(mode, result.predictions, result.loss, result.train_op, result.eval_metric_ops),
            training_chief_hooks=result.training_chief_hooks,
            training_hooks=result.training_hooks,
            scaffold=result.scaffold,
        )
    if isinstance(result, tuple) and len(result) == 3:
        return ModelFnOps(mode, *result)
    raise ValueError(
        "Unrecognized value returned by model_fn, please return ModelFnOps. It returned "
        f"{result!r}."
    )


def get_output_alternatives(
    model_fn_ops: ModelFnOps, default_output_alternative_key: str | None = None
) -> tuple[dict[str | None, tuple[ProblemType, dict[str, Any]]], str | None]:
    """Returns the outputs of a model by name, and the name of the default one.

    Args:
        model_fn_ops: the model.
        default_output_alternative_key: name of the default output. None: the only one.

    Raises:
        ValueError: there is no such output, or there are several without a default.
    """
    found, key = model_fn_ops.output_alternatives or {}, default_output_alternative_key
    names = sorted(map(str, found))
    if not found and not key:
        outputs = model_fn_ops.predictions
        if not isinstance(outputs, dict):
            outputs = {PredictionKey.GENERIC: outputs}
        return {DEFAULT_OUTPUT_KEY: (ProblemType.UNSPECIFIED, outputs)}, DEFAULT_OUTPUT_KEY
    if key is None and len(found) > 1:
        raise ValueError(
            "Please specify a default_output_alternative. Available output_alternatives are: "
            f"{names}"
        )
    if key is None:
        key = next(iter(found))
    if key not in found:
        raise ValueError(
            f"Requested default_output_alternative: {key}, but available output_alternatives are: "
            f"{names}"
        )
    return found, key
