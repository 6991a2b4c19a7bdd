# SPDX-License-Identifier: Apache-2.0
"""Rule of the report: Adam's epsilon and bias correction, which differ between its versions."""

from __future__ import annotations

from collections.abc import Iterator

from estimator_spec.migrate.program import Program
from estimator_spec.migrate.rule import LEAVING, Rule, Target, calls_of_ours

_CORE = (
    "The embedding core's Adam has no bias correction: pass learning_rate·√(1-β₂ᵗ)/(1-β₁ᵗ) as a "
    "dynamic rate to have it"
)
_REASONS = {
    Target.SHIM: f"{_CORE}. On a CPU the model_fn's optimizer trains the tables instead.",
    Target.MID_LEVEL: f"{_CORE}; TPUEmbedding's Adam is the same.",
    Target.KERAS_RS: (
        f"{_CORE}. Keras' Adam has it, and epsilon 1e-7 in place of 1e-8: "
        "conversion.optimizer undoes the correction and passes epsilon."
    ),
}
_MODEL = (
    "tf.compat.v1.train.AdamOptimizer has epsilon 1e-8 inside of its bias correction; Keras' Adam "
    "has 1e-7."
)


def _places(program: Program, target: Target) -> Iterator[tuple[int, str]]:
    for call in calls_of_ours(program, "AdamParameters"):
        yield call.start, _REASONS[target]
    if target in LEAVING:
        for call, _ in program.calls_of("AdamOptimizer"):
            if call.argument(3, "epsilon") is None:
                yield call.start, _MODEL


RULE = Rule(
    "adam-epsilon",
    "report: epsilon and bias correction of Adam",
    "moving-on",
    places=_places,
)
