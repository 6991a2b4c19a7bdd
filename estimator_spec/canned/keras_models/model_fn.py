# SPDX-License-Identifier: Apache-2.0
"""Defines the `model_fn` of a compiled Keras model."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from estimator_spec.canned.keras_models import checkpoints, optimizers, tensors
from estimator_spec.core._tensorflow import keras_models
from estimator_spec.core.export.export_outputs import PredictOutput
from estimator_spec.core.user_functions.model_spec import EstimatorSpec, ModeKeys, make_local


@dataclasses.dataclass(eq=False)
class KerasModelFn:
    """Function that builds a compiled Keras model anew in the graph of each mode.

    Args:
        package: the model's Keras.
        model: the compiled model. It isn't changed.
        custom_objects: classes and functions of the model by name, or None.
        object_checkpoints: whether checkpoints have the format of `tf.train.Checkpoint`.
        metric_names: names of `eval_metric_ops` by the metric's name in Keras, or None.
        export_outputs: classes of export outputs by the names of the model's outputs, or None.

    Raises:
        ValueError: the optimizer can't train in a TF1 graph.
    """

    package: Any
    model: Any
    custom_objects: Mapping[str, Any] | None
    object_checkpoints: bool
    metric_names: Mapping[str, str] | None
    export_outputs: Mapping[str, Any] | None

    def __post_init__(self) -> None:
        self._make_optimizer = optimizers.copies(self.package, self.model.optimizer)
        compiled = keras_models.compile_arguments(self.model)
        self._compiled = {k: v for k, v in compiled.items() if k != "optimizer"}

    def __call__(self, features: Any, labels: Any, mode: str, config: Any) -> EstimatorSpec:
        """Builds the model in the default graph; see `tf.estimator.Estimator`."""
        self.package.backend.set_learning_phase(int(mode == ModeKeys.TRAIN))
        features, weights = tensors.split_weights(features)
        names, dtypes = self._inputs()
        structure = self.model.inputs
        if isinstance(features, Mapping) and (structure is None or isinstance(structure, Mapping)):
            inputs: Any = tensors.by_name(features, features if structure is None else structure)
        else:
            inputs = tensors.in_order(features, names, "input", dtypes)
        model = keras_models.clone(
            self.package, self.model, inputs, dict(self.custom_objects or {})
        )
        try:
            predictions = dict(zip(model.output_names, model.outputs, strict=True))
            if mode != ModeKeys.PREDICT:
                self._compile(model, labels, weights)
            train_op = keras_models.training_op(model) if mode == ModeKeys.TRAIN else None
            scaffold = None
            if self.object_checkpoints:
                scaffold = checkpoints.make_scaffold(model, config)
            return EstimatorSpec(
                mode=mode,
                predictions=predictions,
                loss=None if mode == ModeKeys.PREDICT else model.total_loss,
                train_op=train_op,
                eval_metric_ops=self._metrics(model) if mode == ModeKeys.EVAL else None,
                export_outputs=self._outputs(predictions),
                scaffold=scaffold,
            )
        finally:
            if model is self.model:
                keras_models.restore(self.package, model)

    def _inputs(self) -> tuple[list[str] | None, list[Any]]:
        """Returns the names and dtypes of the model's inputs; no names for a subclassed model."""
        if not keras_models.is_functional(self.model):
            return None, []
        return list(self.model.input_names), [each.dtype for each in self.model.inputs]

    def _compile(self, model: Any, labels: Any, weights: Any) -> None:
        """Compiles a copy with labels, and weights of examples, from the graph."""
        names = list(model.output_names)
        targets = tensors.in_order(labels, names, "output")
        # Metrics keep state in variables, which belong to one graph.
        arguments = {
            key: tf.nest.map_structure(self._copied_metric, value)
            if key in ("metrics", "weighted_metrics")
            else value
            for key, value in self._compiled.items()
        }
        optimizer = self._make_optimizer(tf.compat.v1.train.get_or_create_global_step())
        model.compile(optimizer, target_tensors=targets, **arguments)
        if weights is not None:
            if not isinstance(weights, (list, tuple, Mapping)):
                weights = [weights] * len(names)
            keras_models.weigh_examples(model, tensors.in_order(weights, names, "output") or [])

    def _copied_metric(self, metric: Any) -> Any:
        if isinstance(metric, self.package.metrics.Metric):
            return type(metric).from_config(metric.get_config())
        return metric

    def _metrics(self, model: Any) -> dict[str, Any]:
        """Returns the metrics of the copy, by the names that the user chose."""
        found = {metric.name: metric for metric in model.metrics}
        names = self.metric_names
        if names is None:
            names = {name: name for name in found}
        if set(names) != set(found):
            raise ValueError(
                "Invalid `metric_names_map`: it must name each metric of the Keras model once, "
                f"{sorted(found)}, but its keys are {sorted(names)}: unexpected keys "
                f"{sorted(set(names) - set(found))} do not exist in the model."
            )
        for metric in found.values():
            make_local(metric.variables)
        # The last one: weights of examples make a second update of weighted metrics.
        return {
            names[name]: (metric.result(), metric.updates[-1]) for name, metric in found.items()
        }

    def _outputs(self, predictions: Mapping[str, Any]) -> dict[str, Any] | None:
        """Returns the export outputs: all predictions, and the classes that the user chose."""
        if self.export_outputs is None:
            return None
        unknown = sorted(set(self.export_outputs) - set(predictions))
        if unknown:
            raise ValueError(
                f"`export_outputs` has {unknown}, but the model's outputs are "
                f"{list(predictions)}. Use these names as keys."
            )
        default = tf.saved_model.DEFAULT_SERVING_SIGNATURE_DEF_KEY
        chosen = {name: make(predictions[name]) for name, make in self.export_outputs.items()}
        return {default: PredictOutput(predictions), **chosen}
