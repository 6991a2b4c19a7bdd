# SPDX-License-Identifier: Apache-2.0
"""Rule of the report: id 0 in dense input, which an embedding core takes for padding."""

from __future__ import annotations

from collections.abc import Iterator

from estimator_spec.migrate.program import Program
from estimator_spec.migrate.rule import Rule, Target, calls_of_ours

_ON_CORE = (
    "On a TPU, and with embedding_core='host', id 0 of a dense id tensor is padding and dropped, "
    "unless combiner is None; on a CPU it is looked up. Pass sparse or ragged ids to keep it."
)
_AFTER = (
    "A dense id tensor keeps its id 0 here, which the TPU dropped as padding. convert.features_for "
    "prepares the input of a converted spec as the old program read it; TableConfigs of your own "
    "need sparse ids without the padding."
)
_REASONS = {Target.SHIM: _ON_CORE, Target.MID_LEVEL: _AFTER, Target.KERAS_RS: _AFTER}


def _places(program: Program, target: Target) -> Iterator[tuple[int, str]]:
    for call in calls_of_ours(program, "EmbeddingConfigSpec"):
        yield call.start, _REASONS[target]


RULE = Rule(
    "id-zero",
    "report: id 0 in dense input, which is padding on a TPU",
    "cpu-and-tpu-are-two-semantics",
    places=_places,
)
