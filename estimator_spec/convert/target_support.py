# SPDX-License-Identifier: Apache-2.0
"""What becomes of each optimizer, and of each of its arguments, in each target: one table.

The conversions, their reports and `docs/optimizers.md` all read it. A fact names the target's
argument, says for which values the meaning stays, and whether the target has another default.

| target             | what it is                                             |
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

# What a table's `learning_rate_fn`, a function of the global step, becomes in each target.
RATE_FUNCTIONS = {
    "config_proto": "a tag: the program sends the rate with each step",
    "tpu_embedding": "a function without arguments, which reads `conversion.step`",
    "tpu_embedding_v2": "a function without arguments, which reads `conversion.step`",
    "keras": "a schedule of the optimizer's iterations",
    "keras_core": "a schedule of the optimizer's iterations",
}


@dataclasses.dataclass(frozen=True)
class Only:
    """The values of an argument whose meaning a target keeps.

    Attributes:
        text: the values in words, for a person.
        holds: whether the optimizer's parameters are among them.
    """

    text: str
    holds: Callable[[Any], bool]


@dataclasses.dataclass(frozen=True)
class Fact:
    """What becomes of one argument of an optimizer in one target.

    Attributes:
        becomes: the target's argument; '' if it needs none.
        default: the target's own default, if it isn't ours; else None.
        only: the values that keep their meaning; None: all.
        otherwise: what happens with other values.
    """

    becomes: str = ""
    default: float | None = None
    only: Only | None = None
    otherwise: str = ""


@dataclasses.dataclass(frozen=True)
class TargetOptimizer:
    """What becomes of one optimizer in one target.

    Attributes:
        name: class that takes its place.
        facts: by our argument.
        fixed: arguments of the target that make it agree, by name.
        lost: why it has no counterpart; '' if it has.
        besides: further differences: name, when the optimizers agree all the same, what happens.
    """

    name: str
    facts: Mapping[str, Fact]
    fixed: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    lost: str = ""
    besides: tuple[tuple[str, Only, str], ...] = ()


def becomes(target: str, parameters: OptimizationParameters | type) -> TargetOptimizer:
    """What becomes of an optimizer.

    >>> becomes('tpu_embedding', ours.AdamParameters).facts['beta1'].becomes
    'beta_1'

    Args:
        target: one of `TARGETS`.
        parameters: the optimizer, or its class.
    """
    kind = parameters if isinstance(parameters, type) else type(parameters)
    return _table()[target][kind]


def optimizers() -> list[type]:
    """The ten classes of parameters."""
    return list(_table()["config_proto"])


def arguments(kind: type) -> list[str]:
    """The arguments of an optimizer, in their order."""
    return [field.name for field in dataclasses.fields(kind) if field.init]


def our_default(kind: type, argument: str) -> Any:
    """The default of one of our arguments; `dataclasses.MISSING` if it has none."""
    return {field.name: field.default for field in dataclasses.fields(kind)}[argument]


def _is(argument: str, *values: Any) -> Only:
    text = " or ".join(map(str, values))
    return Only(text, lambda parameters: getattr(parameters, argument) in values)


def _above(argument: str, least: float) -> Only:
    return Only(f"> {least:g}", lambda parameters: getattr(parameters, argument) > least)


def _same(*names: str) -> dict[str, Fact]:
    return {name: Fact(name) for name in names}


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
    name: Fact(only=_is(name, 0), otherwise="there is no proximal step: rows aren't pulled to 0")
    for name in ("l1_regularization_strength", "l2_regularization_strength")
}


def _proto() -> dict[type, TargetOptimizer]:
    """Every argument has a field, or begins a slot variable, which isn't in the message."""
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
        kind: TargetOptimizer(name, {argument: Fact() for argument in arguments(kind)})
        for kind, name in names.items()
    }


def _mid_level(common: dict[str, Fact], v2: bool) -> dict[type, TargetOptimizer]:
    """The optimizers under `tf.tpu.experimental.embedding`, as one of its classes uses them."""
    accumulator = {
        "initial_accumulator_value": Fact(
            "initial_accumulator_value",
            only=_above("initial_accumulator_value", 0),
            otherwise="must be positive: begins at 1e-30",
        )
    }
    adagrad = {"initial_accumulator": Fact("initial_accumulator_value")}
    adam = {
        "beta1": Fact("beta_1"),
        "beta2": Fact("beta_2"),
        "epsilon": Fact("epsilon", default=1e-7),
        "lazy_adam": Fact("lazy_adam"),
        "sum_inside_sqrt": Fact("sum_inside_sqrt"),
    }
    ftrl = {
        **_same("learning_rate_power", "l1_regularization_strength", "l2_regularization_strength"),
        **_same("beta", "multiply_linear_by_learning_rate", "allow_zero_accumulator"),
        **accumulator,
    }
    if v2:
        adam["lazy_adam"] = Fact(
            only=_is("lazy_adam", True),
            otherwise="is ignored: only rows that a step looks up move",
        )
        ftrl["allow_zero_accumulator"] = Fact(
            only=_is("allow_zero_accumulator", False),
            otherwise="is ignored: an accumulator of 0 may give NaN",
        )
    momentum = Fact(only=_is("momentum", 0), otherwise="there is no momentum")
    return {
        ours.StochasticGradientDescentParameters: TargetOptimizer(
            "SGD", _linear(common) if v2 else common
        ),
        ours.AdagradParameters: TargetOptimizer("Adagrad", {**common, **adagrad}),
        ours.AdagradMomentumParameters: TargetOptimizer(
            "AdagradMomentum",
            {**common, **_same("momentum", "use_nesterov", "exponent", "beta2", "epsilon")},
        ),
        ours.AdamParameters: TargetOptimizer("Adam", {**common, **adam}),
        ours.FtrlParameters: TargetOptimizer("FTRL", {**common, **ftrl}),
        ours.ProximalAdagradParameters: TargetOptimizer(
            "Adagrad", {**common, **adagrad, **_NO_PROXIMAL_STEP}
        ),
        ours.MomentumParameters: TargetOptimizer(
            "SGD", {**common, "momentum": momentum, "use_nesterov": Fact()}
        ),
        # With beta_1 = 0, m is the gradient itself: Adam is RMSProp without momentum.
        ours.RMSPropParameters: TargetOptimizer(
            "Adam",
            {
                **common,
                "rho": Fact("beta_2", only=_in_0_1("rho"), otherwise="must be in [0, 1)"),
                "momentum": momentum,
                "epsilon": Fact(
                    "epsilon (its square root)", only=_above("epsilon", 0), otherwise="must be > 0"
                ),
            },
            fixed={"beta_1": 0.0, "lazy_adam": True, "sum_inside_sqrt": True},
        ),
        **_without_counterpart(),
    }


def _linear(common: dict[str, Fact]) -> dict[str, Fact]:
    """The facts of SGD: one step by the sum is all the steps by its parts."""
    return {**common, "use_gradient_accumulation": Fact()}


def _in_0_1(argument: str) -> Only:
    return Only("in [0, 1)", lambda parameters: 0 <= getattr(parameters, argument) < 1)


def _without_counterpart() -> dict[type, TargetOptimizer]:
    yogi = arguments(ours.ProximalYogiParameters)
    estimator = arguments(ours.FrequencyEstimatorParameters)
    return {
        ours.ProximalYogiParameters: TargetOptimizer(
            "Adam",
            dict.fromkeys(yogi, Fact()),
            lost="there is no Yogi: Adam with its rate, betas and epsilon takes its place",
        ),
        ours.FrequencyEstimatorParameters: TargetOptimizer(
            "SGD",
            dict.fromkeys(estimator, Fact()),
            lost="nothing counts steps: SGD of rate 0 leaves the table as it is",
        ),
    }


def _tpu_embedding() -> dict[type, TargetOptimizer]:
    clip = {name: Fact("clipvalue") for name in ("clip_gradient_min", "clip_gradient_max")}
    return _mid_level({**_same(*_COMMON), **clip}, v2=False)


def _tpu_embedding_v2() -> dict[type, TargetOptimizer]:
    common = {
        "learning_rate": Fact("learning_rate"),
        "use_gradient_accumulation": Fact(
            only=_is("use_gradient_accumulation", True),
            otherwise="is ignored: the gradients of a row are summed",
        ),
        **{
            name: Fact(only=_is(name, None), otherwise="is ignored: nothing is clipped")
            for name in (
                *("clip_weight_min", "clip_weight_max"),
                *("clip_gradient_min", "clip_gradient_max"),
            )
        },
        "weight_decay_factor": Fact(only=_NO_DECAY, otherwise="isn't implemented: no decay"),
        "multiply_weight_decay_factor_by_learning_rate": Fact(),
    }
    return _mid_level(common, v2=True)


def _keras_common() -> dict[str, Fact]:
    """What all optimizers of Keras share."""
    return {
        "learning_rate": Fact("learning_rate"),
        "use_gradient_accumulation": Fact(
            only=_is("use_gradient_accumulation", True),
            otherwise="the gradients of a row are summed",
        ),
        **{
            name: Fact(only=_is(name, None), otherwise="weights aren't clipped")
            for name in ("clip_weight_min", "clip_weight_max")
        },
        "weight_decay_factor": Fact(
            only=_NO_DECAY, otherwise="would shrink all rows, looked up or not: no decay"
        ),
        "multiply_weight_decay_factor_by_learning_rate": Fact(),
        **{
            name: Fact(
                "clipvalue",
                only=Only("None, or -min = max", _symmetric),
                otherwise="limits that aren't -c and c: gradients aren't clipped",
            )
            for name in ("clip_gradient_min", "clip_gradient_max")
        },
    }


def _keras() -> dict[type, TargetOptimizer]:
    """The optimizers of Keras 3, most of which update all rows of a table.

    With repeated ids their gradients are summed first, as a core does: Keras alone doesn't.
    """
    common = _keras_common()
    adagrad = {"initial_accumulator": Fact("initial_accumulator_value")}
    rows_move = "rows not looked up"
    never = Only("", lambda parameters: False)
    without_momentum = Only("with a momentum of 0", lambda parameters: parameters.momentum == 0)
    return {
        ours.StochasticGradientDescentParameters: TargetOptimizer("SGD", _linear(common)),
        ours.AdagradParameters: TargetOptimizer("Adagrad", {**common, **adagrad}, {"epsilon": 0.0}),
        ours.ProximalAdagradParameters: TargetOptimizer(
            "Adagrad", {**common, **adagrad, **_NO_PROXIMAL_STEP}, {"epsilon": 0.0}
        ),
        # Without momentum and with an exponent of 2 it is Adagrad with an epsilon.
        ours.AdagradMomentumParameters: TargetOptimizer(
            "Adagrad",
            {
                **common,
                "momentum": Fact(only=_is("momentum", 0), otherwise="there is no momentum"),
                "use_nesterov": Fact(),
                "exponent": Fact(only=_is("exponent", 2), otherwise="the root is the square root"),
                "beta2": Fact(only=_is("beta2", 1), otherwise="the accumulator doesn't decay"),
                "epsilon": Fact("epsilon", default=1e-7),
            },
            {"initial_accumulator_value": 0.0},
        ),
        ours.AdamParameters: TargetOptimizer(
            "Adam",
            {
                **common,
                "learning_rate": Fact("learning_rate, as a schedule that undoes bias correction"),
                "beta1": Fact("beta_1"),
                "beta2": Fact("beta_2"),
                "epsilon": Fact("epsilon", default=1e-7),
                "lazy_adam": Fact(
                    only=_is("lazy_adam", False), otherwise="rows not looked up move as well"
                ),
                "sum_inside_sqrt": Fact(
                    only=_is("sum_inside_sqrt", False),
                    otherwise="epsilon stands outside of the root: differs where √v is near it",
                ),
            },
        ),
        ours.FtrlParameters: TargetOptimizer(
            "Ftrl",
            {
                **common,
                **_same("learning_rate_power", "initial_accumulator_value", "beta"),
                **_same("l1_regularization_strength", "l2_regularization_strength"),
                "multiply_linear_by_learning_rate": Fact(
                    only=_is("multiply_linear_by_learning_rate", False),
                    otherwise="the linear slot holds z, not z·lr",
                ),
                "allow_zero_accumulator": Fact(),
            },
            besides=(
                (
                    rows_move,
                    never,
                    "become what their linear slot says, which is 0 at first",
                ),
            ),
        ),
        ours.MomentumParameters: TargetOptimizer(
            "SGD",
            {**common, "momentum": Fact("momentum"), "use_nesterov": Fact("nesterov")},
            besides=((rows_move, without_momentum, "go on moving by their momentum"),),
        ),
        ours.RMSPropParameters: TargetOptimizer(
            "RMSprop",
            {
                **common,
                **_same("rho", "momentum"),
                "epsilon": Fact("epsilon"),
            },
            besides=((rows_move, never, "forget: their ms decays in every step"),),
        ),
        **_without_counterpart(),
    }


def _keras_core() -> dict[type, TargetOptimizer]:
    """Every argument as it is: it is the host core's code."""
    summed = Fact(
        only=_is("use_gradient_accumulation", True), otherwise="the gradients of a row are summed"
    )
    table = {}
    for kind in _proto():
        facts = {argument: Fact() for argument in arguments(kind)}
        if "use_gradient_accumulation" in facts:
            sgd = kind is ours.StochasticGradientDescentParameters
            facts["use_gradient_accumulation"] = summed if not sgd else _SUMMED_SGD
        table[kind] = TargetOptimizer("EmbeddingCoreOptimizer", facts)
    return table


def _symmetric(parameters: Any) -> bool:
    low, high = parameters.clip_gradient_min, parameters.clip_gradient_max
    return low is high is None or (low is not None and high is not None and low == -high < 0)


_SUMMED_SGD = Fact(
    only=Only(
        "True, or without weight limits",
        lambda parameters: (
            parameters.use_gradient_accumulation
            or parameters.clip_weight_min is parameters.clip_weight_max is None
        ),
    ),
    otherwise="weights are clipped once a step",
)


@functools.cache
def _table() -> dict[str, dict[type, TargetOptimizer]]:
    return {
        "config_proto": _proto(),
        "tpu_embedding": _tpu_embedding(),
        "tpu_embedding_v2": _tpu_embedding_v2(),
        "keras": _keras(),
        "keras_core": _keras_core(),
    }
