# SPDX-License-Identifier: Apache-2.0
"""Rule of the report: batches whose last one may be smaller."""

from __future__ import annotations

from collections.abc import Iterator

from estimator_spec.migrate.program import Program
from estimator_spec.migrate.rule import Rule, Target

# Position of `drop_remainder` in the methods' signatures.
_POSITIONS = {"batch": 1, "padded_batch": 3}
_REASON = (
    "Without drop_remainder=True the last batch is smaller: a TPU and embedding_core='host' with "
    "replicas refuse it in training, elsewhere it counts as a batch in the mean loss."
)


def _places(program: Program, target: Target) -> Iterator[tuple[int, str]]:
    del target
    if not any(call.method == "TPUEstimator" for call in program.calls):
        return
    for call in program.calls:
        if call.use is None and call.method in _POSITIONS and not call.unpacks():
            remainder = call.argument(_POSITIONS[call.method], "drop_remainder")
            if remainder is None or remainder.literal is False:
                yield call.line_of, _REASON


RULE = Rule(
    "drop-remainder",
    "report: batches of a TPUEstimator without drop_remainder=True",
    "cpu-and-tpu-are-two-semantics",
    places=_places,
)
