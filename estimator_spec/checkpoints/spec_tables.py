# SPDX-License-Identifier: Apache-2.0
"""Which variables of a checkpoint are the tables of a spec, by their names.

The scope in front of a name comes from the model's feature layers, which a spec doesn't know; what
stands behind it comes from the column (see `tpu_columns.tables`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from estimator_spec.embedding.spec import EmbeddingConfigSpec, table_name, table_optimizer
from tpu_columns import SharedEmbeddingColumn, TPUEmbeddingColumn
from tpu_columns.tables import WEIGHTS


@dataclasses.dataclass(frozen=True)
class SpecTable:
    """One table of a spec.

    Attributes:
        key: its key, 'tbl_<variable name>' for columns.
        ending: what its variable's full name ends with.
        rows: vocabulary size.
        width: dimension.
        combiner: of the first column.
        features: keys of the features that look it up.
        optimizer: its optimizer's parameters, or None.
        own_optimizer: the same if the table has one of its own, None if it is the spec's.
        initializer: makes the first values, or None.
        learning_rate_fn: or None.
    """

    key: str
    ending: str
    rows: int
    width: int
    combiner: str | None
    features: tuple[str, ...]
    optimizer: Any
    own_optimizer: Any
    initializer: Callable[..., Any] | None
    learning_rate_fn: Callable[..., Any] | None

    def is_variable(self, name: str) -> bool:
        """Whether a full variable name is this table's."""
        return name == self.ending or name.endswith("/" + self.ending)


def of(spec: EmbeddingConfigSpec) -> list[SpecTable]:
    """All tables of a spec, those for the tensor core too, sorted by key."""
    found: dict[str, SpecTable] = {}
    columns = [*(spec.feature_columns or ()), *(spec.tensor_core_feature_columns or ())]
    for column in columns:
        if isinstance(column, TPUEmbeddingColumn):
            table = _of_column(column, spec.optimization_parameters)
            before = found.get(table.key)
            if before is not None:
                table = dataclasses.replace(before, features=before.features + table.features)
            found[table.key] = table
    for key, config in (spec.table_to_config_dict or {}).items():
        found[key] = SpecTable(
            key=key,
            ending=key,
            rows=config.vocabulary_size,
            width=config.dimension,
            combiner=config.combiner,
            features=tuple(f for f, c in spec.feature_to_config_dict.items() if c.table_id == key),
            optimizer=table_optimizer(spec, config),
            own_optimizer=config.optimization_parameters,
            initializer=config.initializer,
            learning_rate_fn=config.learning_rate_fn,
        )
    return [found[key] for key in sorted(found)]


def _of_column(column: TPUEmbeddingColumn, optimizer: Any) -> SpecTable:
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


def match(tables: Iterable[SpecTable], names: Iterable[str]) -> dict[str, SpecTable]:
    """The tables among variables.

    Returns:
        `SpecTable` by full variable name; a table that two layers hold is there twice.
    """
    known = list(tables)
    found = {}
    for name in names:
        candidates = [table for table in known if table.is_variable(name)]
        if candidates:
            found[name] = max(candidates, key=lambda table: len(table.ending))
    return found


def looks_like_table(name: str, shape: Sequence[int]) -> bool:
    """Whether a variable has the name and shape of a table, where no spec says.

    >>> looks_like_table("input_layer/word_embedding/embedding_weights", [10, 4])
    True
    """
    last = name.rsplit("/", 1)[-1]
    return len(shape) == 2 and (last == WEIGHTS or last.endswith("_shared_embedding"))
