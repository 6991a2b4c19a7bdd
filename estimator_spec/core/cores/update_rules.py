# SPDX-License-Identifier: Apache-2.0
"""Update rules of the embedding core's optimizers, as functions of rows.

A step is `apply`, then `decay`, then `clip_weights`. The formulas are those of the optimizers'
docstrings, which name their sources.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from estimator_spec.core.embedding import optimizers
from tpu_columns.kernels import calls

Slots = dict[str, Any]
Rule = Callable[[Any, Any, Slots, Any, Any, Any], tuple[Any, Slots]]


def apply(
    parameters: optimizers.OptimizationParameters,
    w: Any,
    slots: Slots,
    g: Any,
    learning_rate: Any,
    step: Any,
) -> tuple[Any, Slots]:
    """Applies clipped gradients to rows by the optimizer's rule.

    Args:
        parameters: the optimizer.
        w: rows, float32 [U, D].
        slots: rows of each slot, by the optimizer's slot names, [U, D].
        g: gradients, [U, D].
        learning_rate: scalar.
        step: global step, scalar; only FrequencyEstimator reads it.

    Returns:
        New rows and new slots, with the shapes of the old, for `decay` and `clip_weights`.
    """
    g = _clip(g, parameters.clip_gradient_min, parameters.clip_gradient_max)
    rule, _, _ = _RULES[type(parameters)]
    return rule(parameters, w, slots, g, learning_rate, step)


def decay(
    parameters: optimizers.OptimizationParameters, new_w: Any, old_w: Any, learning_rate: Any
) -> Any:
    """Subtracts weight decay from rows: a fraction of their values before the update.

    Args:
        parameters: the optimizer.
        new_w: rows after `apply`, [U, D].
        old_w: rows before the update, 0 for rows that weren't looked up, [U, D].
        learning_rate: scalar.
    """
    factor = parameters.weight_decay_factor
    if not factor:
        return new_w
    if parameters.multiply_weight_decay_factor_by_learning_rate:
        factor = factor * learning_rate
    return new_w - factor * old_w


def clip_weights(parameters: optimizers.OptimizationParameters, w: Any) -> Any:
    """Clips rows to the optimizer's limits."""
    return _clip(w, parameters.clip_weight_min, parameters.clip_weight_max)


def updates_all_rows(parameters: optimizers.OptimizationParameters) -> bool:
    """Returns whether a step changes rows that it didn't look up; only non-lazy Adam does."""
    return isinstance(parameters, optimizers.AdamParameters) and not parameters.lazy_adam


def keeps_rows_of_gradient_zero(parameters: optimizers.OptimizationParameters | None) -> bool:
    """Returns whether a gradient of zero leaves a row and its slots unchanged."""
    if parameters is None or not _is_unlimited(parameters):
        return False
    kinds = (optimizers.StochasticGradientDescentParameters, optimizers.AdagradParameters)
    return isinstance(parameters, kinds)


def native_rule(parameters: optimizers.OptimizationParameters) -> calls.NativeRule | None:
    """Returns the native rule that updates rows as this module does; None: there is none."""
    if updates_all_rows(parameters):
        return None
    _, name, arguments = _RULES[type(parameters)]
    limits: tuple[float, ...] = ()
    if not _is_unlimited(parameters):
        limits = (
            _or(parameters.clip_gradient_min, -math.inf),
            _or(parameters.clip_gradient_max, math.inf),
            parameters.weight_decay_factor or 0.0,
            _or(parameters.clip_weight_min, -math.inf),
            _or(parameters.clip_weight_max, math.inf),
        )
    return calls.NativeRule(
        name,
        tuple(float(getattr(parameters, each)) for each in arguments),
        limits,
        bool(parameters.multiply_weight_decay_factor_by_learning_rate),
    )


def trained_table(
    variable: Any, slots: Sequence[Any], parameters: optimizers.OptimizationParameters, rate: Any
) -> calls.TrainedTable:
    """Returns a table for `calls.update_tables`.

    Args:
        variable: rows of one or several tables, float32 [V, D].
        slots: its slot variables, in the rule's order.
        parameters: its optimizer, which has a native rule.
        rate: learning rate, scalar.
    """
    rule = native_rule(parameters)
    assert rule is not None
    needs_zeros = not keeps_rows_of_gradient_zero(parameters)
    return calls.TrainedTable(variable, slots, rule, rate, needs_zeros)


def _or(limit: float | None, default: float) -> float:
    return default if limit is None else limit


def _is_unlimited(parameters: optimizers.OptimizationParameters) -> bool:
    """Returns whether a step is the optimizer's rule alone, without limits or weight decay."""
    limits = (
        parameters.clip_weight_min,
        parameters.clip_weight_max,
        parameters.clip_gradient_min,
        parameters.clip_gradient_max,
    )
    return not parameters.weight_decay_factor and all(limit is None for limit in limits)


def _clip(value: Any, low: float | None, high: float | None) -> Any:
    if low is not None:
        value = tf.maximum(value, low)
    if high is not None:
        value = tf.minimum(value, high)
    return value


def _sgd(p: Any, w: Any, slots: Slots, g: Any, lr: Any, step: Any) -> tuple[Any, Slots]:
    return w - lr * g, {}


def _adagrad(p: Any, w: Any, slots: Slots, g: Any, lr: Any, step: Any) -> tuple[Any, Slots]:
    a = slots["accumulator"] + g * g
    # No change for a gradient of zero, even if a checkpoint's accumulator is zero.
    return w - tf.math.multiply_no_nan(tf.math.rsqrt(a), lr * g), {"accumulator": a}


def _adagrad_momentum(
    p: Any, w: Any, slots: Slots, g: Any, lr: Any, step: Any
) -> tuple[Any, Slots]:
    a = slots["accumulator"]
    a = a + g * g if p.beta2 == 1 else p.beta2 * a + _rest(p.beta2) * g * g
    s = tf.pow(a + p.epsilon, -1.0 / p.exponent) * g
    m = p.momentum * slots["momenta"] + s
    u = p.momentum * m + s if p.use_nesterov else m
    return w - lr * u, {"accumulator": a, "momenta": m}


def _proximal_adagrad(
    p: Any, w: Any, slots: Slots, g: Any, lr: Any, step: Any
) -> tuple[Any, Slots]:
    a = slots["accumulator"] + g * g
    eta = lr * tf.math.rsqrt(a)
    return _proximal(w - eta * g, eta, p), {"accumulator": a}


def _adam(p: Any, w: Any, slots: Slots, g: Any, lr: Any, step: Any) -> tuple[Any, Slots]:
    m = p.beta1 * slots["m"] + _rest(p.beta1) * g
    v = p.beta2 * slots["v"] + _rest(p.beta2) * g * g
    if p.sum_inside_sqrt:
        moved = m * tf.math.rsqrt(v + p.epsilon**2)
    else:
        moved = m / (tf.sqrt(v) + p.epsilon)
    return w - lr * moved, {"m": m, "v": v}


def _ftrl(p: Any, w: Any, slots: Slots, g: Any, lr: Any, step: Any) -> tuple[Any, Slots]:
    a, z = slots["accumulator"], slots["linear"]
    new_a = a + g * g
    power = -p.learning_rate_power
    root, new_root = _power(a, power), _power(new_a, power)
    l2 = p.l2_regularization_strength
    if p.multiply_linear_by_learning_rate:
        # The slot holds z·lr: the formula below times lr, which is defined for a rate of 0.
        z = z + lr * g - (new_root - root) * w
        l1 = p.l1_regularization_strength * lr
        curvature = new_root + 2 * lr * l2 + p.beta
    else:
        z = z + g - (new_root - root) / lr * w
        l1 = p.l1_regularization_strength
        curvature = (new_root + p.beta) / lr + 2 * l2
    shrunk = tf.clip_by_value(z, -l1, l1) - z
    return tf.math.divide_no_nan(shrunk, curvature), {"accumulator": new_a, "linear": z}


def _proximal_yogi(p: Any, w: Any, slots: Slots, g: Any, lr: Any, step: Any) -> tuple[Any, Slots]:
    v = slots["v"]
    m = p.beta1 * slots["m"] + _rest(p.beta1) * g
    v = v - _rest(p.beta2) * tf.sign(v - g * g) * g * g
    eta = lr / (tf.sqrt(v) + p.epsilon)
    return _proximal(w - eta * m, eta, p), {"v": v, "m": m}


def _momentum(p: Any, w: Any, slots: Slots, g: Any, lr: Any, step: Any) -> tuple[Any, Slots]:
    m = p.momentum * slots["momenta"] + g
    moved = g + p.momentum * m if p.use_nesterov else m
    return w - lr * moved, {"momenta": m}


def _rms_prop(p: Any, w: Any, slots: Slots, g: Any, lr: Any, step: Any) -> tuple[Any, Slots]:
    ms = p.rho * slots["ms"] + _rest(p.rho) * g * g
    mom = p.momentum * slots["mom"] + lr * g * tf.math.rsqrt(ms + p.epsilon)
    return w - mom, {"ms": ms, "mom": mom}


def _frequency_estimator(
    p: Any, w: Any, slots: Slots, g: Any, lr: Any, step: Any
) -> tuple[Any, Slots]:
    step = tf.cast(step, w.dtype)
    since = step - slots["last_hit_step"]
    capped = tf.minimum(since, p.max_delta)
    smoothed = w * _rest(p.tau) + capped * p.tau
    is_outlier = since >= p.outlier_threshold * w
    return tf.where(is_outlier, capped, smoothed), {"last_hit_step": tf.zeros_like(w) + step}


def _proximal(w: Any, eta: Any, p: Any) -> Any:
    """Returns sign(w)·max(|w| - η·l1, 0) / (1 + η·l2)."""
    l1, l2 = p.l1_regularization_strength, p.l2_regularization_strength
    if l1:
        w = tf.sign(w) * tf.maximum(tf.abs(w) - eta * l1, 0.0)
    return w / (1 + eta * l2) if l2 else w


def _rest(part: float) -> float:
    """Returns 1 - part, subtracted in float32 as Google's code does: beside 0.999 it differs."""
    return float(np.float32(1) - np.float32(part))


def _power(a: Any, power: float) -> Any:
    return tf.sqrt(a) if power == 0.5 else tf.pow(a, power)


_L1_L2 = ("l1_regularization_strength", "l2_regularization_strength")

# Of each optimizer its rule here, the name of the native rule, and the parameters that are the
# constants of that.
_RULES: dict[type, tuple[Rule, str, tuple[str, ...]]] = {
    optimizers.StochasticGradientDescentParameters: (_sgd, "sgd", ()),
    optimizers.AdagradParameters: (_adagrad, "adagrad_no_nan", ()),
    optimizers.AdagradMomentumParameters: (
        _adagrad_momentum,
        "adagrad_momentum",
        ("momentum", "exponent", "beta2", "epsilon", "use_nesterov"),
    ),
    optimizers.ProximalAdagradParameters: (_proximal_adagrad, "proximal_adagrad", _L1_L2),
    optimizers.AdamParameters: (
        _adam,
        "lazy_adam",
        ("beta1", "beta2", "epsilon", "sum_inside_sqrt"),
    ),
    optimizers.FtrlParameters: (
        _ftrl,
        "ftrl_no_nan",
        (*_L1_L2, "learning_rate_power", "beta", "multiply_linear_by_learning_rate"),
    ),
    optimizers.ProximalYogiParameters: (
        _proximal_yogi,
        "proximal_yogi",
        ("beta1", "beta2", "epsilon", *_L1_L2),
    ),
    optimizers.MomentumParameters: (_momentum, "momentum", ("momentum", "use_nesterov")),
    optimizers.RMSPropParameters: (_rms_prop, "rms_prop", ("rho", "momentum", "epsilon")),
    optimizers.FrequencyEstimatorParameters: (
        _frequency_estimator,
        "frequency_estimator",
        ("tau", "max_delta", "outlier_threshold"),
    ),
}
