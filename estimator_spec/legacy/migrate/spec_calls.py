# SPDX-License-Identifier: Apache-2.0
"""Finds the specs of a program, and whether each can be converted where it is made."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from estimator_spec.legacy.migrate import literal_specs
from estimator_spec.legacy.migrate.literal_specs import LiteralSpec
from estimator_spec.legacy.migrate.program import FollowedCall, ParsedModule
from estimator_spec.legacy.migrate.rule import MigrationTarget, calls_of_ours
from estimator_spec.legacy.migrate.source_tree import SourceTree


@dataclass(frozen=True)
class SpecCall:
    """A call of `EmbeddingConfigSpec`.

    Attributes:
        call: the call.
        tree: the program's syntax tree.
        statement: the statement of which the call is the whole value, alone on its lines: an
            assignment to one name, or a `return`; None in other places.
        contents: its tables and features if they are literals, and `statement` is known.
        reader: description of the code that reads the spec itself, which then stays; ''.
    """

    call: FollowedCall
    tree: SourceTree
    statement: ast.Assign | ast.Return | None = None
    contents: LiteralSpec | None = None
    reader: str = ""


# Optimizers that have a counterpart with the same results.
_SAME_OPTIMIZERS = {
    MigrationTarget.MID_LEVEL: (
        "StochasticGradientDescentParameters",
        "AdagradParameters",
        "AdamParameters",
    ),
    MigrationTarget.KERAS_RS: ("StochasticGradientDescentParameters", "AdagradParameters"),
}


def find(program: ParsedModule, target: MigrationTarget) -> Iterator[SpecCall]:
    """Yields the specs of a program, except for those that it converts itself."""
    tree = SourceTree(program)
    for call in calls_of_ours(program, "EmbeddingConfigSpec"):
        node = call.node
        if _is_argument(tree, node):
            continue
        statement = _statement(program, tree, node)
        reader = ""
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            name = statement.targets[0].id
            around = tree.around(name)
            if any(_function(tree, parent).startswith("convert.") for parent in around):
                continue
            readers = (_reader(tree, name, parent) for parent in around)
            reader = next((text for text in readers if text), "")
        contents = None if statement is None else literal_specs.read(tree, node)
        if contents is not None and contents.optimizer.kind not in _SAME_OPTIMIZERS[target]:
            contents = None
        yield SpecCall(call, tree, statement, contents, reader)


def _statement(
    program: ParsedModule, tree: SourceTree, node: ast.Call
) -> ast.Assign | ast.Return | None:
    parent = tree.parent(node)
    if not isinstance(parent, ast.Assign | ast.Return):
        return None
    if isinstance(parent, ast.Assign) and not (
        len(parent.targets) == 1 and isinstance(parent.targets[0], ast.Name)
    ):
        return None
    start, end = tree.span(parent)
    before = program.source[program.source.rfind("\n", 0, start) + 1 : start]
    after = program.source[end:].partition("\n")[0].strip()
    return None if before.strip() or (after and not after.startswith("#")) else parent


def _is_argument(tree: SourceTree, node: ast.Call) -> bool:
    """Returns whether a spec is made for a function of ours that reads or converts it."""
    return _function(tree, tree.parent(node)) not in ("", "TPUEstimator")


def _function(tree: SourceTree, node: ast.AST) -> str:
    """Returns the name of the function of `estimator_spec` that a node calls, or ''."""
    name = tree.name_of(node.func) if isinstance(node, ast.Call) else ""
    return name.removeprefix("estimator_spec.") if name.startswith("estimator_spec.") else ""


def _reader(tree: SourceTree, name: str, around: ast.AST) -> str:
    """Returns what reads the fields of a spec, if a node around its name does."""
    if isinstance(around, ast.Attribute):
        return f"{name}.{around.attr} in line {around.lineno}"
    if isinstance(around, ast.Subscript | ast.Starred):
        return f"line {around.lineno} unpacks {name}"
    function = _function(tree, around)
    if function not in ("", "TPUEstimator") and isinstance(around, ast.Call):
        return f"{function}({name}) in line {around.lineno}"
    return ""
