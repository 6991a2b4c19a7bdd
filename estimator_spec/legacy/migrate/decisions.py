# SPDX-License-Identifier: Apache-2.0
"""Decides what becomes of each old name of a program, before its text is edited."""

from __future__ import annotations

import ast
import dataclasses
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from estimator_spec.legacy.migrate.program import Binding, BoundUse, Form, ParsedModule, Unfollowed
from estimator_spec.legacy.migrate.results import Finding, Subject
from estimator_spec.legacy.migrate.rule import Replacement
from estimator_spec.legacy.module_spellings import canonical
from estimator_spec.legacy.old_names import Fate, OldName, find

# What `pip` installs for a library.
_PACKAGES = {"tf_slim": "'tpu-columns[contrib]'", "tensorboard": "tensorboard"}
_IDENTIFIER = re.compile(r"\w+")
_LIMITS = "imports-that-arent-supported"
_IMPORTS = "imports-old-spelling-to-new"
_CONTRIB = "running-before-touching-a-line"


@dataclass
class Decisions:
    """Decisions about a program, made before its text is edited."""

    # Uses that are replaced up to an offset, by a public name or by a call of `restored`.
    public: dict[int, tuple[int, OldName]] = field(default_factory=dict)
    restored: dict[int, tuple[int, str, OldName]] = field(default_factory=dict)
    # Bindings: without uses, of another name, or the result of `restored`.
    dropped: set[int] = field(default_factory=set)
    renamed: dict[int, OldName] = field(default_factory=dict)
    assigned: dict[int, OldName] = field(default_factory=dict)
    loaded: set[int] = field(default_factory=set)  # `import tensorflow.contrib` as `tensorflow`
    effects: set[int] = field(default_factory=set)  # those of which nothing is read
    # Uses in spans that the edits of a rule replace.
    replaced: set[int] = field(default_factory=set)

    @property
    def gone(self) -> set[int]:
        """Bindings whose import goes, or becomes another statement."""
        return {*self.dropped, *self.renamed, *self.assigned}


class Decider:
    """Decisions about the old names of a program.

    Args:
        program: the program.
        tree: its syntax tree.
        rules: name of the rule for each kind of name; others are left alone.
        replacements: edits of expressions, each with the name of its rule.
    """

    def __init__(
        self,
        program: ParsedModule,
        rules: Mapping[Fate, str],
        replacements: Sequence[tuple[str, Replacement]] = (),
    ) -> None:
        self._program = program
        self._rules = rules
        self._replacements = replacements
        self._places = program.places
        self._handling = program.handling
        self._plan = Decisions()
        self._missing: set[int] = set()  # bindings of imports that fail, as the program expects
        annotations = _annotations(program.tree)
        self._annotations = [self._places.span(each) for each in annotations]
        self._quoted = _quoted_names(annotations)
        self._types: set[int] = set()  # bindings of classes that annotations name
        self._libraries: dict[str, dict[str, int]] = {}  # names by library, with an offset of each
        self._findings: set[Finding] = set()

    def decide(self) -> tuple[Decisions, tuple[Finding, ...]]:
        """Returns the decisions, and findings about old names that remain or need something."""
        bindings = enumerate(self._program.bindings)
        self._missing = {index for index, binding in bindings if self._is_missing(binding)}
        for index, use in enumerate(self._program.uses):
            if any(edit.start <= use.start < edit.end for _, edit in self._replacements):
                self._plan.replaced.add(index)
            else:
                self._decide_use(index, use)
        for index, binding in enumerate(self._program.bindings):
            self._decide_binding(index, binding)
        for each in self._program.unfollowed:
            self._report_unfollowed(each)
        self._report_libraries()
        return self._plan, tuple(sorted(self._findings))

    def _old_name(self, full: str) -> OldName | None:
        """Returns the old name at the beginning of a full name, if a rule treats it."""
        old = find(full, Fate.ON_TPU in self._rules)
        return None if old is None or old.fate not in self._rules else old

    def _read_name(self, full: str, offset: int) -> OldName | None:
        """Returns the old name that is read at an offset; None if the program does without it."""
        old = self._old_name(full)
        if old is None or old.fate in (Fate.PUBLIC, Fate.ON_TPU):
            return old
        return None if self._handling.handles_read(full, offset) else old

    def _bound_name(self, binding: Binding, full: str) -> OldName | None:
        """Returns the old name that a statement binds; None if the program does without it."""
        if binding.form is Form.ALIAS:
            return self._read_name(full, self._start(binding))
        old = self._old_name(full)
        if old is None or old.fate in (Fate.PUBLIC, Fate.ON_TPU):
            return old
        start, module = self._start(binding), binding.imported_from
        return None if self._handling.handles_import(full, start, module) else old

    def _is_missing(self, binding: Binding) -> bool:
        """Returns whether a statement binds nothing today, and the program handles that."""
        is_old = self._old_name(binding.full) is not None
        return is_old and self._bound_name(binding, binding.full) is None

    def _start(self, binding: Binding) -> int:
        return self._program.statements[binding.statement].start

    def _decide_use(self, index: int, use: BoundUse) -> None:
        bindings = zip(use.bindings, use.names, strict=True)
        known = [(binding, name) for binding, name in bindings if binding not in self._missing]
        if not known:
            self._decide_missing(use)
            return
        found = [self._read_name(name, use.start) for _, name in known]
        (binding, full), old = known[0], found[0]
        bound = len(self._program.bindings[binding].full.split("."))
        if old is not None and not old.module and self._is_annotation(use):
            self._decide_annotation(index, use, binding, old)
            return
        if old is None or old.length <= bound:
            return  # Nothing to do, or for the import.
        rule = self._rules[old.fate]
        if any(other is None or _target(other) != _target(old) for other in found):
            reason = f"{full} or {known[-1][1]}, depending on the imports; edit it by hand."
            self._report(use.start, rule, reason, _IMPORTS)
        elif not use.is_plain:
            reason = f"{full} has parentheses or a comment inside; edit it by hand."
            self._report(use.start, rule, reason, _IMPORTS)
        elif old.fate in (Fate.PUBLIC, Fate.ON_TPU):
            self._plan.public[index] = (use.ends[old.length - bound], old)
        else:
            parts = full.split(".")
            self._report_old_name(use.start, ".".join(parts[: old.length]), old)
            replaced = old.removed or old.length
            if replaced > bound:
                full = ".".join(parts[:replaced])
                self._plan.restored[index] = (use.ends[replaced - bound], full, old)

    def _is_annotation(self, use: BoundUse) -> bool:
        """Returns whether a use is in an annotation."""
        return any(start <= use.start < end for start, end in self._annotations)

    def _decide_annotation(self, index: int, use: BoundUse, binding: int, old: OldName) -> None:
        """Decides on a name in an annotation: type checkers take names, and no calls."""
        bound = self._program.bindings[binding]
        length = len(bound.full.split("."))
        if old.fate is not Fate.RESTORED:
            old = dataclasses.replace(old, module="typing", name="Any")
            self._plan.public[index] = (use.ends[-1], old)
        elif bound.form is Form.FROM and old.length == length:
            self._types.add(binding)
        else:
            self._plan.public[index] = (use.ends[old.length - length], _at_home(old))

    def _decide_missing(self, use: BoundUse) -> None:
        """Reports a use of a name that nothing binds today, unless the program tests for that."""
        old = self._read_name(use.names[0], use.start)
        if old is not None and not self._does_without(use.bindings, use.start):
            reason = f"{use.names[0]} is used here, and the program passes over its failed import"
            self._report(use.start, self._rules[old.fate], f"{reason}; edit it by hand.", _IMPORTS)

    def _does_without(self, bindings: Iterable[int], offset: int) -> bool:
        """Returns whether a use of missing imports gets another value, or is never reached."""
        for binding in (self._program.bindings[index] for index in bindings):
            at = self._start(binding)
            is_tested = self._handling.is_tested(binding.local, at, offset)
            if not is_tested and not self._handling.replaces(binding.local, at):
                return False
        return True

    def _report_old_name(self, offset: int, full: str, old: OldName, used: bool = True) -> None:
        full = canonical(full)
        if old.fate is Fate.LIBRARY:
            names = self._libraries.setdefault(old.library, {})
            names[full] = min(offset, names.get(full, offset))
        if old.fate is Fate.UNSUPPORTED:
            reason = f"{full} isn't restored: it can be imported, not used."
            if not used:
                reason += " Nothing uses it: delete the line, unless its import had an effect."
            self._report(offset, self._rules[old.fate], f"{reason} {old.advice}", _LIMITS)

    def _report_libraries(self) -> None:
        """Reports each library that the program needs now, once."""
        for library, offsets in self._libraries.items():
            first, *others = sorted(offsets, key=offsets.__getitem__)
            more = f" and {len(others)} more" if others else ""
            verb = "come" if others else "comes"
            reason = f"{first}{more} {verb} from {library}: pip install {_PACKAGES[library]}."
            place = self._places.position(offsets[first])
            rule = self._rules[Fate.LIBRARY]
            self._findings.add(Finding(*place, rule, reason, _CONTRIB, Subject.TO_INSTALL))

    def _report_unfollowed(self, each: Unfollowed) -> None:
        """Reports a place where an old name may be read in a way that isn't followed."""
        at = each.offset
        is_replaced = any(edit.start <= at < edit.end for _, edit in self._replacements)
        if is_replaced or self._handling.handles_read(each.name, at):
            return
        local = _IDENTIFIER.match(self._program.source, at)
        bindings = [
            index
            for index, binding in enumerate(self._program.bindings)
            if local
            and binding.local == local[0]
            and f"{each.name}.".startswith(f"{binding.full}.")
        ]
        if self._missing.issuperset(bindings) and bindings and self._does_without(bindings, at):
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
        self._findings.add(Finding(*self._places.position(offset), rule, reason, guide))

    def _decide_binding(self, index: int, binding: Binding) -> None:
        statement = self._program.statements[binding.statement]
        if binding.form is Form.OWN:
            return  # The import stays, for the module that it imports has the name.
        if binding.form is Form.STAR:
            is_old = Fate.PUBLIC in self._rules and find(f"{binding.module}._", False) is not None
            if is_old and not self._handling.handles_import(binding.full, statement.start, ""):
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
            or binding.local in self._quoted
            or binding.in_class
            or self._program.by_strings
        )
        if binding.form is Form.IMPORT and binding.full != binding.module:
            self._decide_module(index, binding, [self._program.uses[i] for i in uses])
            return
        old = self._bound_name(binding, binding.full)
        if rewritten and not is_used and _is_part(binding):
            plan.dropped.add(index)
        elif old is None or not _is_import_of(binding, old):
            return
        elif old.fate in (Fate.PUBLIC, Fate.ON_TPU) and binding.form is Form.FROM:
            plan.renamed[index] = old
        elif index in self._types or (old.fate is Fate.RESTORED and binding.local in self._quoted):
            plan.renamed[index] = _at_home(old)
        else:
            # An import of which nothing is read may have an effect.
            plan.assigned[index] = old
            self._report_old_name(statement.start, binding.full, old, is_used)

    def _decide_module(self, index: int, binding: Binding, uses: Iterable[BoundUse]) -> None:
        """Decides on `import tensorflow.contrib.module`, which binds `tensorflow`."""
        old = self._bound_name(binding, binding.module)
        if old is None:
            return
        self._plan.loaded.add(index)
        names = [f"{name}." for use in uses for name in use.names]
        if not any(name.startswith(f"{binding.module}.") for name in names):
            self._plan.effects.add(index)
            self._report_old_name(self._start(binding), binding.module, old, used=False)


def _annotations(tree: ast.Module) -> list[ast.expr]:
    """Returns a program's annotations."""
    return [
        each
        for node in ast.walk(tree)
        for each in (getattr(node, "annotation", None), getattr(node, "returns", None))
        if isinstance(each, ast.expr)
    ]


def _quoted_names(annotations: Iterable[ast.expr]) -> frozenset[str]:
    """Returns the names in annotations that are strings."""
    return frozenset(
        name
        for annotation in annotations
        for inner in ast.walk(annotation)
        if isinstance(inner, ast.Constant) and isinstance(inner.value, str)
        for name in _IDENTIFIER.findall(inner.value)
    )


def _at_home(old: OldName) -> OldName:
    """Returns a restored name as that of the module that has it."""
    module, _, name = old.ours.rpartition(".")
    return dataclasses.replace(old, module=module, name=name)


def _target(old: OldName) -> tuple[object, ...]:
    """Returns what has to be equal for two old names to be rewritten alike."""
    return (old.fate, old.module, old.name)


def _is_import_of(binding: Binding, old: OldName) -> bool:
    """Returns whether a binding is an import of an old name, not of something in it."""
    is_all = old.length == len(binding.full.split("."))
    holds_more = old.fate in (Fate.UNSUPPORTED, Fate.LIBRARY)  # they may be modules
    return binding.form is not Form.ALIAS and (is_all or holds_more)


def _is_part(binding: Binding) -> bool:
    """Returns whether a binding is that of a part of TensorFlow, not of a whole API."""
    return binding.full not in ("tensorflow", "tensorflow.compat.v1", "tensorflow.compat.v2")
