# SPDX-License-Identifier: Apache-2.0
"""Finds the code that a module to migrate has for the case that an old name is missing."""

from __future__ import annotations

import ast

from estimator_spec.legacy import old_names
from estimator_spec.legacy.handling import Handling
from estimator_spec.legacy.migrate.edits import Lines
from estimator_spec.legacy.migrate.program import ParsedModule


def handling_of(program: ParsedModule, tree: ast.Module) -> Handling:
    """Returns the code of a program for missing names; places are offsets in its source."""
    lines = Lines(program.source)
    names = {(use.start, use.ends[-1]): use.names[0] for use in program.uses}

    def span(node: ast.stmt | ast.expr) -> tuple[int, int]:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        start = lines.byte_offset(node.lineno, node.col_offset)
        return start, lines.byte_offset(node.end_lineno, node.end_col_offset)

    def is_there(full: str) -> bool:
        # Of a removed module the migrated program has the restored names.
        return old_names.find(full.rpartition(".")[0], False) is not None

    return Handling(tree, lambda node: names.get(span(node), ""), is_there, span)
