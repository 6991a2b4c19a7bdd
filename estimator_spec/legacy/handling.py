# SPDX-License-Identifier: Apache-2.0
"""Finds the code that a program has for the case that an old name is missing.

That is an `except` or a `suppress` around the place where the name is read or imported, or a
condition, such as `if hasattr(tf, "contrib")`. Such code works without the name.
"""

from __future__ import annotations

import ast
import bisect
import sys
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Any

from estimator_spec.legacy.module_spellings import is_removed, prefixes
from estimator_spec.legacy.program_source import flow

_ANY = frozenset({"Exception", "BaseException"})
# Exceptions that a read of a missing attribute, and an import of a missing module, may be.
READ_ERRORS = _ANY | {"AttributeError"}
IMPORT_ERRORS = _ANY | {"ImportError", "ModuleNotFoundError"}
_EXITS = frozenset({"exit", "quit", "sys.exit", "os._exit"})
if sys.version_info >= (3, 11):
    _Try = ast.Try | ast.TryStar
else:
    _Try = ast.Try


@dataclass(frozen=True)
class _Guards:
    """Handlers and conditions around a place in the source, the innermost last.

    Attributes:
        handlers: `try` and `with` statements whose body has the place, in the same function.
        present: full names that exist where the place is reached.
        tested: names that conditions around the place mention.
        is_dead: whether the place is in a handler of errors that no longer occur.
    """

    handlers: tuple[_Try | ast.With | ast.AsyncWith, ...] = ()
    present: frozenset[str] = frozenset()
    tested: frozenset[str] = frozenset()
    is_dead: bool = False


def span_in_lines(node: ast.stmt | ast.expr) -> tuple[tuple[int, int], tuple[int, int]]:
    """Returns where a node begins and ends, as line and column of `ast`."""
    assert node.end_lineno is not None
    assert node.end_col_offset is not None
    return (node.lineno, node.col_offset), (node.end_lineno, node.end_col_offset)


def import_errors(module: str) -> frozenset[str]:
    """Returns the exceptions that an import of a missing name may be.

    Args:
        module: that of `from module import name`, else ''.
    """
    is_name = module and not is_removed(module)
    return IMPORT_ERRORS - {"ModuleNotFoundError"} if is_name else IMPORT_ERRORS


class Handling:
    """The code of a program for missing names.

    Args:
        tree: its syntax tree.
        name_of: returns the full name that an expression has, or ''.
        is_there: returns whether a name that the program asks for is there when it runs: the
            answer says nothing of what is in it.
        span: returns the places where a node begins and ends, which can be compared.
    """

    def __init__(
        self,
        tree: ast.Module,
        name_of: Callable[[ast.expr], str] = lambda node: "",
        is_there: Callable[[str], bool] = lambda full: False,
        span: Callable[[ast.stmt | ast.expr], tuple[Any, Any]] = span_in_lines,
    ) -> None:
        self._name_of = name_of
        self._is_there = is_there
        self._span = span
        self._spans: list[tuple[Any, Any, _Guards]] = []
        self._tree = tree
        self._visit(tree)
        self._starts = [start for start, _, _ in self._spans]

    def handles_read(self, full: str, at: Any) -> bool:
        """Returns whether the program handles that an old name, read at a place, is missing."""
        return self.handles(full, at, READ_ERRORS)

    def handles_import(self, full: str, at: Any, module: str) -> bool:
        """Returns whether the program handles that an import of an old name fails.

        Args:
            full: the name.
            at: the place.
            module: that of `from module import name`, else ''.
        """
        return self.handles(full, at, import_errors(module))

    def handles(self, full: str, at: Any, errors: frozenset[str]) -> bool:
        """Returns whether the program handles errors at a place, or tests whether a name exists."""
        guards = self._guards(at)
        if guards.is_dead or guards.present.intersection(prefixes(full)):
            return True
        return any(_handles(statement, errors) for statement in reversed(guards.handlers))

    def first_place(self, line: int) -> tuple[int, int]:
        """Returns the place of the first statement or expression that begins in a line."""
        return min((start for start in self._starts if start[0] == line), default=(line, 0))

    def replaces(self, local: str, at: Any) -> bool:
        """Returns whether a missing import's name has another value than None instead.

        Args:
            local: the name.
            at: the place of the import.
        """
        guards = self._guards(at)
        places: list[ast.AST] = [] if not guards.present else [self._tree]
        for statement in guards.handlers:
            places += statement.handlers if isinstance(statement, _Try) else [self._tree]
        nodes = (node for place in places for node in ast.walk(place))
        return any(
            _has_value(node, local) and self._span(node)[0] != at
            for node in nodes
            if isinstance(node, ast.stmt)
        )

    def is_tested(self, local: str, imported: Any, at: Any) -> bool:
        """Returns whether a use depends on whether an import succeeded.

        Args:
            local: the imported name.
            imported: place of the import.
            at: that of the use.
        """
        flags = {local}
        for statement in self._guards(imported).handlers:
            flags.update(
                node.id
                for node in ast.walk(statement)
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
            )
        return bool(flags & self._guards(at).tested)

    def _guards(self, place: Any) -> _Guards:
        """Returns what surrounds a place."""
        at = bisect.bisect_right(self._starts, place) - 1
        while at >= 0 and self._spans[at][1] <= place:
            at -= 1
        return self._spans[at][2] if at >= 0 else _Guards()

    def _visit(self, tree: ast.Module) -> None:
        """Reads what surrounds each place."""
        # Not by recursion: expressions may be deep.
        todo: list[tuple[ast.AST, _Guards, bool]] = [(tree, _Guards(), True)]
        while todo:
            node, guards, is_new = todo.pop()
            if isinstance(node, ast.JoinedStr):  # Python 3.11 doesn't know the places in it.
                continue
            if is_new and isinstance(node, ast.stmt | ast.expr):
                self._spans.append((*self._span(node), guards))
            inside = []
            for name, value in ast.iter_fields(node):
                children = value if isinstance(value, list) else [value]
                for number, child in enumerate(children):
                    if isinstance(child, ast.AST):
                        inner = self._inner(node, name, number, guards)
                        is_new = isinstance(child, ast.stmt) or inner is not guards
                        inside.append((child, inner, is_new))
            todo += reversed(inside)
        # A conditional expression has its condition first. What surrounds a place stays before it.
        self._spans.sort(key=lambda each: each[0])

    def _inner(self, node: ast.AST, field: str, number: int, guards: _Guards) -> _Guards:
        """Returns what surrounds a child of a node."""
        handlers, present = guards.handlers, guards.present
        tested, is_dead = guards.tested, guards.is_dead
        if isinstance(node, _Try) and field == "body":
            handlers = (*handlers, node)
        elif isinstance(node, _Try) and field == "handlers":
            is_dead = is_dead or all(map(flow.never_fails, node.body))
        elif isinstance(node, ast.With | ast.AsyncWith) and field == "body":
            handlers = (*handlers, node)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            handlers = () if field == "body" else handlers  # It runs later, outside of the `try`.
        elif isinstance(node, ast.If | ast.IfExp | ast.While) and field in ("body", "orelse"):
            present = present.union(self._known(node.test, field == "body"))
            tested = tested.union(_names_in(node.test))
        elif isinstance(node, ast.If | ast.IfExp | ast.While):
            tested = tested.union(_tested_in(node.test))
        elif isinstance(node, ast.BoolOp) and number:
            before = node.values[number - 1]
            present = present.union(self._known(before, isinstance(node.op, ast.And)))
            tested = tested.union(_names_in(before))
        else:
            return guards
        return _Guards(handlers, present, tested, is_dead)

    def _known(self, test: ast.expr, outcome: bool) -> Iterator[str]:
        """Yields the full names that exist if a condition has an outcome, by `hasattr`."""
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            yield from self._known(test.operand, not outcome)
        elif isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) is outcome:
            for value in test.values:
                yield from self._known(value, outcome)
        elif isinstance(test, ast.Call) and outcome and len(test.args) == 2:
            owner, name = test.args
            is_query = ast.unparse(test.func) == "hasattr" and isinstance(name, ast.Constant)
            full = self._name_of(owner) if is_query else ""
            if full and not self._is_there(f"{full}.{ast.literal_eval(name)}"):
                yield f"{full}.{ast.literal_eval(name)}"


def _handles(statement: ast.stmt, errors: frozenset[str]) -> bool:
    """Returns whether a statement goes on after one of some errors in its body."""
    if isinstance(statement, ast.With | ast.AsyncWith):
        return any(_suppressed(item.context_expr) & errors for item in statement.items)
    assert isinstance(statement, _Try)
    for handler in statement.handlers:
        if _caught(handler.type) & errors:
            last = handler.body[-1]
            call = last.value if isinstance(last, ast.Expr) else None
            is_exit = isinstance(call, ast.Call) and ast.unparse(call.func) in _EXITS
            return not isinstance(last, ast.Raise) and not is_exit
    return False


def _caught(expression: ast.expr | None) -> frozenset[str]:
    """Returns the last names of the exceptions of an `except`."""
    if expression is None:
        return _ANY
    parts = expression.elts if isinstance(expression, ast.Tuple) else [expression]
    return frozenset(ast.unparse(part).rpartition(".")[2] for part in parts)


def _suppressed(expression: ast.expr) -> frozenset[str]:
    """Returns the exceptions of a call of `contextlib.suppress`."""
    if isinstance(expression, ast.Call) and ast.unparse(expression.func).endswith("suppress"):
        return frozenset().union(*map(_caught, expression.args))
    return frozenset()


def _names_in(test: ast.expr) -> Collection[str]:
    return {node.id for node in ast.walk(test) if isinstance(node, ast.Name)}


def _tested_in(test: ast.expr) -> Iterator[str]:
    """Yields the names of which a condition only tests that they have a value."""
    if isinstance(test, ast.Name):
        yield test.id
    elif isinstance(test, ast.UnaryOp):
        yield from _tested_in(test.operand)
    elif isinstance(test, ast.BoolOp):
        for value in test.values:
            yield from _tested_in(value)
    elif isinstance(test, ast.Compare):
        yield from _tested_in(test.left)


def _has_value(node: ast.stmt, local: str) -> bool:
    """Returns whether a statement gives a name a value other than None, True and False."""
    if isinstance(node, ast.Import | ast.ImportFrom):
        return any((each.asname or each.name.split(".")[0]) == local for each in node.names)
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return node.name == local
    if isinstance(node, ast.Assign) and ast.unparse(node.value) not in ("None", "True", "False"):
        return any(isinstance(each, ast.Name) and each.id == local for each in node.targets)
    return False
