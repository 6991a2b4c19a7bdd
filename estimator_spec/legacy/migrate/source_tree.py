# SPDX-License-Identifier: Apache-2.0
"""Syntax tree of a program, with offsets and full names, for rules that read nested expressions."""

from __future__ import annotations

import ast
from functools import cached_property

from estimator_spec.legacy.migrate.program import ParsedModule
from estimator_spec.legacy.old_names import present_name
from estimator_spec.legacy.program_source.scopes import names_bound_by


class SourceTree:
    """The syntax tree of a program."""

    def __init__(self, program: ParsedModule) -> None:
        self._places = program.places
        self._tree = program.tree
        self._uses = {use.node: use.names[0] for use in program.uses if len(set(use.names)) == 1}

    @cached_property
    def _parents(self) -> dict[ast.AST, ast.AST]:
        """The node around each node."""
        return {
            child: node for node in ast.walk(self._tree) for child in ast.iter_child_nodes(node)
        }

    @cached_property
    def names(self) -> frozenset[str]:
        """All names that the program reads or binds."""
        return frozenset(name for name, _ in self._bound) | frozenset(
            node.id for node in ast.walk(self._tree) if isinstance(node, ast.Name)
        )

    @cached_property
    def _bound(self) -> list[tuple[str, ast.AST]]:
        """Names and the nodes that bind them, in any scope."""
        return [(name, node) for node in ast.walk(self._tree) for name in names_bound_by(node)]

    def span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        """Returns the offsets of a node's first character and after its last."""
        return self._places.span(node)

    def name_of(self, node: ast.expr) -> str:
        """Returns the present full name of an expression `name.attribute…`, or ''."""
        full = self._uses.get(node, "")
        return present_name(full) if full else ""

    def parent(self, node: ast.AST) -> ast.AST:
        """Returns the node around a node; of a keyword argument, the call."""
        parent = self._parents[node]
        return self._parents[parent] if isinstance(parent, ast.keyword) else parent

    def value_of(self, node: ast.expr) -> ast.expr:
        """Returns the value of a name that is assigned once and never changed, else the node."""
        if not isinstance(node, ast.Name):
            return node
        binders = [binder for name, binder in self._bound if name == node.id]
        if len(binders) != 1:
            return node
        assignment = self._parents[binders[0]]
        if not isinstance(assignment, ast.Assign) or assignment.targets != [binders[0]]:
            return node
        is_changed = any(
            isinstance(around, ast.Attribute)
            or (isinstance(around, ast.Subscript) and not isinstance(around.ctx, ast.Load))
            for around in self.around(node.id)
        )
        return node if is_changed else assignment.value

    def around(self, name: str) -> list[ast.AST]:
        """Returns the nodes around the expressions that read a name, in any scope."""
        return [
            self.parent(node)
            for node in ast.walk(self._tree)
            if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load)
        ]
