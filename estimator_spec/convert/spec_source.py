# SPDX-License-Identifier: Apache-2.0
"""What every target reads of a spec: its tables and features, those of the tensor core included."""

from __future__ import annotations

import dataclasses
from typing import Any

import tensorflow as tf

from estimator_spec._tensorflow import private
from estimator_spec.embedding.optimizers import FrequencyEstimatorParameters, OptimizationParameters
from estimator_spec.embedding.spec import (
    EmbeddingConfigSpec,
    FeatureConfig,
    TableConfig,
    table_learning_rate,
    table_optimizer,
    tables_and_features,
)
from tpu_columns import Hardware, TPUEmbeddingColumn


class Vocabularies:
    """The tables that turn strings into ids, made once: what a column calls a state manager."""

    def __init__(self) -> None:
        self._tables: dict[tuple[Any, str], Any] = {}

    def has_resource(self, column: Any, name: str) -> bool:
        """Whether a column's table was made."""
        return _eager() and (column, name) in self._tables

    def get_resource(self, column: Any, name: str) -> Any:
        """A column's table."""
        return self._tables[column, name]

    def add_resource(self, column: Any, name: str, resource: Any) -> None:
        """Keeps a column's table."""
        if _eager():
            self._tables[column, name] = resource

    def resources(self) -> list[Any]:
        """All tables, for a SavedModel."""
        return [private.wrapped_lookup_table(table) for table in self._tables.values()]


def _eager() -> bool:
    """Whether this is no graph of TF1, which has tables of its own."""
    return tf.compat.v1.executing_eagerly_outside_functions()


@dataclasses.dataclass(frozen=True)
class Source:
    """A spec, read.

    Attributes:
        spec: it.
        hardware: whose meaning is taken where CPU and TPU differ (combiner None of columns: mean
            on a CPU, sum on a TPU); None where nobody said.
        tables: `TableConfig` by table key.
        features: `FeatureConfig` by feature key.
        columns: the column of each feature; empty in dict mode.
        on_tensor_core: keys of the tables whose lookups belong to the tensor core.
        vocabularies: of the columns.
    """

    spec: EmbeddingConfigSpec
    hardware: Hardware | None
    tables: dict[str, TableConfig]
    features: dict[str, FeatureConfig]
    columns: dict[str, TPUEmbeddingColumn]
    on_tensor_core: frozenset[str]
    vocabularies: Vocabularies = dataclasses.field(
        default_factory=Vocabularies, compare=False, repr=False
    )

    def parameters(self, table: str) -> OptimizationParameters | None:
        """The optimizer of a table, its own or the spec's."""
        return table_optimizer(self.spec, self.tables[table])

    def learning_rate(self, table: str) -> Any:
        """The rate of a table: a number, a function of the global step, or None."""
        return table_learning_rate(self.spec, self.tables[table])

    def rate_to_train(self, table: str) -> Any:
        """The rate of a table that is to be trained.

        Raises:
            ValueError: there is none.
        """
        rate, parameters = self.learning_rate(table), self.parameters(table)
        if rate is None and not isinstance(parameters, FrequencyEstimatorParameters):
            raise ValueError(
                f"Table {table!r} has no learning rate: neither it (learning_rate, "
                f"learning_rate_fn) nor its {type(parameters).__name__} says one."
            )
        return rate

    def combiner(self, table: str) -> str:
        """How the rows of an example become one: None in words."""
        combiner = self.tables[table].combiner
        if combiner is not None:
            return combiner
        by_column = self.spec.feature_columns is not None
        return "mean" if by_column and self.hardware is Hardware.CPU else "sum"

    def combiner_is_open(self, table: str) -> bool:
        """Whether a combiner of None means different things on CPU and TPU, and nobody chose."""
        by_column = self.spec.feature_columns is not None
        return self.tables[table].combiner is None and by_column and self.hardware is None

    def users(self, table: str) -> list[str]:
        """The sorted features of a table."""
        return sorted(key for key, feature in self.features.items() if feature.table_id == table)


def read(spec: EmbeddingConfigSpec, hardware: Hardware | None = None) -> Source:
    """Reads a spec.

    Args:
        spec: columns or dictionaries.
        hardware: see `Source`.

    Raises:
        TypeError: as `tables_and_features`; or `hardware` is none.
        ValueError: as `tables_and_features`; or a feature or table that the tensor core and the
            embedding core both want.
    """
    if hardware is not None and not isinstance(hardware, Hardware):
        raise TypeError(f"hardware must be a tpu_columns.Hardware or None, got {hardware!r}.")
    tables, features = tables_and_features(spec)
    found = {column.get_feature_key_name(): column for column in spec.feature_columns or ()}
    on_tensor_core = spec.tensor_core_feature_columns or []
    if on_tensor_core:
        # The bare tuple, without the rule of sizes: that has been applied.
        bare = EmbeddingConfigSpec._make(tuple(spec))
        more_tables, more_features = tables_and_features(
            bare._replace(feature_columns=on_tensor_core, tensor_core_feature_columns=[])
        )
        _check_apart("table", tables, more_tables)
        _check_apart("feature", features, more_features)
        tables, features = {**tables, **more_tables}, {**features, **more_features}
        found.update((column.get_feature_key_name(), column) for column in on_tensor_core)
    else:
        more_tables = {}
    return Source(spec, hardware, tables, features, found, frozenset(more_tables))


def _check_apart(what: str, first: dict[str, Any], second: dict[str, Any]) -> None:
    both = sorted(set(first) & set(second))
    if both:
        raise ValueError(
            f"The embedding core and the tensor core both want the {what} {both[0]!r}. Give its "
            "columns one embedding_lookup_device."
        )
