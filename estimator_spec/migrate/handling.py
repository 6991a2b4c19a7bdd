# SPDX-License-Identifier: Apache-2.0
"""Finds the code that a program has for the case that an old name is missing.

That is an `except` or a `suppress` around the place where the name is read or imported, or a
condition, such as `if hasattr(tf, "contrib")`. Such code works without the name.
"""

from __future__ import annotations

import ast
import bisect
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from estimator_spec.legacy import old_names
from estimator_spec.legacy.call_sites import Access, caught, suppressed
from estimator_spec.legacy.module_spellings import is_removed, prefixes
from estimator_spec.migrate.edits import Lines
from estimator_spec.migrate.program import Binding, Form, Program

_ATTRIBUTE = Access.READ.value
_MODULE = Access.IMPORT.value
_NAME = _MODULE - {"ModuleNotFoundError"}
_EXITS = frozenset({"exit", "quit", "sys.exit", "os._exit"})
# Modules that TensorFlow has for sure.
_PRESENT = ("tensorflow", "tensorflow.compat", "tensorflow.compat.v1", "tensorflow.compat.v2")
_Try = ast.Try | ast.TryStar


@dataclass(frozen=True)
class _Guards:
    """What surrounds a place, the innermost last.

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


class Handling:
    """The code of a program for missing names.

    Args:
        program: the program.
        tree: its syntax tree.
    """

    def __init__(self, program: Program, tree: ast.Module) -> None:
        self._source = program.source
        self._lines = Lines(program.source)
        self._names = {(use.start, use.ends[-1]): use.names[0] for use in program.uses}
        self._spans: list[tuple[int, int, _Guards]] = []
        self._tree = tree
        self._visit(tree, _Guards(), True)
        self._starts = [start for start, _, _ in self._spans]

    def handles_read(self, full: str, offset: int) -> bool:
        """Returns whether the program handles that an old name, read at an offset, is missing."""
        return self._handles(full, offset, _ATTRIBUTE)

    def handles_import(self, binding: Binding, offset: int) -> bool:
        """Returns whether the program handles that an import of an old name fails."""
        is_name = binding.form is Form.FROM and not is_removed(binding.module)
        return self._handles(binding.full, offset, _NAME if is_name else _MODULE)

    def _handles(self, full: str, offset: int, errors: frozenset[str]) -> bool:
        guards = self._guards(offset)
        if guards.is_dead or guards.present.intersection(prefixes(full)):
            return True
        return any(_handles(statement, errors) for statement in reversed(guards.handlers))

    def replaces(self, local: str, offset: int) -> bool:
        """Returns whether a missing import's name has another value than None instead.

        Args:
            local: the name.
            offset: that of the import.
        """
        guards = self._guards(offset)
        places: list[ast.AST] = [] if not guards.present else [self._tree]
        for statement in guards.handlers:
            places += statement.handlers if isinstance(statement, _Try) else [self._tree]
        nodes = (node for place in places for node in ast.walk(place))
        return any(
            _has_value(node, local) and self._span(node)[0] != offset
            for node in nodes
            if isinstance(node, ast.stmt)
        )

    def is_tested(self, local: str, imported: int, offset: int) -> bool:
        """Returns whether a use depends on whether an import succeeded.

        Args:
            local: the imported name.
            imported: offset of the import.
            offset: that of the use.
        """
        flags = {local}
        for statement in self._guards(imported).handlers:
            flags.update(
                node.id
                for node in ast.walk(statement)
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
            )
        return bool(flags & self._guards(offset).tested)

    def _guards(self, offset: int) -> _Guards:
        """Returns what surrounds an offset."""
        at = bisect.bisect_right(self._starts, offset) - 1
        while at >= 0 and self._spans[at][1] <= offset:
            at -= 1
        return self._spans[at][2] if at >= 0 else _Guards()

    def _visit(self, node: ast.AST, guards: _Guards, is_new: bool) -> None:
        if isinstance(node, ast.JoinedStr):  # Python 3.11 doesn't know the places in it.
            return
        if is_new and isinstance(node, ast.stmt | ast.expr):
            self._spans.append((*self._span(node), guards))
        for name, value in ast.iter_fields(node):
            children = value if isinstance(value, list) else [value]
            for number, child in enumerate(children):
                if isinstance(child, ast.AST):
                    inner = self._inner(node, name, number, guards)
                    self._visit(child, inner, isinstance(child, ast.stmt) or inner is not guards)

    def _inner(self, node: ast.AST, field: str, number: int, guards: _Guards) -> _Guards:
        """Returns what surrounds a child of a node."""
        handlers, present = guards.handlers, guards.present
        tested, is_dead = guards.tested, guards.is_dead
        if isinstance(node, _Try) and field == "body":
            handlers = (*handlers, node)
        elif isinstance(node, _Try) and field == "handlers":
            is_dead = is_dead or self._always_works(node)
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
            full = self._names.get(self._span(owner), "")
            # Of a removed module the migrated program has the restored names.
            is_today = full and old_names.find(full, False) is None
            if ast.unparse(test.func) == "hasattr" and isinstance(name, ast.Constant) and is_today:
                yield f"{full}.{name.value!s}"

    @staticmethod
    def _always_works(node: _Try) -> bool:
        """Returns whether a `try` has only imports of TensorFlow that work today."""
        modules: list[str] = []
        for statement in node.body:
            if isinstance(statement, ast.Import):
                modules += [alias.name for alias in statement.names]
            elif isinstance(statement, ast.ImportFrom) and not statement.level:
                modules += [f"{statement.module}.{alias.name}" for alias in statement.names]
            else:
                return False
        return all(module in _PRESENT for module in modules)

    def _span(self, node: ast.stmt | ast.expr) -> tuple[int, int]:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        start = self._lines.byte_offset(node.lineno, node.col_offset)
        return start, self._lines.byte_offset(node.end_lineno, node.end_col_offset)


def _handles(statement: ast.stmt, errors: frozenset[str]) -> bool:
    """Returns whether a statement goes on after one of some errors in its body."""
    if isinstance(statement, ast.With | ast.AsyncWith):
        return any(suppressed(item.context_expr) & errors for item in statement.items)
    assert isinstance(statement, _Try)
    for handler in statement.handlers:
        if caught(handler.type) & errors:
            last = handler.body[-1]
            call = last.value if isinstance(last, ast.Expr) else None
            is_exit = isinstance(call, ast.Call) and ast.unparse(call.func) in _EXITS
            return not isinstance(last, ast.Raise) and not is_exit
    return False


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
