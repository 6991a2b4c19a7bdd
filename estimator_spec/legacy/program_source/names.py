# SPDX-License-Identifier: Apache-2.0
"""Values of a module's names: what its statements bind, and where that is read."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from estimator_spec.legacy.program_source.scopes import Scopes
from estimator_spec.legacy.program_source.versions import Constant

# Packages whose names are followed.
ROOTS = (
    *("tensorflow", "tensorflow_estimator", "tensorflow_model_analysis"),
    *("estimator_spec", "tpu_columns", "tf_keras"),
)


class Value(NamedTuple):
    """Object of TensorFlow, or module of the program, that a name may be bound to.

    Attributes:
        full: the full dotted name, of `ROOTS` or of a module of the program.
        is_own: whether it is a module of the program.
        from_tensorflow: whether it is reached from the module `tensorflow`, which has TensorFlow
            1's names in a program of that, rather than from a part of it that a program imports by
            its full name, such as `tensorflow.compat.v1`.
    """

    full: str
    is_own: bool = False
    from_tensorflow: bool = False

    def attribute(self, name: str) -> Value:
        """Returns what an attribute of it is, if it is no module of the program."""
        return self._replace(full=f"{self.full}.{name}")


# None is something else than a name of `ROOTS` or a module of the program.
Values = tuple["Value | None", ...]


class Test(NamedTuple):
    """A test of TensorFlow's version: its outcomes, as a value or as what a function returns."""

    outcomes: Constant
    is_function: bool = False


class Export(NamedTuple):
    """A name of a module of the program, as other modules may read it."""

    values: Values = (None,)
    test: Test | None = None


class Summary(NamedTuple):
    """Names that other modules can import from a module.

    Attributes:
        exports: the names that it binds.
        starred: the names that `from module import *` binds.
    """

    exports: Mapping[str, Export] = {}  # never changed
    starred: tuple[str, ...] = ()


class Neighbours(Protocol):
    """The other modules of a program, as a module imports them."""

    def find(self, level: int, module: str) -> str | None:
        """Returns the full name of an imported module; None if it isn't the program's.

        Args:
            level: the number of leading dots.
            module: the name after them.
        """

    def summary(self, module: str) -> Summary:
        """Returns the names of a module of the program, by its full name."""


class Recorded:
    """Neighbours with what was asked of others, which can be sent to another process.

    Args:
        of: the others. None: there are none, the module stands alone.
    """

    def __init__(self, of: Neighbours | None = None) -> None:
        self._of = of
        self._found: dict[tuple[int, str], str | None] = {}
        self._summaries: dict[str, Summary] = {}

    def close(self) -> None:
        """Forgets the other modules: from now on only earlier questions have answers."""
        self._of = None

    def found(self) -> set[str]:
        """Returns the full names of the modules that were found."""
        return {name for name in self._found.values() if name is not None}

    def find(self, level: int, module: str) -> str | None:
        """Returns the full name of an imported module; None if it isn't the program's."""
        key = (level, module)
        if key not in self._found and self._of is not None:
            self._found[key] = self._of.find(level, module)
        return self._found.get(key)

    def summary(self, module: str) -> Summary:
        """Returns the names of a module of the program, by its full name."""
        if module not in self._summaries and self._of is not None:
            self._summaries[module] = self._of.summary(module)
        return self._summaries.get(module, Summary())


@dataclass(eq=False)
class Definition:
    """A name that a statement binds.

    Attributes:
        name: the name.
        node: what binds it: an `ast.alias` of an import, the target of an assignment, another node.
        statement: its statement; None where the flow hasn't reached it: it isn't run.
        in_function: it is bound when a function runs.
        in_class: it is an attribute of a class.
        values: what an import binds, which then is the only value.
        alias: for `name = other.name`, the expression.
        test: the test of TensorFlow's version that it is.
    """

    name: str
    node: ast.AST
    statement: ast.stmt | None = None
    in_function: bool = False
    in_class: bool = False
    values: Values = (None,)
    alias: Chain | None = None
    test: Test | None = None


@dataclass(eq=False)
class Chain:
    """An expression `name.attribute…`.

    Attributes:
        nodes: the name and the attributes around it.
        definitions: what may have bound the name there.
        is_bound: whether any statement binds the name.
        statement: the statement or clause that it is in.
        string: the f-string that it is in, or None.
    """

    nodes: list[ast.Name | ast.Attribute]
    definitions: frozenset[Definition]
    is_bound: bool
    statement: ast.AST
    string: ast.JoinedStr | None = None

    @property
    def name(self) -> str:
        """The name that it begins with."""
        first = self.nodes[0]
        assert isinstance(first, ast.Name)
        return first.id

    @property
    def attributes(self) -> list[str]:
        """The names of the attributes."""
        return [node.attr for node in self.nodes[1:] if isinstance(node, ast.Attribute)]


class Meaning(NamedTuple):
    """A full name that an expression may have.

    Attributes:
        definition: what bound its first name.
        value: the full name.
        length: number of the expression's leading nodes that are modules of the program and the
            name that is read of the last one; 1 if the first name isn't such a module.
    """

    definition: Definition
    value: Value
    length: int = 1


@dataclass
class ModuleNames:
    """The names of a module.

    Attributes:
        tree: its syntax tree.
        scopes: its scopes.
        neighbours: the other modules of the program.
        definitions: what binds names of `ROOTS`, or is an alias, in the order of the flow.
        chains: the dotted expressions.
        exports: what the names of the module are bound to when it has run.
        calls: calls.
        others: attributes of expressions that aren't names, with these and the attributes' names.
        strings: the constant strings, other than parts of f-strings.
        harmless: expressions of which no attribute is read.
        restored: calls of `estimator_spec.restored`, their arguments, and the names that are
            assigned what they return.
    """

    tree: ast.Module
    scopes: Scopes
    neighbours: Neighbours
    definitions: list[Definition] = field(default_factory=list)
    chains: list[Chain] = field(default_factory=list)
    exports: dict[str, Export] = field(default_factory=dict)
    calls: list[ast.Call] = field(default_factory=list)
    others: list[tuple[ast.Attribute, ast.expr, list[str]]] = field(default_factory=list)
    strings: list[ast.Constant] = field(default_factory=list)
    harmless: set[ast.AST] = field(default_factory=set)
    restored: set[ast.AST] = field(default_factory=set)
    _known: dict[Definition, Values] = field(default_factory=dict)

    def starred(self, statement: ast.ImportFrom) -> Iterable[str]:
        """Returns the names that `from module import *` binds; none if it isn't the program's."""
        own = self.neighbours.find(statement.level, statement.module or "")
        return () if own is None else self.neighbours.summary(own).starred

    def values(self, definition: Definition) -> Values:
        """Returns what a statement may bind its name to."""
        if definition.alias is None:
            return definition.values
        if definition not in self._known:
            self._known[definition] = (None,)  # for an alias of itself, in a loop
            meanings, others = self.meanings(definition.alias)
            found = [meaning.value for meaning in meanings]
            is_other = others or not found
            self._known[definition] = (*dict.fromkeys(found), *((None,) if is_other else ()))
        return self._known[definition]

    def reread_values(self) -> None:
        """Reads the values of aliases again, some of which were read before the flow was known."""
        self._known.clear()
        for definition in self.definitions:  # one after the other, not by recursion
            self.values(definition)

    def meanings(self, chain: Chain) -> tuple[list[Meaning], bool]:
        """Returns the full names of `ROOTS` that an expression may have.

        Returns:
            The full names and, where the expression may be a module of the program, that; and
            whether it may also be something else.
        """
        found, others = [], False
        for definition in sorted(chain.definitions, key=place_of):
            for value in self.values(definition):
                meanings = self._read(definition, value, chain.attributes)
                found += meanings
                others |= not meanings
        return found, others

    def _read(
        self, definition: Definition, value: Value | None, attributes: Sequence[str]
    ) -> list[Meaning]:
        """Returns what attributes of a value are."""
        done = 0
        todo = [(value, done)]
        found = []
        while todo:
            value, done = todo.pop()
            if value is None:
                return []
            rest = attributes[done:]
            if not value.is_own:
                full = ".".join([value.full, *rest])
                found.append(Meaning(definition, value._replace(full=full), done + 1))
            elif not rest:
                found.append(Meaning(definition, value, done + 1))
            else:
                todo += [(each, done + 1) for each in self.attribute(value, rest[0])]
        return found

    def test(self, definition: Definition, attributes: Sequence[str]) -> Test | None:
        """Returns the test of TensorFlow's version that attributes of what a name is are."""
        if not attributes:
            return definition.test
        todo = [(value, 0) for value in self.values(definition)]
        while todo:
            value, done = todo.pop()
            if value is None or not value.is_own:
                continue
            if done + 1 == len(attributes):
                exports = self.neighbours.summary(value.full).exports
                return exports.get(attributes[done], Export()).test
            todo += [(each, done + 1) for each in self.attribute(value, attributes[done])]
        return None

    def attribute(self, value: Value, name: str) -> Values:
        """Returns what a name of a module of the program is."""
        export = self.neighbours.summary(value.full).exports.get(name)
        if export is not None:
            return export.values
        inner = self.neighbours.find(0, f"{value.full}.{name}")
        return (None,) if inner is None else (Value(inner, is_own=True),)


def place_of(definition: Definition) -> tuple[int, int]:
    """Returns line and column of what binds a name, by which definitions are sorted."""
    node = definition.node
    return getattr(node, "lineno", 0), getattr(node, "col_offset", 0)
