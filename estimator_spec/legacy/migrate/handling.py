# SPDX-License-Identifier: Apache-2.0
"""Finds the code that a module to migrate has for the case that an old name is missing."""

from __future__ import annotations

from estimator_spec.legacy import old_names
from estimator_spec.legacy.handling import Handling
from estimator_spec.legacy.migrate.program import ParsedModule
from estimator_spec.legacy.program_source.places import Places


def handling_of(program: ParsedModule) -> Handling:
    """Returns the code of a program for missing names; places are offsets in its source."""
    names = {use.node: use.names[0] for use in program.uses}

    def is_there(full: str) -> bool:
        # Of a removed module the migrated program has the restored names.
        return old_names.find(full.rpartition(".")[0], False) is not None

    span = Places(program.source).span
    return Handling(program.tree, lambda node: names.get(node, ""), is_there, span)
