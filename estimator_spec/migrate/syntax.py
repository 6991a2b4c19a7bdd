# SPDX-License-Identifier: Apache-2.0
"""Parses a source with LibCST, whose scope analysis says what each name is bound to."""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import textwrap
from collections.abc import Iterator
from typing import Any

from estimator_spec.common.optional_packages import load_extra
from estimator_spec.migrate import unfollowed
from estimator_spec.migrate.program import (
    METHODS,
    NO_LITERAL,
    ROOTS,
    Argument,
    Binding,
    Call,
    Form,
    Program,
    Unfollowed,
    Use,
)
from estimator_spec.migrate.tree_reader import BY_STRINGS, Chain, Reader, dotted


class SourceError(ValueError):
    """A source that isn't Python 3."""


def parse(source: str) -> Program:
    """Parses the source of a module.

    Raises:
        SourceError: it isn't Python 3.
        ImportError: LibCST isn't installed; the message names the extra.
    """
    # An import has to name its package; another module of the program may have imported it.
    if not any(root in source for root in ROOTS) and not unfollowed.IN_TEXT.search(source):
        return Program(source)
    try:
        ast.parse(source)  # Its messages are better, and the result has to satisfy it, too.
    except (SyntaxError, ValueError, RecursionError) as error:
        raise SourceError(str(error)) from None
    cst = load_extra("libcst", "migrate")
    metadata = load_extra("libcst.metadata", "migrate")
    try:
        module = cst.parse_module(source)
    except (cst.ParserSyntaxError, RecursionError) as error:
        raise SourceError(f"{type(error).__name__}: {textwrap.shorten(str(error), 200)}") from None
    # The tree is ours: without a copy.
    wrapper = metadata.MetadataWrapper(module, unsafe_skip_copy=True)
    positions = wrapper.resolve(metadata.PositionProvider)
    scopes = wrapper.resolve(metadata.ScopeProvider)
    reader = Reader(cst, source, positions)
    reader.read(module)
    return _Resolver(reader, scopes).program()


class _Resolver:
    """Follows names to their imports, and makes values of what a visit collected."""

    def __init__(self, reader: Reader, scopes: Any) -> None:
        self._cst = load_extra("libcst", "migrate")
        self._reader = reader
        self._found = reader.found
        self._scopes = scopes
        self._bindings: list[Binding] = []
        # Binding of an import by the import's node and the name; of an alias by its target.
        self._by_node: dict[tuple[int, str], int] = {}
        self._by_name: dict[str, set[int]] = {}
        self._mixed: set[int] = set()
        self._followed: set[int] = set()  # ids of the values of aliases

    def program(self) -> Program:
        """Returns the values."""
        for node, statement, in_function in self._found.imports:
            self._bind_import(node, statement, in_function)
        self._bind_aliases()
        uses: list[Use] = []
        index: dict[int, int] = {}
        rest: list[Chain] = []
        for chain in self._found.chains:
            use = self._use(chain)
            if use is not None:
                index[id(chain.nodes[-1])] = len(uses)
                uses.append(use)
            else:
                rest.append(chain)
        insertion, after = self._places()
        return Program(
            self._reader.lines.text,
            tuple(self._found.statements),
            tuple(self._bindings),
            tuple(uses),
            tuple(self._calls(index)),
            frozenset(self._mixed),
            self._other_names(),
            frozenset(self._found.exported),
            insertion,
            after,
            tuple(self._unfollowed(rest, {node: uses[number] for node, number in index.items()})),
            any(node.func.value in BY_STRINGS for node in self._reader.calls_of_names()),
        )

    def _add(self, node: Any, binding: Binding) -> None:
        self._by_node[id(node), binding.local] = len(self._bindings)
        self._by_name.setdefault(binding.local, set()).add(len(self._bindings))
        self._bindings.append(binding)

    def _bind_import(self, node: Any, statement: int, in_function: bool) -> None:
        cst = self._cst
        where = (statement, in_function, self._is_in_class(node))
        if isinstance(node, cst.Import):
            for alias in node.names:
                module = dotted(cst, alias.name)
                local = alias.evaluated_alias or module.split(".")[0]
                full = module if alias.asname else local
                self._add(node, Binding(Form.IMPORT, local, full, module, *where))
            return
        module = dotted(cst, node.module)
        if isinstance(node.names, cst.ImportStar):
            self._add(node, Binding(Form.STAR, "", module, module, *where))
            return
        for alias in node.names:
            local = alias.evaluated_alias or alias.evaluated_name
            full = f"{module}.{alias.evaluated_name}"
            self._add(node, Binding(Form.FROM, local, full, module, *where))

    def _is_in_class(self, node: Any) -> bool:
        """Returns whether what a node binds is an attribute of a class."""
        return type(self._scopes.get(node)).__name__ == "ClassScope"

    def _bind_aliases(self) -> None:
        """Adds the aliases, and aliases of aliases, in the order of the source."""
        for target, value, statement, in_function in self._found.aliases:
            nodes = [value]
            while isinstance(nodes[-1], self._cst.Attribute):
                nodes.append(nodes[-1].value)
            if not isinstance(nodes[-1], self._cst.Name):
                continue
            found = self._names(nodes[-1])
            scope = self._scopes.get(target)
            if found is None or len(found) != 1 or len(list(scope[target.value])) != 1:
                continue
            if self._is_in_class(target):  # Other code reads it as an attribute.
                continue
            self._followed.add(id(value))
            attributes = [node.attr.value for node in reversed(nodes[:-1])]
            full = ".".join([self._bindings[found[0]].full, *attributes])
            alias = Binding(Form.ALIAS, target.value, full, "", statement, in_function)
            self._add(target, dataclasses.replace(alias, origin=found[0]))

    def _names(self, root: Any) -> tuple[int, ...] | None:
        """Returns the bindings that a name may have; None if there are others than ours."""
        if root.value not in self._by_name:
            return None
        scope = self._scopes.get(root)
        if scope is None:
            return None
        nodes = [getattr(assignment, "node", None) for assignment in scope[root.value]]
        found = [self._by_node.get((id(node), root.value)) for node in nodes]
        known = {index for index in found if index is not None}
        if len(known) == len(found):
            return tuple(sorted(known)) or None
        if not any(node is root for node in nodes):  # not where the name is bound
            # A class body reads the import until its own name of the kind is bound.
            is_class = type(scope).__name__ == "ClassScope"
            self._mixed |= self._by_name[root.value] if is_class else known
        return None

    def _use(self, chain: Chain) -> Use | None:
        root = chain.nodes[0]
        bindings = self._names(root)
        if bindings is None or (id(root), root.value) in self._by_node:
            return None
        spans = [self._reader.span(node) for node in chain.nodes]
        attributes = chain.attributes()
        names = [".".join([self._bindings[b].full, *attributes]) for b in bindings]
        start = spans[0][0]
        if not self._reader.lines.text.startswith(root.value, start):
            raise SourceError(f"the position of {root.value} isn't known: unusual line ends?")
        ends = tuple(end for _, end in spans)
        return Use(
            bindings,
            tuple(names),
            start,
            ends,
            chain.in_function,
            chain.statement,
            chain.is_plain,
            chain.quote,
        )

    def _mixed_names(self, chain: Chain) -> list[str]:
        """Returns what an expression may be if its name has bindings of ours and others."""
        root = chain.nodes[0]
        scope = self._scopes.get(root)
        if root.value not in self._by_name or scope is None:
            return []
        nodes = [getattr(assignment, "node", None) for assignment in scope[root.value]]
        if any(node is root for node in nodes):
            return []
        found = {self._by_node.get((id(node), root.value)) for node in nodes}
        if type(scope).__name__ == "ClassScope":
            found |= self._by_name[root.value]
        return [
            ".".join([self._bindings[index].full, *chain.attributes()])
            for index in sorted(each for each in found if each is not None)
        ]

    def _unfollowed(self, rest: list[Chain], uses: dict[int, Use]) -> Iterator[Unfollowed]:
        """Yields the places where old names may be read in a way that isn't followed."""
        finder = unfollowed.Finder(self._cst, self._reader, self._bindings)
        known = self._found.harmless | self._followed
        yield from finder.passed_on(use for node, use in uses.items() if node not in known)
        for chain in rest:
            scope = self._scopes.get(chain.nodes[0])
            assignments = list(scope[chain.nodes[0].value]) if scope is not None else [None]
            nodes = [getattr(assignment, "node", None) for assignment in assignments]
            if not any(id(node) in self._found.restored for node in nodes):
                yield from finder.in_chain(chain, self._mixed_names(chain), not nodes)
        yield from finder.elsewhere(known)

    def _calls(self, uses: dict[int, int]) -> Iterator[Call]:
        cst = self._cst
        for node, in_function in self._found.calls:
            use = uses.get(id(node.func))
            name = node.func.attr if isinstance(node.func, cst.Attribute) else node.func
            if use is None and (name is node.func or name.value not in METHODS):
                continue
            (start, end), (line_of, _) = self._reader.span(node), self._reader.span(name)
            arguments = tuple(self._argument(argument) for argument in node.args)
            yield Call(use, name.value, start, end, line_of, arguments, in_function)

    def _argument(self, node: Any) -> Argument:
        start, end = self._reader.span(node.value)
        text = self._reader.lines.text[start:end]
        literal: Any = NO_LITERAL
        # Another expression raises one of these.
        with contextlib.suppress(ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
            literal = ast.literal_eval(text)
        keyword = node.star or (node.keyword.value if node.keyword else None)
        return Argument(keyword, start, end, literal)

    def _other_names(self) -> frozenset[str]:
        """Returns the names that the program binds in any scope, other than by our bindings."""
        names = set()
        for scope in set(self._scopes.values()):
            for assignment in scope.assignments if scope is not None else ():
                key = (id(getattr(assignment, "node", None)), assignment.name)
                if key not in self._by_node:
                    names.add(assignment.name.split(".")[0])
        of_imports = {
            b.local for b in self._bindings if b.form is Form.IMPORT and b.full == b.local
        }
        return frozenset(names - of_imports)

    def _places(self) -> tuple[int, int]:
        """Returns offsets for new imports, and for statements after the imports."""
        top = self._reader.top
        tops = [
            self._found.statements[binding.statement].top
            for binding in self._bindings
            if binding.form is not Form.ALIAS
        ]
        lines = self._reader.lines
        first = [start for start, _, kind in top if kind in ("import", "other")]
        insertion = lines.start_of_line(min(tops or first or [len(lines.text)]))
        after = insertion
        for start, end, kind in top:
            if start >= insertion and kind != "import":
                break
            if start >= insertion:
                after = lines.end_of_line(end)
        return insertion, after
