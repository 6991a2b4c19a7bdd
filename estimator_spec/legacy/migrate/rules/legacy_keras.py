# SPDX-License-Identifier: Apache-2.0
"""Rule: a program that uses `tf.keras` or `tf.layers` selects the Keras that builds graphs.

Estimators do so before they call a `model_fn`; a use before that, or without an estimator, would
select Keras 3.
"""

from __future__ import annotations

from collections.abc import Iterable

from estimator_spec.legacy.migrate.program import ParsedModule
from estimator_spec.legacy.migrate.rule import AddedCall, MigrationRule, MigrationTarget
from estimator_spec.legacy.old_names import present_name

_ROOTS = ("tensorflow.", "tensorflow.compat.v1.", "tensorflow.compat.v2.")


def _is_keras(name: str) -> bool:
    roots = (*_ROOTS, "tensorflow.contrib.")
    return any(f"{name}.".startswith(f"{root}keras.") for root in roots)


def _is_layers(name: str) -> bool:
    return any(name.startswith(f"{root}layers.") for root in _ROOTS)


def _statements(program: ParsedModule, target: MigrationTarget) -> Iterable[AddedCall]:
    """Yields the call that selects tf_keras, if the program doesn't have it."""
    del target
    if any(call.method == "select_legacy_keras" for call in program.calls):
        return
    bound = [name for b in program.bindings for name in (b.full, b.module)]
    names = [name for use in program.uses for name in use.names]
    # By their present names, too: a second run finds those.
    imported = any(map(_is_keras, (*bound, *map(present_name, bound))))
    used = any(_is_keras(name) or _is_layers(name) for name in (*names, *map(present_name, names)))
    if imported or used:
        yield AddedCall("estimator_spec", "select_legacy_keras", first=imported)


RULE = MigrationRule(
    "legacy-keras",
    "programs that use tf.keras or tf.layers select tf_keras, which builds graphs",
    "keras-and-tfcompatv1layers",
    targets=frozenset({MigrationTarget.SHIM}),
    adds=_statements,
)
