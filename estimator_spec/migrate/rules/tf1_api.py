# SPDX-License-Identifier: Apache-2.0
"""Rule: a program that uses TensorFlow 1's API by `import tensorflow` imports it by name.

A module is one if it uses a name that only TensorFlow 1 has. It gets `tensorflow.compat.v1`, and
for `--to shim` a call of `disable_v2_behavior`, as under `run`.

Does not: look at other modules. One that uses only names of both APIs stays at TensorFlow 2's.
"""

from __future__ import annotations

from collections.abc import Iterable

from estimator_spec.legacy.tensorflow_names import is_only_in_tf1
from estimator_spec.migrate.program import Form, Program
from estimator_spec.migrate.rule import Rule, Statement, Target


def changed_bindings(program: Program) -> frozenset[int]:
    """Returns the bindings of `tensorflow` that become TensorFlow 1's; none in other programs."""
    candidates = {
        index
        for index, binding in enumerate(program.bindings)
        if binding.module == "tensorflow"
        and (binding.form is Form.IMPORT or is_only_in_tf1(binding.full.partition(".")[2]))
    }
    names = [
        (program.import_of(index), name)
        for use in program.uses
        for index, name in zip(use.bindings, use.names, strict=True)
    ]
    used = any(
        index in candidates and is_only_in_tf1(name.partition(".")[2]) for index, name in names
    )
    by_name = {i for i in candidates if program.bindings[i].form is Form.FROM}
    if not used and not by_name:
        return frozenset()
    # A private module or another API version can't be reached from tensorflow.compat.v1.
    kept = {index for index, name in names if name.split(".")[1:2] == ["python"]}
    return frozenset(candidates - kept)


def _statements(program: Program, target: Target) -> Iterable[Statement]:
    """Yields the call that disables TensorFlow 2's behaviour, which other targets need."""
    if target is Target.SHIM and changed_bindings(program):
        yield Statement("tensorflow.compat.v1", "disable_v2_behavior")


RULE = Rule(
    "tf1-api",
    "programs of TensorFlow 1 import tensorflow.compat.v1 and disable v2 behaviour",
    "step-by-step",
    changes=changed_bindings,
    adds=_statements,
)
