# SPDX-License-Identifier: Apache-2.0
"""Parses a source, and makes the values that rules read of what its names are bound to."""

from __future__ import annotations

import ast
import dataclasses
import itertools
from collections.abc import Iterator, Mapping

from estimator_spec.legacy import program_api
from estimator_spec.legacy.migrate import unfollowed
from estimator_spec.legacy.migrate.program import (
    METHODS,
    ROOTS,
    Binding,
    BoundUse,
    FollowedCall,
    Form,
    ModuleApi,
    ParsedModule,
    Statement,
    Unfollowed,
)
from estimator_spec.legacy.program_source import flow, places
from estimator_spec.legacy.program_source.names import (
    Chain,
    Definition,
    Meaning,
    ModuleNames,
    Neighbours,
)
from estimator_spec.legacy.program_source.places import Places
from estimator_spec.legacy.program_source.scopes import names_bound_by, names_listed


class SourceError(ValueError):
    """A source that isn't Python 3."""


def parse(
    source: str, neighbours: Neighbours | None = None, api: ModuleApi | None = None
) -> ParsedModule:
    """Parses the source of a module.

    Args:
        source: the source.
        neighbours: the other modules of its program. None: its imports of them aren't followed.
        api: the API that its program is written for. None: it is the whole program.

    Raises:
        SourceError: it isn't Python 3.
    """
    # An import has to name its package; another module of the program may have imported it.
    is_alone = neighbours is None and not any(root in source for root in ROOTS)
    if is_alone and not unfollowed.IN_TEXT.search(source):
        return ParsedModule(source)
    try:
        tree = places.parse(source)
        names = flow.read(tree, neighbours)
    except (SyntaxError, ValueError, RecursionError) as error:
        raise SourceError(str(error)) from error
    if api is None:
        api = ModuleApi.TF1 if program_api.is_of_tf1(names) else ModuleApi.TF2
    return dataclasses.replace(_Maker(source, names).program(), api=api)


class _Maker:
    """Makes the values."""

    def __init__(self, source: str, names: ModuleNames) -> None:
        self._source = source
        self._names = names
        self._places = Places(source)
        self._statements: list[Statement] = []
        self._of_statement: dict[ast.stmt, int] = {}
        self._bindings: list[Binding] = []
        # Bindings of a definition, in the order of its values; of a module of the program, by the
        # expression that reads a name of it.
        self._by_definition: dict[Definition, list[int]] = {}
        self._of_modules: dict[tuple[Definition, str, str], int] = {}
        self._blocks = _blocks(names.tree)
        self._meanings = {chain: names.meanings(chain) for chain in names.chains}

    def program(self) -> ParsedModule:
        """Returns the values."""
        followed: set[ast.AST] = set()
        for definition in self._names.definitions:
            is_followed = self._bind(definition) and not definition.in_class
            if definition.alias is not None and is_followed:
                followed.add(definition.alias.nodes[-1])  # of a class, by other code, too
        uses: list[BoundUse] = []
        index: dict[ast.AST, int] = {}
        rest: list[Chain] = []
        for chain in self._names.chains:
            use = self._use(chain)
            if use is None:
                rest.append(chain)
            else:
                index[chain.nodes[-1]] = len(uses)
                uses.append(use)
        # Bindings that a name may have in expressions that may be something else.
        mixed = {chain: self._full_names(chain) for chain in rest}
        finder = unfollowed.UnfollowedFinder(self._names, self._places, self._bindings)
        known = self._names.harmless | followed
        return ParsedModule(
            self._source,
            tuple(self._statements),
            tuple(self._bindings),
            tuple(uses),
            tuple(self._calls(index)),
            frozenset(binding for found in mixed.values() for _, binding in found),
            self._other_names(),
            names_listed(self._names.tree),
            tuple(self._unfollowed(finder, mixed, known, uses, index)),
            finder.reads_by_strings(),
            self._names.tree,
        )

    # Statements and bindings.

    def _statement(self, node: ast.stmt) -> int:
        found = self._of_statement.get(node)
        if found is not None:
            return found
        start, end = self._places.span(node)
        block, siblings, at = self._blocks[node]
        before = self._source[self._source.rfind("\n", 0, start) + 1 : start]
        is_alone = not before.strip() and not any(
            self._places.share_a_line(*pair)
            for pair in itertools.pairwise(siblings[max(at - 1, 0) : at + 2])
        )
        indent = "" if before.strip() else before
        block_size = len(siblings) if block else 0
        self._statements.append(Statement(start, end, indent, is_alone, block, block_size))
        self._of_statement[node] = len(self._statements) - 1
        return len(self._statements) - 1

    def _bind(self, definition: Definition) -> list[int]:
        """Adds the bindings of what a statement binds; returns their indices."""
        if definition not in self._by_definition and definition.statement is not None:
            if definition.alias is not None:
                self._bind_alias(definition, definition.alias)
            elif isinstance(definition.statement, ast.Import):
                self._bind_import(definition.statement)
            else:
                self._bind_values(definition, definition.statement)
        return self._by_definition.get(definition, [])

    def _add(self, definition: Definition | None, binding: Binding) -> None:
        if definition is not None:
            self._by_definition.setdefault(definition, []).append(len(self._bindings))
        self._bindings.append(binding)

    def _bind_alias(self, definition: Definition, chain: Chain) -> None:
        self._by_definition[definition] = []
        meanings, others = self._meanings[chain]
        origins = [self._binding_of(meaning, chain) for meaning in meanings]
        if others or definition.statement is None:
            return
        for meaning, origin in zip(meanings, origins, strict=True):
            if origin is not None:
                where = self._statement(definition.statement), definition.in_function
                names = definition.name, meaning.value.full, ""
                alias = Binding(Form.ALIAS, *names, *where, definition.in_class, origin)
                self._add(definition, alias)

    def _bind_import(self, statement: ast.Import) -> None:
        """Adds the bindings of all imports of a statement, in their order."""
        if not any(alias.name.split(".")[0] in ROOTS for alias in statement.names):
            return
        ours = {each.node: each for each in self._names.definitions}
        for alias in statement.names:
            definition = ours.get(alias)
            value = None if definition is None else definition.values[0]
            local = alias.asname or alias.name.split(".")[0]
            full = alias.name if alias.asname else local
            is_ours = value is not None and not value.is_own
            self._add(
                definition if is_ours else None,
                Binding(
                    Form.IMPORT,
                    local,
                    full,
                    alias.name,
                    self._statement(statement),
                    definition is not None and definition.in_function,
                    definition is not None and definition.in_class,
                    from_tensorflow=full == "tensorflow",
                ),
            )

    def _bind_values(self, definition: Definition, statement: ast.stmt) -> None:
        """Adds the bindings of a name that comes from a module, or from one of the program."""
        for value in definition.values:
            if value is None or value.is_own:
                continue
            assert isinstance(statement, ast.ImportFrom)
            form, module, local = Form.FROM, statement.module or "", definition.name
            if self._is_own(statement):
                found = self._names.neighbours.find(statement.level, module)
                form, module = Form.OWN, found or module
            elif definition.name == "*":
                form, local = Form.STAR, ""
            where = (self._statement(statement), definition.in_function, definition.in_class)
            binding = Binding(form, local, value.full, module, *where)
            self._add(
                definition, dataclasses.replace(binding, from_tensorflow=value.from_tensorflow)
            )

    def _is_own(self, statement: ast.ImportFrom) -> bool:
        return bool(statement.level) or (statement.module or "").split(".")[0] not in ROOTS

    def _binding_of(self, meaning: Meaning, chain: Chain) -> int | None:
        """Returns the binding of an expression's first name, or of a module's name that it reads.

        Returns None for a module of the program.
        """
        if meaning.value.is_own:
            return None
        attributes = chain.attributes
        num_read = len(attributes) - meaning.length + 1
        full = ".".join(meaning.value.full.split(".")[: -num_read or None])
        definition = meaning.definition
        if meaning.length == 1:
            return next(
                (index for index in self._bind(definition) if self._bindings[index].full == full),
                None,
            )
        local = ".".join([chain.name, *attributes[: meaning.length - 1]])
        key = (definition, local, full)
        if key not in self._of_modules and definition.statement is not None:
            self._of_modules[key] = len(self._bindings)
            statement = self._statement(definition.statement)
            self._bindings.append(
                Binding(
                    Form.OWN,
                    local,
                    full,
                    self._module_of(meaning, attributes),
                    statement,
                    definition.in_function,
                    from_tensorflow=meaning.value.from_tensorflow,
                )
            )
        return self._of_modules.get(key)

    def _module_of(self, meaning: Meaning, attributes: list[str]) -> str:
        """Returns the module of the program that an expression reads a name of."""
        values = self._names.values(meaning.definition)
        first = next((value.full for value in values if value is not None and value.is_own), "")
        return ".".join([first, *attributes[: meaning.length - 2]])

    # Uses and calls.

    def _use(self, chain: Chain) -> BoundUse | None:
        meanings, others = self._meanings[chain]
        lengths = {meaning.length for meaning in meanings}
        if others or len(lengths) != 1:
            return None
        found = [self._binding_of(meaning, chain) for meaning in meanings]
        bindings = tuple(index for index in found if index is not None)
        if len(bindings) != len(meanings):
            return None
        spans = [self._places.span(node) for node in chain.nodes]
        start = spans[0][0]
        if not self._source.startswith(chain.name, start):
            raise SourceError(f"the position of {chain.name} isn't known")
        ends = tuple(end for _, end in spans[lengths.pop() - 1 :])
        quote = '"'
        if chain.string is not None:
            quote = places.quote_inside(self._source, chain.string, self._places, start)
        return BoundUse(
            bindings,
            tuple(meaning.value.full for meaning in meanings),
            start,
            ends,
            chain.nodes[-1],
            self._places.statement(chain.statement),
            not any(mark in self._source[start : ends[-1]] for mark in "()#"),
            quote,
        )

    def _full_names(self, chain: Chain) -> list[tuple[str, int]]:
        """Returns the full names that an expression may have, each with a binding of its name."""
        meanings, _ = self._meanings[chain]
        found = [(meaning.value.full, self._binding_of(meaning, chain)) for meaning in meanings]
        return [(full, index) for full, index in found if index is not None]

    def _unfollowed(
        self,
        finder: unfollowed.UnfollowedFinder,
        mixed: Mapping[Chain, list[tuple[str, int]]],
        known: set[ast.AST],
        uses: list[BoundUse],
        index: dict[ast.AST, int],
    ) -> Iterator[Unfollowed]:
        """Yields the places where old names may be read in a way that isn't followed."""
        yield from finder.passed_on(uses[at] for node, at in index.items() if node not in known)
        for chain, found in mixed.items():
            if any(each.node in self._names.restored for each in chain.definitions):
                continue
            pairs = [(full, self._bindings[index]) for full, index in found]
            # An old name that gets another one is treated there.
            fulls = [
                full
                for full, binding in pairs
                if binding.form is not Form.ALIAS or not unfollowed.is_old(binding.full)
            ]
            yield from finder.in_chain(chain, fulls)
        yield from finder.elsewhere(known)

    def _calls(self, index: dict[ast.AST, int]) -> Iterator[FollowedCall]:
        for node in self._names.calls:
            use = index.get(node.func)
            if isinstance(node.func, ast.Attribute):
                method = node.func.attr
            else:
                assert isinstance(node.func, ast.Name)
                method = node.func.id
            if use is None and (isinstance(node.func, ast.Name) or method not in METHODS):
                continue
            start, end = self._places.span(node)
            line_of = self._places.span(node.func)[1] - len(method)
            yield FollowedCall(use, method, start, end, line_of, node)

    # The whole module.

    def _other_names(self) -> frozenset[str]:
        """Returns the names that the program binds in any scope, other than by our bindings."""
        ours = {each.node for each, bindings in self._by_definition.items() if bindings}
        names = {
            name
            for node in ast.walk(self._names.tree)
            if node not in ours
            for name in names_bound_by(node)
        }
        of_imports = {
            b.local for b in self._bindings if b.form is Form.IMPORT and b.full == b.local
        }
        return frozenset(names - of_imports)


def _blocks(tree: ast.Module) -> dict[ast.stmt, tuple[int, list[ast.stmt], int]]:
    """Returns for each statement the number of its block, 0 for the module, and its place in it."""
    found: dict[ast.stmt, tuple[int, list[ast.stmt], int]] = {}
    count = 0
    todo: list[tuple[list[ast.stmt], int]] = [(tree.body, 0)]
    while todo:
        block, number = todo.pop()
        for at, statement in enumerate(block):
            found[statement] = (number, block, at)
            handlers, cases = getattr(statement, "handlers", ()), getattr(statement, "cases", ())
            for each in (statement, *handlers, *cases):
                for name in ("body", "orelse", "finalbody"):
                    body = getattr(each, name, None)
                    if body:
                        count += 1
                        todo.append((body, count))
    return found
