# SPDX-License-Identifier: Apache-2.0
"""Rule of the report: rows of words that a vocabulary lacks."""

from __future__ import annotations

from collections.abc import Iterator

from estimator_spec.migrate.program import Program
from estimator_spec.migrate.rule import LEAVING, Rule, Target

# Position of `num_oov_buckets` in the signatures.
_POSITIONS = {
    "categorical_column_with_vocabulary_file": 3,
    "categorical_column_with_vocabulary_list": 4,
    "sequence_categorical_column_with_vocabulary_file": 3,
    "sequence_categorical_column_with_vocabulary_list": 3,
}
_REASON = (
    "Rows of unknown words (num_oov_buckets) come after the vocabulary's. Keras' StringLookup puts "
    "them first: keep the column's lookup, or permute the rows (checkpoint convert --vocabulary)."
)


def _places(program: Program, target: Target) -> Iterator[tuple[int, str]]:
    del target
    for call, _ in program.calls_of(*_POSITIONS):
        buckets = call.argument(_POSITIONS[call.method], "num_oov_buckets")
        if buckets is not None and buckets.literal not in (None, 0):
            yield buckets.start, _REASON


RULE = Rule(
    "out-of-vocabulary",
    "report: position of the rows of unknown words",
    "moving-on",
    targets=LEAVING,
    places=_places,
)
