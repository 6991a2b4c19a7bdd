# SPDX-License-Identifier: Apache-2.0
"""Rule of the report: the optimizer that moves the tables."""

from __future__ import annotations

from collections.abc import Iterator

from estimator_spec.migrate.program import Program
from estimator_spec.migrate.rule import Rule, Target, calls_of_ours

_REASONS = {
    Target.SHIM: (
        "On a CPU the model_fn's optimizer trains the tables, and optimization_parameters has no "
        "effect; on a TPU, and with embedding_core='host', only optimization_parameters does."
    ),
    Target.MID_LEVEL: (
        "Each TableConfig has its own optimizer: the model's optimizer no longer moves tables, as "
        "it did on a CPU."
    ),
    Target.KERAS_RS: (
        "Each table has its own Keras optimizer, which updates all rows in every step (except SGD "
        "and Adagrad); to_distributed_embedding(optimizers='core') keeps the embedding core's "
        "rules."
    ),
}


def _places(program: Program, target: Target) -> Iterator[tuple[int, str]]:
    for call in calls_of_ours(program, "EmbeddingConfigSpec"):
        yield call.start, _REASONS[target]


RULE = Rule(
    "table-optimizer",
    "report: which optimizer moves the tables",
    "cpu-and-tpu-are-two-semantics",
    places=_places,
)
