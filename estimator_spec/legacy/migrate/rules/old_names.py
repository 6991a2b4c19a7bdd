# SPDX-License-Identifier: Apache-2.0
"""Rules of old names, by what becomes of each.

- old-names: names of `tf.estimator`, `tf.contrib.tpu` and others that have a public name now.
- tpu-functions: functions that need a TPU are imported from `estimator_spec.tpu`, which has the
  host's, too. The environment variable TPU_COLUMNS_CPU chooses the host, not the rule.
- restored-names: removed modules and names without a public replacement come from `restored`:
  `from tensorflow.contrib import crf` becomes
  `crf = estimator_spec.restored("tensorflow.contrib.crf")`; in annotations they are imported. A
  name whose absence the program handles stays.
- unsupported-names: removed names that nothing replaces become stand-ins, and lines of the report.
  A stand-in keeps the program's imports working; its use raises an error that says what to do.

They don't follow modules of TensorFlow that become arguments, attributes or elements, which
`unfollowed` finds for the report; don't expand `from module import *`; and don't keep an import for
a module that isn't migrated with this one, unless `__all__` lists the name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from estimator_spec.legacy.migrate.program import FollowedCall, ParsedModule, literal
from estimator_spec.legacy.migrate.rule import (
    MigrationRule,
    MigrationTarget,
    Replacement,
    Spell,
    fixed,
)
from estimator_spec.legacy.old_names import MODEL_TO_ESTIMATOR_V1, Fate

_FORMAT = 'checkpoint_format="saver"'


def _edits(program: ParsedModule, target: MigrationTarget) -> Iterator[Replacement]:
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
            at = _end_of_arguments(program, call)
            text = f", {_FORMAT}" if call.node.args or call.node.keywords else _FORMAT
            yield Replacement(at, at, fixed(text))
        elif literal(given) is None:
            yield Replacement(*program.places.span(given), fixed('"saver"'))


def _end_of_arguments(program: ParsedModule, call: FollowedCall) -> int:
    """Returns the place after the last argument of a call, and after the parentheses around it."""
    given = [*call.node.args, *call.node.keywords]
    if not given:
        return call.end - 1
    at = max(program.places.span(each)[1] for each in given)
    brackets = re.match(r"(\s*\))*", program.source[at : call.end - 1])
    return at + (brackets.end() if brackets else 0)


def _partial(spell: Spell) -> str:
    function = spell("estimator_spec", "model_to_estimator")
    return f"{spell('functools', 'partial')}({function}, {_FORMAT})"


RULES = (
    MigrationRule(
        "old-names",
        "tf.estimator, tf.contrib.tpu, TPU columns and their other spellings get their present "
        "names",
        "imports-old-spelling-to-new",
        fates=frozenset({Fate.PUBLIC}),
        edits=_edits,
    ),
    MigrationRule(
        "tpu-functions",
        "CrossShardOptimizer, TPUClusterResolver and tf.tpu.* come from estimator_spec.tpu",
        "running-before-touching-a-line",
        fates=frozenset({Fate.ON_TPU}),
    ),
    MigrationRule(
        "restored-names",
        "other names of tf.contrib and private names come from estimator_spec.restored",
        "imports-old-spelling-to-new",
        fates=frozenset({Fate.RESTORED, Fate.LIBRARY, Fate.MODULE}),
    ),
    MigrationRule(
        "unsupported-names",
        "names that aren't restored become stand-ins, and the report says what to use instead",
        "imports-that-arent-supported",
        fates=frozenset({Fate.UNSUPPORTED}),
    ),
)
