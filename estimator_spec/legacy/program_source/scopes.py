# SPDX-License-Identifier: Apache-2.0
"""Finds the scopes of a module, and the names that each of them binds."""

from __future__ import annotations

import ast
from collections.abc import Container, Iterator
from dataclasses import dataclass, field

Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
# Nodes that have a scope of their own.
SCOPES = (*_FUNCTIONS, *_COMPREHENSIONS, ast.ClassDef)


@dataclass(eq=False)
class Scope:
    """A scope.

    Attributes:
        node: a module, class, function, lambda or comprehension.
        parent: the scope around it; None for the module.
        bound: the names that its statements bind.
        outer: names that it declares `global` or `nonlocal`, and the scopes that have them.
        shared: its names that statements of other scopes bind.
    """

    node: ast.AST
    parent: Scope | None
    bound: set[str] = field(default_factory=set)
    outer: dict[str, Scope] = field(default_factory=dict)
    shared: set[str] = field(default_factory=set)

    @property
    def is_class(self) -> bool:
        """Whether it is the body of a class."""
        return isinstance(self.node, ast.ClassDef)

    def module(self) -> Scope:
        """Returns the scope of the module."""
        return self if self.parent is None else self.parent.module()

    def owner(self, name: str) -> Scope | None:
        """Returns the scope that a name read in this one belongs to; None if no statement binds it.

        The scope of a class is its own body's only.
        """
        if name in self.outer:
            return self.outer[name]
        if name in self.bound:
            return self
        scope = self.parent
        while scope is not None:
            if not scope.is_class:
                if name in scope.outer:
                    return scope.outer[name]
                if name in scope.bound:
                    return scope
            scope = scope.parent
        return None


def names_listed(tree: ast.Module, lists: Container[str] = ("__all__",)) -> frozenset[str]:
    """Returns the strings in the lists of what a module exports.

    Args:
        tree: the module.
        lists: names of the lists.
    """
    found: set[str] = set()
    for node in ast.walk(tree):
        targets = node.targets if isinstance(node, ast.Assign) else []
        targets = [node.target] if isinstance(node, ast.AugAssign) else targets
        if any(isinstance(target, ast.Name) and target.id in lists for target in targets):
            strings = (each for each in ast.walk(node) if isinstance(each, ast.Constant))
            found |= {each.value for each in strings if isinstance(each.value, str)}
    return frozenset(found)


def names_bound_by(node: ast.AST) -> tuple[str, ...]:
    """Returns the names that a node itself binds; none for the star of `from module import *`."""
    if isinstance(node, ast.Name):
        return () if isinstance(node.ctx, ast.Load) else (node.id,)
    if isinstance(node, ast.alias):
        return () if node.name == "*" else ((node.asname or node.name).split(".")[0],)
    if isinstance(node, ast.arg):
        return (node.arg,)
    if isinstance(node, ast.MatchMapping):
        return (node.rest,) if node.rest else ()
    if isinstance(node, (ast.ExceptHandler, ast.MatchAs, ast.MatchStar)):
        return (node.name,) if node.name else ()
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return (node.name,)
    # Parameters of types, of Python 3.12.
    if type(node).__name__ in ("TypeVar", "ParamSpec", "TypeVarTuple"):
        return (str(getattr(node, "name", "")),)
    return ()


def outer_parts(node: ast.AST) -> Iterator[ast.AST]:
    """Yields the parts of a function, class or comprehension that the scope around it evaluates."""
    if isinstance(node, _COMPREHENSIONS):
        yield node.generators[0].iter
        return
    if isinstance(node, ast.ClassDef):
        yield from (*node.decorator_list, *node.bases, *node.keywords)
        return
    assert isinstance(node, _FUNCTIONS)
    if not isinstance(node, ast.Lambda):
        yield from node.decorator_list
    yield from node.args.defaults
    yield from (default for default in node.args.kw_defaults if default is not None)
    annotations = [argument.annotation for argument in arguments_of(node)]
    annotations.append(getattr(node, "returns", None))
    yield from (annotation for annotation in annotations if annotation is not None)


def inner_parts(node: ast.AST) -> Iterator[ast.AST]:
    """Yields the other parts, in the order in which they are evaluated."""
    yield from getattr(node, "type_params", ())
    if isinstance(node, _COMPREHENSIONS):
        for number, generator in enumerate(node.generators):
            if number:
                yield generator.iter
            yield generator.target
            yield from generator.ifs
        yield from (node.key, node.value) if isinstance(node, ast.DictComp) else (node.elt,)
        return
    if isinstance(node, _FUNCTIONS):
        yield from arguments_of(node)
    assert isinstance(node, (*_FUNCTIONS, ast.ClassDef))
    yield from (node.body,) if isinstance(node, ast.Lambda) else node.body


def arguments_of(node: Function) -> list[ast.arg]:
    """Returns the parameters of a function."""
    given = node.args
    extra = [each for each in (given.vararg, given.kwarg) if each is not None]
    return [*given.posonlyargs, *given.args, *given.kwonlyargs, *extra]


class Scopes:
    """The scopes of a module.

    Attributes:
        module: the module's.
        names: all names that the module binds, in any scope.
    """

    def __init__(self, tree: ast.Module) -> None:
        self.module = Scope(tree, None)
        self.names: set[str] = set()
        self._by_node: dict[ast.AST, Scope] = {tree: self.module}
        self._declared: list[tuple[Scope, ast.Global | ast.Nonlocal]] = []
        todo: list[tuple[ast.AST, Scope]] = [(child, self.module) for child in tree.body]
        while todo:
            self._read(*todo.pop(), todo)
        for scope, statement in self._declared:
            self._declare(scope, statement)

    def of(self, node: ast.AST) -> Scope:
        """Returns the scope of a module, class, function, lambda or comprehension."""
        return self._by_node[node]

    def _read(self, node: ast.AST, scope: Scope, todo: list[tuple[ast.AST, Scope]]) -> None:
        for name in names_bound_by(node):
            self.names.add(name)
            scope.bound.add(name)
        if isinstance(node, SCOPES):
            inner = self._by_node[node] = Scope(node, scope)
            todo += [(child, scope) for child in outer_parts(node)]
            for child in inner_parts(node):
                if isinstance(child, ast.arg):  # its annotation is evaluated outside
                    self.names.add(child.arg)
                    inner.bound.add(child.arg)
                else:
                    todo.append((child, inner))
        elif isinstance(node, (ast.Global, ast.Nonlocal)):
            self._declared.append((scope, node))
        elif isinstance(node, ast.NamedExpr):
            around = scope
            while isinstance(around.node, _COMPREHENSIONS) and around.parent is not None:
                around = around.parent
            if around is not scope:
                scope.outer[node.target.id] = around
            self.names.add(node.target.id)
            around.bound.add(node.target.id)
            todo.append((node.value, scope))
        else:
            todo += [(child, scope) for child in ast.iter_child_nodes(node)]

    def _declare(self, scope: Scope, statement: ast.Global | ast.Nonlocal) -> None:
        for name in statement.names:
            owner: Scope | None = self.module
            if isinstance(statement, ast.Nonlocal):
                owner = scope.parent
                while owner is not None and (owner.is_class or name not in owner.bound):
                    owner = owner.parent
            if owner is None or owner is scope:
                continue
            if name in scope.bound:
                scope.bound.discard(name)
                owner.bound.add(name)
                owner.shared.add(name)
            scope.outer[name] = owner
