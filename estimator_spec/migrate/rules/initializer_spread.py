# SPDX-License-Identifier: Apache-2.0
"""Rule of the report: initial values of tables without an initializer or a seed."""

from __future__ import annotations

from collections.abc import Iterator

from estimator_spec.migrate.program import Program
from estimator_spec.migrate.rule import Rule, Target, calls_of_ours

# Position of `initializer` in the signatures.
_POSITIONS = {"embedding_column": 3, "shared_embedding_columns": 3, "TableConfig": 2}
_DEFAULT = "Without an initializer the table starts from a truncated normal of spread 1/√dimension"
_REASONS = {
    Target.SHIM: (
        f"{_DEFAULT}, whose values differ between TensorFlow versions. Give an initializer a seed "
        "to compare runs, or start from a checkpoint."
    ),
    Target.MID_LEVEL: f"{_DEFAULT}, as TableConfig does; its values differ without a seed.",
    Target.KERAS_RS: (
        f"{_DEFAULT}; keras_rs' own default is VarianceScaling(mode='fan_out'). Pass the "
        "initializer, as to_distributed_embedding does."
    ),
}


def _places(program: Program, target: Target) -> Iterator[tuple[int, str]]:
    for call in calls_of_ours(program, *_POSITIONS):
        initializer = call.argument(_POSITIONS[call.method], "initializer")
        if call.unpacks() or (initializer is not None and initializer.literal is not None):
            continue
        yield call.start, _REASONS[target]


RULE = Rule(
    "initializer-spread",
    "report: tables without an initializer",
    "what-changes",
    places=_places,
)
