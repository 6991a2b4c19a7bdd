# SPDX-License-Identifier: Apache-2.0
"""Rule: a spec whose tables are known when the program runs is converted where it is made.

`EmbeddingConfigSpec(columns, …)` becomes `estimator_spec.convert.to_mid_level(…)` of it, or
`to_distributed_embedding`; columns and optimizers are arguments as before, under our names.

Does not: follow the spec to functions and modules that read its fields.
"""

from __future__ import annotations

from collections.abc import Iterator

from estimator_spec.legacy.migrate import spec_calls
from estimator_spec.legacy.migrate.program import ParsedModule
from estimator_spec.legacy.migrate.results import Subject
from estimator_spec.legacy.migrate.rule import LEAVING, MigrationRule, MigrationTarget, Replacement

# The function of `estimator_spec.convert`, and its arguments after the spec.
_FUNCTIONS = {
    MigrationTarget.MID_LEVEL: ("to_mid_level", ""),
    # Keras' own optimizers lack some of the embedding core's rules.
    MigrationTarget.KERAS_RS: ("to_distributed_embedding", ', optimizers="core"'),
}


def _edits(program: ParsedModule, target: MigrationTarget) -> Iterator[Replacement]:
    function, arguments = _FUNCTIONS[target]
    for found in spec_calls.find(program, target):
        if found.reader or found.contents is not None:
            continue
        start, end = found.call.start, found.call.end
        yield Replacement(
            start, start, lambda spell: f"{spell('estimator_spec', f'convert.{function}')}("
        )
        yield Replacement(end, end, lambda spell: f"{arguments})")


def _places(program: ParsedModule, target: MigrationTarget) -> Iterator[tuple[int, str]]:
    function, arguments = _FUNCTIONS[target]
    for found in spec_calls.find(program, target):
        if found.reader:
            yield (
                found.call.start,
                f"The program reads the spec itself: {found.reader}. Keep the spec there, and pass "
                f"estimator_spec.convert.{function}(spec{arguments}) to what looks up and trains.",
            )


RULE = MigrationRule(
    "spec-conversion",
    "specs are converted by estimator_spec.convert where they are made",
    "leaving-the-estimator",
    targets=LEAVING,
    places=_places,
    edits=_edits,
    kind=Subject.NOT_REWRITTEN,
)
