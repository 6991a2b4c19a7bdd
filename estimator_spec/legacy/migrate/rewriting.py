# SPDX-License-Identifier: Apache-2.0
"""Replaces the old names of a program, with the imports that they need and no others."""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from estimator_spec.legacy.migrate.decisions import Decider, Decisions
from estimator_spec.legacy.migrate.edits import Edit
from estimator_spec.legacy.migrate.local_names import LocalNames, other_imports
from estimator_spec.legacy.migrate.placement import ImportPlacement
from estimator_spec.legacy.migrate.program import Binding, BoundUse, Form, ParsedModule
from estimator_spec.legacy.migrate.results import Finding, Subject
from estimator_spec.legacy.migrate.rule import AddedCall, Replacement
from estimator_spec.legacy.module_spellings import canonical
from estimator_spec.legacy.old_names import Fate


@dataclass
class Rewriter:
    """Edits of a program's old names.

    Attributes:
        program: the program.
        written: the same, with its bindings as they will be: `tensorflow` or TensorFlow 1's API.
        rules: name of the rule for each kind of name; others are left alone.
        tf1: indices of the bindings whose imports become those of TensorFlow 1's API.
        added: statements to add, each with the name of its rule.
        replacements: edits of expressions, each with the name of its rule.
    """

    program: ParsedModule
    written: ParsedModule
    rules: Mapping[Fate, str]
    tf1: Collection[int] = frozenset()
    added: Sequence[tuple[str, AddedCall]] = ()
    replacements: Sequence[tuple[str, Replacement]] = ()
    _plan: Decisions = field(init=False, default_factory=Decisions)

    def run(self) -> tuple[tuple[Edit, ...], tuple[Finding, ...]]:
        """Returns the edits, and findings about old names that remain or lead to stand-ins."""
        decider = Decider(self.program, self.rules, self.replacements)
        self._plan, findings = decider.decide()
        others = other_imports(self.program.tree, self.program.places)
        local_names = LocalNames(self.written, self._plan.gone, others)
        edits = [
            *self._rule_edits(local_names),
            *self._use_edits(local_names),
            *self._statement_edits(local_names),
        ]
        rule = edits[0].rule if edits else ""
        return (*self._new_statements(local_names, rule), *edits), findings

    def _new_statements(self, local_names: LocalNames, rule_of_imports: str) -> Iterator[Edit]:
        """Yields the added imports and statements."""
        statements = self.program.statements
        bindings = [each for each in self.program.bindings if each.form is not Form.ALIAS]
        offsets = [statements[each.statement].start for each in bindings]
        placement = ImportPlacement(self.program.places, self.program.tree, offsets)
        first: list[str] = []
        later: list[str] = []
        for _, statement in self.added:
            place = placement.first if statement.first else placement.later
            line = f"{local_names.spell(statement.module, statement.name, place.offset)}()"
            (first if statement.first else later).append(line)
        rule = rule_of_imports or next((rule for rule, _ in self.added), "")
        for at, text in placement.texts([*local_names.imports(), *first], later):
            yield Edit(at, at, text, rule)

    def _rule_edits(self, local_names: LocalNames) -> Iterator[Edit]:
        for rule, edit in self.replacements:
            spell = functools.partial(local_names.spell, at=edit.start)
            yield Edit(edit.start, edit.end, edit.text(spell), rule)

    def _use_edits(self, local_names: LocalNames) -> Iterator[Edit]:
        dropped = [self.program.bindings[index] for index in self._plan.dropped]
        aliases = [each.statement for each in dropped if each.form is Form.ALIAS]
        gone = [self.program.statements[index] for index in aliases]
        for index, use in enumerate(self.program.uses):
            if any(statement.start <= use.start < statement.end for statement in gone):
                continue
            if index in self._plan.public:
                end, old = self._plan.public[index]
                text = local_names.spell(old.module, old.name, use.start, self._root(use))
                yield Edit(use.start, end, text, self.rules[old.fate])
            elif index in self._plan.restored:
                end, full, old = self._plan.restored[index]
                text = _restored(full, local_names, use.start, use.quote)
                yield Edit(use.start, end, text, self.rules[old.fate])

    def _root(self, use: BoundUse) -> Binding | None:
        """Returns the binding of a use, if it has one that stays."""
        binding = self.written.bindings[use.bindings[0]]
        is_one = len(use.bindings) == 1
        return binding if is_one and use.bindings[0] not in self._plan.gone else None

    def _statement_edits(self, local_names: LocalNames) -> Iterator[Edit]:
        """Yields edits of imports and aliases; a block that would be empty gets a `pass`."""
        program, plan = self.program, self._plan
        changed = {*plan.gone, *plan.loaded, *self.tf1}
        changed = {index for index in changed if program.bindings[index].form is not Form.OWN}
        by_statement: dict[int, list[int]] = {}
        for index, binding in enumerate(program.bindings):
            by_statement.setdefault(binding.statement, []).append(index)
        removed: dict[int, int] = {}
        for number, indices in by_statement.items():
            if not changed.intersection(indices):
                continue
            statement = program.statements[number]
            rule = next(self._rule_of(index) for index in indices if index in changed)
            if all(program.bindings[index].form is Form.ALIAS for index in indices):
                lines = []
            else:
                lines = self._import_lines(indices, local_names)
            if lines:
                separator = f"\n{statement.indent}" if statement.is_alone else "; "
                yield Edit(statement.start, statement.end, separator.join(lines), rule)
                continue
            removed[statement.block] = removed.get(statement.block, 0) + 1
            if not statement.is_alone or removed[statement.block] == statement.block_size:
                yield Edit(statement.start, statement.end, "pass", rule)
                continue
            first, _ = program.places.position(statement.start)
            last, _ = program.places.position(statement.end)
            start, end = map(program.places.start_of_line, (first, last + 1))
            yield Edit(start, end, "", rule)

    def _rule_of(self, index: int) -> str:
        if index in self.tf1:
            return "tf1-api"
        for decided in (self._plan.renamed, self._plan.assigned):
            if index in decided:
                return self.rules[decided[index].fate]
        return self.rules.get(Fate.PUBLIC, "")

    def _import_lines(self, indices: list[int], local_names: LocalNames) -> list[str]:
        """Returns the statements in place of an import; none if it isn't needed."""
        lines, kept = [], []
        start = self.program.statements[self.program.bindings[indices[0]].statement].start
        for index in indices:
            binding = self.program.bindings[index]
            if index in self._plan.dropped or binding.form is Form.OWN:
                continue
            if index in self._plan.renamed:
                old = self._plan.renamed[index]
                alias = "" if old.name == binding.local else f" as {binding.local}"
                lines.append(f"from {old.module} import {old.name}{alias}")
            elif index in self._plan.assigned:
                lines.append(f"{binding.local} = {_restored(binding.full, local_names, start)}")
            elif index in self.tf1 or index in self._plan.loaded:
                is_tf1 = index in self.tf1
                lines.append(_tf1_import(binding) if is_tf1 else f"import {binding.local}")
                if index in self._plan.effects:
                    lines.append(_restored(binding.module, local_names, start))
            elif binding.form is Form.IMPORT:
                alias = f" as {binding.local}" if binding.full == binding.module else ""
                alias = "" if binding.local == binding.module else alias
                lines.append(f"import {binding.module}{alias}")
            else:
                name = binding.full.rpartition(".")[2]
                kept.append(name if name == binding.local else f"{name} as {binding.local}")
        if kept:
            module = self.program.bindings[indices[0]].module
            lines.insert(0, f"from {module} import {', '.join(kept)}")
        return lines


def _restored(full: str, local_names: LocalNames, at: int, quote: str = '"') -> str:
    name = canonical(full)
    return f"{local_names.spell('estimator_spec', 'restored', at)}({quote}{name}{quote})"


def _tf1_import(binding: Binding) -> str:
    """Returns the import of TensorFlow 1's API in place of one of `tensorflow`."""
    if binding.form is Form.STAR:
        return "from tensorflow.compat.v1 import *"
    if binding.form is Form.IMPORT:
        return f"import tensorflow.compat.v1 as {binding.local}"
    name = binding.full.rpartition(".")[2]
    alias = "" if name == binding.local else f" as {binding.local}"
    return f"from tensorflow.compat.v1 import {name}{alias}"


_MARKER = "# TODO(migrate): "


def markers(program: ParsedModule, findings: Iterable[Finding]) -> Iterator[Edit]:
    """Yields comments above the statements with old names that a person has to look at."""
    places = program.places
    starts = [use.statement for use in program.uses]
    starts += [statement.start for statement in program.statements]
    seen = set()
    for finding in findings:
        if finding.kind is not Subject.NOT_REWRITTEN:
            continue
        at = places.start_of_line(finding.line) + finding.column - 1
        start = max((start for start in starts if start <= at), default=at)
        line = places.start_of_line(places.position(start)[0])
        indent = program.source[line:start]
        text = f"{indent}{_MARKER}{finding.reason}\n"
        if indent.strip() or (line, text) in seen or program.source[:line].endswith(text):
            continue
        seen.add((line, text))
        yield Edit(line, line, text, finding.rule)
