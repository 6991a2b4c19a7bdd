# SPDX-License-Identifier: Apache-2.0
"""Converts a spec's optimizers to Keras 3 optimizers for embedding tables.

Two kinds: Keras' own classes, with the gradients of repeated ids summed first (Keras on
TensorFlow squares them separately) and a learning rate that undoes Adam's bias correction; and
`EmbeddingCoreOptimizer`, which implements all ten rules of the embedding core and updates the
rows of a step only. Both are registered with Keras, so that models with them can be saved; call
`load_optimizer_classes()` before loading one.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from estimator_spec.convert import target_support
from estimator_spec.convert.optional_packages import load_extra
from estimator_spec.core.embedding import optimizers as ours
from estimator_spec.core.embedding.optimizers import OptimizationParameters


def make_optimizer(
    target: str, parameters: OptimizationParameters, rate: Any, multiplier: Any
) -> Any:
    """Returns the Keras optimizer of a table.

    Args:
        target: 'keras' or 'keras_core'.
        parameters: the table's optimizer.
        rate: the learning rate: a number, or a function of the global step.
        multiplier: function from global step to a factor on gradients, or None; unused by 'keras'.
    """
    classes = load_optimizer_classes()
    if target == "keras_core":
        classes.check_backend()
        return _core_optimizer(parameters, rate, multiplier)
    support = target_support.find_support(target, parameters)
    kind = classes.by_name[support.name]
    return kind(**_arguments(parameters, support, rate, classes))


def _core_optimizer(parameters: OptimizationParameters, rate: Any, multiplier: Any = None) -> Any:
    classes = load_optimizer_classes()
    scheduled = classes.EmbeddingRate(rate) if callable(rate) else rate
    return classes.EmbeddingCoreOptimizer(parameters, scheduled, multiplier)


def sparse_core_optimizer(
    parameters: OptimizationParameters | None, rate: Any, backend: str
) -> Any:
    """Returns the optimizer of a `keras_rs.layers.TableConfig`, used on SparseCore only.

    There Adagrad has no epsilon, and keras_rs refuses an optimizer that sets it. Adam depends on
    the backend: see `sparse_core_arguments`. On other devices the optimizer of `make_optimizer`
    trains the table.

    Args:
        parameters: the table's optimizer; None if it isn't on SparseCore, or has none.
        rate: the table's learning rate.
        backend: Keras' backend.

    Returns:
        The optimizer. An `EmbeddingCoreOptimizer` if SparseCore has no counterpart: keras_rs
        refuses it there, with an error that names it.
    """
    if parameters is None:
        return "sgd"
    found = sparse_core_arguments(parameters, backend)
    if found is None:
        return _core_optimizer(parameters, rate)
    name, arguments = found
    betas: tuple[Any, ...] = ()
    if corrects_bias(parameters, backend):
        betas = (arguments["beta_1"], arguments["beta_2"])
    arguments["learning_rate"] = (
        load_optimizer_classes().EmbeddingRate(rate, *betas) if callable(rate) or betas else rate
    )
    return getattr(load_extra("keras").optimizers, name)(**arguments)


def corrects_bias(parameters: OptimizationParameters, backend: str) -> bool:
    """Returns whether SparseCore gets a learning rate and an epsilon that correct Adam's bias."""
    return backend == "jax" and isinstance(parameters, ours.AdamParameters)


def sparse_core_arguments(
    parameters: OptimizationParameters, backend: str
) -> tuple[str, dict[str, Any]] | None:
    """Returns the Keras optimizer that is the same on SparseCore, by name and arguments, or None.

    On Keras' TensorFlow backend, SparseCore's Adam has no bias correction, and epsilon is inside of
    the root. On JAX jax_tpu_embedding corrects the bias: step t has the rate
    η·√(1 - β2ᵗ) / (1 - β1ᵗ), and divides by √v + ε·√(1 - β2ᵗ). An `EmbeddingRate` undoes the
    first; nothing the second.

    Args:
        parameters: the table's optimizer.
        backend: Keras' backend.
    """
    support = target_support.find_support("tpu_embedding_v2", parameters)
    exact = all(rule.holds(parameters) for rule in support.arguments.values())
    # Keras has no such arguments, and keras_rs keeps TensorFlow's defaults.
    unsupported: dict[str, Any] = {"multiply_linear_by_learning_rate": False}
    if not corrects_bias(parameters, backend):
        unsupported["sum_inside_sqrt"] = True
    exact &= all(getattr(parameters, n, value) == value for n, value in unsupported.items())
    name = _ON_SPARSE_CORE.get(type(parameters))
    if name is None or not exact:
        return None
    arguments = target_support.target_arguments(parameters, support)
    for argument in ("multiply_linear_by_learning_rate", "sum_inside_sqrt"):
        arguments.pop(argument, None)
    return name, arguments


_ON_SPARSE_CORE = {
    ours.StochasticGradientDescentParameters: "SGD",
    ours.AdagradParameters: "Adagrad",
    ours.AdamParameters: "Adam",
    ours.FtrlParameters: "Ftrl",
}


def _arguments(
    parameters: OptimizationParameters,
    support: target_support.OptimizerSupport,
    rate: Any,
    classes: Any,
) -> dict[str, Any]:
    """Returns the arguments of a Keras optimizer."""
    arguments = target_support.target_arguments(parameters, support)
    limit = parameters.clip_gradient_max
    if limit is not None and parameters.clip_gradient_min == -limit:
        arguments["clipvalue"] = limit
    if isinstance(parameters, ours.FrequencyEstimatorParameters):
        rate = 0.0
    betas: tuple[Any, ...] = ()
    if support.name == "Adam":
        # Keras subtracts them from 1 in float64, the core in float32.
        betas = tuple(float(np.float32(arguments[name])) for name in ("beta_1", "beta_2"))
        arguments["beta_1"], arguments["beta_2"] = betas
    arguments["learning_rate"] = (
        classes.EmbeddingRate(rate, *betas) if callable(rate) or betas else float(rate)
    )
    return {**arguments, **support.fixed}


def load_optimizer_classes() -> Any:
    """Registers the Keras optimizers of converted models with Keras.

    Call it before `keras.models.load_model` of a file that was saved with such an optimizer.

    Returns:
        Their module: `EmbeddingCoreOptimizer`, with the embedding core's rules; `EmbeddingRate`,
        the schedule of a specification's rate; and `by_name`, Keras' own.

    Raises:
        ImportError: Keras 3 isn't installed, or it has no MultiOptimizer.
    """
    keras = load_extra("keras")
    if not hasattr(keras.optimizers, "MultiOptimizer"):
        raise ImportError(
            f"Keras {keras.__version__} has no MultiOptimizer: pip install 'tpu-columns[keras-rs]'"
        )
    from estimator_spec.convert.keras_columns.keras_classes import core_optimizers

    return core_optimizers
