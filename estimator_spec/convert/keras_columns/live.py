# SPDX-License-Identifier: Apache-2.0
"""Makes a Keras model of a plan: runs the program that `source` writes of it."""

from __future__ import annotations

import ast
import dataclasses
import functools
import hashlib
import inspect
import linecache
import types
from collections.abc import Mapping
from typing import Any

from estimator_spec.convert.keras_columns import source
from estimator_spec.convert.keras_columns.plan import ModelPlan
from estimator_spec.convert.keras_columns.readings import TENSORFLOW, Reading
from estimator_spec.convert.optional_packages import load_extra


def build_model(plan: ModelPlan, reading: Reading, initializer: str = "uniform") -> Any:
    """Returns a Keras model, compiled if the plan has a loss.

    Args:
        plan: the plan.
        reading: TensorFlow reads the features of a model over raw ones; else `preprocess`, an
            attribute of the model, reads them.
        initializer: Keras' initializer of tables.

    Raises:
        RuntimeError: Keras has another backend than TensorFlow, which reads the features.
    """
    backend = load_extra("keras").backend.backend()
    if reading == TENSORFLOW and backend != "tensorflow":
        raise RuntimeError(
            f"Keras has the backend {backend!r}, but a model over raw features reads them by "
            "TensorFlow's ops. Set KERAS_BACKEND=tensorflow, or use what to-keras writes: "
            "`preprocess` in tf.data, and `build_model` with any backend."
        )
    module = _run(plan, reading)
    model = build_core(module, initializer)
    if reading == TENSORFLOW:
        model = _model_class()(module, model)
    else:
        for name in ("preprocess", "training_batch", "with_classes"):
            if hasattr(module, name):
                setattr(model, name, getattr(module, name))
    if plan.objectives:
        module.compile_model(model, *([] if plan.optimizer is not None else [None]))
    return model


def build_core(module: Any, initializer: str) -> Any:
    """Returns the functional Keras model over ids, weights and numbers of a written program."""
    has_tables = "initializer" in inspect.signature(module.build_model).parameters
    return module.build_model(initializer) if has_tables else module.build_model()


def run_program(text: str, path: str, given: Mapping[str, Any]) -> types.ModuleType:
    """Returns the module of a written program, under a name of its own.

    Args:
        text: the text of `model.py`.
        path: its path.
        given: what names of the module are, in place of what the text imports or defines.
    """
    module = types.ModuleType("model_of_to_keras")
    module.__file__ = path
    tree = ast.parse(text, path)
    tree.body = [node for node in tree.body if _defined(node) not in given]
    vars(module).update(given)
    exec(compile(tree, path, "exec"), vars(module))
    return module


def _defined(node: ast.stmt) -> str | None:
    """Returns the name that a class, a function or the import of a module defines."""
    return node.names[0].name if isinstance(node, ast.Import) else getattr(node, "name", None)


def _run(plan: ModelPlan, reading: Reading) -> types.ModuleType:
    given = dict(plan.words)
    if reading == TENSORFLOW:  # functions of the estimator's program needn't have a source
        given |= reading.keras_classes() | plan.functions | plan.losses
        plan = dataclasses.replace(plan, functions={}, losses={})
    text = source.write_model(plan, "this program", reading)
    # As for functions of an interpreter's prompt: AutoGraph finds sources by the file's name.
    path = f"<model.py {hashlib.sha256(text.encode()).hexdigest()[:16]} of to_keras>"
    linecache.cache[path] = (len(text), None, text.splitlines(keepends=True), path)
    return run_program(text, path, given)


@functools.cache
def _model_class() -> Any:
    keras = load_extra("keras")

    class ColumnsModel(keras.Model):
        """A model over raw features, as feature columns take them: dense, sparse or ragged.

        Attributes:
            core: the functional model over ids, weights and numbers. It can be saved and exported.
        """

        def __init__(self, module: types.ModuleType, core: Any) -> None:
            super().__init__()
            self._program: Any = module
            self.autocast = False  # columns get features as they are
            self._convert_input_args = False
            self._allow_non_tensor_positional_args = True  # arrays of strings
            self.core = core
            self.built = True

        def preprocess(self, features: Mapping[str, Any]) -> dict[str, Any]:
            """Returns the ids, weights and numbers of raw features, for tf.data and `core`."""
            tensors: dict[str, Any] = self._program.preprocess(_Features(features))
            return tensors

        def call(self, features: Mapping[str, Any], training: bool = False) -> Any:
            """Returns the outputs of raw features."""
            return self.core(self.preprocess(features), training=training)

        def training_batch(self, features: Mapping[str, Any], labels: Any) -> tuple[Any, ...]:
            """Returns what `fit` and `evaluate` take of a batch: features, targets and weights."""
            _, *targets = self._program.training_batch(_Features(features), labels)
            return features, *targets

        def predictions(self, features: Mapping[str, Any]) -> dict[str, Any]:
            """Returns the estimator's predictions of raw features, `classes` among them."""
            outputs = dict(self(features))
            with_classes = getattr(self._program, "with_classes", dict)
            return with_classes(outputs)

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


class _Features(dict[str, Any]):
    """Raw features by key, with an error that names a missing one."""

    def __missing__(self, key: str) -> Any:
        raise ValueError(f"Feature {key!r} is missing; the features are {sorted(map(str, self))}.")
