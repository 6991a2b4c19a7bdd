# SPDX-License-Identifier: Apache-2.0
"""Reads embedding specs whose tables and features are literals in the source.

Read are dictionaries of `TableConfig` and `FeatureConfig`, and lists of columns of integer ids
(`categorical_column_with_identity`), directly in the call or by a variable that is assigned once.
Everything else has to be converted when the program runs: `None` is returned for it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from estimator_spec.legacy.migrate.source_tree import SourceTree

_Names = tuple[str, ...]

# Parameters that are read, in the order of the signatures; a call with others isn't read.
_TABLE: _Names = ("vocabulary_size", "dimension", "initializer", "combiner", "", "", "", "")
_FEATURE: _Names = ("table_id", "max_sequence_length")
_SPEC: _Names = ("feature_columns", "optimization_parameters", "clipping_limit", "", "")
_SPEC += ("feature_to_config_dict", "table_to_config_dict", "partition_strategy")
_COLUMN: _Names = (
    "categorical_column",
    "dimension",
    "combiner",
    "initializer",
    "max_sequence_length",
)
_SHARED: _Names = ("categorical_columns", "dimension", "combiner", "initializer")
_SHARED += ("shared_embedding_collection_name", "max_sequence_lengths")
_IDENTITY: _Names = ("key", "num_buckets")
_OPTIMIZERS = {
    "StochasticGradientDescentParameters": ("learning_rate",),
    "AdagradParameters": ("learning_rate", "initial_accumulator"),
    "AdamParameters": ("learning_rate", "beta1", "beta2", "epsilon"),
}
_FEATURE_COLUMNS = tuple(
    f"tensorflow{version}.feature_column" for version in ("", ".compat.v1", ".compat.v2")
)


@dataclass(frozen=True)
class LiteralOptimizer:
    """An optimizer of tables.

    Attributes:
        kind: name of the class of `estimator_spec`.
        arguments: the given arguments.
    """

    kind: str
    arguments: dict[str, Any]


@dataclass(frozen=True)
class LiteralTable:
    """A table without an initializer.

    Attributes:
        rows: number of rows.
        width: length of a row.
        combiner: reduction of an example's rows.
    """

    rows: int
    width: int
    combiner: str = "mean"


@dataclass(frozen=True)
class LiteralFeature:
    """A feature without weights.

    Attributes:
        table: key of its table.
        steps: steps of a sequence, or 0.
    """

    table: str
    steps: int = 0


@dataclass(frozen=True)
class LiteralSpec:
    """Tables and features of a spec, by their keys, and the optimizer of all tables."""

    optimizer: LiteralOptimizer
    tables: dict[str, LiteralTable] = field(default_factory=dict)
    features: dict[str, LiteralFeature] = field(default_factory=dict)


class _OtherError(Exception):
    """Something that isn't a literal."""


def read(tree: SourceTree, call: ast.Call) -> LiteralSpec | None:
    """Returns the contents of a call of `EmbeddingConfigSpec`, or None if they aren't literals."""
    try:
        return _SpecReader(tree).spec(call)
    except (_OtherError, KeyError, ValueError, TypeError, SyntaxError):
        return None


class _SpecReader:
    def __init__(self, tree: SourceTree) -> None:
        self._tree = tree

    def spec(self, call: ast.Call) -> LiteralSpec:
        given = self._arguments(call, _SPEC)
        # Neither changes what is computed.
        for name in ("clipping_limit", "partition_strategy"):
            self._literal(given.pop(name, ast.Constant(None)))
        found = LiteralSpec(self._optimizer(given.pop("optimization_parameters", None)))
        if set(given) == {"feature_columns"}:
            for column in self._elements(given["feature_columns"]):
                self._read_column(column, found)
        elif set(given) == {"feature_to_config_dict", "table_to_config_dict"}:
            for key, node in self._items(given["table_to_config_dict"]):
                found.tables[key] = self._table(node)
            for key, node in self._items(given["feature_to_config_dict"]):
                values = self._literals(self._call(node, "estimator_spec.FeatureConfig"), _FEATURE)
                found.features[key] = LiteralFeature(
                    values["table_id"], values.get("max_sequence_length", 0)
                )
        else:
            raise _OtherError
        if {feature.table for feature in found.features.values()} != set(found.tables):
            raise _OtherError
        return found

    def _table(self, node: ast.expr) -> LiteralTable:
        values = self._literals(self._call(node, "estimator_spec.TableConfig"), _TABLE)
        return _make_table(values, values["vocabulary_size"])

    def _read_column(self, node: ast.expr, found: LiteralSpec) -> None:
        """Adds the table and features of a column, or of columns that share a table."""
        if isinstance(node, ast.Starred):
            call = self._call(node.value, "tpu_columns.shared_embedding_columns")
            given = self._arguments(call, _SHARED)
            columns = list(self._elements(given.pop("categorical_columns")))
        else:
            given = self._arguments(self._call(node, "tpu_columns.embedding_column"), _COLUMN)
            columns = [given.pop("categorical_column")]
        values = {name: self._literal(value) for name, value in given.items()}
        read = [self._identity(column) for column in columns]
        keys = [key for key, _ in read]
        if isinstance(node, ast.Starred):
            collection = values.get("shared_embedding_collection_name")
            table = f"tbl_{collection or '_'.join(sorted(keys)) + '_shared_embedding'}"
            lengths = values.get("max_sequence_lengths") or [0] * len(columns)
        else:
            table, lengths = f"tbl_{keys[0]}", [values.get("max_sequence_length", 0)]
        if table in found.tables or set(keys) & set(found.features) or len(lengths) != len(keys):
            raise _OtherError
        (rows,) = {rows for _, rows in read}
        found.tables[table] = _make_table(values, rows)
        for key, steps in zip(keys, lengths, strict=True):
            found.features[key] = LiteralFeature(table, steps)

    def _identity(self, node: ast.expr) -> tuple[str, int]:
        called, call = self._called(node)
        module, _, name = called.rpartition(".")
        if module not in _FEATURE_COLUMNS or not name.endswith("categorical_column_with_identity"):
            raise _OtherError
        values = self._literals(call, _IDENTITY)
        return values["key"], values["num_buckets"]

    def _optimizer(self, node: ast.expr | None) -> LiteralOptimizer:
        called, call = self._called(node)
        module, _, kind = called.rpartition(".")
        if module != "estimator_spec" or kind not in _OPTIMIZERS:
            raise _OtherError
        values = self._literals(call, _OPTIMIZERS[kind])
        if not isinstance(values.get("learning_rate"), int | float):
            raise _OtherError
        return LiteralOptimizer(kind, values)

    def _call(self, node: ast.expr, name: str) -> ast.Call:
        """Returns the call of a function that an expression is."""
        called, call = self._called(node)
        if called != name:
            raise _OtherError
        return call

    def _called(self, node: ast.expr | None) -> tuple[str, ast.Call]:
        """Returns the full name of the function that an expression calls, and the call."""
        call = None if node is None else self._tree.value_of(node)
        if not isinstance(call, ast.Call):
            raise _OtherError
        return self._tree.name_of(call.func), call

    def _literals(self, call: ast.Call, names: _Names) -> dict[str, Any]:
        given = self._arguments(call, names)
        return {name: self._literal(node) for name, node in given.items()}

    def _literal(self, node: ast.expr) -> Any:
        return ast.literal_eval(self._tree.value_of(node))

    def _arguments(self, call: ast.Call, names: _Names) -> dict[str, ast.expr]:
        """Returns the arguments of a call by the parameters' names; '' stands for one not read."""
        if len(call.args) > len(names):
            raise _OtherError
        given = dict(zip(names, call.args, strict=False))
        for keyword in call.keywords:
            given[keyword.arg or ""] = keyword.value
        unread = set(given) - set(names) | {""} & set(given)
        if unread or any(isinstance(node, ast.Starred) for node in call.args):
            raise _OtherError
        return given

    def _elements(self, node: ast.expr) -> Iterator[ast.expr]:
        display = self._tree.value_of(node)
        if not isinstance(display, ast.List | ast.Tuple):
            raise _OtherError
        yield from display.elts

    def _items(self, node: ast.expr) -> Iterator[tuple[str, ast.expr]]:
        display = self._tree.value_of(node)
        if not isinstance(display, ast.Dict):
            raise _OtherError
        for key, value in zip(display.keys, display.values, strict=True):
            literal = None if key is None else ast.literal_eval(key)
            if not isinstance(literal, str):
                raise _OtherError
            yield literal, value


def _make_table(values: dict[str, Any], rows: Any) -> LiteralTable:
    table = LiteralTable(rows, values["dimension"], values.get("combiner", "mean"))
    numbers = type(table.rows) is type(table.width) is int
    if not numbers or table.combiner is None or values.get("initializer") is not None:
        raise _OtherError
    return table
