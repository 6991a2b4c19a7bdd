# SPDX-License-Identifier: Apache-2.0
"""Makes a Keras model of a plan."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from typing import Any

import tensorflow as tf

from estimator_spec.convert.keras_columns import preprocessing
from estimator_spec.convert.keras_columns.expressions import Merged, evaluate
from estimator_spec.convert.keras_columns.keras_layers import definitions
from estimator_spec.convert.keras_columns.plan import ModelPlan
from estimator_spec.convert.optional_packages import load_extra


def build_core(plan: ModelPlan, initializer: str = "uniform") -> Any:
    """Returns the functional Keras model over ids, weights and numbers.

    Args:
        plan: the plan.
        initializer: Keras' initializer of tables.
    """
    keras = load_extra("keras")
    names: dict[str, Any] = {**known_names(), "initializer": initializer}
    inputs = {}
    for name, made in plan.inputs.items():
        inputs[name] = keras.Input(made.shape, dtype=made.dtype, name=made.layer)
    names.update(inputs)
    for variable, expression in plan.layers:
        names[variable] = evaluate(expression, names)
    outputs = {name: names[variable.text] for name, variable in plan.outputs.items()}
    if len(outputs) == 1 and not plan.objectives:
        (outputs,) = outputs.values()
    return keras.Model(inputs, outputs)


def build_model(plan: ModelPlan, initializer: str = "uniform") -> Any:
    """Returns a Keras model over raw features.

    Args:
        plan: the plan.
        initializer: as for `build_core`.

    Raises:
        RuntimeError: Keras has another backend than TensorFlow, which reads the features.
    """
    backend = load_extra("keras").backend.backend()
    if backend != "tensorflow":
        raise RuntimeError(
            f"Keras has the backend {backend!r}, but a model over raw features reads them by "
            "TensorFlow's ops. Set KERAS_BACKEND=tensorflow, or use what to-keras writes: "
            "`preprocess` in tf.data, and `build_model` with any backend."
        )
    return _model_class()(plan, initializer)


def known_names() -> dict[str, Any]:
    """Returns the modules, classes and functions that expressions of layers use, by name."""
    keras, keras_rs = load_extra("keras"), load_extra("keras_rs")
    return {"keras": keras, "keras_rs": keras_rs, "tf": tf, **definitions()}


@functools.cache
def _model_class() -> Any:
    keras = load_extra("keras")

    class ColumnsModel(keras.Model):
        """A model over raw features, as feature columns take them: dense, sparse or ragged.

        Attributes:
            core: the functional model over ids, weights and numbers. It can be saved and exported.
        """

        def __init__(self, plan: ModelPlan, initializer: str) -> None:
            super().__init__()
            self._plan = lambda: plan  # Keras would track its dicts
            self.autocast = False  # columns get features as they are
            self._convert_input_args = False
            self._allow_non_tensor_positional_args = True  # arrays of strings
            self.core = build_core(plan, initializer)
            names = {**known_names(), **vars(preprocessing)}
            names.update({key: evaluate(value, names) for key, value in plan.constants.items()})
            self._evaluate = functools.partial(_evaluate, names)
            self.built = True

        def preprocess(self, features: Mapping[str, Any]) -> dict[str, Any]:
            """Returns the ids, weights and numbers of raw features, for tf.data and `core`."""
            plan = self._plan()
            groups = Merged(tuple(entry for group in plan.groups.values() for entry in group))
            tensors: dict[str, Any] = self._evaluate(groups, features)
            return tensors

        def call(self, features: Mapping[str, Any], training: bool = False) -> Any:
            """Returns the outputs of raw features."""
            return self.core(self.preprocess(features), training=training)

        def training_batch(self, features: Mapping[str, Any], labels: Any) -> tuple[Any, ...]:
            """Returns what `fit` and `evaluate` take of a batch: features, targets and weights."""
            targets: dict[str, Any] = {}
            weights: dict[str, Any] = {}
            objectives = self._plan().objectives
            for each in objectives:
                number = self._evaluate(each.labels, features, labels)
                targets.update(dict.fromkeys(each.outputs, number))
                own = preprocessing.unit_weights(number)
                if each.weights is not None:
                    own = self._evaluate(each.weights, features, labels)
                weights.update(dict.fromkeys(each.outputs, own))
            if all(each.weights is None for each in objectives):
                return features, targets
            return features, targets, weights if len(objectives) > 1 else own

        def predictions(self, features: Mapping[str, Any]) -> dict[str, Any]:
            """Returns the estimator's predictions of raw features, `classes` among them."""
            outputs = dict(self(features))
            for each in self._plan().objectives:
                if each.of_classes is not None:
                    names = {"outputs": outputs, each.classes: each.class_names}
                    outputs |= evaluate(each.of_classes, {**vars(preprocessing), **names})
            return outputs

        def make_train_function(self, force: bool = False) -> Any:
            """Returns the function that trains by steps.

            Raises:
                ValueError: the estimator's optimizer didn't move, and the model has no other.
            """
            if self.optimizer is None:
                raise ValueError(
                    "The model has no optimizer: Keras has none that trains as the estimator's, "
                    "as model.conversion.differences says. Before fit, set one of your choice: "
                    "model.optimizer = keras.optimizers.Adam(0.001)."
                )
            return super().make_train_function(force)

        def get_layer(self, name: str | None = None, index: int | None = None) -> Any:
            """Returns a layer of `core`."""
            return self.core.get_layer(name, index)

    return ColumnsModel


def compile_model(plan: ModelPlan, model: Any) -> None:
    """Compiles a model with the loss, the metrics and the optimizer of a plan, if it has one."""
    model.compile(**evaluate(plan.compiled(plan.optimizer), known_names()))


def _evaluate(
    names: dict[str, Any], expression: Any, features: Mapping[str, Any], labels: Any = None
) -> Any:
    values = {"features": _Features(features), "labels": labels}
    return evaluate(expression, {**names, **values})


class _Features(Mapping[str, Any]):
    """Raw features by key, with an error that names a missing one."""

    def __init__(self, features: Mapping[str, Any]) -> None:
        self._features = features

    def __iter__(self) -> Iterator[str]:
        return iter(self._features)

    def __len__(self) -> int:
        return len(self._features)

    def __getitem__(self, key: str) -> Any:
        if key in self._features:
            return self._features[key]
        there = sorted(map(str, self._features))
        raise ValueError(f"Feature {key!r} is missing; the features are {there}.")
