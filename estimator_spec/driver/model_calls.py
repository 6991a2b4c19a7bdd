# SPDX-License-Identifier: Apache-2.0
"""The user's `model_fn`: what it may take, how it is called, what it may return."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from estimator_spec.model.model_spec import EstimatorSpec
from estimator_spec.validation.signatures import argument_names

tf1 = tf.compat.v1

_ARGUMENTS = ("features", "labels", "mode", "params", "config")


def check_arguments(
    model_fn: Callable[..., Any], params: Any, others_add_params: bool = False
) -> None:
    """Refuses a `model_fn` that can't be called.

    Args:
        model_fn: the user's function.
        params: what the constructor was given for it; None if nothing.
        others_add_params: whether it gets some even so.

    Raises:
        ValueError: it takes no features, or not the params that are given, or something that
            nobody passes.
    """
    if model_fn is None:
        raise ValueError("model_fn must be provided to Estimator.")
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
    # An unbound method's self is the user's to bind.
    unknown = [name for name in names if name not in (*_ARGUMENTS, "self")]
    if unknown:
        raise ValueError(f"model_fn ({model_fn}) has following not expected args: {unknown}")


def call(
    model_fn: Callable[..., Any],
    features: Any,
    labels: Any,
    mode: str,
    params: Any,
    config: Any,
    returned: Callable[[Any], Any] = lambda result: result,
) -> EstimatorSpec:
    """Calls `model_fn` with those of the arguments that it takes.

    Args:
        model_fn: the user's function.
        features: for its argument of that name; so are those that follow.
        labels: None if there are none.
        mode: one of `ModeKeys`.
        params: hyperparameters.
        config: the run configuration.
        returned: changes what it returned, before that is made an `EstimatorSpec`.

    Returns:
        What it built, for a CPU.

    Raises:
        ValueError: there are labels, but it takes none; or it returned something else.
    """
    names = argument_names(model_fn)
    if labels is not None and "labels" not in names:
        raise ValueError("model_fn does not take labels, but input_fn returns labels.")
    offered = {"labels": labels, "mode": mode, "params": params, "config": config}
    tf1.logging.info("Calling model_fn.")
    result = model_fn(features=features, **{k: v for k, v in offered.items() if k in names})
    tf1.logging.info("Done calling model_fn.")
    return _estimator_spec(returned(result))


def _estimator_spec(result: Any) -> EstimatorSpec:
    if hasattr(result, "as_estimator_spec"):
        result = result.as_estimator_spec()
    if isinstance(result, EstimatorSpec):
        return result
    if getattr(result, "_fields", None) == EstimatorSpec._fields:
        # TensorFlow 2.15's own class, in a program that changed some of its imports only.
        return EstimatorSpec(*result)
    raise ValueError(
        "model_fn should return an EstimatorSpec (or, for TPUEstimator, a TPUEstimatorSpec); it "
        f"returned {type(result).__name__}: {result!r}"
    )
