# SPDX-License-Identifier: Apache-2.0
"""Rule of the report: negative ids, and ids outside of the vocabulary."""

from __future__ import annotations

from collections.abc import Iterator

from estimator_spec.migrate.program import NO_LITERAL, Program
from estimator_spec.migrate.rule import LEAVING, Rule, Target, calls_of_ours

_SAFE = "use_safe_embedding_lookup drops negative ids"
_UNSAFE = "Without use_safe_embedding_lookup a negative id is an error"
_REASONS = {
    Target.SHIM: "; an id above the vocabulary is an error that names the column.",
    Target.MID_LEVEL: "; TPUEmbedding doesn't check ids on a TPU.",
    Target.KERAS_RS: "; keras_rs reads the last row for -1. convert.features_for refuses them.",
}


def _places(program: Program, target: Target) -> Iterator[tuple[int, str]]:
    for call in calls_of_ours(program, "embedding_column", "shared_embedding_columns"):
        argument = call.argument(99, "use_safe_embedding_lookup")
        if argument is not None and argument.literal in (False, NO_LITERAL):
            yield argument.start, _UNSAFE + _REASONS[target]
        elif target in LEAVING:
            yield call.start, f"By default {_SAFE}{_REASONS[target]}"


RULE = Rule(
    "invalid-ids",
    "report: negative ids and ids outside of the vocabulary",
    "what-changes",
    places=_places,
)
