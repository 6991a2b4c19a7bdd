# SPDX-License-Identifier: Apache-2.0
"""Matches the variables of a checkpoint with the tables of a spec, by name.

A variable's scope comes from the model's feature layers, which a spec doesn't know; the rest of the
name comes from the column (see `tpu_columns.tables`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from estimator_spec.core.embedding.optimizer_base import OptimizationParameters
from estimator_spec.core.embedding.spec import EmbeddingConfigSpec, table_name, table_optimizer
from tpu_columns.column_types import SharedEmbeddingColumn, TPUEmbeddingColumn
from tpu_columns.tables import WEIGHTS

# Ends of the names of columns with and without shared tables.
_EMBEDDING, _SHARED = "_embedding", "_shared_embedding"


@dataclasses.dataclass(frozen=True)
class TableNames:
    """The names of one table, each of which identifies it in arguments and commands.

    Attributes:
        variable: name of its variable, or the last part of it.
        key: key in the spec, '' if unknown.
        features: keys of the features that look it up, none if unknown.
    """

    variable: str
    key: str
    features: tuple[str, ...] = ()

    @property
    def short_variable(self) -> str:
        """The variable's name without '/embedding_weights'.

        >>> TableNames("input_layer/word_embedding/embedding_weights", "").short_variable
        'input_layer/word_embedding'
        """
        return self.variable.removesuffix(f"/{WEIGHTS}")

    def __str__(self) -> str:
        names = dict.fromkeys((self.key, *self.features))
        more = ", ".join(name for name in names if name not in ("", self.variable))
        return f"{self.variable!r} ({more})" if more else repr(self.variable)

    def include(self, name: str) -> bool:
        """Returns whether a name is the key, a feature, or a part of the variable's name."""
        is_part = f"/{name}/" in f"/{self.variable}/"
        return is_part or (name != "" and name in (self.key, *self.features))


def names_of_variable(variable: str) -> TableNames:
    """Returns the names that a column gives a table, from the full name of its variable.

    >>> names_of_variable("input_layer/word_embedding/embedding_weights")
    TableNames(variable='input_layer/word_embedding/embedding_weights', key='tbl_word', \
features=('word',))
    """
    column = variable.removesuffix(f"/{WEIGHTS}").rpartition("/")[2]
    if column.endswith(_SHARED):
        return TableNames(variable, table_name(column))
    if not variable.endswith(f"{_EMBEDDING}/{WEIGHTS}"):
        return TableNames(variable, "")
    categorical = column.removesuffix(_EMBEDDING)
    feature = categorical.partition("_weighted_by_")[0]
    return TableNames(variable, table_name(categorical), (feature,))


def matching(name: str, tables: Iterable[TableNames]) -> list[TableNames]:
    """Returns the tables that a name can mean; a full variable name means its variable only."""
    found = [table for table in tables if table.include(name)]
    return [table for table in found if table.variable == name] or found


def find_table(name: str, tables: Iterable[TableNames], argument: str, where: str) -> TableNames:
    """Returns the table that a user's name means.

    Args:
        name: full variable name, a part of it between slashes, key in the spec, or a feature's key.
        tables: the tables.
        argument: the argument that has the name, for errors.
        where: the file or spec that has the tables, for errors.

    Raises:
        ValueError: none matches, or more than one.
    """
    known = list(tables)
    matches = matching(name, known)
    if len(matches) == 1:
        return matches[0]
    what = "means each of these" if matches else "is none of them"
    listed = ", ".join(sorted(map(str, matches or known))) or "none"
    raise ValueError(
        f"{argument}: {name!r} should name one table of {where}, but {what}. "
        f"{'Give one by its full name' if matches else 'Those that are'}: {listed}."
    )


def by_table(
    values: Mapping[str, Any] | None, tables: Iterable[TableNames], argument: str, where: str
) -> dict[TableNames, Any]:
    """Returns values that a user gives by names of tables; see `find_table`.

    Raises:
        ValueError: a name means no table, or several; or two names mean the same one.
    """
    known, names = list(tables), dict[TableNames, str]()
    for name in values or {}:
        table = find_table(name, known, argument, where)
        if table in names:
            raise ValueError(
                f"{argument}: {names[table]!r} and {name!r} are the same table, {table}. Give one "
                "of them."
            )
        names[table] = name
    return {table: (values or {})[name] for table, name in names.items()}


@dataclasses.dataclass(frozen=True)
class SpecTable:
    """A table of a spec.

    Attributes:
        key: key in the spec, 'tbl_<variable name>' for columns.
        ending: last part of its variable's full name.
        rows: vocabulary size.
        width: dimension.
        combiner: combiner of the first column.
        features: keys of the features that look it up.
        optimizer: parameters of its optimizer, or None.
        own_optimizer: the same if the table has its own, None if it uses the spec's.
        initializer: initializer of its values, or None.
        learning_rate_fn: function that returns its learning rate, or None.
    """

    key: str
    ending: str
    rows: int
    width: int
    combiner: str | None
    features: tuple[str, ...]
    optimizer: OptimizationParameters | None
    own_optimizer: OptimizationParameters | None
    initializer: Callable[..., Any] | None
    learning_rate_fn: Callable[..., Any] | None

    @property
    def names(self) -> TableNames:
        """The table's names."""
        return TableNames(self.ending, self.key, self.features)

    def is_variable(self, name: str) -> bool:
        """Returns whether a full variable name is this table's."""
        return name == self.ending or name.endswith("/" + self.ending)


def list_tables(spec: EmbeddingConfigSpec) -> list[SpecTable]:
    """Returns all tables of a spec sorted by key, including those of the tensor core.

    Raises:
        TypeError: it is no `EmbeddingConfigSpec`.
    """
    if not isinstance(spec, EmbeddingConfigSpec):
        raise TypeError(f"spec must be an EmbeddingConfigSpec, got {spec!r}.")
    found: dict[str, SpecTable] = {}
    for column in embedding_columns(spec):
        table = _of_column(column, spec.optimization_parameters)
        before = found.get(table.key)
        if before is not None:
            table = dataclasses.replace(before, features=before.features + table.features)
        found[table.key] = table
    features = spec.feature_to_config_dict or {}
    for key, config in (spec.table_to_config_dict or {}).items():
        found[key] = SpecTable(
            key=key,
            ending=key,
            rows=config.vocabulary_size,
            width=config.dimension,
            combiner=config.combiner,
            features=tuple(f for f, c in features.items() if c.table_id == key),
            optimizer=table_optimizer(spec, config),
            own_optimizer=config.optimization_parameters,
            initializer=config.initializer,
            learning_rate_fn=config.learning_rate_fn,
        )
    return [found[key] for key in sorted(found)]


def embedding_columns(spec: EmbeddingConfigSpec) -> list[TPUEmbeddingColumn]:
    """Returns the columns of a spec that have tables, those of the tensor core last."""
    columns = [*(spec.feature_columns or ()), *(spec.tensor_core_feature_columns or ())]
    return [column for column in columns if isinstance(column, TPUEmbeddingColumn)]


def _of_column(column: TPUEmbeddingColumn, optimizer: OptimizationParameters | None) -> SpecTable:
    rows, width = column.get_embedding_table_size()
    shared = isinstance(column, SharedEmbeddingColumn)
    name = column.get_embedding_var_name()
    return SpecTable(
        key=table_name(name),
        ending=name if shared else f"{column.name}/{WEIGHTS}",
        rows=rows,
        width=width,
        combiner=column.get_combiner(),
        features=(column.get_feature_key_name(),),
        optimizer=optimizer,
        own_optimizer=None,
        initializer=column.get_initializer(),
        learning_rate_fn=column.get_learning_rate_fn(),
    )


def match_variables(tables: Iterable[SpecTable], names: Iterable[str]) -> dict[str, SpecTable]:
    """Returns the tables that variables belong to.

    Returns:
        `SpecTable` by full variable name; a table with variables in two layers appears twice.
    """
    known = list(tables)
    found = {}
    for name in names:
        candidates = [table for table in known if table.is_variable(name)]
        if candidates:
            found[name] = max(candidates, key=lambda table: len(table.ending))
    return found


def looks_like_table(name: str, shape: Sequence[int]) -> bool:
    """Returns whether a variable has the name and shape of a table, for use without a spec.

    >>> looks_like_table("input_layer/word_embedding/embedding_weights", [10, 4])
    True
    """
    last = name.rsplit("/", 1)[-1]
    return len(shape) == 2 and (last == WEIGHTS or last.endswith(_SHARED))
