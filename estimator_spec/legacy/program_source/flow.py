# SPDX-License-Identifier: Apache-2.0
"""Follows a module's statements, and finds which of them may have bound a name where it is read.

Of an `if`, a `try` or a loop both ways count, unless TensorFlow's version decides. A function runs
at any time after its definition, so it reads what is bound there or later.
"""

from __future__ import annotations

import ast
import enum
import functools
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from estimator_spec.legacy.program_source.expressions import Reader, last_name
from estimator_spec.legacy.program_source.names import (
    Export,
    ModuleNames,
    Neighbours,
    Recorded,
    Test,
    place_of,
)
from estimator_spec.legacy.program_source.scopes import (
    SCOPES,
    Scope,
    Scopes,
    inner_parts,
    names_bound_by,
    outer_parts,
)
from estimator_spec.legacy.program_source.states import UNBOUND, Frame, State, joined
from estimator_spec.legacy.program_source.versions import Constant

# Imports that today's TensorFlow never fails.
_SURE = frozenset(
    {"tensorflow", "tensorflow.compat", "tensorflow.compat.v1", "tensorflow.compat.v2"}
)
_MISSING = frozenset(
    {"ImportError", "ModuleNotFoundError", "AttributeError", "Exception", "BaseException"}
)


class _End(enum.IntEnum):
    """Whether the statements after a block run."""

    NO = 0  # they do
    PLAIN = 1  # they don't, for the block returns, raises, continues or breaks
    DECIDED = 2  # they don't, for TensorFlow's version decides so


def read(tree: ast.Module, neighbours: Neighbours | None = None) -> ModuleNames:
    """Returns the names of a module.

    Args:
        tree: its syntax tree.
        neighbours: the other modules of the program. None: its imports aren't followed.
    """
    names = ModuleNames(tree, Scopes(tree), neighbours or Recorded())
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.names[0].name == "*":
            names.scopes.module.bound.update(names.starred(node))
    _Flow(names).run()
    return names


class _Later(NamedTuple):
    """A function that is followed when the scope around it is known, and where it is."""

    node: ast.AST
    views: Mapping[Scope, tuple[State, int]]
    statement: ast.stmt
    clause: ast.AST
    string: ast.JoinedStr | None


class _Flow(Reader):
    """A walk through a module."""

    def __init__(self, names: ModuleNames) -> None:
        super().__init__(names)
        self._later: deque[_Later] = deque()

    def run(self) -> None:
        """Follows the module, then its functions."""
        module = Frame(self._names.scopes.module, {})
        with self._in(module):
            self._block(self._names.tree.body)
        while self._later:
            self._run_function(self._later.popleft())
        for chain, scope in self._of_several:
            chain.definitions = self._logged(scope, chain.name)
        for chain in self._names.chains:
            if not all(each.statement for each in chain.definitions):  # it isn't run
                chain.definitions = frozenset(each for each in chain.definitions if each.statement)
        self._names.reread_values()
        self._export(module)

    def _export(self, module: Frame) -> None:
        for name in sorted(module.scope.bound):
            found = frozenset(filter(None, module.state.get(name, ())))
            if name in module.scope.shared:
                found = self._logged(module.scope, name)
            ordered = sorted(found, key=place_of)
            values = [value for each in ordered for value in self._names.values(each)]
            tests = {each.test for each in found}
            test = tests.pop() if len(tests) == 1 else None
            self._names.exports[name] = Export(tuple(dict.fromkeys(values)) or (None,), test)

    # Scopes.

    def _run_function(self, later: _Later) -> None:
        self._statement, self._clause, self._string = later.statement, later.clause, later.string
        self._in_function = True
        self._run_scope(later.node, later.views)

    def _run_scope(self, node: ast.AST, views: Mapping[Scope, tuple[State, int]]) -> None:
        """Follows what is inside of a function, class or comprehension."""
        with self._in(Frame(self._names.scopes.of(node), views)):
            parts = list(inner_parts(node))
            for part in parts:
                if not isinstance(part, ast.stmt):
                    self.visit(part)
            self._block([part for part in parts if isinstance(part, ast.stmt)])

    def _inline_scope(self, node: Any) -> None:
        """Follows a class or a comprehension, which runs where it is."""
        for part in outer_parts(node):
            self.visit(part)
        statement, clause = self._statement, self._clause
        self._run_scope(node, self._frame.views)
        self._statement, self._clause = statement, clause
        if isinstance(node, ast.ClassDef):
            self._define(node, node.name)

    visit_GeneratorExp = visit_ListComp = visit_SetComp = visit_DictComp = _inline_scope
    visit_ClassDef = _inline_scope

    def _function(self, node: Any) -> None:
        for part in outer_parts(node):
            self.visit(part)
        if not isinstance(node, ast.Lambda):
            defined = self._define(node, node.name)
            body = node.body[1:] if ast.get_docstring(node, clean=False) else node.body
            if len(body) == 1 and isinstance(body[0], ast.Return):
                outcomes = self._evaluate(body[0].value)
                defined.test = None if outcomes is None else Test(outcomes, is_function=True)
        self._later.append(_Later(node, self._views(), self._statement, self._clause, self._string))

    visit_Lambda = visit_FunctionDef = visit_AsyncFunctionDef = _function

    # Statements.

    def _block(self, statements: Sequence[ast.stmt]) -> _End:
        end = _End.NO
        for statement in statements:
            self._statement = self._clause = statement
            found = self.visit(statement) or _End.NO
            if found is _End.DECIDED:
                return found
            end = max(end, found)
        return end

    def _branches(self, *branches: Callable[[], _End]) -> _End:
        """Follows ways of the flow from here on, and joins them."""
        before, ends, states = dict(self._frame.state), [], []
        for branch in branches:
            self._frame.state = dict(before)
            ends.append(branch())
            states.append(self._frame.state)
        going = [state for state, end in zip(states, ends, strict=True) if end is _End.NO]
        self._frame.state = joined(going or states)
        return min(ends)

    def _leave(self, node: ast.stmt) -> _End:
        self.generic_visit(node)
        return _End.PLAIN

    visit_Return = visit_Raise = visit_Continue = visit_Break = _leave

    def visit_If(self, node: ast.If) -> _End:
        bodies: list[list[ast.stmt]] = []
        is_decided = is_true = False
        rest: list[ast.stmt] = [node]
        # Not by recursion: there may be hundreds of `elif`.
        while len(rest) == 1 and isinstance(rest[0], ast.If) and not is_true:
            branch = rest[0]
            self._statement = self._clause = branch
            self.visit(branch.test)
            truth = self._truth(branch.test)
            is_decided, is_true = is_decided or truth is not None, truth is True
            if truth is not False:
                bodies.append(branch.body)
            rest = branch.orelse
        if not is_true:
            bodies.append(rest)
        if len(bodies) > 1:
            return self._branches(*(functools.partial(self._block, body) for body in bodies))
        end = self._block(bodies[0])
        return _End.DECIDED if is_decided and end is not _End.NO else end

    def _loop(self, node: ast.For | ast.AsyncFor | ast.While) -> _End:
        if not isinstance(node, ast.While):
            self.visit(node.iter)
        state, frame = self._frame.state, self._frame
        for inner, name in self._binders(node):
            state[name] = state.get(name, UNBOUND) | {self._definition(inner, name)}
        before, loop = dict(state), frame.loop
        if loop is None:
            frame.loop = len(self._logs.get(frame.scope, ()))
        self.visit(node.test if isinstance(node, ast.While) else node.target)
        self._block(node.body)
        frame.loop = loop
        frame.state = joined([before, frame.state])
        self._block(node.orelse)
        return _End.NO

    visit_For = visit_AsyncFor = visit_While = _loop

    def _try(self, node: Any) -> _End:
        frame = self._frame
        before, log = dict(frame.state), self._logs.setdefault(frame.scope, [])
        start = len(log)
        never_fails = self._never_fails(node)
        end = self._block(node.body)
        failed = before
        for each in log[start:]:
            failed[each.name] = failed.get(each.name, UNBOUND) | {each}
        done = frame.state

        def succeed() -> _End:
            frame.state = done
            return max(end, self._block(node.orelse)) if end is _End.NO else end

        def fail(handler: ast.ExceptHandler) -> _End:
            frame.state = dict(failed)
            self._clause = handler
            if handler.type is not None:
                self.visit(handler.type)
            if handler.name:
                self._define(handler, handler.name)
            found = self._block(handler.body)
            if handler.name:
                frame.state.pop(handler.name, None)
            return found

        handlers = [] if never_fails else node.handlers
        ways = [functools.partial(fail, handler) for handler in handlers]
        end = self._branches(succeed, *ways)
        if node.finalbody:
            frame.state = joined([frame.state, failed])
            end = max(end, self._block(node.finalbody))
        return end

    visit_Try = visit_TryStar = _try

    def _never_fails(self, node: Any) -> bool:
        """Returns whether a `try` only imports what each TensorFlow of today has."""
        for handler in node.handlers:
            parts = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
            if any(part is not None and last_name(part) not in _MISSING for part in parts):
                return False
        for statement in node.body:
            if never_fails(statement) or _is_switch(statement):
                continue
            found = self._look_up(statement.value) if isinstance(statement, ast.Assign) else None
            if not found or isinstance(found, Constant) or not set(found) <= _SURE:
                return False
        return bool(node.handlers)

    def _with(self, node: ast.With | ast.AsyncWith) -> _End:
        suppresses = False
        for item in node.items:
            self.visit(item.context_expr)
            if item.optional_vars is not None:
                self.visit(item.optional_vars)
            call = item.context_expr
            suppresses |= isinstance(call, ast.Call) and last_name(call.func) == "suppress"
        if suppresses:
            return self._branches(lambda: self._block(node.body), lambda: _End.NO)
        return self._block(node.body)

    visit_With = visit_AsyncWith = _with

    def visit_Match(self, node: ast.Match) -> _End:
        self.visit(node.subject)

        def run(case: ast.match_case) -> _End:
            self.visit(case.pattern)
            if case.guard is not None:
                self.visit(case.guard)
            return self._block(case.body)

        ways = [functools.partial(run, case) for case in node.cases]
        return self._branches(*ways, lambda: _End.NO)

    def _binders(self, node: ast.AST) -> Iterator[tuple[ast.AST, str]]:
        """Yields the names that a loop binds, and the nodes that bind them."""
        todo = [node]
        while todo:
            each = todo.pop()
            yield from ((each, name) for name in self._names_of(each))
            if isinstance(each, SCOPES):
                continue
            todo += ast.iter_child_nodes(each)

    def _names_of(self, node: ast.AST) -> Iterable[str]:
        if isinstance(node, ast.ImportFrom) and node.names[0].name == "*":
            return self._names.starred(node)
        return names_bound_by(node)


def never_fails(statement: ast.stmt) -> bool:
    """Returns whether a statement is an import of what each TensorFlow of today has."""
    names: list[str] = []
    if isinstance(statement, ast.Import):
        names = [alias.name for alias in statement.names]
    elif isinstance(statement, ast.ImportFrom) and not statement.level:
        names = [f"{statement.module}.{alias.name}" for alias in statement.names]
    return bool(names) and set(names) <= _SURE


def _is_switch(statement: ast.stmt) -> bool:
    """Returns whether a statement calls a function that TensorFlow 1's API is sure to have."""
    call = statement.value if isinstance(statement, ast.Expr) else None
    names = ("disable_v2_behavior", "disable_eager_execution")
    return isinstance(call, ast.Call) and last_name(call.func) in names
