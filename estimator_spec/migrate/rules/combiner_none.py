# SPDX-License-Identifier: Apache-2.0
"""Rule of the report: `combiner=None`, which means mean on a CPU and sum on a TPU."""

from __future__ import annotations

from collections.abc import Iterator

from estimator_spec.migrate.program import Program
from estimator_spec.migrate.rule import Rule, Target, calls_of_ours

# Position of `combiner` in the signatures.
_POSITIONS = {"embedding_column": 2, "shared_embedding_columns": 2, "TableConfig": 3}
_REASON = (
    "combiner=None is the mean on a CPU and the sum on a TPU (always the sum for tables in "
    "dictionaries). Write 'sum' or 'mean'."
)


def _places(program: Program, target: Target) -> Iterator[tuple[int, str]]:
    del target
    for call in calls_of_ours(program, *_POSITIONS):
        combiner = call.argument(_POSITIONS[call.method], "combiner")
        if combiner is not None and combiner.literal is None:
            yield combiner.start, _REASON


RULE = Rule(
    "combiner-none",
    "report: combiner=None, whose meaning depends on the hardware",
    "cpu-and-tpu-are-two-semantics",
    places=_places,
)
