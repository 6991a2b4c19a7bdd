# SPDX-License-Identifier: Apache-2.0
"""Applies the rules to a source text."""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Collection
from dataclasses import dataclass, field

from estimator_spec.legacy import program_api
from estimator_spec.legacy.migrate import edits, remaining, rewriting, syntax
from estimator_spec.legacy.migrate.program import ParsedModule
from estimator_spec.legacy.migrate.programs import ProgramPlace
from estimator_spec.legacy.migrate.results import Finding, Rewrite
from estimator_spec.legacy.migrate.rule import MigrationRule, MigrationTarget
from estimator_spec.legacy.migrate.rules import RULES, tf1_api

SKIP = "# migrate: skip-file"


@dataclass(frozen=True)
class MigrationOptions:
    """Options of a migration.

    Attributes:
        target: the system that programs are migrated to.
        only: names of the rules to apply; empty: all of the target's.
        markers: whether old names that remain get a comment.
        exported: names that other modules import from this one, which keep their imports.
        place: the module's place in its program.
    """

    target: MigrationTarget = MigrationTarget.SHIM
    only: frozenset[str] = frozenset()
    markers: bool = False
    exported: frozenset[str] = frozenset()
    place: ProgramPlace = field(default_factory=ProgramPlace)

    def __post_init__(self) -> None:
        unknown = sorted(self.only - {rule.name for rule in RULES})
        if unknown:
            raise ValueError(f"there is no rule {', '.join(unknown)}; --list-rules lists them all")

    def rules(self) -> tuple[MigrationRule, ...]:
        """Returns the rules to apply."""
        return tuple(
            rule
            for rule in RULES
            if self.target in rule.targets and (not self.only or rule.name in self.only)
        )


@dataclass(frozen=True)
class Migrated:
    """A migrated source.

    Attributes:
        source: its new text.
        rewrites: the edits.
        findings: lines of the report.
    """

    source: str
    rewrites: tuple[Rewrite, ...] = ()
    findings: tuple[Finding, ...] = ()


def migrate(source: str, options: MigrationOptions = MigrationOptions()) -> Migrated:
    """Rewrites the source of a module.

    >>> print(migrate("from tensorflow.contrib.tpu import TPUConfig").source)
    from estimator_spec import TPUConfig

    Raises:
        SourceError: the source isn't Python 3.
    """
    place = options.place
    parsed = program = syntax.parse(source, place.neighbours, place.api)
    if not program.bindings and not program.unfollowed:
        return Migrated(source)
    exported = program.exported | options.exported
    program = dataclasses.replace(
        program, exported=exported, mains=place.mains, starts=place.starts, left=place.left
    )
    rules, target = options.rules(), options.target
    found = [finding for rule in rules for finding in rule.findings(program, target)]
    added = [(rule.name, each) for rule in rules for each in rule.adds(program, target)]
    # What a name means doesn't depend on the rules that are applied.
    of_tf1 = tf1_api.changed_bindings(program)
    read = _with_tf1(program, of_tf1)
    if tf1_api.RULE in rules:
        program = read
    else:
        found += tf1_api.left_out(program)
        of_tf1 = frozenset()
    replaced = [(rule.name, edit) for rule in rules for edit in rule.edits(read, target)]
    by_fate = {fate: rule.name for rule in rules for fate in rule.fates}
    rewriter = rewriting.Rewriter(read, program, by_fate, of_tf1, added, replaced)
    done, findings = rewriter.run()
    findings = tuple(sorted({*findings, *found}))
    result = parsed
    if done:
        result = syntax.parse(edits.apply(source, done), place.neighbours, place.api)
    left = {fate: rule.name for rule in RULES if rule not in rules for fate in rule.fates}
    remain = remaining.findings(source, done, result, program.api, findings, left)
    findings = tuple(sorted({*findings, *remain}))
    if options.markers:
        done = (*done, *rewriting.markers(program, findings))
    line_end = next((end for end in ("\r\n", "\n", "\r") if end in source), "\n")
    done = tuple(dataclasses.replace(edit, text=edit.text.replace("\n", line_end)) for edit in done)
    new = edits.apply(source, done)
    if done:
        ast.parse(new)  # The rules may only write Python.
    return Migrated(new, edits.rewrites(source, done), findings)


def _with_tf1(program: ParsedModule, bindings: Collection[int]) -> ParsedModule:
    """Returns a program whose bindings of `tensorflow` are those of TensorFlow 1's API."""
    if not bindings:
        return program

    def name_of(binding: int, full: str) -> str:
        is_changed = program.import_of(binding) in bindings
        return program_api.name_in_tf1(full) if is_changed else full

    return dataclasses.replace(
        program,
        bindings=tuple(
            dataclasses.replace(binding, full=name_of(index, binding.full))
            for index, binding in enumerate(program.bindings)
        ),
        uses=tuple(
            dataclasses.replace(use, names=tuple(map(name_of, use.bindings, use.names)))
            for use in program.uses
        ),
    )
