# SPDX-License-Identifier: Apache-2.0
"""Rules: a program that uses TensorFlow 1's API by `import tensorflow` imports it by name.

A program is one if a module of it uses a name that only TensorFlow 1 has; `run` decides it by the
same function. All its modules get `tensorflow.compat.v1`, and for `--to shim` a call of
`disable_v2_behavior`, as under `run`. A module that a program of each kind imports is reported.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator

from estimator_spec.legacy import program_api
from estimator_spec.legacy.migrate.program import Binding, BoundUse, Form, ModuleApi, ParsedModule
from estimator_spec.legacy.migrate.results import Finding, Subject
from estimator_spec.legacy.migrate.rule import (
    AddedCall,
    MigrationRule,
    MigrationTarget,
    Replacement,
    Spell,
)
from estimator_spec.legacy.old_names import find

_PRIVATE = (["core"], ["python"], ["tools"], ["tsl"])


def changed_bindings(program: ParsedModule) -> frozenset[int]:
    """Returns the bindings of `tensorflow` that become TensorFlow 1's; none in other programs."""
    if program.api is not ModuleApi.TF1:
        return frozenset()
    candidates = {index for index, binding in enumerate(program.bindings) if _is_changed(binding)}
    # Packages that aren't an API version's can't be reached from tensorflow.compat.v1.
    kept = {
        program.import_of(index)
        for use in program.uses
        for index, name in zip(use.bindings, use.names, strict=True)
        if name.split(".")[1:2] in _PRIVATE
    }
    return frozenset(candidates - kept)


def _is_changed(binding: Binding) -> bool:
    """Returns whether a binding is something else in a program of TensorFlow 1."""
    is_import = binding.form is not Form.ALIAS and binding.from_tensorflow
    name = program_api.name_in_tf1(binding.full)
    return is_import and name != binding.full


def _statements(program: ParsedModule, target: MigrationTarget) -> Iterable[AddedCall]:
    """Yields the call that disables TensorFlow 2's behaviour, which other targets need."""
    forms = {program.bindings[index].form for index in changed_bindings(program)}
    if target is MigrationTarget.SHIM and program.starts and not forms <= {Form.OWN}:
        yield AddedCall("tensorflow.compat.v1", "disable_v2_behavior")


def _edits(program: ParsedModule, target: MigrationTarget) -> Iterator[Replacement]:
    """Yields edits of names that only TensorFlow 2's API has: under `run` they are still there."""
    del target
    for use in program.uses:
        root, _, rest = use.names[0].partition(".")
        first = rest.partition(".")[0]
        bindings = [program.bindings[index] for index in use.bindings]
        is_of_tf1 = all(binding.full == program_api.TF1 for binding in bindings)
        if is_of_tf1 and root == "tensorflow" and first not in ("", "compat"):
            spell = functools.partial(_spell, first)
            yield Replacement(use.start, use.ends[1], spell)


def _spell(name: str, spell: Spell) -> str:
    return spell("tensorflow", name)


def _differing(program: ParsedModule) -> Iterator[tuple[BoundUse, str]]:
    """Yields the uses of names that are something else in each API, and the names."""
    for use in program.uses:
        for index, name in zip(use.bindings, use.names, strict=True):
            binding = program.bindings[program.import_of(index)]
            if binding.from_tensorflow and program_api.differs_in_tf1(name):
                yield use, name


def _places(program: ParsedModule, target: MigrationTarget) -> Iterator[tuple[int, str]]:
    """Yields the first place where two readings of a module differ, or another isn't migrated."""
    del target
    yield from _of_left_modules(program)
    if program.api is not ModuleApi.EITHER:
        return
    found = next(_differing(program), None)
    if found is None:
        return
    use, name = found
    read = "; ".join(
        f"as {api.value}'s by {', '.join(program.mains.get(api, ()))}"
        for api in (ModuleApi.TF1, ModuleApi.TF2)
    )
    yield (
        use.start,
        f"This module can be read {read}, and {name} is another thing in each: import "
        "tensorflow.compat.v1 or tensorflow.compat.v2 by name. It was read as TensorFlow 2's.",
    )


def left_out(program: ParsedModule) -> Iterator[Finding]:
    """Yields the first place where a module of TensorFlow 1 differs if this rule isn't applied."""
    kept = ((use, name) for use, name in _differing(program) if find(name, False) is None)
    if program.api is ModuleApi.TF1 and (found := next(kept, None)):
        use, name = found
        reason = (
            f"This module is of a program of TensorFlow 1, and {name} is another thing in "
            f"TensorFlow 2: apply the rule {RULE.name}, too."
        )
        yield Finding(*program.places.position(use.start), RULE.name, reason, RULE.guide)


def _of_left_modules(program: ParsedModule) -> Iterator[tuple[int, str]]:
    """Yields the first use of a name of TensorFlow 1 of each module that isn't migrated with it."""
    changed = changed_bindings(program)
    told: set[str] = set()
    for use in program.uses:
        for index, name in zip(use.bindings, use.names, strict=True):
            origin = program.import_of(index)
            module = program.bindings[origin].module
            if module not in program.left - told or origin not in changed:
                continue
            if program_api.is_tf1_name(name.partition(".")[2]):
                told.add(module)
                yield (
                    use.start,
                    f"{name} is read of the program's module {module} here, which isn't among the "
                    "files: migrate it, too.",
                )


RULE = MigrationRule(
    "tf1-api",
    "programs of TensorFlow 1 import tensorflow.compat.v1 and disable v2 behaviour",
    "step-by-step",
    edits=_edits,
    adds=_statements,
    places=_places,
    kind=Subject.NOT_REWRITTEN,
)
