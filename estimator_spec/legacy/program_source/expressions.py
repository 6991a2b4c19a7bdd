# SPDX-License-Identifier: Apache-2.0
"""Reads expressions and simple statements: which names they read, and which they bind."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from estimator_spec.legacy.program_source import versions
from estimator_spec.legacy.program_source.names import (
    ROOTS,
    Chain,
    Definition,
    Export,
    ModuleNames,
    Test,
    Value,
)
from estimator_spec.legacy.program_source.scopes import Scope, names_bound_by
from estimator_spec.legacy.program_source.states import States
from estimator_spec.legacy.program_source.versions import Constant

# Functions that may be passed a module without reading a name of it.
HARMLESS = frozenset({"bool", "dir", "hasattr", "id", "isinstance", "print", "repr", "str", "type"})


class Reader(States, ast.NodeVisitor):
    """Reads expressions and simple statements."""

    def __init__(self, names: ModuleNames) -> None:
        super().__init__(names)
        self._of_several: list[tuple[Chain, Scope]] = []  # chains of names that scopes share
        self._clause: ast.AST = self._statement
        self._string: ast.JoinedStr | None = None

    # Simple statements.

    def visit_Import(self, node: ast.Import) -> None:
        """Binds the modules of an import."""
        for alias in node.names:
            is_root = alias.name.split(".")[0] in ROOTS
            module = alias.name if is_root else self._names.neighbours.find(0, alias.name)
            local, _, _ = alias.name.partition(".")
            found = self._define(alias, alias.asname or local)
            if module is not None:
                if not alias.asname:
                    own = None if is_root else self._names.neighbours.find(0, local)
                    module = local if is_root else own or local
                found.values = (Value(module, not is_root, module == "tensorflow"),)
                self._names.definitions.append(found)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        """Binds the names of an import from a module."""
        module, neighbours = node.module or "", self._names.neighbours
        is_root = not node.level and module.split(".")[0] in ROOTS
        own = None if is_root else neighbours.find(node.level, module)
        for alias in node.names:
            if is_root and alias.name == "*":
                star = Definition("*", alias, self._statement, self._in_function)
                star.values = (Value(module, False, module == "tensorflow"),)
                self._names.definitions.append(star)
                continue
            stars = neighbours.summary(own).starred if own is not None and alias.name == "*" else ()
            for name in stars or (alias.name,):
                found = self._define(alias, alias.asname or name)
                if is_root:
                    value = Value(f"{module}.{name}", False, module == "tensorflow")
                    found.values = (value,)
                elif own is not None:
                    export = neighbours.summary(own).exports.get(name, Export())
                    found.test = export.test
                    found.values = self._names.attribute(Value(own, is_own=True), name)
                if found.values != (None,):
                    self._names.definitions.append(found)

    def visit_Assign(self, node: ast.Assign) -> None:
        """Binds targets; a single name may be an alias, or a test of the version."""
        before = len(self._names.chains)
        self.visit(node.value)
        chain = self._names.chains[-1] if len(self._names.chains) > before else None
        target = node.targets[0]
        if len(node.targets) == 1 and isinstance(target, ast.Name):
            outcomes = self._evaluate(node.value)
            found = self._define(target, target.id)
            found.test = None if outcomes is None else Test(outcomes)
            if node.value in self._names.restored:
                self._names.restored.add(target)
            if chain is not None and chain.nodes[-1] is node.value:
                found.alias = chain
                self._names.definitions.append(found)
            return
        for target in node.targets:
            self.visit(target)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        """Reads and binds the target."""
        self.visit(node.value)
        if isinstance(node.target, ast.Name):
            self._read_name(node.target)
        self.visit(node.target)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        """Binds the target, if it gets a value."""
        self.visit(node.annotation)
        if node.value is not None:
            self.visit(node.value)
            self.visit(node.target)
        elif not isinstance(node.target, ast.Name):
            self.visit(node.target)

    def visit_Expr(self, node: ast.Expr) -> None:
        """Reads a value that nothing uses."""
        self._names.harmless.add(node.value)
        self.visit(node.value)

    def visit_Delete(self, node: ast.Delete) -> None:
        """Unbinds names."""
        for target in node.targets:
            self._names.harmless.add(target)
            if isinstance(target, ast.Name):
                self._frame.state.pop(target.id, None)
            else:
                self.visit(target)

    def visit_arg(self, node: ast.arg) -> None:
        """Binds a parameter."""
        self._define(node, node.arg)  # its annotation is read outside

    # Expressions.

    def generic_visit(self, node: ast.AST) -> None:
        """Binds the names of another node, and reads its parts."""
        for name in names_bound_by(node):
            self._define(node, name)
        super().generic_visit(node)

    def visit_Name(self, node: ast.Name) -> None:
        """Reads or binds a name."""
        if isinstance(node.ctx, ast.Load):
            self._read_name(node)
        else:
            self._define(node, node.id)

    def _read_name(self, node: ast.Name, attributes: Sequence[ast.Attribute] = ()) -> None:
        found = self._definitions(node.id)
        known = found if isinstance(found, frozenset) else frozenset()
        chain = Chain([node, *attributes], known, found is not None, self._clause, self._string)
        if isinstance(found, Scope):
            self._of_several.append((chain, found))
        self._names.chains.append(chain)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        """Reads a dotted expression."""
        value, nodes = split_attributes(node)
        if isinstance(value, ast.Name):
            self._read_name(value, nodes)
        else:
            self._names.others.append((node, value, [each.attr for each in nodes]))
            self.visit(value)

    def visit_Constant(self, node: ast.Constant) -> None:
        """Keeps a string."""
        if isinstance(node.value, str):
            self._names.strings.append(node)

    def visit_Call(self, node: ast.Call) -> None:
        """Keeps a call, and reads its parts."""
        if isinstance(node.func, (ast.Attribute, ast.Name)):
            self._names.calls.append(node)
        if isinstance(node.func, ast.Name) and node.func.id in HARMLESS:
            self._names.harmless.update(node.args)
        if last_name(node.func) == "restored":
            self._names.restored.update([node, *node.args])
        self.visit(node.func)
        for argument in (*node.args, *node.keywords):
            self.visit(argument)

    def visit_Compare(self, node: ast.Compare) -> None:
        """Reads compared values."""
        for value in (node.left, *node.comparators):
            self._names.harmless.add(value)
            self.visit(value)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        """Reads the operands of sums, of which hundreds may follow each other."""
        right = [node.right]
        while isinstance(node.left, ast.BinOp):
            node = node.left
            right.append(node.right)
        self.visit(node.left)
        for value in reversed(right):
            self.visit(value)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        """Reads operands up to the one that the version says is the last."""
        for value in node.values:
            self.visit(value)
            if self._truth(value) is isinstance(node.op, ast.Or):
                return

    def visit_IfExp(self, node: ast.IfExp) -> None:
        """Reads the branches that the version leaves."""
        self.visit(node.test)
        is_true = self._truth(node.test)
        if is_true is not False:
            self.visit(node.body)
        if is_true is not True:
            self.visit(node.orelse)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Reads the fields of an f-string."""
        outer, self._string = self._string, node
        self._fields(node)
        self._string = outer

    def _fields(self, node: ast.JoinedStr) -> None:
        """Reads the fields of an f-string, and those in their formats."""
        for part in node.values:
            if isinstance(part, ast.FormattedValue):
                self.visit(part.value)
                if isinstance(part.format_spec, ast.JoinedStr):
                    self._fields(part.format_spec)

    def visit_NamedExpr(self, node: ast.NamedExpr) -> None:
        """Binds a name in an expression."""
        self.visit(node.value)
        self._define(node.target, node.target.id)

    # Tests of TensorFlow's version.

    def _evaluate(self, node: ast.expr | None) -> Constant | None:
        return None if node is None else versions.evaluate(node, self._look_up)

    def _truth(self, node: ast.expr) -> bool | None:
        values = self._evaluate(node)
        return None if values is None else values.truth()

    def _look_up(self, node: ast.expr) -> Constant | Sequence[str] | None:
        """Returns what a dotted expression or a call without arguments is; see `versions`."""
        is_call = isinstance(node, ast.Call)
        value, nodes = split_attributes(node.func if isinstance(node, ast.Call) else node)
        found = self._definitions(value.id) if isinstance(value, ast.Name) else None
        if not isinstance(value, ast.Name) or not found or isinstance(found, Scope):
            return None
        if not all(each.statement for each in found):
            return None
        chain = Chain([value, *nodes], found, True, self._clause)
        tests = {self._names.test(each, chain.attributes) for each in found}
        if tests != {None}:
            test = tests.pop()
            if tests or test is None or test.is_function is not is_call:
                return None
            return test.outcomes
        meanings, others = self._names.meanings(chain)
        if others or is_call or any(meaning.value.is_own for meaning in meanings):
            return None
        return [meaning.value.full for meaning in meanings]


def split_attributes(node: ast.expr) -> tuple[ast.expr, list[ast.Attribute]]:
    """Returns what an expression reads attributes of, and the attributes, the first one first."""
    attributes: list[ast.Attribute] = []
    while isinstance(node, ast.Attribute):
        attributes.insert(0, node)
        node = node.value
    return node, attributes


def last_name(node: ast.expr | None) -> str:
    """Returns the last part of a dotted expression; '' for another one."""
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""
