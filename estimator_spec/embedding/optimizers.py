# SPDX-License-Identifier: Apache-2.0
"""Parameters and slot variables of the embedding core's optimizers.

Each optimizer is a frozen dataclass: comparable, hashable, picklable. The arguments are in the
order of TensorFlow's classes of the same names. Without an embedding core (a TPU's, or the one on
the host) they have no effect: the `model_fn`'s optimizer then trains the tables as ordinary
variables.

The docstrings use g for the gradient of a row (the sum over its occurrences in a step), w for the
row and lr for the learning rate. √, powers and products are elementwise. The rules are those of
the field's `optimization_parameters.proto`.

Slot variables of a table, by the suffix of their names, with their initial values (the `SLOTS` of
each class; see `slot_names` and `slot_initial_values`):

    Adagrad                    accumulator /Adagrad = initial_accumulator
    AdagradMomentum            accumulator /AdagradMomentum/Accumulator = 0
                               momenta /AdagradMomentum/Momentum = 0
    ProximalAdagrad            accumulator /ProximalAdagrad = initial_accumulator
    Adam                       m /Adam/m = 0, v /Adam/v = 0
    Ftrl                       accumulator /Ftrl = initial_accumulator_value, linear /Ftrl_1 = 0
    ProximalYogi               v /ProximalYogi = initial_accumulator_value, m /ProximalYogi_1 = 0
    Momentum                   momenta /Momentum = 0
    RMSProp                    ms /RMSProp/ms = 0, mom /RMSProp/mom = 0
    StochasticGradientDescent  none
    FrequencyEstimator         last_hit_step /FrequencyEstimator = 0
"""

from __future__ import annotations

import dataclasses

from estimator_spec.embedding.optimizer_base import (
    OptimizationParameters,
    Slot,
    slot_initial_values,
    slot_names,
)

__all__ = [
    "AdagradMomentumParameters",
    "AdagradParameters",
    "AdamParameters",
    "FrequencyEstimatorParameters",
    "FtrlParameters",
    "MomentumParameters",
    "OptimizationParameters",
    "ProximalAdagradParameters",
    "ProximalYogiParameters",
    "RMSPropParameters",
    "StochasticGradientDescentParameters",
    "slot_initial_values",
    "slot_names",
]


@dataclasses.dataclass(frozen=True)
class AdagradParameters(OptimizationParameters):
    """Adagrad: `a += g²; w -= lr·g/√a`.

    >>> AdagradParameters(0.1) == AdagradParameters(learning_rate=0.1)
    True

    Args:
        learning_rate: see `OptimizationParameters`, as for the arguments not named here.
        initial_accumulator: where a begins, > 0. Default 0.1. A greater one makes the first steps
            smaller.

    Raises:
        ValueError: a value out of range.
        TypeError: a value of another type.
    """

    SLOTS = (Slot("accumulator", "/Adagrad", "initial_accumulator"),)

    learning_rate: float | None
    initial_accumulator: float = 0.1
    use_gradient_accumulation: bool = True
    clip_weight_min: float | None = None
    clip_weight_max: float | None = None
    weight_decay_factor: float | None = None
    multiply_weight_decay_factor_by_learning_rate: bool | None = None
    clip_gradient_min: float | None = None
    clip_gradient_max: float | None = None

    def _check(self) -> None:
        if self.initial_accumulator <= 0:
            raise ValueError(
                "Adagrad initial_accumulator must be greater than zero. "
                f"Received: {self.initial_accumulator}."
            )


@dataclasses.dataclass(frozen=True)
class AdagradMomentumParameters(OptimizationParameters):
    """Adagrad with momentum on the scale.

    `a = beta2 == 1 ? a + g² : beta2·a + (1 - beta2)·g²; s = (a + epsilon)^(-1/exponent);
    m = momentum·m + s; u = use_nesterov ? momentum·m + s : m; w -= lr·g·u`. a and m begin at 0.

    Args:
        learning_rate: see `OptimizationParameters`, as for the arguments not named here.
        momentum: part of m that is kept in a step.
        use_nesterov: whether the step looks ahead by one more momentum. Default False.
        exponent: root of the accumulator, > 0. The default 2 is Adagrad's square root.
        beta2: part of a that is kept; the default 1 sums as Adagrad does.
        epsilon: keeps the root from 0, > 0. Default 1e-10.

    Raises:
        ValueError: a value out of range.
        TypeError: a value of another type.
    """

    SLOTS = (
        Slot("accumulator", "/AdagradMomentum/Accumulator"),
        Slot("momenta", "/AdagradMomentum/Momentum"),
    )

    learning_rate: float | None
    momentum: float
    use_nesterov: bool = False
    exponent: float = 2
    beta2: float = 1
    epsilon: float = 1e-10
    use_gradient_accumulation: bool = True
    clip_weight_min: float | None = None
    clip_weight_max: float | None = None
    weight_decay_factor: float | None = None
    multiply_weight_decay_factor_by_learning_rate: bool | None = None
    clip_gradient_min: float | None = None
    clip_gradient_max: float | None = None

    def _check(self) -> None:
        if self.epsilon <= 0:
            raise ValueError(
                f"Adagrad momentum: epsilon must be positive. Received: {self.epsilon}."
            )
        if self.exponent <= 0:
            raise ValueError(
                "Adagrad momentum: Precondition exponent must >0. It is the root that is taken "
                f"of the accumulator. Received: {self.exponent}."
            )


@dataclasses.dataclass(frozen=True)
class ProximalAdagradParameters(OptimizationParameters):
    """Adagrad with regularization by a proximal step.

    `a += g²; η = lr/√a; w' = w - η·g; w = sign(w')·max(|w'| - η·l1, 0)/(1 + η·l2)`.

    Args:
        learning_rate: see `OptimizationParameters`, as for the arguments not named here.
        initial_accumulator: where a begins, > 0. Default 0.1.
        l1_regularization_strength: l1, >= 0: pulls small elements to exactly 0. Default 0.
        l2_regularization_strength: l2, >= 0: shrinks all elements. Default 0.

    Raises:
        ValueError: a value out of range.
        TypeError: a value of another type.
    """

    SLOTS = (Slot("accumulator", "/ProximalAdagrad", "initial_accumulator"),)

    learning_rate: float | None
    initial_accumulator: float = 0.1
    l1_regularization_strength: float = 0.0
    l2_regularization_strength: float = 0.0
    use_gradient_accumulation: bool = True
    clip_weight_min: float | None = None
    clip_weight_max: float | None = None
    weight_decay_factor: float | None = None
    multiply_weight_decay_factor_by_learning_rate: bool | None = None
    clip_gradient_min: float | None = None
    clip_gradient_max: float | None = None

    def _check(self) -> None:
        if self.initial_accumulator <= 0:
            raise ValueError(
                "Adagrad initial_accumulator must be positive. "
                f"Received: {self.initial_accumulator}."
            )
        self._check_not_negative("l1_regularization_strength", "l2_regularization_strength")


@dataclasses.dataclass(frozen=True)
class AdamParameters(OptimizationParameters):
    """Adam without bias correction, lazy unless told otherwise.

    `m = beta1·m + (1 - beta1)·g; v = beta2·v + (1 - beta2)·g²; w -= lr·m/√(v + epsilon²)`, or
    `w -= lr·m/(√v + epsilon)` without `sum_inside_sqrt`. For the bias correction of the paper, a
    `learning_rate_fn` returns `lr·√(1 - beta2^t)/(1 - beta1^t)` at step t.

    Args:
        learning_rate: see `OptimizationParameters`, as for the arguments not named here.
        beta1: part of m that is kept, in [0, 1). Default 0.9.
        beta2: part of v that is kept, in [0, 1). Default 0.999.
        epsilon: keeps the root from 0, > 0. Default 1e-8.
        lazy_adam: True (the default) moves only the rows looked up in a step; False moves all of
            them, as their m is not zero yet, and needs gradient accumulation.
        sum_inside_sqrt: whether epsilon stands inside the root. Default True, which is faster.

    Raises:
        ValueError: a value out of range.
        TypeError: a value of another type.
    """

    SLOTS = (Slot("m", "/Adam/m"), Slot("v", "/Adam/v"))

    learning_rate: float | None
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-08
    lazy_adam: bool = True
    sum_inside_sqrt: bool = True
    use_gradient_accumulation: bool = True
    clip_weight_min: float | None = None
    clip_weight_max: float | None = None
    weight_decay_factor: float | None = None
    multiply_weight_decay_factor_by_learning_rate: bool | None = None
    clip_gradient_min: float | None = None
    clip_gradient_max: float | None = None

    def _check(self) -> None:
        self._check_betas_and_epsilon()
        if not self.use_gradient_accumulation and not self.lazy_adam:
            raise ValueError("When disabling Lazy Adam, gradient accumulation must be used.")


@dataclasses.dataclass(frozen=True)
class FtrlParameters(OptimizationParameters):
    """Follow the regularized leader (McMahan et al., KDD 2013).

    With p = learning_rate_power and z the linear slot:
    `a' = a + g²; z += g - (a'^-p - a^-p)/lr·w; a = a';
    w = |z| > l1 ? (sign(z)·l1 - z)/(a^-p/lr + 2·(l2 + beta/(2·lr))) : 0`. z begins at 0.

    Args:
        learning_rate: see `OptimizationParameters`, as for the arguments not named here.
        learning_rate_power: p, <= 0: how fast steps become smaller. Default -0.5; 0 keeps them.
        initial_accumulator_value: where a begins, >= 0. Default 0.1; 0 wants
            `allow_zero_accumulator`.
        l1_regularization_strength: l1, >= 0: pulls small elements to exactly 0. Default 0.
        l2_regularization_strength: l2, >= 0: shrinks all elements. Default 0.
        multiply_linear_by_learning_rate: whether the linear slot holds z·lr, which allows a rate
            that grows from 0. Default False. Checkpoints of either kind don't fit the other.
        beta: smooths the first steps. Default 0.
        allow_zero_accumulator: whether the root is computed so that an accumulator of 0 gives no
            NaN, a little slower. Default False.

    Raises:
        ValueError: a value out of range.
        TypeError: a value of another type.
    """

    SLOTS = (
        Slot("accumulator", "/Ftrl", "initial_accumulator_value"),
        Slot("linear", "/Ftrl_1", "initial_linear_value"),
    )

    learning_rate: float | None
    learning_rate_power: float = -0.5
    initial_accumulator_value: float = 0.1
    l1_regularization_strength: float = 0.0
    l2_regularization_strength: float = 0.0
    use_gradient_accumulation: bool = True
    clip_weight_min: float | None = None
    clip_weight_max: float | None = None
    weight_decay_factor: float | None = None
    multiply_weight_decay_factor_by_learning_rate: bool | None = None
    multiply_linear_by_learning_rate: bool = False
    beta: float = 0
    allow_zero_accumulator: bool = False
    clip_gradient_min: float | None = None
    clip_gradient_max: float | None = None

    @property
    def initial_linear_value(self) -> float:
        """Initial value of the linear slot: always 0."""
        return 0.0

    def _check(self) -> None:
        if self.learning_rate_power > 0:
            raise ValueError(
                "learning_rate_power must be less than or equal to 0. "
                f"got {self.learning_rate_power}."
            )
        self._check_not_negative(
            "initial_accumulator_value",
            "l1_regularization_strength",
            "l2_regularization_strength",
        )


@dataclasses.dataclass(frozen=True)
class ProximalYogiParameters(OptimizationParameters):
    """Yogi (Zaheer et al., NeurIPS 2018) with a proximal step, without bias correction.

    `m = beta1·m + (1 - beta1)·g; v -= (1 - beta2)·sign(v - g²)·g²; η = lr/(√v + epsilon);
    w' = w - η·m; w = sign(w')·max(|w'| - η·l1, 0)/(1 + η·l2)`. m begins at 0.

    Args:
        learning_rate: see `OptimizationParameters`, as for the arguments not named here. Default
            0.01.
        beta1: part of m that is kept, in [0, 1). Default 0.9.
        beta2: how slowly v follows g², in [0, 1). Default 0.999.
        epsilon: keeps the root from 0, > 0. Default 1e-3.
        l1_regularization_strength: l1, >= 0: pulls small elements to exactly 0. Default 0.
        l2_regularization_strength: l2, >= 0: shrinks all elements. Default 0.
        initial_accumulator_value: where v begins. Default 1e-6.

    Raises:
        ValueError: a value out of range.
        TypeError: a value of another type.
    """

    SLOTS = (
        Slot("v", "/ProximalYogi", "initial_accumulator_value"),
        Slot("m", "/ProximalYogi_1"),
    )

    learning_rate: float | None = 0.01
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-3
    l1_regularization_strength: float = 0.0
    l2_regularization_strength: float = 0.0
    initial_accumulator_value: float = 1e-6
    use_gradient_accumulation: bool = True
    clip_weight_min: float | None = None
    clip_weight_max: float | None = None
    weight_decay_factor: float | None = None
    multiply_weight_decay_factor_by_learning_rate: bool | None = None
    clip_gradient_min: float | None = None
    clip_gradient_max: float | None = None

    def _check(self) -> None:
        self._check_betas_and_epsilon()
        self._check_not_negative("l1_regularization_strength", "l2_regularization_strength")


@dataclasses.dataclass(frozen=True)
class MomentumParameters(OptimizationParameters):
    """Momentum: `m = momentum·m + g; w -= lr·m`, or `w -= lr·(g + momentum·m)` with Nesterov.

    Args:
        learning_rate: see `OptimizationParameters`, as for the arguments not named here.
        momentum: part of m that is kept in a step.
        use_nesterov: whether the step looks ahead by one more momentum (Sutskever et al., 2013),
            with gradients taken at w itself. Default False.

    Raises:
        ValueError: a value out of range.
        TypeError: a value of another type.
    """

    SLOTS = (Slot("momenta", "/Momentum"),)

    learning_rate: float | None
    momentum: float
    use_nesterov: bool = False
    use_gradient_accumulation: bool = True
    clip_weight_min: float | None = None
    clip_weight_max: float | None = None
    weight_decay_factor: float | None = None
    multiply_weight_decay_factor_by_learning_rate: bool | None = None
    clip_gradient_min: float | None = None
    clip_gradient_max: float | None = None


@dataclasses.dataclass(frozen=True)
class RMSPropParameters(OptimizationParameters):
    """RMSProp: `ms = rho·ms + (1 - rho)·g²; mom = momentum·mom + lr·g/√(ms + epsilon); w -= mom`.

    ms begins at 0 here, at 1 in TensorFlow's optimizer of the same name: the first steps differ.

    Args:
        learning_rate: see `OptimizationParameters`, as for the arguments not named here.
        rho: part of ms that is kept.
        momentum: part of mom that is kept.
        epsilon: keeps the root from 0.

    Raises:
        ValueError: a value out of range.
        TypeError: a value of another type.
    """

    SLOTS = (Slot("ms", "/RMSProp/ms"), Slot("mom", "/RMSProp/mom"))

    learning_rate: float | None
    rho: float
    momentum: float
    epsilon: float
    use_gradient_accumulation: bool = True
    clip_weight_min: float | None = None
    clip_weight_max: float | None = None
    weight_decay_factor: float | None = None
    multiply_weight_decay_factor_by_learning_rate: bool | None = None
    clip_gradient_min: float | None = None
    clip_gradient_max: float | None = None


@dataclasses.dataclass(frozen=True)
class StochasticGradientDescentParameters(OptimizationParameters):
    """Gradient descent: `w -= lr·g`. It keeps no state.

    Args:
        learning_rate: see `OptimizationParameters`, as for all arguments.

    Raises:
        ValueError: a value out of range.
        TypeError: a value of another type.
    """

    learning_rate: float | None
    use_gradient_accumulation: bool = True
    clip_weight_min: float | None = None
    clip_weight_max: float | None = None
    weight_decay_factor: float | None = None
    multiply_weight_decay_factor_by_learning_rate: bool | None = None
    clip_gradient_min: float | None = None
    clip_gradient_max: float | None = None


@dataclasses.dataclass(frozen=True)
class FrequencyEstimatorParameters(OptimizationParameters):
    """Counts instead of learning: the table holds how many steps apart a row is looked up.

    For row i of a table of width 1, in the step that looks it up:
    `δ = step - last[i]; c = min(δ, max_delta);
    D[i] = δ >= outlier_threshold·D[i] ? c : D[i]·(1 - tau) + c·tau; last[i] = step`.
    The step comes in as the table's `learning_rate_fn`, the global step as float32; the gradient
    must be zero, so put `tf.stop_gradient` on the activations.

    Args:
        tau: how fast the estimate follows, in (0, 1).
        max_delta: the longest gap that counts, in steps.
        outlier_threshold: a gap so many times the estimate replaces it.
        weight_exponent: exponent by which a gap is made a weight.

    Raises:
        TypeError: a value of another type.
    """

    SLOTS = (Slot("last_hit_step", "/FrequencyEstimator"),)

    tau: float
    max_delta: float
    outlier_threshold: float
    weight_exponent: float
    # Fixed: nothing is learned.
    learning_rate: float | None = dataclasses.field(default=1.0, init=False, repr=False)
    use_gradient_accumulation: bool = dataclasses.field(default=True, init=False, repr=False)
    clip_weight_min: float | None = dataclasses.field(default=None, init=False, repr=False)
    clip_weight_max: float | None = dataclasses.field(default=None, init=False, repr=False)
    weight_decay_factor: float | None = dataclasses.field(default=None, init=False, repr=False)
    multiply_weight_decay_factor_by_learning_rate: bool | None = dataclasses.field(
        default=None, init=False, repr=False
    )
    clip_gradient_min: float | None = dataclasses.field(default=None, init=False, repr=False)
    clip_gradient_max: float | None = dataclasses.field(default=None, init=False, repr=False)
