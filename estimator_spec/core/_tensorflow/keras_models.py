# SPDX-License-Identifier: Apache-2.0
"""Builds compiled Keras 2 models in TF1 graphs by Keras' own functions for estimators.

Keras kept them, but exports them as `__internal__`; the ops of a training step and the arguments of
`compile` have no public names at all.
"""

from __future__ import annotations

import importlib
from typing import Any


def package_of(model: Any) -> Any:
    """Returns the Keras package that a model's class comes from, or None.

    Args:
        model: any object.

    Returns:
        The module `keras`, of any version, or `tf_keras`.
    """
    for base in type(model).__mro__:
        root = base.__module__.partition(".")[0]
        if root in ("keras", "tf_keras") and base.__name__ == "Model":
            return importlib.import_module(root)
    return None


def is_of_private_keras(model: Any) -> bool:
    """Returns whether a model is of `tensorflow.python.keras`, TensorFlow's old copy of Keras."""
    homes = [base.__module__.split(".")[:3] for base in type(model).__mro__]
    return ["tensorflow", "python", "keras"] in homes


def is_functional(model: Any) -> bool:
    """Returns whether a model is a graph of layers, with names for its inputs and outputs."""
    return bool(model._is_graph_network)


def is_subclassed(model: Any) -> bool:
    """Returns whether a model's layers are called by the user's own class."""
    sequential = any(base.__name__ == "Sequential" for base in type(model).__mro__)
    return not (is_functional(model) or sequential)


def compile_arguments(model: Any) -> dict[str, Any]:
    """Returns the arguments that a model was compiled with, as the user gave them.

    The public `get_compile_config` has them serialized, without the user's functions.
    """
    # Keras exchanges the bases of the model's class for those of TF1 when a model is made in a
    # graph, as `clone` does; the next one that is made outside of graphs gets the old ones back.
    kind: Any = type(model)
    kind.__new__(kind)
    return dict(model._get_compile_args())


def legacy_optimizer(package: Any, optimizer: Any) -> Any:
    """Returns an optimizer of Keras 2.11 or newer as one of `optimizers.legacy`."""
    return package.__internal__.optimizers.convert_to_legacy_optimizer(optimizer)


def clone(package: Any, model: Any, inputs: Any, custom_objects: Any) -> Any:
    """Returns an uncompiled copy of a model on the default graph's inputs.

    Args:
        package: Keras, as `package_of` returns it.
        model: a functional, sequential or subclassed model. One that can't be copied by its
            configuration is rebuilt in place and returned; `restore` undoes that.
        inputs: the input tensors, in the model's order or by name; None makes placeholders.
        custom_objects: classes and functions by their names in configurations.
    """
    # `clone_model` is public, but handles no subclassed models.
    return package.__internal__.models.clone_and_build_model(
        model,
        inputs,
        custom_objects=custom_objects,
        compile_clone=False,
        in_place_reset=is_subclassed(model),
    )


def restore(package: Any, model: Any) -> None:
    """Undoes the change of a subclassed model that `clone` rebuilt in place."""
    package.__internal__.models.in_place_subclassed_model_state_restoration(model)


def weigh_examples(model: Any, weights: list[Any]) -> None:
    """Multiplies the loss of each example by a tensor's value.

    `compile` has no argument for weights in the graph: `fit` feeds them.

    Args:
        model: compiled with target tensors in the default graph.
        weights: one tensor `[B]` for each output.
    """
    model._compile_weights_loss_and_weighted_metrics(weights)


def training_op(model: Any) -> Any:
    """Returns the op of a training step: the optimizer's, and updates such as batch norm's.

    Args:
        model: compiled with target tensors in the default graph.
    """
    # The public methods would run the step, in a session of Keras.
    model._make_train_function()
    return model.train_function.updates_op
