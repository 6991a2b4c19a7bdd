# SPDX-License-Identifier: Apache-2.0
"""Rule of the report: specs and estimators that no rewriting of source can convert.

The sizes of tables and batches are known when the program runs: `estimator_spec.convert` makes the
configurations then. The training loop around them is the program's.
"""

from __future__ import annotations

from collections.abc import Iterator

from estimator_spec.migrate.program import Program
from estimator_spec.migrate.results import Kind
from estimator_spec.migrate.rule import LEAVING, Rule, Target, calls_of_ours

_FUNCTIONS = {
    Target.MID_LEVEL: "to_mid_level(spec), or to_tpu_embedding(spec, model_dir) with its tables",
    Target.KERAS_RS: "to_distributed_embedding(spec, model_dir), a Keras layer with its tables",
}


def _places(program: Program, target: Target) -> Iterator[tuple[int, str]]:
    for call in calls_of_ours(program, "EmbeddingConfigSpec"):
        yield call.start, f"Convert the spec when the program runs: convert.{_FUNCTIONS[target]}."
    for call in calls_of_ours(program, "TPUEstimator"):
        yield (
            call.start,
            f"A TPUEstimator doesn't train {target.value} configurations: write the training loop, "
            "as examples/census/moving_on.py does.",
        )


RULE = Rule(
    "conversion",
    "report: specs to convert, and estimators that a training loop replaces",
    "moving-on",
    targets=LEAVING,
    places=_places,
    kind=Kind.NOT_REWRITTEN,
)
