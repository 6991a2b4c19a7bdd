# SPDX-License-Identifier: Apache-2.0
"""Defines how each target supports each optimizer and its arguments.

Conversions, reports and `docs/optimizers.md` read this table. A rule names the target's argument,
the values that keep their meaning, and the target's default if it differs.

| target             | system                                                 |
|--------------------|--------------------------------------------------------|
| `config_proto`     | the old system's own message                           |
| `tpu_embedding`    | `tf.tpu.experimental.embedding.TPUEmbedding`           |
| `tpu_embedding_v2` | `tf.tpu.experimental.embedding.TPUEmbeddingV2`         |
| `keras`            | Keras 3's own optimizers, for `DistributedEmbedding`   |
| `keras_core`       | our Keras 3 optimizer with the embedding core's rules  |
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any

from estimator_spec.embedding import optimizers as ours
from estimator_spec.embedding.optimizers import OptimizationParameters

TARGETS = ("config_proto", "tpu_embedding", "tpu_embedding_v2", "keras", "keras_core")

# The counterpart of a table's `learning_rate_fn`, a function of the global step, in each target.
RATE_FUNCTIONS = {
    "config_proto": "a tag: the program sends the rate with each step",
    "tpu_embedding": "a function without arguments, which reads `conversion.step`",
    "tpu_embedding_v2": "a function without arguments, which reads `conversion.step`",
    "keras": "a schedule of the optimizer's iterations",
    "keras_core": "a schedule of the optimizer's iterations",
}


@dataclasses.dataclass(frozen=True)
class Condition:
    """Values of an argument that keep their meaning in a target.

    Attributes:
        text: description of the values.
        holds: returns whether the optimizer's parameters have such a value.
    """

    text: str
    holds: Callable[[Any], bool]


@dataclasses.dataclass(frozen=True)
class ArgumentRule:
    """Rule for one argument of an optimizer in one target.

    Attributes:
        target_argument: the target's argument; '' if it needs none.
        default: the target's default if it differs from ours, or None.
        condition: the values that keep their meaning; None: all.
        consequence: the target's behaviour for other values.
    """

    target_argument: str = ""
    default: float | None = None
    condition: Condition | None = None
    consequence: str = ""


@dataclasses.dataclass(frozen=True)
class OptimizerSupport:
    """Support of one optimizer in one target.

    Attributes:
        name: the target's class.
        arguments: `ArgumentRule` by our argument.
        fixed: constant arguments of the target that make the optimizers agree.
        lost: why there is no counterpart; '' if there is one.
        other_differences: (name, condition under which results agree, consequence) of each.
    """

    name: str
    arguments: Mapping[str, ArgumentRule]
    fixed: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    lost: str = ""
    other_differences: tuple[tuple[str, Condition, str], ...] = ()


def find_support(target: str, parameters: OptimizationParameters | type) -> OptimizerSupport:
    """Returns the support of an optimizer in a target.

    >>> find_support('tpu_embedding', ours.AdamParameters).arguments['beta1'].target_argument
    'beta_1'

    Args:
        target: one of `TARGETS`.
        parameters: the optimizer or its class.
    """
    kind = parameters if isinstance(parameters, type) else type(parameters)
    return _table()[target][kind]


def optimizers() -> list[type]:
    """Returns the ten parameter classes."""
    return list(_table()["config_proto"])


def argument_names(kind: type) -> list[str]:
    """Returns the arguments of an optimizer in their order."""
    return [field.name for field in dataclasses.fields(kind) if field.init]


def our_default(kind: type, argument: str) -> Any:
    """Returns the default of one of our arguments; `dataclasses.MISSING` if it has none."""
    return {field.name: field.default for field in dataclasses.fields(kind)}[argument]


def _is(argument: str, *values: Any) -> Condition:
    text = " or ".join(map(str, values))
    return Condition(text, lambda parameters: getattr(parameters, argument) in values)


def _above(argument: str, least: float) -> Condition:
    return Condition(f"> {least:g}", lambda parameters: getattr(parameters, argument) > least)


def _same(*names: str) -> dict[str, ArgumentRule]:
    return {name: ArgumentRule(name) for name in names}


_COMMON = (
    "learning_rate",
    "use_gradient_accumulation",
    "clip_weight_min",
    "clip_weight_max",
    "weight_decay_factor",
    "multiply_weight_decay_factor_by_learning_rate",
)
_NO_DECAY = _is("weight_decay_factor", None, 0)
_NO_PROXIMAL_STEP = {
    name: ArgumentRule(
        condition=_is(name, 0), consequence="there is no proximal step: rows aren't pulled to 0"
    )
    for name in ("l1_regularization_strength", "l2_regularization_strength")
}


def _proto() -> dict[type, OptimizerSupport]:
    """Returns the support in the message: arguments are fields or initial values of slots."""
    names = {
        ours.StochasticGradientDescentParameters: "stochastic_gradient_descent",
        ours.AdagradParameters: "adagrad",
        ours.AdagradMomentumParameters: "adagrad_momentum",
        ours.ProximalAdagradParameters: "proximal_adagrad",
        ours.AdamParameters: "adam",
        ours.FtrlParameters: "ftrl",
        ours.ProximalYogiParameters: "proximal_yogi",
        ours.MomentumParameters: "momentum",
        ours.RMSPropParameters: "rms_prop",
        ours.FrequencyEstimatorParameters: "frequency_estimator",
    }
    return {
        kind: OptimizerSupport(
            name, {argument: ArgumentRule() for argument in argument_names(kind)}
        )
        for kind, name in names.items()
    }


def _mid_level(common: dict[str, ArgumentRule], v2: bool) -> dict[type, OptimizerSupport]:
    """Returns the support of the optimizers of `tf.tpu.experimental.embedding`."""
    accumulator = {
        "initial_accumulator_value": ArgumentRule(
            "initial_accumulator_value",
            condition=_above("initial_accumulator_value", 0),
            consequence="must be positive: begins at 1e-30",
        )
    }
    adagrad = {"initial_accumulator": ArgumentRule("initial_accumulator_value")}
    adam = {
        "beta1": ArgumentRule("beta_1"),
        "beta2": ArgumentRule("beta_2"),
        "epsilon": ArgumentRule("epsilon", default=1e-7),
        "lazy_adam": ArgumentRule("lazy_adam"),
        "sum_inside_sqrt": ArgumentRule("sum_inside_sqrt"),
    }
    ftrl = {
        **_same("learning_rate_power", "l1_regularization_strength", "l2_regularization_strength"),
        **_same("beta", "multiply_linear_by_learning_rate", "allow_zero_accumulator"),
        **accumulator,
    }
    if v2:
        adam["lazy_adam"] = ArgumentRule(
            condition=_is("lazy_adam", True),
            consequence="is ignored: only rows that a step looks up move",
        )
        ftrl["allow_zero_accumulator"] = ArgumentRule(
            condition=_is("allow_zero_accumulator", False),
            consequence="is ignored: an accumulator of 0 may give NaN",
        )
    momentum = ArgumentRule(condition=_is("momentum", 0), consequence="there is no momentum")
    return {
        ours.StochasticGradientDescentParameters: OptimizerSupport(
            "SGD", _linear(common) if v2 else common
        ),
        ours.AdagradParameters: OptimizerSupport("Adagrad", {**common, **adagrad}),
        ours.AdagradMomentumParameters: OptimizerSupport(
            "AdagradMomentum",
            {**common, **_same("momentum", "use_nesterov", "exponent", "beta2", "epsilon")},
        ),
        ours.AdamParameters: OptimizerSupport("Adam", {**common, **adam}),
        ours.FtrlParameters: OptimizerSupport("FTRL", {**common, **ftrl}),
        ours.ProximalAdagradParameters: OptimizerSupport(
            "Adagrad", {**common, **adagrad, **_NO_PROXIMAL_STEP}
        ),
        ours.MomentumParameters: OptimizerSupport(
            "SGD", {**common, "momentum": momentum, "use_nesterov": ArgumentRule()}
        ),
        # With beta_1 = 0, m is the gradient: Adam equals RMSProp without momentum.
        ours.RMSPropParameters: OptimizerSupport(
            "Adam",
            {
                **common,
                "rho": ArgumentRule(
                    "beta_2", condition=_in_0_1("rho"), consequence="must be in [0, 1)"
                ),
                "momentum": momentum,
                "epsilon": ArgumentRule(
                    "epsilon (its square root)",
                    condition=_above("epsilon", 0),
                    consequence="must be > 0",
                ),
            },
            fixed={"beta_1": 0.0, "lazy_adam": True, "sum_inside_sqrt": True},
        ),
        **_without_counterpart(),
    }


def _linear(common: dict[str, ArgumentRule]) -> dict[str, ArgumentRule]:
    """Returns the rules of SGD, whose step by a sum of gradients equals the steps by each."""
    return {**common, "use_gradient_accumulation": ArgumentRule()}


def _in_0_1(argument: str) -> Condition:
    return Condition("in [0, 1)", lambda parameters: 0 <= getattr(parameters, argument) < 1)


def _without_counterpart() -> dict[type, OptimizerSupport]:
    yogi = argument_names(ours.ProximalYogiParameters)
    estimator = argument_names(ours.FrequencyEstimatorParameters)
    return {
        ours.ProximalYogiParameters: OptimizerSupport(
            "Adam",
            dict.fromkeys(yogi, ArgumentRule()),
            lost="there is no Yogi: Adam with its rate, betas and epsilon takes its place",
        ),
        ours.FrequencyEstimatorParameters: OptimizerSupport(
            "SGD",
            dict.fromkeys(estimator, ArgumentRule()),
            lost="nothing counts steps: SGD of rate 0 leaves the table as it is",
        ),
    }


def _tpu_embedding() -> dict[type, OptimizerSupport]:
    clip = {name: ArgumentRule("clipvalue") for name in ("clip_gradient_min", "clip_gradient_max")}
    return _mid_level({**_same(*_COMMON), **clip}, v2=False)


def _tpu_embedding_v2() -> dict[type, OptimizerSupport]:
    common = {
        "learning_rate": ArgumentRule("learning_rate"),
        "use_gradient_accumulation": ArgumentRule(
            condition=_is("use_gradient_accumulation", True),
            consequence="is ignored: the gradients of a row are summed",
        ),
        **{
            name: ArgumentRule(
                condition=_is(name, None), consequence="is ignored: nothing is clipped"
            )
            for name in (
                *("clip_weight_min", "clip_weight_max"),
                *("clip_gradient_min", "clip_gradient_max"),
            )
        },
        "weight_decay_factor": ArgumentRule(
            condition=_NO_DECAY, consequence="isn't implemented: no decay"
        ),
        "multiply_weight_decay_factor_by_learning_rate": ArgumentRule(),
    }
    return _mid_level(common, v2=True)


def _keras_common() -> dict[str, ArgumentRule]:
    """Returns the rules that all Keras optimizers share."""
    return {
        "learning_rate": ArgumentRule("learning_rate"),
        "use_gradient_accumulation": ArgumentRule(
            condition=_is("use_gradient_accumulation", True),
            consequence="the gradients of a row are summed",
        ),
        **{
            name: ArgumentRule(condition=_is(name, None), consequence="weights aren't clipped")
            for name in ("clip_weight_min", "clip_weight_max")
        },
        "weight_decay_factor": ArgumentRule(
            condition=_NO_DECAY, consequence="would shrink all rows, looked up or not: no decay"
        ),
        "multiply_weight_decay_factor_by_learning_rate": ArgumentRule(),
        **{
            name: ArgumentRule(
                "clipvalue",
                condition=Condition("None, or -min = max", _symmetric),
                consequence="limits that aren't -c and c: gradients aren't clipped",
            )
            for name in ("clip_gradient_min", "clip_gradient_max")
        },
    }


def _keras() -> dict[type, OptimizerSupport]:
    """Returns the support of Keras 3's optimizers, most of which update all rows of a table.

    Gradients of repeated ids are summed first, as in an embedding core, unlike in Keras.
    """
    common = _keras_common()
    adagrad = {"initial_accumulator": ArgumentRule("initial_accumulator_value")}
    rows_move = "rows not looked up"
    never = Condition("", lambda parameters: False)
    without_momentum = Condition(
        "with a momentum of 0", lambda parameters: parameters.momentum == 0
    )
    return {
        ours.StochasticGradientDescentParameters: OptimizerSupport("SGD", _linear(common)),
        ours.AdagradParameters: OptimizerSupport(
            "Adagrad", {**common, **adagrad}, {"epsilon": 0.0}
        ),
        ours.ProximalAdagradParameters: OptimizerSupport(
            "Adagrad", {**common, **adagrad, **_NO_PROXIMAL_STEP}, {"epsilon": 0.0}
        ),
        # Without momentum and with exponent 2 it equals Adagrad with an epsilon.
        ours.AdagradMomentumParameters: OptimizerSupport(
            "Adagrad",
            {
                **common,
                "momentum": ArgumentRule(
                    condition=_is("momentum", 0), consequence="there is no momentum"
                ),
                "use_nesterov": ArgumentRule(),
                "exponent": ArgumentRule(
                    condition=_is("exponent", 2), consequence="the root is the square root"
                ),
                "beta2": ArgumentRule(
                    condition=_is("beta2", 1), consequence="the accumulator doesn't decay"
                ),
                "epsilon": ArgumentRule("epsilon", default=1e-7),
            },
            {"initial_accumulator_value": 0.0},
        ),
        ours.AdamParameters: OptimizerSupport(
            "Adam",
            {
                **common,
                "learning_rate": ArgumentRule(
                    "learning_rate, as a schedule that undoes bias correction"
                ),
                "beta1": ArgumentRule("beta_1"),
                "beta2": ArgumentRule("beta_2"),
                "epsilon": ArgumentRule("epsilon", default=1e-7),
                "lazy_adam": ArgumentRule(
                    condition=_is("lazy_adam", False), consequence="rows not looked up move as well"
                ),
                "sum_inside_sqrt": ArgumentRule(
                    condition=_is("sum_inside_sqrt", False),
                    consequence="epsilon stands outside of the root: differs where √v is near it",
                ),
            },
        ),
        ours.FtrlParameters: OptimizerSupport(
            "Ftrl",
            {
                **common,
                **_same("learning_rate_power", "initial_accumulator_value", "beta"),
                **_same("l1_regularization_strength", "l2_regularization_strength"),
                "multiply_linear_by_learning_rate": ArgumentRule(
                    condition=_is("multiply_linear_by_learning_rate", False),
                    consequence="the linear slot holds z, not z·lr",
                ),
                "allow_zero_accumulator": ArgumentRule(),
            },
            other_differences=(
                (
                    rows_move,
                    never,
                    "become what their linear slot says, which is 0 at first",
                ),
            ),
        ),
        ours.MomentumParameters: OptimizerSupport(
            "SGD",
            {
                **common,
                "momentum": ArgumentRule("momentum"),
                "use_nesterov": ArgumentRule("nesterov"),
            },
            other_differences=((rows_move, without_momentum, "go on moving by their momentum"),),
        ),
        ours.RMSPropParameters: OptimizerSupport(
            "RMSprop",
            {
                **common,
                **_same("rho", "momentum"),
                "epsilon": ArgumentRule("epsilon"),
            },
            other_differences=((rows_move, never, "forget: their ms decays in every step"),),
        ),
        **_without_counterpart(),
    }


def _keras_core() -> dict[type, OptimizerSupport]:
    """Returns the support of our optimizer, which runs the host core's update rules."""
    summed = ArgumentRule(
        condition=_is("use_gradient_accumulation", True),
        consequence="the gradients of a row are summed",
    )
    table = {}
    for kind in _proto():
        supported = {argument: ArgumentRule() for argument in argument_names(kind)}
        if "use_gradient_accumulation" in supported:
            sgd = kind is ours.StochasticGradientDescentParameters
            supported["use_gradient_accumulation"] = summed if not sgd else _SUMMED_SGD
        table[kind] = OptimizerSupport("EmbeddingCoreOptimizer", supported)
    return table


def _symmetric(parameters: Any) -> bool:
    low, high = parameters.clip_gradient_min, parameters.clip_gradient_max
    return low is high is None or (low is not None and high is not None and low == -high < 0)


_SUMMED_SGD = ArgumentRule(
    condition=Condition(
        "True, or without weight limits",
        lambda parameters: (
            parameters.use_gradient_accumulation
            or parameters.clip_weight_min is parameters.clip_weight_max is None
        ),
    ),
    consequence="weights are clipped once a step",
)


@functools.cache
def _table() -> dict[str, dict[type, OptimizerSupport]]:
    return {
        "config_proto": _proto(),
        "tpu_embedding": _tpu_embedding(),
        "tpu_embedding_v2": _tpu_embedding_v2(),
        "keras": _keras(),
        "keras_core": _keras_core(),
    }
