# SPDX-License-Identifier: Apache-2.0
"""Finds the names of TensorFlow that the source of a program uses, without running it."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import NamedTuple

from estimator_spec.legacy import handling, tensorflow_names
from estimator_spec.legacy.program_source.names import ROOTS, Chain, Meaning, ModuleNames

_ROOTS = ("tensorflow", "tensorflow_estimator")
# Exceptions that a call with an unknown argument may be.
_CALL_ERRORS = frozenset({"TypeError", "Exception", "BaseException"})


class NameUse(NamedTuple):
    """A place where a program imports or uses a name.

    Attributes:
        line: its line.
        name: the full dotted name.
        is_import: whether the line only imports it, or assigns it to another name.
        from_tensorflow: whether it is reached from the module `tensorflow`, which `run --tf1`
            replaces, rather than from an imported part, such as `tensorflow.compat.v1`.
        start: line and column of the expression or the import.
        errors: the exceptions that it may be if the name is missing.
    """

    line: int
    name: str
    is_import: bool = False
    from_tensorflow: bool = False
    start: tuple[int, int] = (0, 0)
    errors: frozenset[str] = handling.READ_ERRORS


def uses(names: ModuleNames) -> Iterator[NameUse]:
    """Yields the names of TensorFlow that a module imports, and those that it uses.

    A name that has several values, as after `try: import a as x` `except ImportError: x = b`, is
    each of them. What runs with other versions of TensorFlow only isn't used.
    """
    assigned = set()
    for definition in names.definitions:
        if definition.alias is not None:
            assigned.add(definition.alias.nodes[-1])
        elif isinstance(definition.statement, ast.Import):
            yield from _imported(definition.statement, definition.node)
        elif isinstance(definition.statement, ast.ImportFrom):
            yield from _imported_from(definition.statement, definition.node)
    stars = [
        (definition.statement.module or "", definition.values[0])
        for definition in names.definitions
        if definition.name == "*" and isinstance(definition.statement, ast.ImportFrom)
    ]
    for chain in names.chains:
        last = chain.nodes[-1]
        start = handling.span_in_lines(chain.nodes[0])[0]
        for module, value in () if chain.is_bound else stars:
            if tensorflow_names.versions_of(f"{module}.{chain.name}"):
                full = ".".join([module, chain.name, *chain.attributes])
                yield NameUse(
                    last.lineno, full, False, value is not None and value.from_tensorflow, start
                )
        for meaning in names.meanings(chain)[0]:
            full = meaning.value.full
            if _is_of_module(meaning, chain):
                continue  # it is one where that binds it
            if not isinstance(last.ctx, ast.Load):
                full = full.rpartition(".")[0]  # a new value of an attribute
            if not meaning.value.is_own and full not in _ROOTS and _is_known(full):
                is_import = last in assigned
                yield NameUse(last.lineno, full, is_import, meaning.value.from_tensorflow, start)


def arguments(names: ModuleNames) -> Iterator[tuple[NameUse, str]]:
    """Yields the calls of functions of TensorFlow, each with the keyword of an argument."""
    chains = {chain.nodes[-1]: chain for chain in names.chains}
    for call in names.calls:
        chain = chains.get(call.func) if isinstance(call.func, ast.Name | ast.Attribute) else None
        for meaning in names.meanings(chain)[0] if chain is not None and call.keywords else ():
            start = handling.span_in_lines(call)[0]
            value = meaning.value
            use = NameUse(
                call.lineno, value.full, False, value.from_tensorflow, start, _CALL_ERRORS
            )
            yield from ((use, each.arg) for each in call.keywords if each.arg)


def handling_of(names: ModuleNames, is_there: Callable[[str], bool]) -> handling.Handling:
    """Returns the code of a module for missing names; see `Handling`."""
    chains = {chain.nodes[-1]: chain for chain in names.chains}

    def name_of(node: ast.expr) -> str:
        chain = chains.get(node) if isinstance(node, ast.Name | ast.Attribute) else None
        meanings = names.meanings(chain)[0] if chain is not None else []
        return meanings[0].value.full if meanings else ""

    return handling.Handling(names.tree, name_of, is_there)


def _is_of_module(meaning: Meaning, chain: Chain) -> bool:
    """Returns whether an expression is a name of a module of the program, and nothing of it."""
    statement = meaning.definition.statement
    is_import = isinstance(statement, ast.ImportFrom) and (
        bool(statement.level) or (statement.module or "").split(".")[0] not in ROOTS
    )
    return meaning.length == len(chain.nodes) and (meaning.length > 1 or is_import)


def _imported(statement: ast.Import, alias: ast.AST) -> Iterator[NameUse]:
    assert isinstance(alias, ast.alias)
    if _is_known(alias.name):
        start, errors = handling.span_in_lines(statement)[0], handling.import_errors("")
        yield NameUse(statement.lineno, alias.name, True, False, start, errors)


def _imported_from(statement: ast.ImportFrom, alias: ast.AST) -> Iterator[NameUse]:
    assert isinstance(alias, ast.alias)
    module = "" if statement.level else statement.module or ""
    if _is_known(module):
        full = f"{module}.{alias.name}".removesuffix(".*")
        start, errors = handling.span_in_lines(statement)[0], handling.import_errors(module)
        yield NameUse(statement.lineno, full, True, module == "tensorflow", start, errors)


def _is_known(name: str) -> bool:
    return name.split(".")[0] in _ROOTS
