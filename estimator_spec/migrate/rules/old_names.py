# SPDX-License-Identifier: Apache-2.0
"""Rule: names of `tf.estimator`, `tf.contrib.tpu` and others that have a public name now.

Does not: follow names through other modules of the program, or through attributes of objects
(`self.tpu = tf.contrib.tpu`); expand `from module import *`; keep an import for a module that isn't
migrated with this one, unless `__all__` lists the name.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator

from estimator_spec.migrate.old_names import MODEL_TO_ESTIMATOR_V1, Fate
from estimator_spec.migrate.program import Call, Program
from estimator_spec.migrate.rule import Replacement, Rule, Spell, Target

_FORMAT = 'checkpoint_format="saver"'


def _edits(program: Program, target: Target) -> Iterator[Replacement]:
    """Yields edits that keep the checkpoint format of TensorFlow 1's `model_to_estimator`."""
    del target
    calls = {call.use: call for call in program.calls}
    for index, use in enumerate(program.uses):
        if MODEL_TO_ESTIMATOR_V1 not in use.names or not use.is_plain:
            continue
        call = calls.get(index)
        if call is None or call.unpacks():
            yield Replacement(use.start, use.ends[-1], _partial)
            continue
        given = call.argument(5, "checkpoint_format")
        if given is None:
            at = _end_of_arguments(program.source, call)
            text = f", {_FORMAT}" if call.arguments else _FORMAT
            yield Replacement(at, at, functools.partial(_text, text))
        elif given.literal is None:
            yield Replacement(given.start, given.end, functools.partial(_text, '"saver"'))


def _end_of_arguments(source: str, call: Call) -> int:
    """Returns the place after the last argument of a call, and after the parentheses around it."""
    if not call.arguments:
        return call.end - 1
    at = call.arguments[-1].end
    brackets = re.match(r"(\s*\))*", source[at : call.end - 1])
    return at + (brackets.end() if brackets else 0)


def _text(text: str, spell: Spell) -> str:
    del spell
    return text


def _partial(spell: Spell) -> str:
    function = spell("estimator_spec", "model_to_estimator")
    return f"{spell('functools', 'partial')}({function}, {_FORMAT})"


RULE = Rule(
    "old-names",
    "tf.estimator, tf.contrib.tpu, TPU columns and their other spellings get their present names",
    "imports-old-spelling-to-new",
    fates=frozenset({Fate.PUBLIC}),
    edits=_edits,
)
