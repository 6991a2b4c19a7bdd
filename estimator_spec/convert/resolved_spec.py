# SPDX-License-Identifier: Apache-2.0
"""Resolves a spec to tables and features for conversions, including those of the tensor core."""

from __future__ import annotations

import dataclasses
from typing import Any

import tensorflow as tf

from estimator_spec.core._tensorflow import private
from estimator_spec.core.embedding import optimizers
from estimator_spec.core.embedding.spec import (
    EmbeddingConfigSpec,
    FeatureConfig,
    TableConfig,
    table_learning_rate,
    table_optimizer,
    tables_and_features,
)
from tpu_columns.column_types import TPUEmbeddingColumn
from tpu_columns.placement import Hardware


class Vocabularies:
    """Vocabulary lookup tables of columns, created once; a state manager of columns."""

    def __init__(self) -> None:
        self._tables: dict[tuple[Any, str], Any] = {}

    def has_resource(self, column: Any, name: str) -> bool:
        """Returns whether a column's table exists."""
        return _eager() and (column, name) in self._tables

    def get_resource(self, column: Any, name: str) -> Any:
        """Returns a column's table."""
        return self._tables[column, name]

    def add_resource(self, column: Any, name: str, resource: Any) -> None:
        """Stores a column's table."""
        if _eager():
            self._tables[column, name] = resource

    def resources(self) -> list[Any]:
        """Returns all tables, for a SavedModel."""
        return [private.wrapped_lookup_table(table) for table in self._tables.values()]


def _eager() -> bool:
    """Returns whether there is no TF1 graph, which would have tables of its own."""
    return tf.compat.v1.executing_eagerly_outside_functions()


@dataclasses.dataclass(frozen=True)
class ResolvedSpec:
    """Tables, features and columns of a spec.

    Attributes:
        spec: the spec.
        hardware: the hardware whose semantics apply where CPU and TPU differ (`combiner=None` of
            columns: mean on a CPU, sum on a TPU); None if unspecified.
        tables: `TableConfig` by table key.
        features: `FeatureConfig` by feature key.
        columns: the column of each feature; empty in dict mode.
        on_tensor_core: keys of the tables that the tensor core looks up.
        vocabularies: vocabulary lookup tables of the columns.
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

    @property
    def core_tables(self) -> list[str]:
        """Returns the sorted keys of the tables that the embedding core looks up."""
        return sorted(set(self.tables) - self.on_tensor_core)

    def parameters(self, table: str) -> optimizers.OptimizationParameters | None:
        """Returns the optimizer of a table, its own or the spec's."""
        return table_optimizer(self.spec, self.tables[table])

    def learning_rate(self, table: str) -> Any:
        """Returns a table's learning rate: a number, a function of the global step, or None."""
        return table_learning_rate(self.spec, self.tables[table])

    def required_learning_rate(self, table: str) -> Any:
        """Returns the learning rate of a table that is trained.

        Raises:
            ValueError: the table has none.
        """
        rate, parameters = self.learning_rate(table), self.parameters(table)
        if rate is None and not isinstance(parameters, optimizers.FrequencyEstimatorParameters):
            raise ValueError(
                f"Table {table!r} has no learning rate: neither it (learning_rate, "
                f"learning_rate_fn) nor its {type(parameters).__name__} says one."
            )
        return rate

    def combiner(self, table: str) -> str:
        """Returns the combiner of a table, with None resolved."""
        combiner = self.tables[table].combiner
        if combiner is not None:
            return combiner
        if self.spec.feature_columns is None or self.hardware is Hardware.TPU:
            return "sum"
        is_mean = self.hardware is Hardware.CPU or self._has_one_id_a_step(table)
        return "mean" if is_mean else "sum"

    def combiner_is_ambiguous(self, table: str) -> bool:
        """Returns whether a combiner of None depends on the hardware, and none is specified."""
        unknown = self.spec.feature_columns is not None and self.hardware is None
        no_combiner = self.tables[table].combiner is None
        return no_combiner and unknown and not self._has_one_id_a_step(table)

    def _has_one_id_a_step(self, table: str) -> bool:
        """Returns whether only sequences without weights use a table.

        A TPU looks up one id a step, which sum and mean leave as it is; a CPU's steps may have
        several, and their mean is taken.
        """
        users = [self.features[key] for key in self.features_of(table)]
        return all(user.max_sequence_length and not user.weight_key for user in users)

    def features_of(self, table: str) -> list[str]:
        """Returns the sorted features of a table."""
        return sorted(key for key, feature in self.features.items() if feature.table_id == table)


def resolve(spec: EmbeddingConfigSpec, hardware: Hardware | None = None) -> ResolvedSpec:
    """Resolves a spec.

    Args:
        spec: columns or dictionaries.
        hardware: see `ResolvedSpec`.

    Raises:
        TypeError: as `tables_and_features`; or `hardware` has another type.
        ValueError: as `tables_and_features`; or a feature or table is on the tensor core and on the
            embedding core.
    """
    if hardware is not None and not isinstance(hardware, Hardware):
        raise TypeError(f"hardware must be a tpu_columns.Hardware or None, got {hardware!r}.")
    tables, features = tables_and_features(spec)
    found = {column.get_feature_key_name(): column for column in spec.feature_columns or ()}
    on_tensor_core = spec.tensor_core_feature_columns or []
    if on_tensor_core:
        # The plain tuple, without the rule of sizes, which was applied already.
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
    return ResolvedSpec(spec, hardware, tables, features, found, frozenset(more_tables))


def _check_apart(what: str, first: dict[str, Any], second: dict[str, Any]) -> None:
    both = sorted(set(first) & set(second))
    if both:
        raise ValueError(
            f"The embedding core and the tensor core both want the {what} {both[0]!r}. Give its "
            "columns one embedding_lookup_device."
        )
