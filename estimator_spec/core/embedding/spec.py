# SPDX-License-Identifier: Apache-2.0
"""Defines `EmbeddingConfigSpec`: the features of the embedding core, their tables and optimizers.

A program passes it to `TPUEstimator`, as feature columns or as dictionaries of `FeatureConfig` and
`TableConfig` (dict mode). `tables_and_features` returns the two dictionaries of either form; all
code that places, converts or plans tables starts from them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from estimator_spec.core._tensorflow import private
from estimator_spec.core.common import argument_rules
from estimator_spec.core.embedding import device_assignment, optimizers
from estimator_spec.core.embedding.optimizers import OptimizationParameters
from estimator_spec.core.embedding.table_config import FeatureConfig, TableConfig
from tpu_columns import callables
from tpu_columns.checks import is_int, is_number
from tpu_columns.column_types import TPUEmbeddingColumn
from tpu_columns.invalid_ids import IdRule, rule_for_column, rule_for_feature
from tpu_columns.partition import check_strategy
from tpu_columns.placement import Mode

__all__ = ["FeatureConfig", "TableConfig"]

# The optimizers that TensorFlow accepts with feature columns.
_OPTIMIZERS_OF_COLUMNS = (
    optimizers.AdagradParameters,
    optimizers.AdamParameters,
    optimizers.FtrlParameters,
    optimizers.MomentumParameters,
    optimizers.ProximalAdagradParameters,
    optimizers.RMSPropParameters,
    optimizers.StochasticGradientDescentParameters,
)

_COLUMNS = (TPUEmbeddingColumn, *private.DENSE_COLUMNS)


class _EmbeddingSpecFields(NamedTuple):
    feature_columns: list[Any] | None
    tensor_core_feature_columns: list[Any] | None
    optimization_parameters: OptimizationParameters | None
    clipping_limit: float | None
    pipeline_execution_with_tensor_core: bool
    experimental_gradient_multiplier_fn: Callable[[Any], Any] | None
    feature_to_config_dict: Mapping[str, FeatureConfig] | None
    table_to_config_dict: Mapping[str, TableConfig] | None
    partition_strategy: str
    profile_data_directory: str | None


class EmbeddingConfigSpec(_EmbeddingSpecFields):
    """The embedded features of a run, with the optimizers and shards of their tables.

    A named tuple. Columns meant for the tensor core are in `tensor_core_feature_columns`, all
    others in `feature_columns`; both are None in dict mode.

    >>> import tensorflow as tf, tpu_columns
    >>> words = tf.feature_column.categorical_column_with_identity('words', 1000)
    >>> spec = EmbeddingConfigSpec(
    ...     [tpu_columns.embedding_column(words, 16)], optimizers.AdagradParameters(0.1))
    >>> spec.partition_strategy
    'div'

    Args:
        feature_columns: TPU embedding columns. Numeric and TensorFlow's own embedding columns are
            accepted too, because a run without an embedding core can use them. Excludes the pair
            `feature_to_config_dict` and `table_to_config_dict`.
        optimization_parameters: the optimizer of the embedding core; with columns, one of SGD,
            Adagrad, Adam, Ftrl, Momentum, RMSProp, ProximalAdagrad. No effect without a core.
        clipping_limit: accepted for old programs; it has no effect in TensorFlow either.
        pipeline_execution_with_tensor_core: whether a step's lookups overlap with the computation
            of the previous step: faster, but they miss its update. Default False.
        experimental_gradient_multiplier_fn: function of the global step that returns a factor for
            all embedding gradients.
        feature_to_config_dict: `FeatureConfig` by feature key.
        table_to_config_dict: `TableConfig` by table key, which is the table variable's name.
        partition_strategy: distribution of rows over shards: 'div' (the default; contiguous ranges)
            or 'mod' (row r on shard r mod n).
        profile_data_directory: directory to which a TPU writes statistics of its lookups.
        tensor_core_below: assigns tables of fewer rows to the tensor core, where the model's
            optimizer trains them, if their columns request no device and can be looked up there
            (see `device_assignment.split_columns`). Each such column needs a `tensor_core_shape`.
            No effect without a core. None: no table. An attribute, not a field of the tuple.

    Raises:
        ValueError: neither or both forms are given, the strategy is unknown, a feature's table is
            missing, the optimizer isn't accepted, or a column for the tensor core has no shape.
        TypeError: a column or configuration has another type.
    """

    # Not a field: programs unpack the ten of the tuple.
    tensor_core_below: int | None = None

    def __new__(
        cls,
        feature_columns: Iterable[Any] | None = None,
        optimization_parameters: OptimizationParameters | None = None,
        clipping_limit: float | None = None,
        pipeline_execution_with_tensor_core: bool = False,
        experimental_gradient_multiplier_fn: Callable[[Any], Any] | None = None,
        feature_to_config_dict: Mapping[str, FeatureConfig] | None = None,
        table_to_config_dict: Mapping[str, TableConfig] | None = None,
        partition_strategy: str = "div",
        profile_data_directory: str | None = None,
        *,
        tensor_core_below: int | None = None,
    ) -> EmbeddingConfigSpec:
        """Checks the values; see the class."""
        given = locals()
        argument_rules.check("EmbeddingConfigSpec", given)
        on_embedding_core, on_tensor_core = _split_columns(feature_columns, tensor_core_below)
        columns = {
            "feature_columns": on_embedding_core,
            "tensor_core_feature_columns": on_tensor_core,
        }
        fields = {name: given.get(name) for name in cls._fields} | columns
        spec = super().__new__(cls, **fields)
        spec.tensor_core_below = tensor_core_below
        _check_spec(spec)
        return spec

    def _replace(self, **changes: Any) -> EmbeddingConfigSpec:  # type: ignore[override]
        """Returns a copy with other fields (or `tensor_core_below`), with the same checks."""
        below = changes.pop("tensor_core_below", self.tensor_core_below)
        spec = super()._replace(**changes)
        columns = [*(spec.feature_columns or ()), *(spec.tensor_core_feature_columns or ())]
        if columns and (below is not None or self.tensor_core_below is not None):
            on_embedding_core, on_tensor_core = _split_columns(columns, below)
            spec = super(EmbeddingConfigSpec, spec)._replace(
                feature_columns=on_embedding_core, tensor_core_feature_columns=on_tensor_core
            )
        spec.tensor_core_below = below
        _check_spec(spec)
        return spec

    def __eq__(self, other: Any) -> Any:
        same = super().__eq__(other)
        if same is not True:
            return same
        return self.tensor_core_below == getattr(other, "tensor_core_below", None)

    def __ne__(self, other: Any) -> Any:
        same = self == other
        return same if same is NotImplemented else not same

    __hash__ = _EmbeddingSpecFields.__hash__

    def __reduce__(self) -> Any:
        # The constructor takes nine arguments, the tuple has ten fields.
        return type(self)._make, (tuple(self),), vars(self)


def table_name(variable_name: str) -> str:
    """Returns the table key of a column.

    >>> table_name('word')
    'tbl_word'

    Args:
        variable_name: the column's `get_embedding_var_name()`.
    """
    return f"tbl_{variable_name}"


def table_optimizer(spec: EmbeddingConfigSpec, table: TableConfig) -> OptimizationParameters | None:
    """Returns the optimizer of a table: its own, else the spec's."""
    return table.optimization_parameters or spec.optimization_parameters


def table_learning_rate(spec: EmbeddingConfigSpec, table: TableConfig) -> Any:
    """Returns the learning rate of a table: its own, else its optimizer's.

    A table's `learning_rate=0` counts as not given, as in TensorFlow's `TPUEstimator`; a
    `learning_rate_fn` may return 0.

    Returns:
        A number, a function of the global step, or None.
    """
    if table.learning_rate_fn is not None:
        return table.learning_rate_fn
    if table.learning_rate:
        return table.learning_rate
    parameters = table_optimizer(spec, table)
    return None if parameters is None else parameters.learning_rate


def tables_and_features(
    spec: EmbeddingConfigSpec,
) -> tuple[dict[str, TableConfig], dict[str, FeatureConfig]]:
    """Returns the tables and features of the embedding core, for either form of spec.

    Columns of the tensor core are left out.

    >>> tables, features = tables_and_features(EmbeddingConfigSpec(
    ...     feature_to_config_dict={'word': FeatureConfig('words')},
    ...     table_to_config_dict={'words': TableConfig(1000, 16)}))
    >>> features['word'].table_id, tables['words'].vocabulary_size
    ('words', 1000)

    Returns:
        `TableConfig` by table key, `FeatureConfig` by feature key.

    Raises:
        TypeError: an embedding core can't look up a column.
        ValueError: two columns read one feature, two columns configure a table differently, or a
            table is used by no feature.
    """
    if not isinstance(spec, EmbeddingConfigSpec):
        raise TypeError(f"spec must be an EmbeddingConfigSpec, got {type(spec)}.")
    if spec.feature_columns is not None:
        return _column_tables_and_features(spec.feature_columns)
    tables = dict(spec.table_to_config_dict or {})
    features = dict(spec.feature_to_config_dict or {})
    unused = sorted(set(tables) - {feature.table_id for feature in features.values()})
    if unused:
        raise ValueError(
            "`table_to_config_dict` specifies table that is not used in "
            f"`feature_to_config_dict`: {unused}."
        )
    return tables, features


def id_rules(spec: EmbeddingConfigSpec) -> dict[str, IdRule | None]:
    """Returns the rules for invalid ids of the embedding core's features, by feature key.

    A column's policy takes precedence over the estimator's, which the context has. Features that
    are configured by dictionaries have the estimator's.

    Args:
        spec: the spec, of columns or of dictionaries.

    Returns:
        A rule by feature key; None for a feature without a policy.

    Raises:
        ValueError: as `tables_and_features`, or a default row isn't in the vocabulary.
    """
    if spec.feature_columns is not None:
        return {c.get_feature_key_name(): rule_for_column(c) for c in spec.feature_columns}
    tables, features = tables_and_features(spec)
    return {
        key: rule_for_feature(key, tables[feature.table_id].vocabulary_size)
        for key, feature in features.items()
    }


def tensor_core_tables(spec: EmbeddingConfigSpec) -> set[str]:
    """Returns the tensor core's tables in a spec, by `get_embedding_var_name()`."""
    return {column.get_embedding_var_name() for column in spec.tensor_core_feature_columns or ()}


def spec_of_embedding_core(spec: EmbeddingConfigSpec, mode: Mode) -> EmbeddingConfigSpec | None:
    """Returns a spec with only those columns that the embedding core looks up in a mode.

    Args:
        spec: the spec, of columns or of dictionaries.
        mode: mode of the graph, on hardware with an embedding core.

    Returns:
        The spec without the other columns; None if no column is left.

    Raises:
        ValueError: as `device_assignment.embedding_core_columns`.
    """
    if spec.feature_columns is None:
        return spec
    columns = device_assignment.embedding_core_columns(
        spec.feature_columns, tensor_core_tables(spec), mode
    )
    if not columns:
        return None
    # `tensor_core_below` was applied when the spec was created.
    return spec._replace(
        feature_columns=columns, tensor_core_feature_columns=[], tensor_core_below=None
    )


def _split_columns(feature_columns: Any, below: Any) -> tuple[list[Any] | None, list[Any] | None]:
    """Checks the arguments of `split_columns` and calls it; None stands for no columns."""
    if below is not None and not is_int(below):
        raise TypeError(f"tensor_core_below must be a number of rows or None, got {below!r}.")
    if below is not None and below < 0:
        raise ValueError(f"tensor_core_below must not be negative, got {below!r}.")
    if not feature_columns:
        return None, None
    if isinstance(feature_columns, _COLUMNS) or not isinstance(feature_columns, Iterable):
        raise TypeError(f"feature_columns must be a list of columns, got {feature_columns!r}.")
    return device_assignment.split_columns(feature_columns, below)


def _check_spec(spec: EmbeddingConfigSpec) -> None:
    """Checks a spec; raises the errors of `EmbeddingConfigSpec`."""
    columns = [*(spec.feature_columns or ()), *(spec.tensor_core_feature_columns or ())]
    dict_mode = bool(spec.feature_to_config_dict and spec.table_to_config_dict)
    if bool(columns) == dict_mode:
        raise ValueError(
            "Exactly one of `feature_columns` and the pair `feature_to_config_dict` and "
            f"`table_to_config_dict` must be specified. Got {'both' if columns else 'neither'}."
        )
    if dict_mode and spec.tensor_core_below is not None:
        raise ValueError(
            "tensor_core_below needs feature_columns: the tensor core looks up in the feature "
            "layers of a model, and a specification by dictionaries has none. Leave it out, and "
            "look up small tables in the model_fn."
        )
    check_strategy(spec.partition_strategy)
    limit = spec.clipping_limit
    if limit is not None and not (is_number(limit) and limit >= 0):
        raise ValueError(
            f"clipping_limit must be a number greater than or equal to 0, or None; got {limit!r}."
        )
    multiplier = spec.experimental_gradient_multiplier_fn
    if multiplier and not callable(multiplier):
        raise TypeError(
            "experimental_gradient_multiplier_fn must be a function of the global step, got "
            f"{multiplier!r}."
        )
    if columns:
        _check_columns(columns)
        accepted: tuple[type, ...] = _OPTIMIZERS_OF_COLUMNS
    else:
        _check_dictionaries(spec.feature_to_config_dict or {}, spec.table_to_config_dict or {})
        if spec.optimization_parameters is None:
            return  # each table may have its own
        accepted = (OptimizationParameters,)
    if not isinstance(spec.optimization_parameters, accepted):
        raise ValueError(
            "optimization_parameters must be an instance of type "
            f"{', '.join(kind.__name__ for kind in accepted)}, of estimator_spec. "
            f"Got {type(spec.optimization_parameters)}."
        )


def _check_columns(columns: Iterable[Any]) -> None:
    for column in columns:
        if not isinstance(column, _COLUMNS):
            raise TypeError(
                "All feature columns must be supported types in "
                f"{[kind.__name__ for kind in _COLUMNS]}. Got {type(column)}. Make TPU embedding "
                "columns with tpu_columns.embedding_column or shared_embedding_columns."
            )


def _check_dictionaries(features: Mapping[str, Any], tables: Mapping[str, Any]) -> None:
    for argument, configs in (
        ("feature_to_config_dict", features),
        ("table_to_config_dict", tables),
    ):
        if not isinstance(configs, Mapping):
            raise TypeError(
                f"{argument} must be a dict of configurations by key, got {type(configs).__name__}."
            )
        for key in configs:
            if not isinstance(key, str):
                raise TypeError(f"The keys of {argument} must be strings, got {key!r}.")
    for feature, config in features.items():
        if not isinstance(config, FeatureConfig):
            raise TypeError(
                f"Config for feature {feature} must be of type `FeatureConfig`. Got {type(config)}"
            )
        if config.table_id not in tables:
            raise ValueError(
                f"Feature {feature} refers to table {config.table_id} which is not in the "
                f"table_to_config_dict. Its tables are {sorted(map(str, tables))}."
            )
    for table, config in tables.items():
        if not isinstance(config, TableConfig):
            raise TypeError(
                f"Config for table {table} must be of type `TableConfig`. Got {type(config)}"
            )


def _column_tables_and_features(
    columns: Iterable[Any],
) -> tuple[dict[str, TableConfig], dict[str, FeatureConfig]]:
    """Returns the tables and features of columns; see `tables_and_features`."""
    tables: dict[str, TableConfig] = {}
    features: dict[str, FeatureConfig] = {}
    first_columns: dict[str, TPUEmbeddingColumn] = {}
    for column in columns:
        if not isinstance(column, TPUEmbeddingColumn):
            raise TypeError(
                f"Unsupported feature column {type(column)}. An embedding core looks up columns "
                "that tpu_columns.embedding_column or shared_embedding_columns made; leave others "
                "out of the spec, and give them to the model's feature layers only."
            )
        key = column.get_feature_key_name()
        if key in features:
            raise ValueError(
                f"Feature column {key} is used with multiple embeddings and this is not "
                "supported. Copy the feature under a second key, or share one table."
            )
        table = table_name(column.get_embedding_var_name())
        config = _table_config(column)
        features[key] = FeatureConfig(
            table, column.get_max_sequence_length(), column.get_weight_key_name()
        )
        _check_same_table(table, first_columns.setdefault(table, column), column)
        tables.setdefault(table, config)
    return tables, features


def _table_config(column: TPUEmbeddingColumn) -> TableConfig:
    rows, width = column.get_embedding_table_size()
    return TableConfig(
        vocabulary_size=rows,
        dimension=width,
        initializer=column.get_initializer(),
        combiner=column.get_combiner(),
        learning_rate_fn=column.get_learning_rate_fn(),
    )


def _check_same_table(table: str, first: TPUEmbeddingColumn, second: TPUEmbeddingColumn) -> None:
    """Checks that two columns configure their table alike; TensorFlow silently took the last."""
    for attribute, read in (
        ("kind", lambda column: type(column).__name__),
        ("table size", lambda column: column.get_embedding_table_size()),
        ("combiner", lambda column: column.get_combiner()),
        ("initializer", lambda column: column.get_initializer()),
        ("learning_rate_fn", lambda column: column.get_learning_rate_fn()),
    ):
        values = [read(column) for column in (first, second)]
        keys = [callables.equality_key(value) for value in values]
        if keys[0] != keys[1]:
            shown = [callables.describe(v) if callable(v) else str(v) for v in values]
            raise ValueError(
                f"Columns {first.name} and {second.name} share the table {table}, but differ in "
                f"{attribute}: {shown[0]} and {shown[1]}. Make them in one call of "
                "shared_embedding_columns, or give them tables of different names."
            )
