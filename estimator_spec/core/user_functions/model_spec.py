# SPDX-License-Identifier: Apache-2.0
"""Defines the results of a `model_fn`: `EstimatorSpec` and `TPUEstimatorSpec`.

The driver runs an `EstimatorSpec`. TPU programs return a `TPUEstimatorSpec`, whose
`as_estimator_spec()` is the same model for a CPU.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import tensorflow as tf

from estimator_spec.core.common.checks import check_instances
from estimator_spec.core.export.export_outputs import get_export_outputs
from estimator_spec.core.user_functions import host_call as host_call_lib

tf1 = tf.compat.v1


class ModeKeys:
    """Modes of a graph; the values are the strings of `tf.estimator.ModeKeys`."""

    TRAIN = "train"
    EVAL = "eval"
    PREDICT = "infer"


class _EstimatorSpecFields(NamedTuple):
    mode: str
    predictions: dict[str, Any]
    loss: Any
    train_op: Any
    eval_metric_ops: dict[str, Any]
    export_outputs: dict[str, Any] | None
    training_chief_hooks: tuple[Any, ...]
    training_hooks: tuple[Any, ...]
    scaffold: Any
    evaluation_hooks: tuple[Any, ...]
    prediction_hooks: tuple[Any, ...]


class EstimatorSpec(_EstimatorSpecFields):
    """Ops of a model in one mode, run by an `Estimator`.

    Training needs `loss` and `train_op`, evaluation `loss`, prediction `predictions`. Arguments
    that a mode doesn't need are accepted.

    Args:
        mode: one of `ModeKeys`.
        predictions: a tensor, or tensors by name; batch-major.
        loss: a tensor of one element.
        train_op: op or tensor of one training step; it also increments the global step.
        eval_metric_ops: by name, pairs of a value tensor and an update op, or Keras 2 metrics on
            which `update_state(...)` was called.
        export_outputs: `ExportOutput` by name, for the SavedModel. One of several must have the
            name `tf.saved_model.DEFAULT_SERVING_SIGNATURE_DEF_KEY`. None exports the predictions.
        training_chief_hooks: session hooks of training, on the chief only.
        training_hooks: session hooks of training, on every worker.
        scaffold: a `tf.compat.v1.train.Scaffold` with the model's own saver or init ops.
        evaluation_hooks: session hooks of evaluation.
        prediction_hooks: session hooks of prediction.

    Raises:
        ValueError: an argument that the mode needs is missing, a tensor is of another graph, the
            loss has several elements, or no output is the default one.
        TypeError: an argument has another type.
    """

    __slots__ = ()

    def __new__(
        cls,
        mode: str,
        predictions: Any = None,
        loss: Any = None,
        train_op: Any = None,
        eval_metric_ops: dict[str, Any] | None = None,
        export_outputs: dict[str, Any] | None = None,
        training_chief_hooks: Iterable[Any] | None = None,
        training_hooks: Iterable[Any] | None = None,
        scaffold: Any = None,
        evaluation_hooks: Iterable[Any] | None = None,
        prediction_hooks: Iterable[Any] | None = None,
    ) -> EstimatorSpec:
        """Checks the values; see the class."""
        return super().__new__(
            cls,
            **_check_model(mode, predictions, loss, train_op, export_outputs),
            eval_metric_ops=_check_metrics(eval_metric_ops),
            training_chief_hooks=_check_hooks(training_chief_hooks),
            training_hooks=_check_hooks(training_hooks),
            scaffold=check_scaffold(scaffold),
            evaluation_hooks=_check_hooks(evaluation_hooks),
            prediction_hooks=_check_hooks(prediction_hooks),
        )

    def _replace(self, **changes: Any) -> EstimatorSpec:  # type: ignore[override]
        """Returns a copy with other values but the same mode, with the same checks."""
        if changes.get("mode", self.mode) != self.mode:
            raise ValueError("mode of EstimatorSpec cannot be changed.")
        return type(self)(**{**self._asdict(), **changes})


class _TPUSpecFields(NamedTuple):
    mode: str
    predictions: dict[str, Any]
    loss: Any
    train_op: Any
    eval_metrics: tuple[Callable[..., Any], Any] | None
    export_outputs: dict[str, Any] | None
    scaffold_fn: Callable[[], Any] | None
    host_call: tuple[Callable[..., Any], Any] | None
    training_hooks: tuple[Any, ...]
    evaluation_hooks: tuple[Any, ...]
    prediction_hooks: tuple[Any, ...]


class TPUEstimatorSpec(_TPUSpecFields):
    """Ops of a model in one mode, returned by a `model_fn` of `TPUEstimator`.

    Args:
        mode: one of `ModeKeys`.
        predictions: as in `EstimatorSpec`; a TPU needs tensors by name.
        loss: as in `EstimatorSpec`.
        train_op: as in `EstimatorSpec`.
        eval_metrics: a pair `(metric_fn, tensors)`. `metric_fn` takes the tensors, by position if
            they are a list and by name if they are a dictionary, and returns the `eval_metric_ops`.
            The tensors must be batch-major, because a TPU concatenates those of its cores.
        export_outputs: as in `EstimatorSpec`.
        scaffold_fn: function without arguments that returns a `Scaffold`; called on the host. It
            must not use the model's tensors.
        host_call: a pair `(fn, tensors)` like `eval_metrics`. The ops or tensors that `fn` returns
            run in every step, on the host; most write summaries.
        training_hooks: session hooks of training.
        evaluation_hooks: session hooks of evaluation.
        prediction_hooks: session hooks of prediction.

    Raises:
        ValueError: as `EstimatorSpec`; or a host call is no pair.
        TypeError: as `EstimatorSpec`; or a function is not callable.
        RuntimeError: a function takes another number of tensors than its pair has.
    """

    __slots__ = ()

    def __new__(
        cls,
        mode: str,
        predictions: Any = None,
        loss: Any = None,
        train_op: Any = None,
        eval_metrics: Any = None,
        export_outputs: dict[str, Any] | None = None,
        scaffold_fn: Any = None,
        host_call: Any = None,
        training_hooks: Iterable[Any] | None = None,
        evaluation_hooks: Iterable[Any] | None = None,
        prediction_hooks: Iterable[Any] | None = None,
    ) -> TPUEstimatorSpec:
        """Checks the values; see the class."""
        host_call_lib.check("eval_metrics", eval_metrics)
        host_call_lib.check("host_call", host_call)
        if scaffold_fn is not None and not callable(scaffold_fn):
            raise TypeError(f"scaffold_fn should be callable. Got {scaffold_fn!r}.")
        return super().__new__(
            cls,
            **_check_model(mode, predictions, loss, train_op, export_outputs),
            eval_metrics=eval_metrics,
            scaffold_fn=scaffold_fn,
            host_call=host_call,
            training_hooks=_check_hooks(training_hooks),
            evaluation_hooks=_check_hooks(evaluation_hooks),
            prediction_hooks=_check_hooks(prediction_hooks),
        )

    def as_estimator_spec(self) -> EstimatorSpec:
        """Returns the same model for a CPU.

        Calls `metric_fn` and the host call in the default graph. A hook, which runs after the
        model's own hooks, fetches the host call's results in every mode.

        Returns:
            An `EstimatorSpec`.

        Raises:
            TypeError: the tensors' names are not the function's arguments, or `metric_fn` does
                not return metrics by name.
        """
        metrics = host_call_lib.run("eval_metrics", self.eval_metrics)
        hooks: tuple[Any, ...] = ()
        if self.host_call is not None:
            fetches = host_call_lib.run("host_call", self.host_call)
            hooks = (host_call_lib.HostCallHook(fetches),)
        return EstimatorSpec(
            mode=self.mode,
            predictions=self.predictions,
            loss=self.loss,
            train_op=self.train_op,
            eval_metric_ops=metrics,
            export_outputs=self.export_outputs,
            scaffold=self.scaffold_fn() if self.scaffold_fn else None,
            training_hooks=(*(self.training_hooks or ()), *hooks),
            evaluation_hooks=(*(self.evaluation_hooks or ()), *hooks),
            prediction_hooks=(*(self.prediction_hooks or ()), *hooks),
        )


def _check_graph(item: Any, argument: str, name: str) -> None:
    """Checks that an op or tensor is in the default graph."""
    if tf.executing_eagerly() or item.graph is tf1.get_default_graph():
        return
    raise ValueError(
        f'{argument} with "{name}" must be from the default graph. Either it was created outside '
        'of the default graph, or by an earlier call to "model_fn": create it anew in each call.'
    )


def _check_tensor(item: Any, argument: str) -> None:
    if not isinstance(item, (tf.Tensor, tf.Variable)):
        raise TypeError(f"{argument} must be Tensor, given: {item}")


def _check_model(
    mode: str, predictions: Any, loss: Any, train_op: Any, export_outputs: Any
) -> dict[str, Any]:
    """Checks the arguments that both kinds of spec have and returns them by name."""
    train_op = _check_train_op(train_op, mode)
    loss = _check_loss(loss, mode)
    predictions = _check_predictions(predictions, mode)
    if mode == ModeKeys.PREDICT:
        export_outputs = get_export_outputs(export_outputs, predictions)
    return {
        "mode": mode,
        "predictions": predictions,
        "loss": loss,
        "train_op": train_op,
        "export_outputs": export_outputs,
    }


def _check_train_op(train_op: Any, mode: str) -> Any:
    """Checks and returns the train op; a variable, which an assignment returns, becomes its op."""
    if train_op is None:
        if mode == ModeKeys.TRAIN:
            raise ValueError("Missing train_op.")
        return None
    if not isinstance(train_op, (tf.Operation, tf.Tensor, tf.Variable)):
        raise TypeError(f"train_op must be Operation or Tensor, given: {train_op}")
    if isinstance(train_op, tf.Variable):
        train_op = train_op.op
    _check_graph(train_op, "train_op", getattr(train_op, "name", ""))
    return train_op


def _check_loss(loss: Any, mode: str) -> Any:
    """Checks the loss and returns it as a scalar."""
    if loss is None:
        if mode in (ModeKeys.TRAIN, ModeKeys.EVAL):
            raise ValueError("Missing loss.")
        return None
    _check_tensor(loss, "loss")
    if loss.shape.num_elements() not in (None, 1):
        raise ValueError(f"Loss must be scalar, given: {loss}")
    _check_graph(loss, "loss", getattr(loss, "name", ""))
    if not loss.shape.is_compatible_with(tf.TensorShape([])):
        loss = tf.reshape(loss, [])
    return loss


def _check_predictions(predictions: Any, mode: str) -> Any:
    """Checks and returns the predictions; None becomes an empty dictionary."""
    if predictions is None:
        if mode == ModeKeys.PREDICT:
            raise ValueError("Missing predictions.")
        return {}
    if not isinstance(predictions, dict):
        _check_tensor(predictions, "predictions")
        _check_graph(predictions, "prediction values", getattr(predictions, "name", ""))
        return predictions
    for key, tensor in predictions.items():
        _check_tensor(tensor, f"predictions[{key}]")
        _check_graph(tensor, "prediction values", f"{key}: {getattr(tensor, 'name', '')}")
    return dict(predictions)


def _check_hooks(hooks: Iterable[Any] | None) -> tuple[Any, ...]:
    rule = "All hooks must be SessionRunHook instances"
    return tuple(check_instances(hooks, tf1.train.SessionRunHook, rule))


def check_scaffold(scaffold: Any) -> Any:
    """Returns a model's scaffold, or a default one for None.

    Raises:
        TypeError: it is no `tf.compat.v1.train.Scaffold`.
    """
    scaffold = scaffold or tf1.train.Scaffold()
    if not isinstance(scaffold, tf1.train.Scaffold):
        raise TypeError(f"scaffold must be tf.train.Scaffold. Given: {scaffold}")
    return scaffold


def _is_keras_metric(metric: Any) -> bool:
    # By its attributes, because importing Keras would choose its version for the program.
    return callable(getattr(metric, "update_state", None)) and hasattr(metric, "variables")


def _keras_metric_pair(metric: Any) -> tuple[Any, Any]:
    """Returns the value tensor and update op of a Keras 2 metric."""
    if not hasattr(metric, "updates"):
        raise TypeError(
            f"eval_metric_ops: {metric} is a Keras 3 metric, which keeps no update op. Use the "
            "metric of tf_keras, or of tf.keras with the environment variable "
            "TF_USE_LEGACY_KERAS=1, or a tf.compat.v1.metrics function."
        )
    if not metric.updates:
        raise ValueError(f'Please call update_state(...) on the "{metric.name}" metric')
    return metric.result(), metric.updates[0]


def _check_metrics(metrics: dict[str, Any] | None) -> dict[str, Any]:
    """Checks metrics and returns pairs of value and update op.

    Adds the variables of Keras metrics to the collections of local and metric variables.
    """
    if metrics is None:
        return {}
    if not isinstance(metrics, dict):
        raise TypeError(f"eval_metric_ops must be a dict, given: {metrics}")
    pairs = {}
    keras_variables: list[Any] = []
    for key, metric in metrics.items():
        if _is_keras_metric(metric):
            pair = _keras_metric_pair(metric)
            keras_variables.extend(metric.variables)
        elif isinstance(metric, tuple) and len(metric) == 2:
            pair = metric
        else:
            raise TypeError(
                "Values of eval_metric_ops must be (metric_value, update_op) tuples, given: "
                f"{metric} for key: {key}"
            )
        for item in tf.nest.flatten(pair):
            if not tf.executing_eagerly() and not hasattr(item, "graph"):
                raise TypeError(
                    f"Values of eval_metric_ops must hold Tensors and Operations, given: {item!r} "
                    f"for key: {key}"
                )
            _check_graph(item, "eval_metric_ops", f"{key}: {getattr(item, 'name', '')}")
        pairs[key] = pair
    make_local(keras_variables)
    return pairs


def make_local(variables: Iterable[Any]) -> None:
    """Adds variables of metrics to the collections of those that an evaluation initializes."""
    # LOCAL_VARIABLES are initialized before an evaluation; other tools read METRIC_VARIABLES.
    for collection in (tf1.GraphKeys.LOCAL_VARIABLES, tf1.GraphKeys.METRIC_VARIABLES):
        present = {id(variable) for variable in tf1.get_collection(collection)}
        for variable in variables:
            if id(variable) not in present:
                present.add(id(variable))
                tf1.add_to_collection(collection, variable)
