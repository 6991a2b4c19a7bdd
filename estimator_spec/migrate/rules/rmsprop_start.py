# SPDX-License-Identifier: Apache-2.0
"""Rule of the report: the start of RMSProp's mean square, 1 in TensorFlow 1 and 0 elsewhere."""

from __future__ import annotations

from collections.abc import Iterator

from estimator_spec.migrate.program import Program
from estimator_spec.migrate.rule import LEAVING, Rule, Target, calls_of_ours

_CORE = (
    "RMSProp's mean square starts at 0 on an embedding core, and at 1 in "
    "tf.compat.v1.train.RMSPropOptimizer, which trains the tables on a CPU."
)
_MODEL = (
    "The mean square of tf.compat.v1.train.RMSPropOptimizer starts at 1, that of Keras' RMSprop "
    "at 0: its first steps are larger."
)


def _places(program: Program, target: Target) -> Iterator[tuple[int, str]]:
    for call in calls_of_ours(program, "RMSPropParameters"):
        yield call.start, _CORE
    if target in LEAVING:
        for call, _ in program.calls_of("RMSPropOptimizer"):
            yield call.start, _MODEL


RULE = Rule(
    "rmsprop-start",
    "report: start of RMSProp's mean square",
    "cpu-and-tpu-are-two-semantics",
    places=_places,
)
