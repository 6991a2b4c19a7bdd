# SPDX-License-Identifier: Apache-2.0
"""Mutants of Python source: the same file with one expression changed, as a mistake would be.

What is changed: comparisons, `and` and `or`, `not`, arithmetic, numbers, `True` and `False`,
conditions (negated) and returned values (`None`). What isn't: annotations, decorators, strings, and
what a `raise` says, which tests of behaviour need not pin down.
"""

from __future__ import annotations

import ast
import random
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

_COMPARISONS = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_ARITHMETIC = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
}
_NO_CODE = (ast.JoinedStr, ast.Raise)  # positions in f-strings are wrong before Python 3.12


class Mutant(NamedTuple):
    """One change of one expression.

    Attributes:
        path: the file, relative to the repository.
        line: first line of the expression, from 1.
        start, end: its place in the file's bytes.
        before, after: its text.
    """

    path: str
    line: int
    start: int
    end: int
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.before} -> {self.after}"

    def apply(self, source: bytes) -> bytes:
        """Returns the changed content of the file."""
        return source[: self.start] + self.after.encode() + source[self.end :]


def find_mutants(path: str, source: str) -> list[Mutant]:
    """Returns all mutants of a file's source, in the order of the source."""
    starts = [0]
    for line in source.encode().splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    found = []
    for node, changed in _changes(ast.parse(source)):
        start = starts[node.lineno - 1] + node.col_offset
        end = starts[node.end_lineno - 1] + node.end_col_offset
        before = source.encode()[start:end].decode()
        after = f"({ast.unparse(changed)})"
        found.append(Mutant(path, node.lineno, start, end, before, after))
    return sorted(found, key=lambda mutant: (mutant.start, mutant.end, mutant.after))


def sample(root: Path, packages: tuple[str, ...], count: int, seed: int) -> list[Mutant]:
    """Draws mutants from all files of packages, each with the same chance.

    Args:
        root: the repository.
        packages: names of its packages.
        count: how many.
        seed: of the draw; the same source and seed give the same mutants.
    """
    everything = []
    for package in packages:
        for file in sorted((root / package).rglob("*.py")):
            path = file.relative_to(root).as_posix()
            everything += find_mutants(path, file.read_text(encoding="utf-8"))
    return sorted(random.Random(seed).sample(everything, min(count, len(everything))))


def _changes(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Yields (expression, what replaces it) for a node and all below it."""
    yield from _changes_of(node)
    for child in _code_below(node):
        yield from _changes(child)


def _changes_of(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    match node:
        case ast.Compare(left, [operator], comparators) if type(operator) in _COMPARISONS:
            yield node, ast.Compare(left, [_COMPARISONS[type(operator)]()], comparators)
        case ast.BoolOp(operator, values):
            other = ast.Or() if isinstance(operator, ast.And) else ast.And()
            yield node, ast.BoolOp(other, values)
        case ast.UnaryOp(ast.Not(), operand):
            yield node, operand
        case ast.BinOp(left, operator, right) if type(operator) in _ARITHMETIC:
            if not any(isinstance(side, ast.JoinedStr) for side in (left, right)):
                yield node, ast.BinOp(left, _ARITHMETIC[type(operator)](), right)
        case ast.Constant(bool(value)):
            yield node, ast.Constant(not value)
        case ast.Constant(int(value) | float(value)):
            yield node, ast.Constant(value + 1)
        case ast.If(test) | ast.While(test) | ast.IfExp(test):
            # A comparison or a `not` has its own mutant, which is the same.
            if not isinstance(test, (ast.Compare, ast.UnaryOp)) and not _only_for_types(test):
                yield test, ast.UnaryOp(ast.Not(), test)
        case ast.Return(ast.expr() as value) if not _is_none(value):
            yield value, ast.Constant(None)


def _code_below(node: ast.AST) -> Iterator[ast.AST]:
    """Yields the children whose expressions are part of what the code does."""
    for name, field in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "type_params"):
            continue
        if name == "body" and isinstance(node, ast.If) and _only_for_types(node.test):
            continue
        for child in field if isinstance(field, list) else [field]:
            if isinstance(child, ast.AST) and not isinstance(child, _NO_CODE):
                yield child


def _only_for_types(test: ast.expr) -> bool:
    return isinstance(test, ast.Name) and test.id == "TYPE_CHECKING"


def _is_none(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and value.value is None
