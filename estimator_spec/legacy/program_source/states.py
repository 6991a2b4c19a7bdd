# SPDX-License-Identifier: Apache-2.0
"""Bindings of names at a point of the control flow of a module."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from estimator_spec.legacy.program_source.names import Definition, ModuleNames
from estimator_spec.legacy.program_source.scopes import Scope

State = dict[str, frozenset["Definition | None"]]  # None: the name isn't bound
UNBOUND: frozenset[Definition | None] = frozenset({None})

# Names that Python binds itself.
_PROVIDED = frozenset(
    {*dir(builtins), "__builtins__", "__cached__", "__file__", "__path__", "__annotations__"}
)


def joined(states: Sequence[State]) -> State:
    """Returns what names may be bound to where several ways of the flow meet."""
    if len(states) == 1:
        return states[0]
    names = {name for state in states for name in state}
    return {
        name: frozenset[Definition | None]().union(*(state.get(name, UNBOUND) for state in states))
        for name in names
    }


@dataclass(eq=False)
class Frame:
    """Bindings of a scope's names at a point of the control flow.

    Attributes:
        scope: the scope.
        state: what its names may be bound to.
        views: for each scope around it that ran before, its state and the place in its log when
            the function of this one was defined.
        loop: place in the log at which the outermost loop begins, in one.
    """

    scope: Scope
    views: Mapping[Scope, tuple[State, int]]
    state: State = field(default_factory=dict)
    loop: int | None = None


class States:
    """The scopes at a point of the flow, and what their names are bound to.

    Args:
        names: the names of the module.
    """

    def __init__(self, names: ModuleNames) -> None:
        self._names = names
        self._frames: list[Frame] = []
        self._logs: dict[Scope, list[Definition]] = {}  # in the order in which they are bound
        self._logs_by_name: dict[tuple[Scope, str], list[tuple[int, Definition]]] = {}
        self._by_node: dict[tuple[ast.AST, str], Definition] = {}
        self._statement: ast.stmt = ast.Pass()
        self._in_function = False

    @property
    def _frame(self) -> Frame:
        return self._frames[-1]

    @contextmanager
    def _in(self, frame: Frame) -> Iterator[None]:
        self._frames.append(frame)
        yield
        self._frames.pop()

    def _logged(self, scope: Scope, name: str, start: int = 0) -> frozenset[Definition]:
        log = self._logs_by_name.get((scope, name), ())
        return frozenset(each for place, each in log if place >= start)

    def _views(self) -> dict[Scope, tuple[State, int]]:
        """Returns what a function that is defined here sees of the scopes around it."""
        views = dict(self._frame.views)
        for frame in self._frames:
            place = len(self._logs.get(frame.scope, ())) if frame.loop is None else frame.loop
            views[frame.scope] = (dict(frame.state), place)
        return views

    def _definition(self, node: ast.AST, name: str) -> Definition:
        """Returns what a node binds a name to; it may not be reached by the flow yet."""
        found = self._by_node.get((node, name))
        if found is None:
            found = self._by_node[node, name] = Definition(name, node)
        return found

    def _define(self, node: ast.AST, name: str) -> Definition:
        """Binds a name from here on."""
        found = self._definition(node, name)
        scope = self._frame.scope
        found.statement = self._statement
        found.in_function = self._in_function
        found.in_class = scope.is_class
        owner = scope.outer.get(name, scope)
        log = self._logs.setdefault(owner, [])
        self._logs_by_name.setdefault((owner, name), []).append((len(log), found))
        log.append(found)
        for frame in reversed(self._frames):
            if frame.scope is owner:
                frame.state[name] = frozenset([found])
                break
        return found

    def _definitions(self, name: str) -> frozenset[Definition] | Scope | None:
        """Returns what a name that is read here is bound to.

        Returns:
            The definitions; the scope of a name that several scopes bind; None if none binds it.
        """
        scope = self._frame.scope
        owner = scope.owner(name)
        if owner is None:
            return frozenset() if name in _PROVIDED else None
        if name in owner.shared:
            return owner
        found = self._bound_in(owner, name)
        module = scope.module()
        if None in found and owner.is_class and name in module.bound:
            found |= self._logged(module, name) if name in module.shared else frozenset()
            found |= self._bound_in(module, name)
        return frozenset(filter(None, found))

    def _bound_in(self, scope: Scope, name: str) -> frozenset[Definition | None]:
        for frame in reversed(self._frames):
            if frame.scope is scope:
                return frame.state.get(name, UNBOUND)
        state, place = self._frame.views.get(scope, ({}, 0))
        return state.get(name, UNBOUND) | self._logged(scope, name, place)
