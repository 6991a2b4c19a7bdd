# SPDX-License-Identifier: Apache-2.0
"""Parameters and slot variables of the embedding core's optimizers.

Each optimizer is a frozen dataclass: comparable, hashable, picklable. The arguments are in the
order of TensorFlow's classes of the same names. Without an embedding core (a TPU's, or the one on
the host) they have no effect: the `model_fn`'s optimizer then trains the tables as ordinary
variables.

In the formulas, t counts the steps that look a row up: a step changes no other row and none of its
slots (but for Adam that isn't lazy). All operations are elementwise, in float32: 1 - β, too. Each
class names the source of its rule, and a paper. "SparseCore" stands for the code by which Google's
library jax-tpu-embedding updates rows (`sparse_dense_matmul_grad_with_…`): this project's tests
compare each step with numbers recorded from it, to 8 units in the last place where the rule has
powers, else to 4. The examples make one step by `update_rules.apply`, which is what the host core
runs.

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

from estimator_spec.core.embedding.optimizer_base import (
    OptimizationParameters,
    Slot,
    slot_initial_values,
    slot_names,
)

__all__ = ["OptimizationParameters", "slot_initial_values", "slot_names"]


@dataclasses.dataclass(frozen=True)
class AdagradParameters(OptimizationParameters):
    r"""Adagrad: divides each element's step by the root of its summed squared gradients.

    For the gradient $g_t$ of a row $w$ and the learning rate $η$:

    $$a_t = a_{t-1} + g_t^2$$

    $$w_t = w_{t-1} - η\, g_t / \sqrt{a_t}$$

    $a_0$ is `initial_accumulator`; there is no ε. As $a$ only grows, steps become smaller
    throughout a training.

    Source: SparseCore.

    Paper: Duchi, Hazan and Singer, "Adaptive Subgradient Methods for Online Learning and
    Stochastic Optimization", JMLR 12, 2011.

    >>> import tensorflow as tf
    >>> from estimator_spec.core.cores import update_rules
    >>> adagrad = AdagradParameters(0.1, initial_accumulator=0.75)
    >>> w, g = tf.constant([1.0, 1.0]), tf.constant([0.5, 0.0])
    >>> w, slots = update_rules.apply(adagrad, w, slot_initial_values(adagrad), g, 0.1, 0)
    >>> w.numpy().round(3), slots["accumulator"].numpy()
    (array([0.95, 1.  ], dtype=float32), array([1.  , 0.75], dtype=float32))

    Args:
        learning_rate: $η$; see `OptimizationParameters`, as for other arguments and errors.
        initial_accumulator: $a_0$, > 0. Default 0.1. A greater one makes the first steps smaller.
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
    r"""Adagrad with momentum, which sums the scaled gradients.

    For the gradient $g_t$ of a row $w$, the learning rate $η$ and the momentum $μ$:

    $$a_t = β_2\, a_{t-1} + (1 - β_2)\, g_t^2$$

    $$s_t = (a_t + ε)^{-1/p}\, g_t$$

    $$m_t = μ\, m_{t-1} + s_t$$

    $$w_t = w_{t-1} - η\, m_t$$

    With `use_nesterov` the last factor is $μ\, m_t + s_t$. With $β_2 = 1$ squares are summed as
    Adagrad does: $a_t = a_{t-1} + g_t^2$. $a_0 = m_0 = 0$.

    Under a constant gradient $m$ tends to $s / (1 - μ)$: the learning rate $(1 - μ)\, η$ gives
    steps of Adagrad's length. Since $a_0 = 0$, the first step of the default exponent is $η$,
    however small the gradient.

    Source: SparseCore, and TensorFlow's tests of its TPU embeddings. The comment in TensorFlow's
    `optimization_parameters.proto` sums the scales in $m$ without the gradients; no code does.

    Paper: Agarwal et al., "Disentangling Adaptive Gradient Methods from Learning Rates",
    arXiv:2002.11803, 2020.

    >>> import tensorflow as tf
    >>> from estimator_spec.core.cores import update_rules
    >>> optimizer = AdagradMomentumParameters(0.1, momentum=0.9)
    >>> w, slots = tf.constant([1.0]), slot_initial_values(optimizer)
    >>> for step, g in enumerate((2.0, -2.0)):
    ...     w, slots = update_rules.apply(optimizer, w, slots, tf.constant([g]), 0.1, step)
    >>> w.numpy().round(3), slots["momenta"].numpy().round(3)
    (array([0.881], dtype=float32), array([0.193], dtype=float32))

    Args:
        learning_rate: $η$; see `OptimizationParameters`, as for other arguments and errors.
        momentum: $μ$, the part of $m$ that a step keeps, usually in [0, 1).
        use_nesterov: whether the step looks ahead by one more momentum. Default False.
        exponent: $p$, the root that is taken of the accumulator, > 0. The default 2 is Adagrad's
            square root.
        beta2: $β_2$, the part of $a$ that a step keeps, usually in (0, 1]. The default 1 sums.
        epsilon: $ε$, keeps the root from 0, > 0. Default 1e-10.
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
    r"""Adagrad with L1 and L2 regularization by a proximal step.

    For the gradient $g_t$ of a row $w$ and the learning rate $η$:

    $$a_t = a_{t-1} + g_t^2$$

    $$η_t = η / \sqrt{a_t}$$

    $$u_t = w_{t-1} - η_t\, g_t$$

    $$w_t = \operatorname{sign}(u_t) \max(|u_t| - η_t λ_1, 0) / (1 + η_t λ_2)$$

    Without penalties this is Adagrad. Penalties act only on rows that a step looks up.

    Source: TensorFlow's kernel `SparseApplyProximalAdagrad`. Of the embedding core's, Google has
    published neither kernel nor test.

    Paper: Duchi and Singer, "Efficient Learning using Forward-Backward Splitting", NIPS 2009, with
    the rates of Adagrad.

    >>> import tensorflow as tf
    >>> from estimator_spec.core.cores import update_rules
    >>> optimizer = ProximalAdagradParameters(0.1, 0.75, l1_regularization_strength=0.2)
    >>> w, g = tf.constant([1.0, 0.06]), tf.constant([0.5, 0.5])
    >>> w, slots = update_rules.apply(optimizer, w, slot_initial_values(optimizer), g, 0.1, 0)
    >>> w.numpy().round(3)
    array([0.93, 0.  ], dtype=float32)

    Args:
        learning_rate: $η$; see `OptimizationParameters`, as for other arguments and errors.
        initial_accumulator: $a_0$, > 0. Default 0.1.
        l1_regularization_strength: $λ_1$, >= 0: pulls small elements to exactly 0. Default 0.
        l2_regularization_strength: $λ_2$, >= 0: shrinks all elements. Default 0.
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
    r"""Adam without bias correction, lazy unless `lazy_adam=False`.

    For the gradient $g_t$ of a row $w$ and the learning rate $η$:

    $$m_t = β_1\, m_{t-1} + (1 - β_1)\, g_t$$

    $$v_t = β_2\, v_{t-1} + (1 - β_2)\, g_t^2$$

    $$w_t = w_{t-1} - η\, m_t / \sqrt{v_t + ε^2}$$

    With `sum_inside_sqrt=False` the divisor is $\sqrt{v_t} + ε$. $m_0 = v_0 = 0$.

    Without bias correction, step t is $(1 - β_1^t) / \sqrt{1 - β_2^t}$ times as long as the
    paper's: with the default $β$ 3.2 times at first, and up to 6.6 times (t = 12). A
    `learning_rate_fn` that returns $η \sqrt{1 - β_2^t} / (1 - β_1^t)$ corrects it; it counts the
    global step, not the lookups of a row.

    Source: SparseCore, with `sum_inside_sqrt=False`; TensorFlow's tests of its TPU embeddings,
    which correct no bias. (jax-tpu-embedding hands SparseCore a corrected rate.)

    Paper: Kingma and Ba, "Adam: A Method for Stochastic Optimization", ICLR 2015.

    >>> import tensorflow as tf
    >>> from estimator_spec.core.cores import update_rules
    >>> adam = AdamParameters(0.001)
    >>> w, g = tf.constant([1.0, 1.0]), tf.constant([0.5, -5.0])
    >>> w, slots = update_rules.apply(adam, w, slot_initial_values(adam), g, 0.001, 0)
    >>> w.numpy().round(5)
    array([0.99684, 1.00316], dtype=float32)

    The paper's rate, for a `TableConfig` in place of the static one:

    >>> def learning_rate_fn(global_step):
    ...     t = tf.cast(global_step, tf.float32) + 1
    ...     return 0.001 * tf.sqrt(1 - 0.999**t) / (1 - 0.9**t)
    >>> round(float(learning_rate_fn(0)), 6)
    0.000316

    Args:
        learning_rate: $η$; see `OptimizationParameters`, as for other arguments and errors.
        beta1: $β_1$, the part of $m$ that a step keeps, in [0, 1). Default 0.9.
        beta2: $β_2$, the part of $v$ that a step keeps, in [0, 1). Default 0.999.
        epsilon: $ε$, keeps the root from 0, > 0. Default 1e-8.
        lazy_adam: True (the default) moves only the rows looked up in a step; False moves all of
            them, as their $m$ is not zero yet, and needs gradient accumulation.
        sum_inside_sqrt: whether $ε$ stands inside the root. Default True, which is faster.
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
    r"""FTRL: follow the regularized leader, with L1 and L2 regularization.

    For the gradient $g_t$ of a row $w$, the learning rate $η$ and $p$ = `learning_rate_power`:

    $$a_t = a_{t-1} + g_t^2$$

    $$z_t = z_{t-1} + g_t - (a_t^{-p} - a_{t-1}^{-p})\, w_{t-1} / η$$

    $$w_t = \frac{\operatorname{sign}(z_t)\, λ_1 - z_t}{(a_t^{-p} + β) / η + 2 λ_2}$$

    where $|z_t| > λ_1$; elsewhere $w_t = 0$. $z_0 = 0$.

    The rule computes $w_t$ from $z_t$ and $a_t$ alone. An element whose first gradient is 0 becomes
    0, whatever its initial value.

    Source: SparseCore.

    Paper: McMahan et al., "Ad Click Prediction: a View from the Trenches", KDD 2013.

    >>> import tensorflow as tf
    >>> from estimator_spec.core.cores import update_rules
    >>> ftrl = FtrlParameters(0.1, initial_accumulator_value=0.75)
    >>> w, g = tf.constant([1.0, 1.0]), tf.constant([0.5, 0.0])
    >>> w, slots = update_rules.apply(ftrl, w, slot_initial_values(ftrl), g, 0.1, 0)
    >>> w.numpy().round(3), slots["linear"].numpy().round(3)
    (array([0.084, 0.   ], dtype=float32), array([-0.84,  0.  ], dtype=float32))

    Args:
        learning_rate: $η$; see `OptimizationParameters`, as for other arguments and errors.
        learning_rate_power: $p$, <= 0: how fast steps become smaller. Default -0.5; 0 keeps them.
        initial_accumulator_value: $a_0$, >= 0. Default 0.1; 0 wants `allow_zero_accumulator`.
        l1_regularization_strength: $λ_1$, >= 0: pulls small elements to exactly 0. Default 0.
        l2_regularization_strength: $λ_2$, >= 0: shrinks all elements. Default 0.
        multiply_linear_by_learning_rate: whether the linear slot holds $η z$, which allows a rate
            that grows from 0. Default False. Checkpoints of either kind don't fit the other.
        beta: $β$, smooths the first steps, usually >= 0. Default 0.
        allow_zero_accumulator: whether the root is computed so that an accumulator of 0 gives no
            NaN, a little slower. Default False.
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
    r"""Yogi with L1 and L2 regularization by a proximal step, without bias correction.

    For the gradient $g_t$ of a row $w$ and the learning rate $η$:

    $$m_t = β_1\, m_{t-1} + (1 - β_1)\, g_t$$

    $$v_t = v_{t-1} - (1 - β_2) \operatorname{sign}(v_{t-1} - g_t^2)\, g_t^2$$

    $$η_t = η / (\sqrt{v_t} + ε)$$

    $$u_t = w_{t-1} - η_t\, m_t$$

    $$w_t = \operatorname{sign}(u_t) \max(|u_t| - η_t λ_1, 0) / (1 + η_t λ_2)$$

    A step changes $v$ by $(1 - β_2)\, g_t^2$, however large $v$ is; Adam's $v$ decays by a factor.
    $m_0 = 0$. There is no bias correction.

    Source: the paper, and for the proximal step the comments in TensorFlow's
    `optimization_parameters.proto`. Google has published neither kernel nor test of it.

    Paper: Zaheer et al., "Adaptive Methods for Nonconvex Optimization", NeurIPS 2018.

    >>> import tensorflow as tf
    >>> from estimator_spec.core.cores import update_rules
    >>> yogi = ProximalYogiParameters()
    >>> w, g = tf.constant([1.0]), tf.constant([0.5])
    >>> w, slots = update_rules.apply(yogi, w, slot_initial_values(yogi), g, 0.01, 0)
    >>> w.numpy().round(4), slots["v"].numpy().round(6)
    (array([0.9703], dtype=float32), array([0.000251], dtype=float32))

    Args:
        learning_rate: $η$; see `OptimizationParameters`, as for other arguments and errors.
            Default 0.01.
        beta1: $β_1$, the part of $m$ that a step keeps, in [0, 1). Default 0.9.
        beta2: $β_2$, how slowly $v$ follows $g^2$, in [0, 1). Default 0.999.
        epsilon: $ε$, keeps the divisor from 0, > 0. Default 1e-3.
        l1_regularization_strength: $λ_1$, >= 0: pulls small elements to exactly 0. Default 0.
        l2_regularization_strength: $λ_2$, >= 0: shrinks all elements. Default 0.
        initial_accumulator_value: $v_0$, usually >= 0. Default 1e-6.
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
    r"""Gradient descent with momentum, Nesterov's or the plain one.

    For the gradient $g_t$ of a row $w$, the learning rate $η$ and the momentum $μ$:

    $$m_t = μ\, m_{t-1} + g_t$$

    $$w_t = w_{t-1} - η\, m_t$$

    With `use_nesterov` the second line is $w_t = w_{t-1} - η\, (g_t + μ\, m_t)$. $m_0 = 0$.

    Under a constant gradient steps grow to $η\, g / (1 - μ)$. A row that isn't looked up doesn't
    move on by its momentum, as it would in dense training.

    Source: TensorFlow's kernel `SparseApplyMomentum`. Of the embedding core's, Google has published
    neither kernel nor test.

    Paper: Sutskever et al., "On the importance of initialization and momentum in deep learning",
    ICML 2013; gradients are taken at $w$ itself.

    >>> import tensorflow as tf
    >>> from estimator_spec.core.cores import update_rules
    >>> momentum = MomentumParameters(0.1, momentum=0.9)
    >>> w, slots = tf.constant([1.0]), slot_initial_values(momentum)
    >>> for step in range(2):
    ...     w, slots = update_rules.apply(momentum, w, slots, tf.constant([0.5]), 0.1, step)
    >>> w.numpy().round(3), slots["momenta"].numpy().round(3)
    (array([0.855], dtype=float32), array([0.95], dtype=float32))

    Args:
        learning_rate: $η$; see `OptimizationParameters`, as for other arguments and errors.
        momentum: $μ$, the part of $m$ that a step keeps, usually in [0, 1).
        use_nesterov: whether the step looks ahead by one more momentum. Default False.
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
    r"""RMSProp with momentum: divides steps by the root of a moving mean of squared gradients.

    For the gradient $g_t$ of a row $w$, the learning rate $η$ and the momentum $μ$:

    $$s_t = ρ\, s_{t-1} + (1 - ρ)\, g_t^2$$

    $$m_t = μ\, m_{t-1} + η\, g_t / \sqrt{s_t + ε}$$

    $$w_t = w_{t-1} - m_t$$

    The slot `ms` is $s$, `mom` is $m$; $s_0 = m_0 = 0$. TensorFlow's optimizer of the same name
    begins with $s_0 = 1$; here the first step is $η / \sqrt{1 - ρ}$, however small the gradient.

    Source: TensorFlow's kernel `SparseApplyRMSProp`. Of the embedding core's, Google has published
    neither kernel nor test.

    Paper: Tieleman and Hinton, "Lecture 6.5: rmsprop", Neural Networks for Machine Learning, 2012.

    >>> import tensorflow as tf
    >>> from estimator_spec.core.cores import update_rules
    >>> rms_prop = RMSPropParameters(0.1, rho=0.75, momentum=0.0, epsilon=1e-10)
    >>> w, g = tf.constant([1.0, 1.0]), tf.constant([0.5, 0.05])
    >>> w, slots = update_rules.apply(rms_prop, w, slot_initial_values(rms_prop), g, 0.1, 0)
    >>> w.numpy().round(3)
    array([0.8, 0.8], dtype=float32)

    Args:
        learning_rate: $η$; see `OptimizationParameters`, as for other arguments and errors.
        rho: $ρ$, the part of $s$ that a step keeps, usually in [0, 1).
        momentum: $μ$, the part of $m$ that a step keeps, usually in [0, 1).
        epsilon: $ε$, keeps the root from 0, usually > 0.
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
    r"""Stochastic gradient descent. It keeps no state.

    For the gradient $g_t$ of a row $w$ and the learning rate $η$:

    $$w_t = w_{t-1} - η\, g_t$$

    The gradient is the sum over a row's occurrences in a step, not their mean: frequent rows make
    longer steps.

    Source: SparseCore.

    Paper: Robbins and Monro, "A Stochastic Approximation Method", Annals of Mathematical
    Statistics 22, 1951.

    >>> import tensorflow as tf
    >>> from estimator_spec.core.cores import update_rules
    >>> sgd = StochasticGradientDescentParameters(0.1)
    >>> w, slots = update_rules.apply(sgd, tf.constant([1.0]), {}, tf.constant([0.5]), 0.1, 0)
    >>> w.numpy().round(3), slots
    (array([0.95], dtype=float32), {})

    Args:
        learning_rate: $η$; see `OptimizationParameters`, as for all arguments and errors.
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
    r"""Estimates how many steps apart a row is looked up, instead of learning.

    For row $i$ of a table of dimension 1 in a global step $t$ that looks it up, with its estimate
    $D_i$, the step $l_i$ of the lookup before, and the arguments $τ$, $θ$ and $δ_{max}$:

    $$δ = t - l_i, \quad c = \min(δ, δ_{max})$$

    $$D_i' = \begin{cases} c & δ \ge θ D_i \\ (1 - τ) D_i + τ c & \text{otherwise} \end{cases}$$

    $D_i'$ and $t$ take the places of $D_i$ and $l_i$. $1 / D_i$ estimates the fraction of steps
    that look the row up. Initialize the table with `max_delta`. The step is the value of the
    table's `learning_rate_fn`, the global step as float32. The gradient must be zero, so put
    `tf.stop_gradient` on the activations.

    Source: the comments in TensorFlow's `optimization_parameters.proto`. Google has published
    neither kernel nor test of it.

    Paper: Yi et al., "Sampling-Bias-Corrected Neural Modeling for Large Corpus Item
    Recommendations", RecSys 2019.

    >>> import tensorflow as tf
    >>> from estimator_spec.core.cores import update_rules
    >>> estimator = FrequencyEstimatorParameters(0.25, 1000.0, 2.0, 1.0)
    >>> steps_apart, slots = tf.constant([1000.0]), slot_initial_values(estimator)
    >>> for step in (40, 48, 56, 64):
    ...     steps_apart, slots = update_rules.apply(
    ...         estimator, steps_apart, slots, tf.constant([0.0]), float(step), step)
    >>> steps_apart.numpy().round(1)
    array([325.2], dtype=float32)

    Args:
        tau: $τ$, how fast the estimate follows, in (0, 1).
        max_delta: $δ_{max}$, the longest gap that counts, in steps, > 0.
        outlier_threshold: $θ$, usually > 1: a gap of so many times the estimate replaces it.
        weight_exponent: exponent $e$ of the weights $(D_i / δ_{max})^e$. The update doesn't use it.
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
