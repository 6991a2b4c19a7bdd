# SPDX-License-Identifier: Apache-2.0
"""Outputs of exported models, and the SavedModel signatures made of them.

A `model_fn` returns its outputs by name in `EstimatorSpec.export_outputs`. The export turns each
into a `SignatureDef`, which clients of the SavedModel call by that name.
"""

from __future__ import annotations

import abc
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

saved_model = tf.compat.v1.saved_model

# TensorFlow has these two method names in private modules only; servers skip both.
_TRAIN_METHOD = "tensorflow/supervised/training"
_EVAL_METHOD = "tensorflow/supervised/eval"


class ExportOutput(abc.ABC):
    """An exported output of a model, usually that of one head."""

    @abc.abstractmethod
    def as_signature_def(self, receiver_tensors: Mapping[str, Any]) -> Any:
        """Returns the `SignatureDef` of this output.

        Args:
            receiver_tensors: the tensors that a client feeds, by name.

        Returns:
            A `SignatureDef` protocol buffer.

        Raises:
            ValueError: this kind of output needs other inputs.
        """


def _output_name(key: Any, label: str) -> str:
    """Returns the name of an output; parts of a multi-head model's key are joined by '/'."""
    name = "/".join(key) if isinstance(key, tuple) else key
    if not isinstance(name, str):
        raise ValueError(f"{label} output key must be a string; got {name}.")
    return name


def _named_tensors(outputs: Any, default_name: str, label: str) -> dict[str, Any]:
    """Returns tensors by name, a single tensor by its default name, after a check of types."""
    if not isinstance(outputs, dict):
        outputs = {default_name: outputs}
    named = {}
    for key, value in outputs.items():
        name = _output_name(key, label)
        if not isinstance(value, tf.Tensor):
            raise ValueError(f"{label} output value must be a Tensor; got {value}.")
        named[name] = value
    return named


def _is_float(tensor: Any) -> bool:
    return isinstance(tensor, tf.Tensor) and tensor.dtype.is_floating


def _is_string(tensor: Any) -> bool:
    return isinstance(tensor, tf.Tensor) and tensor.dtype.base_dtype == tf.string


def _serialized_examples(receiver_tensors: Mapping[str, Any], kind: str) -> Any:
    """Returns the only input of Classify and Regress requests, a string tensor."""
    tensors = list(receiver_tensors.values())
    if len(tensors) != 1 or tf.as_dtype(tensors[0].dtype) != tf.string:
        raise ValueError(
            f"{kind} signatures can only accept a single tensor input of type tf.string, the "
            "serialized examples. Let the serving_input_receiver_fn make one string placeholder, "
            "and parse it with `tf.io.parse_example()`, or use a PredictOutput.\n"
            f" Received: {receiver_tensors}"
        )
    return tensors[0]


class ClassificationOutput(ExportOutput):
    """Output of a classifier.

    `scores` alone: a score for each class, in the order of class ids. `classes` alone: the best
    classes, best first. Both: the score at an index belongs to the class at that index.

    Args:
        scores: float tensor `[B, n]`, or None.
        classes: string tensor `[B, n]` of labels (not ids), or None.

    Raises:
        ValueError: neither is given, or one has another dtype.
    """

    def __init__(self, scores: Any = None, classes: Any = None) -> None:
        if scores is not None and not _is_float(scores):
            raise ValueError(f"Classification scores must be a float32 Tensor; got {scores}")
        if classes is not None and not _is_string(classes):
            raise ValueError(f"Classification classes must be a string Tensor; got {classes}")
        if scores is None and classes is None:
            raise ValueError(
                "Cannot create a ClassificationOutput with empty arguments. At least one of "
                "`scores` and `classes` must be defined."
            )
        self._scores = scores
        self._classes = classes

    @property
    def scores(self) -> Any:
        """Float tensor of scores, or None."""
        return self._scores

    @property
    def classes(self) -> Any:
        """String tensor of labels, or None."""
        return self._classes

    def as_signature_def(self, receiver_tensors: Mapping[str, Any]) -> Any:
        """Returns a signature for Classify requests; see `ExportOutput`."""
        examples = _serialized_examples(receiver_tensors, "Classification")
        return saved_model.classification_signature_def(examples, self.classes, self.scores)


class RegressionOutput(ExportOutput):
    """Output of a regressor.

    Args:
        value: float tensor of predicted values, `[B]` or `[B, 1]`.

    Raises:
        ValueError: it has another dtype.
    """

    def __init__(self, value: Any) -> None:
        if not _is_float(value):
            raise ValueError(f"Regression output value must be a float32 Tensor; got {value}")
        self._value = value

    @property
    def value(self) -> Any:
        """Float tensor of predicted values."""
        return self._value

    def as_signature_def(self, receiver_tensors: Mapping[str, Any]) -> Any:
        """Returns a signature for Regress requests; see `ExportOutput`."""
        examples = _serialized_examples(receiver_tensors, "Regression")
        return saved_model.regression_signature_def(examples, self.value)


class PredictOutput(ExportOutput):
    """Outputs of any dtypes and shapes.

    Args:
        outputs: a tensor, which gets the name 'output', or tensors by name.

    Raises:
        ValueError: a name is not a string (or tuple of strings), or a value not a tensor.
    """

    def __init__(self, outputs: Any) -> None:
        self._outputs = _named_tensors(outputs, "output", "Prediction")

    @property
    def outputs(self) -> dict[str, Any]:
        """Tensors by name."""
        return self._outputs

    def as_signature_def(self, receiver_tensors: Mapping[str, Any]) -> Any:
        """Returns a signature for Predict requests; see `ExportOutput`."""
        return saved_model.predict_signature_def(receiver_tensors, self.outputs)


def _metric_pair(metric: Any) -> tuple[Any, Any]:
    """Returns the value and update op of a pair, or of a Keras 2 metric that was updated once."""
    if isinstance(metric, tuple):
        value, update = metric
        return value, update
    if len(metric.updates) != 1:
        raise ValueError(
            f'The metric "{metric.name}" must have been updated once, by update_state(...); '
            f"it was updated {len(metric.updates)} times."
        )
    return metric.result(), metric.updates[0]


class _SupervisedOutput(ExportOutput):
    """Base class of `TrainOutput` and `EvalOutput`; see there."""

    _method_name = ""

    def __init__(self, loss: Any = None, predictions: Any = None, metrics: Any = None) -> None:
        self._loss = None if loss is None else self._tensors(loss, "loss")
        self._predictions = None
        if predictions is not None:
            self._predictions = self._tensors(predictions, "predictions")
        self._metrics = None if metrics is None else self._metric_tensors(metrics)

    @staticmethod
    def _prefixed(name: str, prefix: str) -> str:
        return name if name.startswith(prefix) else f"{prefix}/{name}"

    def _tensors(self, outputs: Any, prefix: str) -> dict[str, Any]:
        named = _named_tensors(outputs, prefix, prefix)
        return {self._prefixed(name, prefix): tensor for name, tensor in named.items()}

    def _metric_tensors(self, metrics: Any) -> dict[str, Any]:
        if not isinstance(metrics, dict):
            metrics = {"metrics": metrics}
        outputs = {}
        for key, metric in metrics.items():
            value, update = _metric_pair(metric)
            name = self._prefixed(_output_name(key, "metrics"), "metrics")
            if not isinstance(value, tf.Tensor):
                raise ValueError(f"{name} output value must be a Tensor; got {value}.")
            if not (tf.is_tensor(update) or isinstance(update, tf.Operation)):
                raise ValueError(f"{name} update_op must be a Tensor or Operation; got {update}.")
            if not isinstance(update, tf.Tensor):
                # A signature holds tensors only.
                with tf.control_dependencies([update]):
                    update = tf.constant([], name="metric_op_wrapper")
            outputs[f"{name}/value"] = value
            outputs[f"{name}/update_op"] = update
        return outputs

    @property
    def loss(self) -> dict[str, Any] | None:
        """Loss tensors, by names that begin with 'loss'; or None."""
        return self._loss

    @property
    def predictions(self) -> dict[str, Any] | None:
        """Prediction tensors, by names that begin with 'predictions'; or None."""
        return self._predictions

    @property
    def metrics(self) -> dict[str, Any] | None:
        """Values and update ops, as 'metrics/<name>/value' and '.../update_op'; or None."""
        return self._metrics

    def as_signature_def(self, receiver_tensors: Mapping[str, Any]) -> Any:
        """Returns a signature that servers skip; see `ExportOutput`."""
        if not receiver_tensors:
            raise ValueError(f"{self._method_name} `inputs` cannot be None or empty.")
        info = saved_model.build_tensor_info
        outputs: dict[str, Any] = {}
        for tensors in (self.loss, self.predictions, self.metrics):
            outputs.update(tensors or {})
        return saved_model.build_signature_def(
            {name: info(tensor) for name, tensor in receiver_tensors.items()},
            {name: info(tensor) for name, tensor in outputs.items()},
            self._method_name,
        )


class TrainOutput(_SupervisedOutput):
    """Output of a training graph; see `EvalOutput` for the arguments."""

    _method_name = _TRAIN_METHOD


class EvalOutput(_SupervisedOutput):
    """Output of an evaluation graph.

    Args:
        loss: a tensor, or tensors by name.
        predictions: a tensor, or tensors by name.
        metrics: a pair of value tensor and update op, or such pairs (or Keras 2 metrics) by name.

    Raises:
        ValueError: a name is not a string (or tuple of strings), or a value not a tensor.
    """

    _method_name = _EVAL_METHOD


def get_export_outputs(export_outputs: Any, predictions: Any) -> dict[str, Any]:
    """Checks the outputs to export and returns them with a default one.

    None becomes a `PredictOutput` of the predictions; a single output gets the default name too.
    The caller's dictionary isn't changed.

    Args:
        export_outputs: outputs by name, or None.
        predictions: a tensor, or tensors by name.

    Returns:
        Outputs by name, one of which is `DEFAULT_SERVING_SIGNATURE_DEF_KEY`.

    Raises:
        TypeError: `export_outputs` is no dictionary of outputs.
        ValueError: none of several outputs has the default name.
    """
    default = tf.saved_model.DEFAULT_SERVING_SIGNATURE_DEF_KEY
    if export_outputs is None:
        return {default: PredictOutput(predictions)}
    if not isinstance(export_outputs, dict):
        raise TypeError(f"`export_outputs` must be dict, received: {export_outputs}.")
    for output in export_outputs.values():
        # TensorFlow 2.15's own outputs have the method, and are accepted.
        if not callable(getattr(output, "as_signature_def", None)):
            raise TypeError(
                "Values in `export_outputs` must be ExportOutput objects, "
                f"received: {export_outputs}."
            )
    outputs = dict(export_outputs)
    if len(outputs) == 1:
        outputs.setdefault(default, next(iter(outputs.values())))
    if len(outputs) > 1 and default not in outputs:
        raise ValueError(
            "Multiple `export_outputs` were provided, but none of them are specified as the "
            "default. Use `tf.saved_model.DEFAULT_SERVING_SIGNATURE_DEF_KEY` as the name of one. "
            f"Received: {sorted(map(str, outputs))}."
        )
    return outputs
