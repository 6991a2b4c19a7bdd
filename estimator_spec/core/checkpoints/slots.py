# SPDX-License-Identifier: Apache-2.0
"""Recognizes optimizers by the names of slot variables.

The embedding core's optimizers and TF1's name the same slots of a table, alike for some optimizers
and differently for others:

    optimizer         embedding core ('tpu')         tf.compat.v1.train ('cpu')
    Adagrad           /Adagrad                       /Adagrad
    Adam              /Adam/m, /Adam/v               /Adam, /Adam_1; beta1_power, beta2_power
    Ftrl              /Ftrl, /Ftrl_1                 /Ftrl, /Ftrl_1
    Momentum          /Momentum                      /Momentum
    RMSProp           /RMSProp/ms, /RMSProp/mom      /RMSProp, /RMSProp_1
    ProximalAdagrad   /ProximalAdagrad               /ProximalAdagrad

Only the embedding core has AdagradMomentum, ProximalYogi and FrequencyEstimator. The left column
comes from `estimator_spec.core.embedding.optimizers`. TF1's slots of a variable made by a
partitioner have its partition before these names, as in `/t_0/Adagrad`. Keras 2's optimizers name
theirs `training/<optimizer>/<variable>/accumulator`.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping

from estimator_spec.core.embedding import optimizers
from estimator_spec.core.embedding.optimizer_base import OptimizationParameters

TPU, CPU, KERAS = "tpu", "cpu", "keras"

BETA_POWERS = ("beta1_power", "beta2_power")

# The embedding core's optimizers, for their slots' names and initial values only.
DEFAULTS: dict[str, OptimizationParameters] = {
    "Adagrad": optimizers.AdagradParameters(0.1),
    "AdagradMomentum": optimizers.AdagradMomentumParameters(0.1, 0.9),
    "ProximalAdagrad": optimizers.ProximalAdagradParameters(0.1),
    "Adam": optimizers.AdamParameters(0.1),
    "Ftrl": optimizers.FtrlParameters(0.1),
    "ProximalYogi": optimizers.ProximalYogiParameters(0.1),
    "Momentum": optimizers.MomentumParameters(0.1, 0.9),
    "RMSProp": optimizers.RMSPropParameters(0.1, 0.9, 0.0, 1e-10),
    "FrequencyEstimator": optimizers.FrequencyEstimatorParameters(0.1, 0.1, 0.1, 0.1),
}


@dataclasses.dataclass(frozen=True)
class SlotNaming:
    """The names of an optimizer's slot variables in one system.

    Attributes:
        optimizer: name of the optimizer, such as 'Adam'.
        system: 'tpu', 'cpu', 'tpu and cpu' where both agree, or 'keras'.
        suffixes: suffixes to the table's name, by slot.
    """

    optimizer: str
    system: str
    suffixes: Mapping[str, str]


_ON_TPU = {
    name: {slot.name: slot.suffix for slot in parameters.SLOTS}
    for name, parameters in DEFAULTS.items()
}
# TF1's optimizers name slots after themselves, from the second one on with a number.
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
_OF_KERAS = {
    "Adagrad": {"accumulator": "/accumulator"},
    "Adam": {"m": "/m", "v": "/v"},
    "Ftrl": {"accumulator": "/accumulator", "linear": "/linear"},
    "Momentum": {"momenta": "/momentum"},
    "RMSProp": {"ms": "/rms"},
    "RMSProp with momentum": {"ms": "/rms", "mom": "/momentum"},
}


def _namings() -> tuple[SlotNaming, ...]:
    found = []
    for optimizer, suffixes in _ON_TPU.items():
        both = _ON_CPU.get(optimizer) == suffixes
        found.append(SlotNaming(optimizer, f"{TPU} and {CPU}" if both else TPU, suffixes))
    for optimizer, suffixes in {**_ON_CPU, **_OF_NO_CORE}.items():
        if _ON_TPU.get(optimizer) != suffixes:
            found.append(SlotNaming(optimizer, CPU, suffixes))
    found += [SlotNaming(optimizer, KERAS, suffixes) for optimizer, suffixes in _OF_KERAS.items()]
    return tuple(found)


NAMINGS = _namings()


def _suffixes(*systems: str) -> tuple[str, ...]:
    known = [naming.suffixes.values() for naming in NAMINGS if naming.system in systems]
    return tuple(sorted({suffix for suffixes in known for suffix in suffixes}, key=len))[::-1]


SUFFIXES = _suffixes(TPU, CPU, f"{TPU} and {CPU}")
_KERAS_SUFFIXES = _suffixes(KERAS)

PARTITION = re.compile(r"/(?:t|part)_\d+(?=/)")
"""In the name of a slot, the partition of a variable that TF1's partitioner made."""
# The only one of a variable that is in one piece.
_ONE_PARTITION = re.compile("/(?:t|part)_0(?=/)")


def find_naming(optimizer: str, system: str) -> SlotNaming | None:
    """Returns the slot names of an optimizer in a system; None if it lacks that optimizer.

    >>> find_naming("Adam", "cpu").suffixes["v"], find_naming("ProximalYogi", "cpu")
    ('/Adam_1', None)
    """
    for found in NAMINGS:
        if found.optimizer == optimizer and system in found.system:
            return found
    return None


def recognize_optimizers(suffixes: Iterable[str]) -> tuple[list[SlotNaming], set[str], set[str]]:
    """Returns the optimizers that slots belong to, by the slots' suffixes.

    >>> found, missing, unknown = recognize_optimizers(["/Adam/m", "/mine"])
    >>> found[0].optimizer, found[0].system, missing, unknown
    ('Adam', 'tpu', {'/Adam/v'}, {'/mine'})

    Args:
        suffixes: suffixes of the names of a table's slots.

    Returns:
        The namings, the suffixes that are missing, and those that belong to none of them.
    """
    left = set(suffixes)
    found, missing = [], set()

    # Most suffixes first; among equals the fewest missing ones.
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
    """Returns the slot variables of a variable.

    They are named after it and have its shape. An optimizer created in a variable scope puts that
    scope in front, and so does Keras.

    >>> find_slots("word", ["word", "tag", "word/Adam/m", "training/word/Adam/v"])
    {'word/Adam/m': '/Adam/m', 'training/word/Adam/v': '/Adam/v'}
    >>> find_slots("word", ["word/t_0/Adagrad", "training/Adagrad/word/accumulator"])
    {'word/t_0/Adagrad': '/Adagrad', 'training/Adagrad/word/accumulator': '/accumulator'}

    Args:
        name: name of the variable.
        same_shape: names of the variables that have its shape.

    Returns:
        Suffixes, such as '/Adagrad', by full name.
    """
    found = {}
    for other in same_shape:
        if other.startswith(name + "/"):
            found[other] = _ONE_PARTITION.sub("", other[len(name) :], count=1)
            continue
        of_keras = other.startswith("training/")
        for suffix in SUFFIXES + (_KERAS_SUFFIXES if of_keras else ()):
            if other.endswith("/" + name + suffix):
                found[other] = suffix
                break
    return found


def base_variable(name: str) -> str | None:
    """Returns the variable that a slot's name refers to; None if it isn't a slot's name.

    >>> base_variable("word/embedding_weights/Adam/m"), base_variable("word/embedding_weights")
    ('word/embedding_weights', None)
    """
    for suffix in SUFFIXES:
        if name.endswith(suffix) and len(name) > len(suffix):
            return name[: -len(suffix)]
    return None
