# SPDX-License-Identifier: Apache-2.0
"""Which optimizer a checkpoint's variables belong to, read off their names.

An embedding core and TF1's own optimizers keep the same things beside a table under names that
agree for some optimizers and differ for others:

    optimizer         embedding core ('tpu')         tf.compat.v1.train ('cpu')
    Adagrad           /Adagrad                       /Adagrad
    Adam              /Adam/m, /Adam/v               /Adam, /Adam_1; beta1_power, beta2_power
    Ftrl              /Ftrl, /Ftrl_1                 /Ftrl, /Ftrl_1
    Momentum          /Momentum                      /Momentum
    RMSProp           /RMSProp/ms, /RMSProp/mom      /RMSProp, /RMSProp_1
    ProximalAdagrad   /ProximalAdagrad               /ProximalAdagrad

AdagradMomentum, ProximalYogi and FrequencyEstimator are the embedding core's only. The left column
comes from `estimator_spec.embedding.optimizers`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

from estimator_spec.embedding import optimizers

TPU, CPU = "tpu", "cpu"

BETA_POWERS = ("beta1_power", "beta2_power")

_PARAMETERS = (
    optimizers.AdagradParameters,
    optimizers.AdagradMomentumParameters,
    optimizers.ProximalAdagradParameters,
    optimizers.AdamParameters,
    optimizers.FtrlParameters,
    optimizers.ProximalYogiParameters,
    optimizers.MomentumParameters,
    optimizers.RMSPropParameters,
    optimizers.FrequencyEstimatorParameters,
)


@dataclasses.dataclass(frozen=True)
class SlotNaming:
    """How one system names what one optimizer keeps beside a table.

    Attributes:
        optimizer: such as 'Adam'.
        system: 'tpu', 'cpu', or 'tpu and cpu' where both agree.
        suffixes: what follows the table's name, by slot.
    """

    optimizer: str
    system: str
    suffixes: Mapping[str, str]


def _name(parameters: Any) -> str:
    return str(parameters.__name__.removesuffix("Parameters"))


_ON_TPU = {_name(kind): {slot.name: slot.suffix for slot in kind.SLOTS} for kind in _PARAMETERS}
# TF1's optimizers name a slot after themselves, the second one with a number.
_ON_CPU = {
    "Adagrad": {"accumulator": "/Adagrad"},
    "Adam": {"m": "/Adam", "v": "/Adam_1"},
    "Ftrl": {"accumulator": "/Ftrl", "linear": "/Ftrl_1"},
    "Momentum": {"momenta": "/Momentum"},
    "RMSProp": {"ms": "/RMSProp", "mom": "/RMSProp_1"},
    "ProximalAdagrad": {"accumulator": "/ProximalAdagrad"},
}
_OF_NO_CORE = {
    "RMSProp, centered": {"ms": "/RMSProp", "mg": "/RMSProp_1", "mom": "/RMSProp_2"},
    "Adadelta": {"accumulator": "/Adadelta", "update": "/Adadelta_1"},
    "moving average": {"average": "/ExponentialMovingAverage"},
}


def _namings() -> tuple[SlotNaming, ...]:
    found = []
    for optimizer, suffixes in _ON_TPU.items():
        both = _ON_CPU.get(optimizer) == suffixes
        found.append(SlotNaming(optimizer, f"{TPU} and {CPU}" if both else TPU, suffixes))
    for optimizer, suffixes in {**_ON_CPU, **_OF_NO_CORE}.items():
        if _ON_TPU.get(optimizer) != suffixes:
            found.append(SlotNaming(optimizer, CPU, suffixes))
    return tuple(found)


NAMINGS = _namings()

SUFFIXES = tuple(sorted({s for naming in NAMINGS for s in naming.suffixes.values()}, key=len))[::-1]


def find_naming(optimizer: str, system: str) -> SlotNaming | None:
    """How a system names the slots of an optimizer; None if it doesn't have that optimizer.

    >>> find_naming("Adam", "cpu").suffixes["v"], find_naming("ProximalYogi", "cpu")
    ('/Adam_1', None)
    """
    for found in NAMINGS:
        if found.optimizer == optimizer and system in found.system:
            return found
    return None


def recognize_optimizers(suffixes: Iterable[str]) -> tuple[list[SlotNaming], set[str], set[str]]:
    """The optimizers whose slots these are.

    >>> found, missing, unknown = recognize_optimizers(["/Adam/m", "/mine"])
    >>> found[0].optimizer, found[0].system, missing, unknown
    ('Adam', 'tpu', {'/Adam/v'}, {'/mine'})

    Args:
        suffixes: what follows a table's name in the names of the variables beside it.

    Returns:
        namings, the suffixes that they lack, those that none of them has.
    """
    left = set(suffixes)
    found, missing = [], set()

    # The naming that explains most first; then the one that lacks least.
    def fit(candidate: SlotNaming) -> tuple[int, int]:
        own = set(candidate.suffixes.values())
        return len(own & left), -len(own - left)

    while left:
        best = max(NAMINGS, key=fit)
        if not fit(best)[0]:
            break
        own = set(best.suffixes.values())
        found.append(best)
        missing |= own - left
        left -= own
    return found, missing, left


def find_slots(name: str, same_shape: Iterable[str]) -> dict[str, str]:
    """The variables that an optimizer keeps beside one.

    They are named after it and have its shape. An optimizer that was made within a variable scope
    puts that in front.

    >>> find_slots("word", ["word", "tag", "word/Adam/m", "training/word/Adam/v"])
    {'word/Adam/m': '/Adam/m', 'training/word/Adam/v': '/Adam/v'}

    Args:
        name: the variable's.
        same_shape: names of the variables that have its shape.

    Returns:
        Suffixes, such as '/Adagrad', by full name.
    """
    found = {}
    for other in same_shape:
        if other.startswith(name + "/"):
            found[other] = other[len(name) :]
            continue
        for suffix in SUFFIXES:
            if other.endswith("/" + name + suffix):
                found[other] = suffix
                break
    return found


def base_variable(name: str) -> str | None:
    """The variable that a slot's name says it stands beside; None if it doesn't look like a slot.

    >>> base_variable("word/embedding_weights/Adam/m"), base_variable("word/embedding_weights")
    ('word/embedding_weights', None)
    """
    for suffix in SUFFIXES:
        if name.endswith(suffix) and len(name) > len(suffix):
            return name[: -len(suffix)]
    return None
