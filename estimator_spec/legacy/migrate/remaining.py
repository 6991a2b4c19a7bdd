# SPDX-License-Identifier: Apache-2.0
"""Finds the names in a migrated module that today's TensorFlow lacks, and stand-ins.

It reads the result of the rules, and knows names by version: it depends neither on what the rules
treat nor on what they have reported. What the program handles, as by `except ImportError`, counts
as handled.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence

from estimator_spec.legacy import old_names, program_api, tensorflow_names, unsupported_names
from estimator_spec.legacy.migrate.edits import Edit, old_offset
from estimator_spec.legacy.migrate.program import Form, ModuleApi, ParsedModule
from estimator_spec.legacy.migrate.results import Finding, Subject
from estimator_spec.legacy.migrate.rules import tf1_arguments
from estimator_spec.legacy.module_spellings import canonical
from estimator_spec.legacy.old_names import Fate
from estimator_spec.legacy.program_source.expressions import last_name, split_attributes
from estimator_spec.legacy.program_source.places import Places

NAME = "remaining-names"
_GUIDE = "imports-that-arent-supported"
_IMPORTED_ONLY = [[name] for name in tensorflow_names.IMPORTED_ONLY]
_KERAS = ("tensorflow.keras.", "tensorflow.compat.v2.keras.")


def findings(
    source: str,
    done: Sequence[Edit],
    result: ParsedModule,
    api: ModuleApi,
    known: Sequence[Finding],
    left: Mapping[Fate, str],
) -> Iterator[Finding]:
    """Yields a finding for each remaining name that no other finding is about.

    Args:
        source: the source before the migration.
        done: the edits that made the result of it.
        result: the result.
        api: the API that the module was written for.
        known: the findings of the rules.
        left: the rules that weren't applied, by the fates of the names that they are for.
    """
    places = Places(source)
    said: dict[int, list[str]] = {}
    for finding in known:
        if finding.kind is Subject.NOT_REWRITTEN:
            said.setdefault(finding.line, []).append(finding.reason)
    for offset, name, reason in sorted(set(_find(result, api))):
        line, column = places.position(old_offset(done, offset))
        if not any(_is_about(text, name) for text in said.get(line, ())):
            said.setdefault(line, []).append(name)
            old = old_names.find(name)
            if old is not None and old.fate in left:
                reason += f" The rule {left[old.fate]} is for it."
            yield Finding(line, column, NAME, f"{name} {reason}", _GUIDE)


def _is_about(text: str, name: str) -> bool:
    """Returns whether a text has a name, or the module of a name that is in it."""
    words = {word.strip(".,:;") for word in text.split()}
    parts = name.split(".")
    return any(".".join(parts[:end]) in words for end in range(3, len(parts) + 1)) or name in words


def _find(program: ParsedModule, api: ModuleApi) -> Iterator[tuple[int, str, str]]:
    """Yields offset and full name of each name that is missing, and what is known of it."""
    tree = program.tree
    handling = program.handling
    for binding in program.bindings:
        start = program.statements[binding.statement].start
        if binding.form in (Form.IMPORT, Form.FROM, Form.STAR):
            name = binding.full if binding.form is Form.FROM else binding.module
            reason = _missing(name)
            if reason and not handling.handles_import(name, start, binding.imported_from):
                yield start, name, reason
    for use in program.uses:
        for number, name in zip(use.bindings, use.names, strict=True):
            if (
                program.bindings[program.import_of(number)].form is Form.OWN
                and api is ModuleApi.TF1
            ):
                name = program_api.name_in_tf1(name)
            if _is_read_of_tensorflow(program.bindings[number].full, name):
                if not handling.handles_read(name, use.start):
                    yield use.start, name, f"is no attribute of tensorflow: import {name}."
                continue
            # Where a name was bound to something missing it is reported already.
            is_said = _missing(program.bindings[number].full) is not None
            reason = None if is_said else _missing(name)
            if reason and not handling.handles_read(name, use.start):
                yield use.start, name, reason
    for each in program.unfollowed:
        old = None if each.is_module else old_names.find(each.name, False)
        is_gone = old is not None and old.fate is Fate.GONE
        if old is not None and is_gone and not handling.handles_read(each.name, each.offset):
            yield each.offset, each.name, f"may be read here. {old.advice}"
    for call, _, argument in tf1_arguments.renamed(program):
        yield call.line_of, program.name_of(call), argument.reason
    for node, name in _restored(tree):
        if _is_stand_in(name):
            offset, _ = program.places.span(node)
            advice = unsupported_names.advice(*name.rpartition(".")[::2])
            # The rule's words: a marker of it stands above the line already.
            yield offset, canonical(name), f"isn't restored: it can be imported, not used. {advice}"


def _is_read_of_tensorflow(bound: str, name: str) -> bool:
    """Returns whether a name of a package that can only be imported is read as an attribute.

    Args:
        bound: the full name that the expression's first name is bound to.
        name: the full name of the expression.
    """
    return bound == "tensorflow" and name.split(".")[1:2] in _IMPORTED_ONLY


def _is_stand_in(name: str) -> bool:
    """Returns whether `estimator_spec.restored` has a stand-in for a name."""
    old = old_names.find(name, False)
    return old is not None and old.fate is Fate.UNSUPPORTED


def _missing(name: str) -> str | None:
    """Returns what is known of a name that today's TensorFlow lacks; None if it has it."""
    if name.split(".")[0] == "tensorflow_estimator":
        return "is of a package that TensorFlow 2.16 and newer don't have."
    if name.split(".")[0] != "tensorflow" or tensorflow_names.exists(name):
        return None
    if name.startswith(_KERAS) and not tensorflow_names.versions_of(name):
        return None  # It may be one of Keras 3.
    old = old_names.find(name, False)
    if old is not None and old.advice:
        return f"isn't there any more. {old.advice}"
    relative = name.partition(".")[2]
    if tensorflow_names.is_only_in_tf1(relative):
        return f"is TensorFlow 1's; now it is tensorflow.compat.v1.{relative}."
    return f"isn't in TensorFlow {tensorflow_names.NEWEST}."


def _restored(tree: ast.Module) -> Iterator[tuple[ast.expr, str]]:
    """Yields the expressions that begin with a call of `estimator_spec.restored`, and their names.

    They may begin with a variable that is assigned one.
    """
    inner = {node.value for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    variables: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            name = _restored_name(node.value, {})
            # A stand-in is reported where it is assigned.
            if name and not _is_stand_in(name):
                targets = [target for target in node.targets if isinstance(target, ast.Name)]
                variables.update({target.id: name for target in targets})
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute | ast.Name | ast.Call) and node not in inner:
            name = _restored_name(node, variables)
            if name and isinstance(getattr(node, "ctx", ast.Load()), ast.Load):
                yield node, name


def _restored_name(node: ast.expr, variables: dict[str, str]) -> str | None:
    """Returns the old name that an expression stands for, or None."""
    node, attributes = split_attributes(node)
    parts = [each.attr for each in attributes]
    if isinstance(node, ast.Name) and node.id in variables:
        return ".".join([variables[node.id], *parts])
    if isinstance(node, ast.Call) and last_name(node.func) == "restored" and node.args:
        text = getattr(node.args[0], "value", None)
        if isinstance(text, str) and text:
            return ".".join([text, *parts])
    return None
