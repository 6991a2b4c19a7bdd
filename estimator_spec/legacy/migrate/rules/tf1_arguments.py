# SPDX-License-Identifier: Apache-2.0
"""Rule: arguments that TensorFlow 2 renamed have their present names, in a module of its API.

tensorflow.compat.v1 takes both names. Only keywords of calls are renamed that show all arguments.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from estimator_spec.legacy import renamed_arguments
from estimator_spec.legacy.migrate.program import FollowedCall, ModuleApi, ParsedModule
from estimator_spec.legacy.migrate.rule import MigrationRule, MigrationTarget, Replacement, fixed
from estimator_spec.legacy.renamed_arguments import RenamedArgument


def renamed(program: ParsedModule) -> Iterator[tuple[FollowedCall, ast.keyword, RenamedArgument]]:
    """Yields the arguments that functions have under another name now, and their calls."""
    for call, name in program.calls_of(*renamed_arguments.FUNCTIONS):
        for keyword in call.node.keywords:
            found = renamed_arguments.find(name, keyword.arg or "")
            if found is not None:
                yield call, keyword, found


def _edits(program: ParsedModule, target: MigrationTarget) -> Iterable[Replacement]:
    """Yields an edit of each keyword."""
    del target
    if program.api is not ModuleApi.TF2:
        return
    for call, keyword, found in renamed(program):
        assert call.use is not None
        given = {each.arg for each in call.node.keywords}
        names = set(program.uses[call.use].names)
        # TensorFlow 1.0 changed what some arguments mean, too.
        is_renamed = found.since == 2 and found.now and found.now not in given
        if not is_renamed or call.unpacks() or len(names) > 1:
            continue
        start, _ = program.places.span(keyword)
        yield Replacement(start, start + len(found.old), fixed(found.now))


RULE = MigrationRule(
    "tf1-arguments",
    "arguments that TensorFlow 2 renamed, such as keep_dims, have their present names",
    "imports-that-arent-supported",
    edits=_edits,
)
