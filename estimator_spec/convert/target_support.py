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

from estimator_spec.core.embedding import optimizers as ours
from estimator_spec.core.embedding.optimizers import OptimizationParameters

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
        note: how the value is passed, if not as it is.
        least: the smallest value that is passed, in place of smaller ones; None: no limit.
    """

    target_argument: str = ""
    default: float | None = None
    condition: Condition | None = None
    consequence: str = ""
    note: str = ""
    least: float | None = None

    def holds(self, parameters: Any) -> bool:
        """Returns whether the value in an optimizer's parameters keeps its meaning."""
        return self.condition is None or self.condition.holds(parameters)


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


def target_arguments(
    parameters: OptimizationParameters, support: OptimizerSupport
) -> dict[str, Any]:
    """Returns an optimizer's values by the target's arguments, without gradient limits.

    Args:
        parameters: the optimizer.
        support: its support in the target.
    """
    arguments = {}
    for argument, rule in support.arguments.items():
        if rule.target_argument in ("", "clipvalue"):
            continue
        value = getattr(parameters, argument)
        arguments[rule.target_argument] = value if rule.least is None else max(value, rule.least)
    return arguments


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


def _no_decay(consequence: str) -> ArgumentRule:
    return ArgumentRule(condition=_is("weight_decay_factor", None, 0), consequence=consequence)


def _positive(argument: str, consequence: str, note: str = "") -> ArgumentRule:
    """Returns the rule of an argument that must be > 0 in the target: 1e-30 stands for 0."""
    condition = Condition("> 0", lambda parameters: getattr(parameters, argument) > 0)
    return ArgumentRule(
        argument, None, condition, f"{consequence}: 1e-30 is passed", note, least=1e-30
    )


def _only(consequence: str, **values: Any) -> dict[str, ArgumentRule]:
    """Returns the rules of arguments that keep their meaning with one value each."""
    return {
        name: ArgumentRule(condition=_is(name, value), consequence=consequence)
        for name, value in values.items()
    }


def _same(*names: str) -> dict[str, ArgumentRule]:
    return {name: ArgumentRule(name) for name in names}


def _renamed(**names: str) -> dict[str, ArgumentRule]:
    """Returns the rules of arguments that the target has under other names."""
    return {name: ArgumentRule(other) for name, other in names.items()}


def _rules(kind: type, known: Mapping[str, ArgumentRule] | None = None) -> dict[str, ArgumentRule]:
    """Returns the rules of an optimizer's arguments; those not known need no argument."""
    return {name: (known or {}).get(name, ArgumentRule()) for name in argument_names(kind)}


_COMMON = (
    "learning_rate",
    "use_gradient_accumulation",
    "clip_weight_min",
    "clip_weight_max",
    "weight_decay_factor",
    "multiply_weight_decay_factor_by_learning_rate",
)
# One update a step. Without accumulation there is one for each replica; SGD's add up to the same,
# unless something else acts on the row with each of them.
_ONE_UPDATE = "a row is updated once a step, by its gradients of all replicas"
_SUMMED = ArgumentRule(
    condition=dataclasses.replace(
        _is("use_gradient_accumulation", True), text="True, or on one replica"
    ),
    consequence=_ONE_UPDATE,
)
_SUMMED_SGD = ArgumentRule(
    condition=Condition(
        "True, on one replica, or without weight limits and weight decay",
        lambda parameters: (
            parameters.use_gradient_accumulation
            or (
                parameters.clip_weight_min is parameters.clip_weight_max is None
                and not parameters.weight_decay_factor
            )
        ),
    ),
    consequence=_ONE_UPDATE,
)
_NO_MOMENTUM = _only("there is no momentum", momentum=0)
_ADAGRAD = _renamed(initial_accumulator="initial_accumulator_value")
_EPSILON = {"epsilon": ArgumentRule("epsilon", default=1e-7)}
_ADAM = _renamed(beta1="beta_1", beta2="beta_2") | _EPSILON
_UNUSED = ArgumentRule()
_NO_PROXIMAL_STEP = _only(
    "there is no proximal step: rows aren't pulled to 0",
    l1_regularization_strength=0,
    l2_regularization_strength=0,
)


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
    return {kind: OptimizerSupport(name, _rules(kind)) for kind, name in names.items()}


def _mid_level(v2: bool) -> dict[type, OptimizerSupport]:
    """Returns the support of the optimizers of `tf.tpu.experimental.embedding`."""
    limits = ("clip_gradient_min", "clip_gradient_max")
    common = _same(*_COMMON) | dict.fromkeys(limits, ArgumentRule("clipvalue"))
    if v2:
        common |= {
            "use_gradient_accumulation": _SUMMED,
            **_only(
                "is ignored: nothing is clipped",
                clip_weight_min=None,
                clip_weight_max=None,
                clip_gradient_min=None,
                clip_gradient_max=None,
            ),
            "weight_decay_factor": _no_decay("isn't implemented: no decay"),
            "multiply_weight_decay_factor_by_learning_rate": _UNUSED,
        }
    adam = _ADAM | _same("lazy_adam", "sum_inside_sqrt")
    ftrl = {
        **_same("learning_rate_power", "l1_regularization_strength", "l2_regularization_strength"),
        **_same("beta", "multiply_linear_by_learning_rate", "allow_zero_accumulator"),
        "initial_accumulator_value": _positive("initial_accumulator_value", "must be positive"),
    }
    if v2:
        adam |= _only("is ignored: only rows that a step looks up move", lazy_adam=True)
        ftrl |= _only("is ignored: an accumulator of 0 may give NaN", allow_zero_accumulator=False)
    return {
        ours.StochasticGradientDescentParameters: OptimizerSupport(
            "SGD", _linear(common) if v2 else common
        ),
        ours.AdagradParameters: OptimizerSupport("Adagrad", common | _ADAGRAD),
        ours.AdagradMomentumParameters: OptimizerSupport(
            "AdagradMomentum",
            common | _same("momentum", "use_nesterov", "exponent", "beta2", "epsilon"),
        ),
        ours.AdamParameters: OptimizerSupport("Adam", common | adam),
        ours.FtrlParameters: OptimizerSupport("FTRL", common | ftrl),
        ours.ProximalAdagradParameters: OptimizerSupport(
            "Adagrad", common | _ADAGRAD | _NO_PROXIMAL_STEP
        ),
        ours.MomentumParameters: OptimizerSupport(
            "SGD", common | _NO_MOMENTUM | {"use_nesterov": _UNUSED}
        ),
        # With beta_1 = 0, m is the gradient: Adam equals RMSProp without momentum.
        ours.RMSPropParameters: OptimizerSupport(
            "Adam",
            {
                **common,
                "rho": ArgumentRule(
                    "beta_2",
                    condition=Condition("in [0, 1)", lambda parameters: 0 <= parameters.rho < 1),
                    consequence="must be in [0, 1)",
                ),
                **_NO_MOMENTUM,
                "epsilon": _positive("epsilon", "must be positive", "its square root"),
            },
            fixed={"beta_1": 0.0, "lazy_adam": True, "sum_inside_sqrt": True},
        ),
        **_without_counterpart(common),
    }


def _linear(common: dict[str, ArgumentRule]) -> dict[str, ArgumentRule]:
    """Returns the rules of SGD, whose step by a sum of gradients equals the steps by each."""
    return common | {"use_gradient_accumulation": _UNUSED}


def _without_counterpart(common: dict[str, ArgumentRule]) -> dict[type, OptimizerSupport]:
    """Returns the support of optimizers that another one replaces."""
    yogi = common | _ADAM | {"learning_rate": _UNUSED}
    return {
        ours.ProximalYogiParameters: OptimizerSupport(
            "Adam",
            _rules(ours.ProximalYogiParameters, yogi),
            lost="there is no Yogi: Adam with its rate, betas and epsilon takes its place",
        ),
        ours.FrequencyEstimatorParameters: OptimizerSupport(
            "SGD",
            _rules(ours.FrequencyEstimatorParameters, common),
            lost="nothing counts steps: SGD of rate 0 leaves the table as it is",
        ),
    }


def _symmetric(parameters: Any) -> bool:
    low, high = parameters.clip_gradient_min, parameters.clip_gradient_max
    return low is high is None or (low is not None and high is not None and low == -high < 0)


_KERAS = {
    "learning_rate": ArgumentRule("learning_rate"),
    "use_gradient_accumulation": _SUMMED,
    **_only("weights aren't clipped", clip_weight_min=None, clip_weight_max=None),
    "weight_decay_factor": _no_decay("would shrink all rows, looked up or not: no decay"),
    "multiply_weight_decay_factor_by_learning_rate": _UNUSED,
    **dict.fromkeys(
        ("clip_gradient_min", "clip_gradient_max"),
        ArgumentRule(
            "clipvalue",
            condition=Condition("None, or -min = max", _symmetric),
            consequence="limits that aren't -c and c: gradients aren't clipped",
        ),
    ),
}
_KERAS_ADAM = {
    **_KERAS,
    "learning_rate": ArgumentRule("learning_rate", note="a schedule that undoes bias correction"),
    "beta1": ArgumentRule("beta_1", note="rounded to float32"),
    "beta2": ArgumentRule("beta_2", note="rounded to float32"),
    **_EPSILON,
    **_only("rows not looked up move as well", lazy_adam=False),
    **_only(
        "epsilon stands outside of the root: differs where √v is near it", sum_inside_sqrt=False
    ),
}
# Without momentum and with exponent 2 it equals Adagrad with an epsilon.
_KERAS_ADAGRAD_MOMENTUM = {
    **_KERAS,
    **_NO_MOMENTUM,
    "use_nesterov": _UNUSED,
    **_only("the root is the square root", exponent=2),
    **_only("the accumulator doesn't decay", beta2=1),
    **_EPSILON,
}
_NO_ZERO = "turns rows that no step looks up into NaN"
_KERAS_FTRL = {
    **_KERAS,
    **_same("learning_rate_power", "beta"),
    "initial_accumulator_value": _positive("initial_accumulator_value", _NO_ZERO),
    **_same("l1_regularization_strength", "l2_regularization_strength"),
    **_only("the linear slot holds z, not z·lr", multiply_linear_by_learning_rate=False),
    "allow_zero_accumulator": _UNUSED,
}


def _other_rows(consequence: str, unless: Condition | None = None) -> Any:
    """Returns the difference of an optimizer that also moves rows that no step looks up."""
    never = Condition("", lambda parameters: False)
    return (("rows not looked up", unless or never, consequence),)


def _keras() -> dict[type, OptimizerSupport]:
    """Returns the support of Keras 3's optimizers, most of which update all rows of a table.

    Gradients of repeated ids are summed first, as in an embedding core, unlike in Keras.
    """
    without_momentum = Condition(
        "with a momentum of 0", lambda parameters: parameters.momentum == 0
    )
    return {
        ours.StochasticGradientDescentParameters: OptimizerSupport("SGD", _linear(_KERAS)),
        ours.AdagradParameters: OptimizerSupport("Adagrad", _KERAS | _ADAGRAD, {"epsilon": 0.0}),
        ours.ProximalAdagradParameters: OptimizerSupport(
            "Adagrad", _KERAS | _ADAGRAD | _NO_PROXIMAL_STEP, {"epsilon": 0.0}
        ),
        ours.AdagradMomentumParameters: OptimizerSupport(
            "Adagrad", _KERAS_ADAGRAD_MOMENTUM, {"initial_accumulator_value": 0.0}
        ),
        ours.AdamParameters: OptimizerSupport("Adam", _KERAS_ADAM),
        ours.FtrlParameters: OptimizerSupport(
            "Ftrl",
            _KERAS_FTRL,
            other_differences=_other_rows(
                "become what their linear slot says, which is 0 at first"
            ),
        ),
        ours.MomentumParameters: OptimizerSupport(
            "SGD",
            _KERAS | _renamed(momentum="momentum", use_nesterov="nesterov"),
            other_differences=_other_rows("go on moving by their momentum", without_momentum),
        ),
        ours.RMSPropParameters: OptimizerSupport(
            "RMSprop",
            _KERAS | _same("rho", "momentum") | {"epsilon": _positive("epsilon", _NO_ZERO)},
            other_differences=_other_rows("forget: their ms decays in every step"),
        ),
        **_without_counterpart(_KERAS),
    }


def _keras_core() -> dict[type, OptimizerSupport]:
    """Returns the support of our optimizer, which runs the host core's update rules."""
    table = {}
    for kind in _proto():
        supported = _rules(kind)
        if "use_gradient_accumulation" in supported:
            sgd = kind is ours.StochasticGradientDescentParameters
            supported["use_gradient_accumulation"] = _SUMMED_SGD if sgd else _SUMMED
        table[kind] = OptimizerSupport("EmbeddingCoreOptimizer", supported)
    return table


@functools.cache
def _table() -> dict[str, dict[type, OptimizerSupport]]:
    return {
        "config_proto": _proto(),
        "tpu_embedding": _mid_level(v2=False),
        "tpu_embedding_v2": _mid_level(v2=True),
        "keras": _keras(),
        "keras_core": _keras_core(),
    }
