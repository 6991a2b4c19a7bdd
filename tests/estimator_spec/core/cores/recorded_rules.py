# SPDX-License-Identifier: Apache-2.0
"""Steps of Google's SparseCore update rules, and how far a result is from them.

`tests/data/tpu_rules/README.md` says how they were recorded.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import estimator_spec as es

DATA = Path(__file__).resolve().parents[3] / "data" / "tpu_rules"
ARRAYS = np.load(DATA / "rules.npz")
SETS = json.loads((DATA / "rules.json").read_text())
INPUTS = dict(
    zip(["w", "positive_slot", "signed_slot", "g1", "g2", "g3"], ARRAYS["inputs"], strict=True)
)
# The library's names of slots, and ours.
SLOTS = {
    "adagrad": {"accumulator": "accumulator"},
    "adagrad_momentum": {"accumulator": "accumulator", "momentum": "momenta"},
    "adam": {"momentum": "m", "velocity": "v"},
    "ftrl": {"accumulator": "accumulator", "linear": "linear"},
    "sgd": {},
}
# Greatest difference in units of the last place: sums of one product more or less, and powers.
ULPS = 4
ULPS_OF_POWERS = 8


class Step(NamedTuple):
    """One step of some rows.

    Attributes:
        parameters: the optimizer.
        rate: the learning rate.
        before: rows of the table, as "w", and of its slots by our names, float32 [N, 4].
        gradient: their gradient.
        after: the recorded result.
    """

    parameters: Any
    rate: float
    before: dict[str, np.ndarray]
    gradient: np.ndarray
    after: dict[str, np.ndarray]


def fixed(name: str) -> list[Step]:
    """Returns the three steps of a set with fixed hyperparameters."""
    own = SETS[name]
    names = ["w", *(SLOTS[own["rule"]][slot] for slot in own["slots"])]
    state = [INPUTS["w"], *(INPUTS[given] for given in own["slot_inputs"])]
    steps: list[Step] = []
    for number, after in enumerate(ARRAYS[name]):
        hyper = own["hyperparameters"][min(number, len(own["hyperparameters"]) - 1)]
        parameters = make(own["rule"], {**hyper, **own["static"]})
        before, result = (dict(zip(names, each, strict=True)) for each in (state, after))
        gradient = INPUTS[f"g{number + 1}"]
        steps.append(Step(parameters, parameters.learning_rate, before, gradient, result))
        state = after
    return steps


def random(name: str, arrays: Any = ARRAYS) -> list[Step]:
    """Returns three steps of each row of a set with random hyperparameters.

    Args:
        name: name of the set.
        arrays: the recorded arrays, or those of `sparse_core_rules.py`.
    """
    own = SETS[name]
    kind = name.split("/")[1]
    rule = "ftrl" if kind.startswith("ftrl") else kind.removesuffix("_plain")
    more = {"use_nesterov": True} if kind.endswith("_nesterov") else {}
    rule = rule.removesuffix("_nesterov")
    more |= {"multiply_linear_by_learning_rate": True} if kind == "ftrl_multiply" else {}
    names = [SLOTS[rule].get(array, array) for array in own["arrays"]]
    hyper, gradients, states = (arrays[f"{name}/{x}"] for x in ("hyper", "gradients", "states"))
    steps = []
    for row in range(hyper.shape[1]):
        values = dict(zip(own["hyper"], hyper[:, row].tolist(), strict=True))
        parameters = make(rule, {**values, **more})
        for number in range(3):
            before, after = (
                dict(zip(names, states[place][:, row : row + 1], strict=True))
                for place in (number, number + 1)
            )
            gradient = gradients[number, row : row + 1]
            steps.append(Step(parameters, parameters.learning_rate, before, gradient, after))
    return steps


def make(rule: str, values: dict[str, Any]) -> Any:
    """Returns our parameters of a rule's hyperparameters."""
    ours = {
        "min_value": "clip_weight_min",
        "max_value": "clip_weight_max",
        "multiply_linear_by_learning_rate": "multiply_linear_by_learning_rate",
        "alpha_t": "learning_rate",
        "beta_1": "beta1",
        "beta_2": "beta2",
        "epsilon_hat": "epsilon",
    }
    kind = {
        "sgd": es.StochasticGradientDescentParameters,
        "adagrad": es.AdagradParameters,
        "adagrad_momentum": es.AdagradMomentumParameters,
        "adam": es.AdamParameters,
        "ftrl": es.FtrlParameters,
    }[rule]
    more = {"sum_inside_sqrt": False} if rule == "adam" else {}
    return kind(**{ours.get(name, name): value for name, value in values.items()}, **more)


def ulps(step: Step, found: dict[str, np.ndarray]) -> dict[str, float]:
    """Returns how far a result is from the recorded one at most, in units of the last place."""
    assert found.keys() == step.after.keys()
    usable = np.isfinite(list(step.before.values())).all(axis=0)
    assert all(np.isfinite(value[usable]).all() for value in found.values())
    return {name: _ulps(step, name, value) for name, value in found.items()}


def limit(parameters: Any) -> int:
    """Returns the tolerance of an optimizer, in units of the last place."""
    powers = (es.AdagradMomentumParameters, es.FtrlParameters)
    return ULPS_OF_POWERS if isinstance(parameters, powers) else ULPS


def _ulps(step: Step, name: str, value: np.ndarray) -> float:
    recorded = step.after[name]
    usable = np.isfinite(recorded)
    scale = np.maximum(np.abs(recorded), _operands(step, name))[usable]
    difference = np.abs(value[usable].astype(np.float64) - recorded[usable])
    return float((difference / np.spacing(scale.astype(np.float32))).max(initial=0))


def _operands(step: Step, name: str) -> Any:
    """Returns the largest operand of an array's last sum."""
    p, g, rate = step.parameters, np.abs(step.gradient), step.rate
    before, after = step.before, {key: np.abs(value) for key, value in step.after.items()}
    w = np.abs(before["w"])
    with np.errstate(all="ignore"):
        if isinstance(p, es.AdamParameters):
            m = np.maximum(np.maximum(after["m"], np.abs(before["m"])), g)
            moved = rate * m / (np.sqrt(after["v"]) + p.epsilon)
            return {"w": np.maximum(w, moved), "m": m, "v": np.maximum(before["v"], g * g)}[name]
        if isinstance(p, es.AdagradMomentumParameters):
            s = (after["accumulator"] + p.epsilon) ** (-1 / p.exponent) * g
            m = np.maximum(s, np.maximum(after["momenta"], np.abs(before["momenta"])))
            return {"w": np.maximum(w, rate * m), "momenta": m, "accumulator": 0}[name]
        if isinstance(p, es.FtrlParameters):
            power = after["accumulator"] ** -p.learning_rate_power
            unit = rate if p.multiply_linear_by_learning_rate else 1
            z = np.maximum(
                np.maximum(after["linear"], np.abs(before["linear"])),
                unit * np.maximum(g, power / rate * w),
            )
            divisor = (power + p.beta) / rate + 2 * p.l2_regularization_strength
            return {"w": z / unit / divisor, "linear": z, "accumulator": 0}[name]
    return w if name == "w" else 0
