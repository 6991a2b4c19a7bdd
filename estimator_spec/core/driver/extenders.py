# SPDX-License-Identifier: Apache-2.0
"""Adds to the model of an estimator: metrics, or whatever changes its `EstimatorSpec`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from estimator_spec.core.common.checks import check_callable
from estimator_spec.core.common.signatures import argument_names, takes_any_keyword
from estimator_spec.core.driver.estimator import Estimator
from estimator_spec.core.driver.estimator_base import copy_with, setup_of
from estimator_spec.core.user_functions.model_spec import EstimatorSpec, ModeKeys

_METRIC_ARGUMENTS = ("features", "labels", "predictions", "config")


def add_metrics(estimator: Any, metric_fn: Callable[..., Any]) -> Estimator:
    """Returns an estimator that evaluates further metrics, with the same model and `model_dir`.

    >>> import tensorflow as tf
    >>> def metric_fn(labels, predictions):
    ...     error = tf.abs(labels - predictions['predictions'])
    ...     return {'mean_error': tf.compat.v1.metrics.mean(error)}
    >>> estimator = Estimator(lambda features, labels, mode: None, 'model_of_the_example')
    >>> add_metrics(estimator, metric_fn).model_dir
    'model_of_the_example'

    Args:
        estimator: an `Estimator`. Train, evaluate and export by the result, or train by either. A
            `TPUEstimator` with an embedding core or shards trains by itself only.
        metric_fn: function of any of `labels`, `predictions`, `features` and `config` that returns
            metrics by name, as `EstimatorSpec(eval_metric_ops=...)` takes them. It is called in
            evaluations. A metric that the model has under the same name is replaced.

    Returns:
        A new `Estimator`.

    Raises:
        ValueError: `metric_fn` takes another argument.
        TypeError: `metric_fn` isn't callable.
    """
    check_callable("metric_fn", metric_fn)
    names = argument_names(metric_fn)
    if "self" in names[:1]:  # An unbound method is accepted; the user must bind it.
        names = names[1:]
    unknown = [name for name in names if name not in _METRIC_ARGUMENTS]
    if unknown:
        raise ValueError(
            f"metric_fn ({metric_fn}) has following not expected args: {unknown}. It may take "
            f"{', '.join(_METRIC_ARGUMENTS)}."
        )
    if takes_any_keyword(metric_fn):
        names = _METRIC_ARGUMENTS

    def add(spec: EstimatorSpec, features: Any, labels: Any, mode: str, config: Any) -> Any:
        if mode != ModeKeys.EVAL:
            return spec
        offered = dict(
            zip(_METRIC_ARGUMENTS, (features, labels, spec.predictions, config), strict=True)
        )
        added = metric_fn(**{name: offered[name] for name in names})
        return spec._replace(eval_metric_ops={**(spec.eval_metric_ops or {}), **added})

    return extend(estimator, add)


def extend(estimator: Any, change: Callable[..., EstimatorSpec]) -> Estimator:
    """Returns an estimator like another, whose `EstimatorSpec` a function changes.

    Args:
        estimator: the other `Estimator`.
        change: function of the spec, features, labels, mode and config that returns the new spec.

    Raises:
        TypeError: `estimator` isn't one.
    """
    if not isinstance(estimator, Estimator):
        raise TypeError(
            f"estimator must be an estimator_spec.Estimator, got {estimator!r}, a "
            f"{type(estimator).__name__}."
        )
    call_model_fn = estimator.model_fn

    def model_fn(features: Any, labels: Any, mode: str, config: Any) -> EstimatorSpec:
        spec = call_model_fn(features, labels, mode, config)
        return change(spec, features, labels, mode, config)

    setup = setup_of(estimator)
    made = Estimator(
        model_fn,
        config=estimator.config,
        warm_start_from=setup.warm_start,
        invalid_ids=setup.invalid_ids,
    )
    return copy_with(made, optimizations=setup.optimizations)
