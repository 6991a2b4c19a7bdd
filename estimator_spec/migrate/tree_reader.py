# SPDX-License-Identifier: Apache-2.0
"""Walks a syntax tree of LibCST, and collects what `syntax` resolves."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from estimator_spec.migrate.edits import Lines
from estimator_spec.migrate.program import ROOTS, Statement


class Chain(NamedTuple):
    """An expression `name.attribute…`; `nodes` are the name and the attributes around it."""

    nodes: list[Any]
    in_function: bool
    statement: int
    is_plain: bool
    quote: str

    def attributes(self) -> list[str]:
        """Returns the names of the attributes."""
        return [node.attr.value for node in self.nodes[1:]]


class Visited(NamedTuple):
    """Imports, aliases, dotted names and calls that a visit of the tree collects."""

    imports: list[tuple[Any, int, bool]]  # node, index of the statement, in a function
    aliases: list[tuple[Any, Any, int, bool]]  # target, value, index, in a function
    chains: list[Chain]
    calls: list[tuple[Any, bool]]  # node, in a function
    others: list[tuple[Any, list[str]]]  # attributes of an expression that isn't a name
    strings: list[Any]
    harmless: set[int]  # ids of nodes of which no attribute is read
    restored: set[int]  # ids of names that are assigned what `restored` returns, and of its texts
    statements: list[Statement]
    exported: set[str]


# Fields of LibCST's nodes that hold no expressions and no statements.
_NO_CODE = re.compile(
    r"whitespace|comma|semicolon|par$|bracket$|brace$|line|header|footer|indent|operator|equal|dot$"
    r"|newline|encoding|colon|arrow|star$|asynchronous"
)
# Functions that may be passed a module without reading an old name of it.
HARMLESS = frozenset({"bool", "dir", "hasattr", "id", "isinstance", "print", "repr", "str", "type"})
# Functions that reach variables by strings.
BY_STRINGS = frozenset({"eval", "exec", "globals", "locals", "vars"})
# Names that aren't expressions.
_NAMES = {
    "Arg": ("keyword",),
    "ClassDef": ("name",),
    "FunctionDef": ("name",),
    "Global": ("names",),
    "NameItem": ("name",),
    "Nonlocal": ("names",),
    "Param": ("name",),
}


class Reader:
    """Collects imports, aliases, dotted expressions and calls of a tree.

    A walk of its own: LibCST's visitors visit each space and comma, and take three times as long.
    """

    def __init__(self, cst: Any, source: str, positions: Any) -> None:
        self.lines = Lines(source)
        self.found = Visited([], [], [], [], [], [], set(), set(), [], set())
        self.top: list[tuple[int, int, str]] = []  # start, end, kind of each statement
        self._cst = cst
        self._positions = positions
        self._fields: dict[type, tuple[str, ...]] = {}
        self._handlers: dict[type, Callable[[Any], bool]] = {
            cst.Import: self._read_import,
            cst.ImportFrom: self._read_import,
            cst.Assign: self._read_assign,
            cst.Attribute: self._read_attribute,
            cst.Name: self._read_name,
            cst.SimpleString: self._read_string,
            cst.Call: self._read_call,
            cst.Comparison: self._read_comparison,
            cst.Del: self._read_harmless,
            cst.Expr: self._read_harmless,
            cst.FormattedString: self._read_formatted_string,
            cst.FunctionDef: self._read_function,
            cst.Lambda: self._read_function,
        }
        self._depth = 0
        self._quote = '"'  # for strings in new code
        self._block = 0
        self._num_blocks = 1
        self._statement = 0
        self._top = 0
        self._line: Any = None

    def span(self, node: Any) -> tuple[int, int]:
        """Returns the offsets of a node's first character and after its last."""
        place = self._positions[node]
        offset = self.lines.offset
        start, end = place.start, place.end
        return offset(start.line, start.column), offset(end.line, end.column)

    def read(self, module: Any) -> None:
        """Reads a module."""
        for position, statement in enumerate(module.body):
            start, end = self.span(statement)
            self.top.append((start, end, _statement_kind(self._cst, statement, position)))
            self._top = start
            self._walk(statement)

    def _walk(self, node: Any) -> None:
        cst = self._cst
        if isinstance(node, cst.BaseStatement | cst.ExceptHandler | cst.Else | cst.Finally):
            self._statement = self.span(node)[0]
            self._line = node
        outer = self._block
        if isinstance(node, cst.BaseSuite):
            self._block, self._num_blocks = self._num_blocks, self._num_blocks + 1
        handler = self._handlers.get(type(node))
        if handler is None or handler(node):
            self._walk_fields(node, self._code_fields(node))
        self._block = outer

    def _code_fields(self, node: Any) -> tuple[str, ...]:
        """Returns the names of the fields that hold expressions and statements."""
        fields = self._fields.get(type(node))
        if fields is None:
            skipped = _NAMES.get(type(node).__name__, ())
            fields = tuple(
                name
                for name in type(node).__dataclass_fields__
                if not _NO_CODE.search(name) and name not in skipped
            )
            self._fields[type(node)] = fields
        return fields

    def _walk_fields(self, node: Any, fields: Sequence[str]) -> None:
        for name in fields:
            value = getattr(node, name)
            for child in value if isinstance(value, list | tuple) else (value,):
                if isinstance(child, self._cst.CSTNode):
                    self._walk(child)

    def _read_function(self, node: Any) -> bool:
        fields = self._code_fields(node)
        self._walk_fields(node, [name for name in fields if name != "body"])
        self._depth += 1
        self._walk_fields(node, ["body"])
        self._depth -= 1
        return False

    def _add_statement(self, node: Any) -> int:
        start, end = self.span(node)
        before = self.lines.text[self.lines.start_of_line(start) : start]
        is_line = isinstance(self._line, self._cst.SimpleStatementLine)
        is_alone = is_line and len(self._line.body) == 1 and not before.strip()
        indent = "" if before.strip() else before
        statement = Statement(start, end, indent, is_alone, self._block, self._top)
        self.found.statements.append(statement)
        return len(self.found.statements) - 1

    def _read_import(self, node: Any) -> bool:
        if isinstance(node, self._cst.Import):
            modules = [dotted(self._cst, alias.name) for alias in node.names]
        else:
            modules = [] if node.relative else [dotted(self._cst, node.module)]
        if any(module.split(".")[0] in ROOTS for module in modules):
            self.found.imports.append((node, self._add_statement(node), self._depth > 0))
        return False

    def _read_assign(self, node: Any) -> bool:
        cst, target = self._cst, node.targets[0].target
        if len(node.targets) > 1 or not isinstance(target, cst.Name):
            return True
        if target.value == "__all__" and isinstance(node.value, cst.List | cst.Tuple):
            strings = (element.value for element in node.value.elements)
            self.found.exported.update(
                text.evaluated_value for text in strings if isinstance(text, cst.SimpleString)
            )
        if self._is_restored(node.value):
            self.found.restored.add(id(target))
        if isinstance(node.value, cst.Attribute | cst.Name):
            statement = self._add_statement(node)
            self.found.aliases.append((target, node.value, statement, self._depth > 0))
        return True

    def _read_attribute(self, node: Any) -> bool:
        nodes = [node]
        while isinstance(nodes[-1], self._cst.Attribute):
            nodes.append(nodes[-1].value)
        if not isinstance(nodes[-1], self._cst.Name):
            attributes = [each.attr.value for each in reversed(nodes[:-1])]
            if not self._is_restored(nodes[-1]):
                self.found.others.append((node, attributes))
            self._walk(nodes[-1])
            return False
        start, end = self.span(node)
        is_plain = not any(inner.lpar for inner in nodes[1:])
        self._add_chain(nodes[::-1], is_plain and "#" not in self.lines.text[start:end])
        return False

    def _read_name(self, node: Any) -> bool:
        self._add_chain([node], True)
        return False

    def _add_chain(self, nodes: list[Any], is_plain: bool) -> None:
        chain = Chain(nodes, self._depth > 0, self._statement, is_plain, self._quote)
        self.found.chains.append(chain)

    def _read_formatted_string(self, node: Any) -> bool:
        # Before Python 3.12 an expression can't contain the quote around it.
        outer, self._quote = self._quote, "'" if '"' in node.start else '"'
        self._walk_fields(node, ["parts"])
        self._quote = outer
        return False

    def _read_call(self, node: Any) -> bool:
        if isinstance(node.func, self._cst.Attribute | self._cst.Name):
            self.found.calls.append((node, self._depth > 0))
        if isinstance(node.func, self._cst.Name) and node.func.value in HARMLESS:
            self.found.harmless.update(id(argument.value) for argument in node.args)
        if self._is_restored(node):
            self.found.restored.update(id(argument.value) for argument in node.args)
        return True

    def _is_restored(self, node: Any) -> bool:
        """Returns whether an expression is a call of `estimator_spec.restored`."""
        if not isinstance(node, self._cst.Call):
            return False
        return dotted(self._cst, node.func).rpartition(".")[2] == "restored"

    def calls_of_names(self) -> list[Any]:
        """Returns the calls of functions that are names, not attributes."""
        return [node for node, _ in self.found.calls if isinstance(node.func, self._cst.Name)]

    def _read_comparison(self, node: Any) -> bool:
        values = [node.left, *(part.comparator for part in node.comparisons)]
        self.found.harmless.update(map(id, values))
        return True

    def _read_harmless(self, node: Any) -> bool:
        value = node.target if isinstance(node, self._cst.Del) else node.value
        self.found.harmless.add(id(value))
        return True

    def _read_string(self, node: Any) -> bool:
        self.found.strings.append(node)
        return False


def _statement_kind(cst: Any, statement: Any, position: int) -> str:
    """Returns 'docstring', 'future', 'import' or 'other'."""
    if not isinstance(statement, cst.SimpleStatementLine):
        return "other"
    first = statement.body[0]
    if position == 0 and isinstance(first, cst.Expr):
        is_text = isinstance(first.value, cst.SimpleString | cst.ConcatenatedString)
        return "docstring" if is_text else "other"
    if isinstance(first, cst.ImportFrom) and dotted(cst, first.module) == "__future__":
        return "future"
    return "import" if isinstance(first, cst.Import | cst.ImportFrom) else "other"


def dotted(cst: Any, node: Any) -> str:
    """Returns the dotted name of an expression; '' if it is another one."""
    parts: list[str] = []
    while isinstance(node, cst.Attribute):
        parts.append(node.attr.value)
        node = node.value
    return ".".join([node.value, *reversed(parts)]) if isinstance(node, cst.Name) else ""
