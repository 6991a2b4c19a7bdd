# SPDX-License-Identifier: Apache-2.0
"""Rule: a spec of literals becomes `TableConfig`s and `FeatureConfig`s of the target.

Does not: convert tables with an initializer, a `combiner=None` or an optimizer of their own,
weights, vocabularies, and optimizers other than SGD, Adagrad and (mid-level) Adam. The rule
`spec-conversion` is for these.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from estimator_spec.legacy.migrate import spec_calls
from estimator_spec.legacy.migrate.literal_specs import LiteralOptimizer, LiteralSpec, LiteralTable
from estimator_spec.legacy.migrate.program import ParsedModule
from estimator_spec.legacy.migrate.rule import (
    LEAVING,
    MigrationRule,
    MigrationTarget,
    Replacement,
    Spell,
)
from estimator_spec.legacy.migrate.spec_calls import SpecCall

# Module and names of the target's classes.
_MID_LEVEL = ("tensorflow.tpu.experimental.embedding", "")
_KERAS_RS = ("keras_rs", "layers.")
_LINE = 100

# The class of each optimizer in both targets, its arguments by ours, and those of our defaults that
# aren't the target's.
_ACCUMULATOR = {"initial_accumulator": "initial_accumulator_value"}
_OPTIMIZERS: dict[str, tuple[str, dict[str, str], dict[str, Any]]] = {
    "StochasticGradientDescentParameters": ("SGD", {}, {}),
    "AdagradParameters": ("Adagrad", _ACCUMULATOR, {}),
    "AdamParameters": ("Adam", {"beta1": "beta_1", "beta2": "beta_2"}, {"epsilon": 1e-8}),
}


class _Source:
    """Source of the configurations of a spec; `indent` is the white space before the statement."""

    def __init__(
        self, found: SpecCall, spec: LiteralSpec, target: MigrationTarget, indent: str
    ) -> None:
        self._spec = spec
        self._is_keras = target is MigrationTarget.KERAS_RS
        self._module, self._prefix = _KERAS_RS if self._is_keras else _MID_LEVEL
        self._indent = indent
        taken = set(found.tree.names)
        self._optimizer = _free("embedding_optimizer", taken)
        self._tables = {key: _free(_identifier(key), taken) for key in spec.tables}

    def assignments(self, spell: Spell) -> str:
        """Returns the statements that make optimizer and tables."""
        made = [(self._optimizer, self._optimizer_source(self._spec.optimizer, spell))]
        made += [
            (self._tables[key], self._table_source(key, table, spell))
            for key, table in self._spec.tables.items()
        ]
        return "".join(f"{name} = {value}\n{self._indent}" for name, value in made)

    def features(self, spell: Spell) -> str:
        """Returns the expression in place of the spec."""
        inner = f"{self._indent}    "
        lines = ""
        for key in self._spec.features:
            item = f"{inner}{_string(key)}: "
            lines += f"{item}{self._feature_source(key, spell, inner, len(item) + 1)},\n"
        features = f"{{\n{lines}{self._indent}}}"
        if not self._is_keras:
            return features
        return f"{self._spell(spell, 'DistributedEmbedding')}({features})"

    def _spell(self, spell: Spell, name: str) -> str:
        return spell(self._module, f"{self._prefix}{name}")

    def _optimizer_source(self, optimizer: LiteralOptimizer, spell: Spell) -> str:
        name, renamed, defaults = _OPTIMIZERS[optimizer.kind]
        given = {**optimizer.arguments, **defaults, **optimizer.arguments}
        arguments = {renamed.get(key, key): repr(value) for key, value in given.items()}
        kind = spell("keras", f"optimizers.{name}") if self._is_keras else self._spell(spell, name)
        return _call(kind, arguments, self._indent, len(f"{self._indent}{self._optimizer} = "))

    def _table_source(self, key: str, table: LiteralTable, spell: Spell) -> str:
        arguments = {
            # Keras names can't contain a slash.
            "name": _string(key.replace("/", "_") if self._is_keras else key),
            "vocabulary_size": str(table.rows),
            "embedding_dim" if self._is_keras else "dim": str(table.width),
            "combiner": _string(table.combiner),
            "optimizer": self._optimizer,
        }
        if self._is_keras:
            # The default of the others' tables; keras_rs' own is another.
            kind = spell("keras", "initializers.TruncatedNormal")
            arguments["initializer"] = f"{kind}(stddev={table.width}**-0.5)"
        used = len(f"{self._indent}{self._tables[key]} = ")
        return _call(self._spell(spell, "TableConfig"), arguments, self._indent, used)

    def _feature_source(self, key: str, spell: Spell, indent: str, used: int) -> str:
        feature = self._spec.features[key]
        arguments = {"name": _string(key), "table": self._tables[feature.table]}
        if self._is_keras:
            steps = f"{feature.steps}, " if feature.steps else ""
            width = self._spec.tables[feature.table].width
            arguments["input_shape"] = f"(None, {steps}None)"
            arguments["output_shape"] = f"(None, {steps}{width})"
        elif feature.steps:
            arguments["max_sequence_length"] = str(feature.steps)
        return _call(self._spell(spell, "FeatureConfig"), arguments, indent, used)


def _call(function: str, arguments: dict[str, str], indent: str, used: int) -> str:
    """Returns a call, in one line if the line that has `used` characters takes it."""
    given = [f"{name}={value}" for name, value in arguments.items()]
    line = f"{function}({', '.join(given)})"
    if used + len(line) <= _LINE:
        return line
    lines = "".join(f"{indent}    {argument},\n" for argument in given)
    return f"{function}(\n{lines}{indent})"


def _string(text: str) -> str:
    """Returns a string's source, in double quotes as formatters write it."""
    source = repr(text)
    return source if '"' in source or "\\" in source else source.replace("'", '"')


def _identifier(key: str) -> str:
    name = re.sub(r"\W", "_", key)
    return f"{name if name.isidentifier() else f'_{name}'}_table"


def _free(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "_"
    taken.add(name)
    return name


def _edits(program: ParsedModule, target: MigrationTarget) -> Iterator[Replacement]:
    for found in spec_calls.find(program, target):
        if found.contents is None or found.reader or found.statement is None:
            continue
        start, _ = found.tree.span(found.statement)
        indent = program.source[program.source.rfind("\n", 0, start) + 1 : start]
        source = _Source(found, found.contents, target, indent)
        yield Replacement(start, start, source.assignments)
        yield Replacement(found.call.start, found.call.end, source.features)


RULE = MigrationRule(
    "literal-configs",
    "specs of literals become TableConfig and FeatureConfig of the target",
    "leaving-the-estimator",
    targets=LEAVING,
    edits=_edits,
)
