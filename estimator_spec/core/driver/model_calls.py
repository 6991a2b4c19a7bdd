# SPDX-License-Identifier: Apache-2.0
"""Checks and calls a user's `model_fn`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

from estimator_spec.core.common import legacy_keras
from estimator_spec.core.common.checks import check_callable
from estimator_spec.core.common.signatures import argument_names
from estimator_spec.core.run_config import RunConfig
from estimator_spec.core.user_functions.model_spec import EstimatorSpec

tf1 = tf.compat.v1

# The end of TensorFlow's error, of tf.compat.v1.layers and others.
_NEEDS_KERAS_2 = "is not available with Keras 3."
_ARGUMENTS = ("features", "labels", "mode", "params", "config")


def check_arguments(
    model_fn: Callable[..., Any], params: Any, others_add_params: bool = False
) -> None:
    """Checks that `model_fn` takes the arguments that the estimator passes, and no others.

    Args:
        model_fn: the user's function.
        params: the `params` of the constructor, or None.
        others_add_params: whether the estimator passes params even if the constructor got none.

    Raises:
        ValueError: it doesn't take features or given params, or takes an unknown argument.
        TypeError: it isn't callable.
    """
    if model_fn is None:
        raise ValueError("model_fn must be provided to Estimator.")
    check_callable("model_fn", model_fn)
    names = argument_names(model_fn)
    if "features" not in names:
        raise ValueError(f"model_fn ({model_fn}) must include features argument.")
    if params is not None and "params" not in names:
        raise ValueError(
            f"model_fn ({model_fn}) does not include params argument, but params ({params}) is "
            "passed to Estimator."
        )
    if params is None and "params" in names and not others_add_params:
        tf1.logging.warning(
            "Estimator's model_fn (%s) includes params argument, but params are not passed to "
            "Estimator.",
            model_fn,
        )
    # `self` of an unbound method is accepted; the user must bind it.
    unknown = [name for name in names if name not in (*_ARGUMENTS, "self")]
    if unknown:
        raise ValueError(f"model_fn ({model_fn}) has following not expected args: {unknown}")


def call_model_fn(
    model_fn: Callable[..., Any],
    features: Any,
    labels: Any,
    mode: str,
    params: Any,
    config: RunConfig,
    change: Callable[[Any], Any] = lambda result: result,
) -> EstimatorSpec:
    """Calls `model_fn` with the arguments that it takes.

    Args:
        model_fn: the user's function.
        features: features of a batch.
        labels: labels of a batch, or None.
        mode: one of `ModeKeys`.
        params: hyperparameters.
        config: the `RunConfig`.
        change: function of the result, called before that is converted to an `EstimatorSpec`.

    Returns:
        The model for a CPU.

    Raises:
        ValueError: there are labels, but `model_fn` takes none; or it returned another type.
        TypeError: it uses features as a dict that are none.
    """
    names = argument_names(model_fn)
    if labels is not None and "labels" not in names:
        raise ValueError("model_fn does not take labels, but input_fn returns labels.")
    offered = {"labels": labels, "mode": mode, "params": params, "config": config}
    tf1.logging.info("Calling model_fn.")
    try:
        result = model_fn(features=features, **{k: v for k, v in offered.items() if k in names})
    except AttributeError as error:
        if str(error).endswith(_NEEDS_KERAS_2):
            error.args = (f"{error} {legacy_keras.cure()}",)
        if error.obj is not features or isinstance(features, Mapping):
            raise
        raise TypeError(
            "model_fn, or a feature layer in it, takes features for a dict of tensors by key, but "
            f"input_fn returned {type(features).__name__} as features."
        ) from error
    tf1.logging.info("Done calling model_fn.")
    return _to_estimator_spec(change(result))


def _to_estimator_spec(result: Any) -> EstimatorSpec:
    """Converts the result of a `model_fn` to an `EstimatorSpec`."""
    if hasattr(result, "as_estimator_spec"):
        result = result.as_estimator_spec()
    if isinstance(result, EstimatorSpec):
        return result
    if getattr(result, "_fields", None) == EstimatorSpec._fields:
        # TensorFlow 2.15's own class, in a program that changed only some of its imports.
        return EstimatorSpec(*result)
    raise ValueError(
        "model_fn should return an EstimatorSpec (or, for TPUEstimator, a TPUEstimatorSpec); it "
        f"returned {type(result).__name__}: {result!r}"
    )
