# SPDX-License-Identifier: Apache-2.0
"""What becomes of each argument of each optimizer, column, head and canned estimator in Keras 3.

`MOVES` has a value that isn't the default, and changes numbers; `REFUSED` one that is refused by
the argument's name; `NO_EFFECT` the reason why the Keras model needs nothing of it.
"""

from __future__ import annotations

import dataclasses
import re
from typing import Any, NamedTuple

import tensorflow as tf

from estimator_spec.core.common.legacy_keras import keras_2

tf1 = tf.compat.v1

MOVES, REFUSED, NO_EFFECT = "moves", "refused", "no effect because"


class Verdict(NamedTuple):
    """What becomes of an argument.

    Attributes:
        kind: `MOVES`, `REFUSED` or `NO_EFFECT`.
        value: another one than the default, or the reason.
        others: arguments without which it changes nothing.
    """

    kind: str
    value: Any
    others: dict[str, Any]


def moves(value: Any, **others: Any) -> Verdict:
    """Returns the verdict of an argument that moves."""
    return Verdict(MOVES, value, others)


def refused(value: Any, **others: Any) -> Verdict:
    """Returns the verdict of an argument that is refused."""
    return Verdict(REFUSED, value, others)


def no_effect(reason: str) -> Verdict:
    """Returns the verdict of an argument that changes nothing of a trained model."""
    return Verdict(NO_EFFECT, reason, {})


@dataclasses.dataclass(frozen=True)
class Optimizer:
    """An optimizer: its arguments, and those that are needed to make one; None: it is refused."""

    arguments: dict[str, Verdict] | None
    needed: dict[str, Any] = dataclasses.field(default_factory=dict)


LOCKING = no_effect("it is how updates of several threads exclude each other")
NAME = no_effect("it names variables: slots are found by it")
RATE = {"learning_rate": 0.1}


def decaying() -> Any:
    """Returns a schedule of learning rates."""
    return keras_2().optimizers.schedules.ExponentialDecay(0.5, 2, 0.5, staircase=True)


FTRL = {
    "learning_rate": moves(0.5),
    "learning_rate_power": moves(-0.25),
    "initial_accumulator_value": moves(0.5),
    "l1_regularization_strength": moves(0.1),
    "l2_regularization_strength": moves(0.1),
    "l2_shrinkage_regularization_strength": moves(0.1),
    "beta": moves(0.5),
    "name": NAME,
}


def with_clipping(**arguments: Verdict) -> dict[str, Verdict]:
    """Returns the arguments of an optimizer of Keras 2, with those that all of them have."""
    return {
        **arguments,
        "learning_rate": moves(decaying),
        "name": NAME,
        "lr": moves(0.5),
        "decay": moves(0.5),
        "clipvalue": moves(0.2),
        "clipnorm": moves(0.3),
        "global_clipnorm": moves(0.3),
        "gradient_aggregator": refused(lambda: lambda pairs: pairs),
        "gradient_transformers": refused(lambda: [lambda pairs: pairs]),
    }


OPTIMIZERS = {
    "AdadeltaOptimizer": Optimizer(
        {
            "learning_rate": moves(0.5),
            "rho": moves(0.5),
            "epsilon": moves(0.1),
            "use_locking": LOCKING,
            "name": NAME,
        },
        RATE,
    ),
    "AdagradDAOptimizer": Optimizer(None),
    "AdagradOptimizer": Optimizer(
        {
            "learning_rate": moves(0.5),
            "initial_accumulator_value": moves(0.5),
            "use_locking": LOCKING,
            "name": NAME,
        },
        RATE,
    ),
    "AdamOptimizer": Optimizer(
        {
            "learning_rate": moves(0.5),
            "beta1": moves(0.5),
            "beta2": moves(0.5),
            "epsilon": moves(0.1),
            "use_locking": LOCKING,
            "name": NAME,
            "use_own_namescope_for_non_slot_vars": no_effect("it names the powers of beta"),
        },
        RATE,
    ),
    "FtrlOptimizer": Optimizer(
        {**FTRL, "use_locking": LOCKING, "accum_name": NAME, "linear_name": NAME}, RATE
    ),
    "GradientDescentOptimizer": Optimizer(
        {"learning_rate": moves(0.5), "use_locking": LOCKING, "name": NAME}, RATE
    ),
    "MomentumOptimizer": Optimizer(
        {
            "learning_rate": moves(0.5),
            "momentum": moves(0.5),
            "use_locking": LOCKING,
            "name": NAME,
            "use_nesterov": moves(True),
        },
        {**RATE, "momentum": 0.9},
    ),
    "ProximalAdagradOptimizer": Optimizer(None),
    "ProximalGradientDescentOptimizer": Optimizer(None),
    "RMSPropOptimizer": Optimizer(
        {
            "learning_rate": moves(0.5),
            "decay": moves(0.5),
            "momentum": moves(0.5),
            "epsilon": moves(0.1),
            "use_locking": LOCKING,
            "centered": moves(True, momentum=0.5),
            "name": NAME,
        },
        RATE,
    ),
    "SyncReplicasOptimizer": Optimizer(None),
    "Adadelta": Optimizer(with_clipping(rho=moves(0.5), epsilon=moves(0.1)), RATE),
    "Adagrad": Optimizer(
        with_clipping(initial_accumulator_value=moves(0.5), epsilon=moves(0.1)), RATE
    ),
    "Adam": Optimizer(
        with_clipping(
            beta_1=moves(0.5),
            beta_2=moves(0.5),
            epsilon=moves(0.1),
            amsgrad=moves(True, beta_2=0.1),
        ),
        RATE,
    ),
    "Adamax": Optimizer(
        with_clipping(beta_1=moves(0.5), beta_2=moves(0.5), epsilon=moves(0.1)), RATE
    ),
    "Ftrl": Optimizer(with_clipping(**FTRL), RATE),
    "Nadam": Optimizer(None),
    "RMSprop": Optimizer(
        with_clipping(
            rho=moves(0.5),
            momentum=moves(0.5),
            epsilon=moves(0.1),
            centered=moves(True),
        ),
        RATE,
    ),
    "SGD": Optimizer(with_clipping(momentum=moves(0.5), nesterov=moves(True, momentum=0.5)), RATE),
}


def optimizer_class(name: str) -> Any:
    """Returns the class of an optimizer."""
    return getattr(tf1.train if name.endswith("Optimizer") else keras_2().optimizers.legacy, name)


def optimizer_classes() -> list[Any]:
    """Returns all classes of optimizers of both generations."""
    pairs = ((tf1.train, tf1.train.Optimizer),)
    legacy = keras_2().optimizers.legacy
    pairs = (*pairs, (legacy, legacy.Optimizer))
    return [
        kind
        for module, base in pairs
        for kind in vars(module).values()
        if isinstance(kind, type) and issubclass(kind, base) and kind is not base
    ]


def keras_2_arguments() -> set[str]:
    """Returns the arguments that every optimizer of Keras 2 has, besides its own."""
    try:
        keras_2().optimizers.legacy.SGD(no_such_argument=1)
    except TypeError as error:
        return set(re.findall(r"'(\w+)'", str(error).partition("Allowed")[2]))
    raise AssertionError("an unknown argument was taken")
