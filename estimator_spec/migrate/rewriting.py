# SPDX-License-Identifier: Apache-2.0
"""Replaces the old names of a program, with the imports that they need and no others."""

from __future__ import annotations

import ast
import functools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from estimator_spec.legacy import call_sites
from estimator_spec.legacy.module_spellings import canonical
from estimator_spec.legacy.old_names import Fate, OldName, find
from estimator_spec.migrate.edits import Edit, Lines
from estimator_spec.migrate.local_names import LocalNames
from estimator_spec.migrate.program import Binding, Form, Program, Unfollowed, Use
from estimator_spec.migrate.results import Finding, Kind
from estimator_spec.migrate.rule import Replacement, Statement

_ERRORS = call_sites.Access.IMPORT.value | call_sites.Access.READ.value
_LIMITS = "imports-that-arent-supported"
_IMPORTS = "imports-old-spelling-to-new"
_CONTRIB = "running-before-touching-a-line"


@dataclass
class _Plan:
    """Decisions about a program, made before its text is edited."""

    # Uses that are replaced up to an offset, by a public name or by a call of `restored`.
    public: dict[int, OldName] = field(default_factory=dict)
    restored: dict[int, tuple[int, OldName]] = field(default_factory=dict)
    # Bindings: without uses, of another name, or the result of `restored`.
    dropped: set[int] = field(default_factory=set)
    renamed: dict[int, OldName] = field(default_factory=dict)
    assigned: dict[int, OldName] = field(default_factory=dict)
    loaded: set[int] = field(default_factory=set)  # `import tensorflow.contrib` as `tensorflow`
    # Uses in spans that the edits of a rule replace.
    replaced: set[int] = field(default_factory=set)


class Rewriter:
    """Edits of a program's old names.

    Args:
        program: the program.
        rules: name of the rule for each kind of name; others are left alone.
        tf1: indices of the bindings whose imports become those of TensorFlow 1's API.
        added: statements to add, each with the name of its rule.
        replacements: edits of expressions, each with the name of its rule.
    """

    def __init__(
        self,
        program: Program,
        rules: Mapping[Fate, str],
        tf1: Collection[int] = frozenset(),
        added: Sequence[tuple[str, Statement]] = (),
        replacements: Sequence[tuple[str, Replacement]] = (),
    ) -> None:
        self._program = program
        self._rules = rules
        self._tf1 = tf1
        self._added = added
        self._replacements = replacements
        self._lines = Lines(program.source)
        self._tree = ast.parse(program.source)
        self._plan = _Plan()
        self._findings: set[Finding] = set()

    def run(self) -> tuple[tuple[Edit, ...], tuple[Finding, ...]]:
        """Returns the edits, and findings about old names that remain or lead to stand-ins."""
        for index, use in enumerate(self._program.uses):
            if any(edit.start <= use.start < edit.end for _, edit in self._replacements):
                self._plan.replaced.add(index)
            else:
                self._decide_use(index, use)
        for index, binding in enumerate(self._program.bindings):
            self._decide_binding(index, binding)
        for each in self._program.unfollowed:
            self._report_unfollowed(each)
        plan, program = self._plan, self._program
        gone = {*plan.dropped, *plan.renamed, *plan.assigned}
        local_names = LocalNames(program, gone)
        edits = [
            *self._rule_edits(local_names),
            *self._use_edits(local_names),
            *self._statement_edits(local_names),
        ]
        rule = edits[0].rule if edits else ""
        edits = [*self._new_statements(local_names, rule), *edits]
        return tuple(edits), tuple(sorted(self._findings))

    def _new_statements(self, local_names: LocalNames, rule_of_imports: str) -> Iterator[Edit]:
        """Yields the added imports and statements."""
        program = self._program
        first: list[tuple[str, str]] = []
        later: list[tuple[str, str]] = []
        for rule, statement in self._added:
            at = program.insertion if statement.first else program.after_imports
            line = f"{local_names.spell(statement.module, statement.name, at)}()\n"
            (first if statement.first else later).append((rule, line))
        imports = "".join(f"{line}\n" for line in local_names.imports())
        at = program.insertion
        if imports or first:
            rules = [rule for rule, _ in (*first, *later)]
            text = imports + "".join(line for _, line in first)
            if program.source.startswith(("def ", "class ", "@", "async "), at):
                text += "\n\n"
            yield Edit(at, at, text, rule_of_imports or rules[0])
        at = max(program.after_imports, at)
        # A blank line separates them from the imports.
        line_ends = len(program.source[:at]) - len(program.source[:at].rstrip("\n"))
        blank = "\n" * max(0, 2 - line_ends) if at else ""
        for rule, line in later:
            yield Edit(at, at, blank + line, rule)
            blank = ""

    # Decisions.

    def _old_name(self, full: str, offset: int) -> OldName | None:
        """Returns the old name at the beginning of a full name, if a rule treats it here."""
        old = find(full, Fate.ON_TPU in self._rules)
        if old is None or old.fate not in self._rules:
            return None
        if old.fate not in (Fate.PUBLIC, Fate.ON_TPU) and self._is_handled(offset):
            return None  # The program has code for the case that the name is missing.
        return old

    def _is_handled(self, offset: int) -> bool:
        line, _ = self._lines.position(offset)
        return bool(call_sites.handled_at(self._tree, line) & _ERRORS)

    def _decide_use(self, index: int, use: Use) -> None:
        found = [self._old_name(name, use.start) for name in use.names]
        old = found[0]
        bound = len(self._program.bindings[use.bindings[0]].full.split("."))
        if old is None or old.length <= bound:
            return  # Nothing to do, or for the import.
        if any(other is None or _target(other) != _target(old) for other in found):
            reason = f"{use.names[0]} or {use.names[-1]}, depending on the imports"
            self._report(use.start, self._rules[old.fate], f"{reason}; edit it by hand.", _IMPORTS)
        elif not use.is_plain:
            reason = f"{use.names[0]} has parentheses or a comment inside"
            self._report(use.start, self._rules[old.fate], f"{reason}; edit it by hand.", _IMPORTS)
        elif old.fate in (Fate.PUBLIC, Fate.ON_TPU):
            self._plan.public[index] = old
        else:
            full = ".".join(use.names[0].split(".")[: old.length])
            self._report_old_name(use.start, full, old)
            replaced = old.removed or old.length
            if replaced > bound:
                self._plan.restored[index] = (use.ends[replaced - bound], old)

    def _report_old_name(self, offset: int, full: str, old: OldName) -> None:
        full = canonical(full)
        if old.fate is Fate.UNSUPPORTED:
            reason = f"{full} isn't restored: it can be imported, not used. {old.advice}"
            self._report(offset, self._rules[old.fate], reason, _LIMITS)
        elif old.fate is Fate.LIBRARY:
            reason = f"{full} comes from tf_slim: pip install 'tpu-columns[contrib]'."
            self._report(offset, self._rules[old.fate], reason, _CONTRIB)

    def _report_unfollowed(self, each: Unfollowed) -> None:
        """Reports a place where an old name may be read in a way that isn't followed."""
        at = each.offset
        is_replaced = any(edit.start <= at < edit.end for _, edit in self._replacements)
        if is_replaced or self._is_handled(at):
            return
        old = None if each.is_module else find(each.name, False)
        rule = self._rules.get(Fate.PUBLIC if old is None else old.fate)
        if rule is None:
            return
        reason = f"{each.name} may be read here, through a name that isn't followed"
        if each.is_module:
            reason = f"{each.name} is passed on here, and old names of it aren't followed"
        self._report(at, rule, f"{reason}; edit it by hand.", _IMPORTS)

    def _report(self, offset: int, rule: str, reason: str, guide: str) -> None:
        self._findings.add(Finding(*self._lines.position(offset), rule, reason, guide))

    def _decide_binding(self, index: int, binding: Binding) -> None:
        statement = self._program.statements[binding.statement]
        if binding.form is Form.STAR:
            if Fate.PUBLIC in self._rules and find(f"{binding.module}._", False) is not None:
                reason = f"from {binding.module} import *: import the names that you use."
                self._report(statement.start, self._rules[Fate.PUBLIC], reason, _IMPORTS)
            return
        uses = [i for i, use in enumerate(self._program.uses) if index in use.bindings]
        plan = self._plan
        rewritten = sum(i in plan.public or i in plan.restored or i in plan.replaced for i in uses)
        is_used = (
            rewritten < len(uses)
            or index in self._program.mixed
            or binding.local in self._program.exported
            or binding.in_class
            or self._program.by_strings
        )
        if binding.form is Form.IMPORT and binding.full != binding.module:
            if self._old_name(binding.module, statement.start) is not None:
                self._plan.loaded.add(index)
            return
        old = self._old_name(binding.full, statement.start)
        if rewritten and not is_used and _is_part(binding):
            self._plan.dropped.add(index)
        elif old is None or not _is_import_of(binding, old):
            return
        elif old.fate in (Fate.PUBLIC, Fate.ON_TPU) and binding.form is Form.FROM:
            self._plan.renamed[index] = old
        elif not is_used:
            self._plan.dropped.add(index)
        else:
            self._plan.assigned[index] = old
        if index in self._plan.assigned:
            self._report_old_name(statement.start, binding.full, self._plan.assigned[index])

    # Edits.

    def _rule_edits(self, local_names: LocalNames) -> Iterator[Edit]:
        for rule, edit in self._replacements:
            spell = functools.partial(local_names.spell, at=edit.start)
            yield Edit(edit.start, edit.end, edit.text(spell), rule)

    def _use_edits(self, local_names: LocalNames) -> Iterator[Edit]:
        gone = {
            statement
            for index, binding in enumerate(self._program.bindings)
            if index in self._plan.dropped and binding.form is Form.ALIAS
            for statement in [self._program.statements[binding.statement]]
        }
        for index, use in enumerate(self._program.uses):
            if any(statement.start <= use.start < statement.end for statement in gone):
                continue
            bound = len(self._program.bindings[use.bindings[0]].full.split("."))
            if index in self._plan.public:
                old = self._plan.public[index]
                root = self._root(use)
                text = local_names.spell(old.module, old.name, use.start, root)
                yield Edit(use.start, use.ends[old.length - bound], text, self._rules[old.fate])
            elif index in self._plan.restored:
                end, old = self._plan.restored[index]
                full = ".".join(use.names[0].split(".")[: old.removed or old.length])
                text = _restored(full, local_names, use.start, use.quote)
                yield Edit(use.start, end, text, self._rules[old.fate])

    def _root(self, use: Use) -> Binding | None:
        """Returns the binding of a use, if it has one that stays."""
        binding = self._program.bindings[use.bindings[0]]
        gone = {*self._plan.dropped, *self._plan.assigned, *self._plan.renamed}
        return binding if len(use.bindings) == 1 and use.bindings[0] not in gone else None

    def _statement_edits(self, local_names: LocalNames) -> Iterator[Edit]:
        """Yields edits of imports and aliases; a block that would be empty gets a `pass`."""
        program, plan = self._program, self._plan
        changed = {*plan.dropped, *plan.renamed, *plan.assigned, *plan.loaded, *self._tf1}
        by_statement: dict[int, list[int]] = {}
        for index, binding in enumerate(program.bindings):
            by_statement.setdefault(binding.statement, []).append(index)
        sizes = _block_sizes(self._tree)
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
            line, _ = self._lines.position(statement.start)
            removed[statement.block] = removed.get(statement.block, 0) + 1
            if not statement.is_alone or removed[statement.block] == sizes.get(line, 0):
                yield Edit(statement.start, statement.end, "pass", rule)
                continue
            start = self._lines.start_of_line(statement.start)
            yield Edit(start, self._lines.end_of_line(statement.end), "", rule)

    def _rule_of(self, index: int) -> str:
        if index in self._tf1:
            return "tf1-api"
        for decided in (self._plan.renamed, self._plan.assigned):
            if index in decided:
                return self._rules[decided[index].fate]
        return self._rules.get(Fate.PUBLIC, "")

    def _import_lines(self, indices: list[int], local_names: LocalNames) -> list[str]:
        """Returns the statements in place of an import; none if it isn't needed."""
        lines, kept = [], []
        start = self._program.statements[self._program.bindings[indices[0]].statement].start
        for index in indices:
            binding = self._program.bindings[index]
            if index in self._plan.dropped:
                continue
            if index in self._plan.renamed:
                old = self._plan.renamed[index]
                alias = "" if old.name == binding.local else f" as {binding.local}"
                lines.append(f"from {old.module} import {old.name}{alias}")
            elif index in self._plan.assigned:
                lines.append(f"{binding.local} = {_restored(binding.full, local_names, start)}")
            elif index in self._plan.loaded:
                lines.append(f"import {binding.local}")
            elif index in self._tf1:
                lines.append(_tf1_import(binding))
            elif binding.form is Form.IMPORT:
                alias = f" as {binding.local}" if binding.full == binding.module else ""
                alias = "" if binding.local == binding.module else alias
                lines.append(f"import {binding.module}{alias}")
            else:
                name = binding.full.rpartition(".")[2]
                kept.append(name if name == binding.local else f"{name} as {binding.local}")
        if kept:
            module = self._program.bindings[indices[0]].module
            lines.insert(0, f"from {module} import {', '.join(kept)}")
        return lines


def _target(old: OldName) -> tuple[object, ...]:
    """Returns what has to be equal for two old names to be rewritten alike."""
    return (old.fate, old.module, old.name)


def _is_import_of(binding: Binding, old: OldName) -> bool:
    """Returns whether a binding is an import of an old name, not of something in it."""
    is_all = old.length == len(binding.full.split("."))
    return binding.form is not Form.ALIAS and (is_all or old.fate is Fate.UNSUPPORTED)


def _is_part(binding: Binding) -> bool:
    """Returns whether a binding is that of a part of TensorFlow, not of a whole API."""
    return binding.full not in ("tensorflow", "tensorflow.compat.v1", "tensorflow.compat.v2")


def _restored(full: str, local_names: LocalNames, at: int, quote: str = '"') -> str:
    name = canonical(full)
    return f"{local_names.spell('estimator_spec', 'restored', at)}({quote}{name}{quote})"


def _tf1_import(binding: Binding) -> str:
    """Returns the import of TensorFlow 1's API in place of one of `tensorflow`."""
    if binding.form is Form.IMPORT:
        return f"import tensorflow.compat.v1 as {binding.local}"
    name = binding.full.rpartition(".")[2]
    alias = "" if name == binding.local else f" as {binding.local}"
    return f"from tensorflow.compat.v1 import {name}{alias}"


def _block_sizes(tree: ast.Module) -> dict[int, int]:
    """Returns the number of statements in the block of each statement, by its first line."""
    sizes: dict[int, int] = {}
    for node in ast.walk(tree):
        for name in ("body", "orelse", "finalbody"):
            block = getattr(node, name, None)
            if isinstance(block, list) and not isinstance(node, ast.Module):
                sizes.update({statement.lineno: len(block) for statement in block})
    return sizes


_MARKER = "# TODO(migrate): "


def markers(program: Program, findings: Iterable[Finding]) -> Iterator[Edit]:
    """Yields comments above the statements with old names that a person has to look at."""
    lines = Lines(program.source)
    starts = [use.statement for use in program.uses]
    starts += [statement.start for statement in program.statements]
    seen = set()
    for finding in findings:
        if finding.kind is not Kind.NOT_REWRITTEN:
            continue
        at = lines.offset(finding.line, finding.column - 1)
        start = max((start for start in starts if start <= at), default=at)
        line = lines.start_of_line(start)
        indent = program.source[line:start]
        text = f"{indent}{_MARKER}{finding.reason}\n"
        if indent.strip() or (line, text) in seen or program.source[:line].endswith(text):
            continue
        seen.add((line, text))
        yield Edit(line, line, text, finding.rule)
