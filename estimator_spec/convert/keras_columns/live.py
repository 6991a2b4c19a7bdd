# SPDX-License-Identifier: Apache-2.0
"""Makes a Keras model of a plan."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from estimator_spec.common.optional_packages import load_extra
from estimator_spec.convert.keras_columns import preprocessing
from estimator_spec.convert.keras_columns.expressions import Merged, evaluate
from estimator_spec.convert.keras_columns.keras_layers import EXTRA, bias_layer
from estimator_spec.convert.keras_columns.plan import Plan


def build_core(plan: Plan) -> Any:
    """Returns the functional Keras model over ids, weights and numbers."""
    keras = load_extra("keras", EXTRA)
    names: dict[str, Any] = _modules()
    inputs = {}
    for name, made in plan.inputs.items():
        inputs[name] = keras.Input(made.shape, dtype=made.dtype, name=name)
    names.update(inputs)
    for variable, expression in plan.layers:
        names[variable] = evaluate(expression, names)
    outputs = {name: names[variable.text] for name, variable in plan.outputs.items()}
    if len(outputs) == 1:
        (outputs,) = outputs.values()
    return keras.Model(inputs, outputs)


def build_model(plan: Plan) -> Any:
    """Returns a Keras model over raw features.

    Raises:
        RuntimeError: Keras has another backend than TensorFlow, which reads the features.
    """
    backend = load_extra("keras", EXTRA).backend.backend()
    if backend != "tensorflow":
        raise RuntimeError(
            f"Keras has the backend {backend!r}, but a model over raw features reads them by "
            "TensorFlow's ops. Set KERAS_BACKEND=tensorflow, or use what to-keras writes: "
            "`preprocess` in tf.data, and `build_model` with any backend."
        )
    return _model_class()(plan)


def _modules() -> dict[str, Any]:
    import tensorflow as tf

    keras, keras_rs = load_extra("keras", EXTRA), load_extra("keras_rs", EXTRA)
    return {"keras": keras, "keras_rs": keras_rs, "tf": tf, "Bias": bias_layer()}


@functools.cache
def _model_class() -> Any:
    keras = load_extra("keras", EXTRA)

    class ColumnsModel(keras.Model):
        """A model over raw features, as feature columns take them: dense, sparse or ragged.

        Attributes:
            core: the functional model over ids, weights and numbers. It can be saved and exported.
        """

        def __init__(self, plan: Plan) -> None:
            super().__init__()
            self.autocast = False  # columns get features as they are
            self._convert_input_args = False
            self.core = build_core(plan)
            names = {**_modules(), **vars(preprocessing)}
            names.update({key: evaluate(value, names) for key, value in plan.constants.items()})
            groups = Merged(tuple(entry for group in plan.groups.values() for entry in group))
            self._read = functools.partial(_read, groups, names)
            self.built = True

        def preprocess(self, features: Mapping[str, Any]) -> dict[str, Any]:
            """Returns the ids, weights and numbers of raw features, for tf.data and `core`."""
            return self._read(features)

        def call(self, features: Mapping[str, Any], training: bool = False) -> Any:
            """Returns the outputs of raw features."""
            return self.core(self.preprocess(features), training=training)

        def get_layer(self, name: str | None = None, index: int | None = None) -> Any:
            """Returns a layer of `core`."""
            return self.core.get_layer(name, index)

    return ColumnsModel


def _read(groups: Merged, names: dict[str, Any], features: Mapping[str, Any]) -> Any:
    return evaluate(groups, {**names, "features": _Features(features)})


class _Features:
    """Raw features by key, with an error that names a missing one."""

    def __init__(self, features: Mapping[str, Any]) -> None:
        self._features = features

    def __getitem__(self, key: str) -> Any:
        if key in self._features:
            return self._features[key]
        there = sorted(map(str, self._features))
        raise ValueError(f"Feature {key!r} is missing; the features are {there}.")
