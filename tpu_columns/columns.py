# SPDX-License-Identifier: Apache-2.0
"""TPU embedding columns: `embedding_column`, `shared_embedding_columns` and what they make.

A column says what is looked up: which feature, in which table, combined how. It doesn't know an
estimator, an optimizer's state, or the machine: `placement.route` decides where the lookup runs,
and the driver says for which mode and hardware.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import tensorflow as tf

from tpu_columns import _tensorflow as private
from tpu_columns import callables, categorical, lookup, tables
from tpu_columns.feature_column_protocol import FeatureColumnProtocol
from tpu_columns.placement import LookupDevice

tf1 = tf.compat.v1


class TPUEmbeddingColumn(FeatureColumnProtocol):
    """What both kinds of TPU embedding column know: metadata, under the legacy getter names.

    Columns are immutable values. They are equal, and hash alike, when every field is; copies are
    the column itself; pickle and `get_config`/`from_config` give an equal one back.

    Attributes:
      categorical_column: TensorFlow's categorical column: feature key, vocabulary, weights,
        sequence or not.
      dimension: width D of the table.
      combiner: 'mean', 'sqrtn', 'sum', or None (mean on a CPU, sum on a TPU, as ever).
      initializer: callable that makes the table's first values.
      max_sequence_length: steps L of a sequence column, 0 for others.
      learning_rate_fn: global step -> learning rate of the table on an embedding core, or None.
      embedding_lookup_device: requested `LookupDevice`, or None.
      tensor_core_shape: (batch or None, n) of ids padded for the tensor core, or None.
      use_safe_embedding_lookup: whether a CPU lookup drops negative ids and gives zeros for rows
        without ids.
    """

    # Each subclass is a dataclass with these fields.
    categorical_column: Any
    dimension: int
    combiner: str | None
    initializer: Callable[..., Any]
    max_sequence_length: int
    learning_rate_fn: Callable[..., Any] | None
    embedding_lookup_device: LookupDevice | None
    tensor_core_shape: tuple[int | None, int] | None
    use_safe_embedding_lookup: bool

    def __post_init__(self) -> None:
        object.__setattr__(self, "_reads", categorical.read(self.categorical_column))
        _check_max_sequence_length(self.max_sequence_length, self._reads)
        object.__setattr__(self, "max_sequence_length", int(self.max_sequence_length))
        lookup.check_combiner(self.combiner)
        object.__setattr__(
            self, "embedding_lookup_device", LookupDevice.parse(self.embedding_lookup_device)
        )
        object.__setattr__(self, "tensor_core_shape", _tensor_core_shape(self.tensor_core_shape))
        if self.embedding_lookup_device is LookupDevice.TPU_TENSOR_CORE:
            _check_tensor_core(self)

    def get_combiner(self) -> str | None:
        """Returns 'mean', 'sqrtn', 'sum' or None."""
        return self.combiner

    def get_embedding_table_size(self) -> tuple[int, int]:
        """Returns (vocabulary size, dimension)."""
        return self._reads.num_buckets, self.dimension

    def get_feature_key_name(self) -> str:
        """Returns the key of the ids in the features dict."""
        return self._reads.feature_key

    def get_weight_key_name(self) -> str | None:
        """Returns the key of the weights in the features dict, or None."""
        return self._reads.weight_key

    def get_initializer(self) -> Callable[..., Any]:
        """Returns the table's initializer."""
        return self.initializer

    def get_max_sequence_length(self) -> int:
        """Returns the number of steps of a sequence column, 0 for others."""
        return self.max_sequence_length

    def get_learning_rate_fn(self) -> Callable[..., Any] | None:
        """Returns the function from global step to the table's learning rate, or None."""
        return self.learning_rate_fn

    def get_sequence_length_feature_key_name(self) -> str:
        """Returns the key under which a TPU puts the lengths of the sequences."""
        return categorical.sequence_length_key(self.get_feature_key_name())

    def is_sequence_column(self) -> bool:
        """Returns whether each id of a row gets an embedding of its own (weighted or not)."""
        return self._reads.is_sequence

    def is_categorical_column_weighted(self) -> bool:
        """Returns whether ids come with weights."""
        return self._reads.weight_key is not None

    def get_embedding_var_name(self) -> str:
        """Returns the name that tells this column's table from others."""
        raise NotImplementedError

    def get_config(self) -> dict[str, Any]:
        """Returns the column as plain data.

        Raises:
          ValueError: the initializer or learning_rate_fn is a lambda or an inner function.
        """
        config = self._values()
        device = self.embedding_lookup_device
        config["categorical_column"] = private.serialize_feature_column(self.categorical_column)
        config["initializer"] = callables.to_config(self.initializer, f"initializer of {self.name}")
        config["learning_rate_fn"] = callables.to_config(
            self.learning_rate_fn, f"learning_rate_fn of {self.name}"
        )
        config["embedding_lookup_device"] = device.value if device else None
        config["tensor_core_shape"] = (
            list(self.tensor_core_shape) if self.tensor_core_shape else None
        )
        return config

    @classmethod
    def from_config(
        cls,
        config: dict[str, Any],
        custom_objects: dict[str, Any] | None = None,
        columns_by_name: Any = None,
    ) -> Any:
        """Returns the column that `get_config` described.

        Args:
          config: what `get_config` returned.
          custom_objects: classes and functions by name.
          columns_by_name: columns made already, for TensorFlow's deserializer.
        """
        fields = dict(config)
        fields["categorical_column"] = private.deserialize_feature_column(
            config["categorical_column"], custom_objects, columns_by_name
        )
        for name in ("initializer", "learning_rate_fn"):
            fields[name] = callables.from_config(config[name], custom_objects)
        return cls(**fields)

    def _replace(self, **changes: Any) -> Any:
        """Returns a checked copy with some fields changed, as the named tuples of old did."""
        return type(self)(**{**self._values(), **changes})

    def _values(self) -> dict[str, Any]:
        fields = dataclasses.fields(self)  # type: ignore[arg-type]  # each subclass is a dataclass
        return {field.name: getattr(self, field.name) for field in fields}

    def _identity(self) -> tuple[Any, ...]:
        known = self.__dict__.get("_value")
        if known is None:
            values = self._values().values()
            known = (
                type(self),
                *(callables.identity(value) if callable(value) else value for value in values),
            )
            object.__setattr__(self, "_value", known)
            object.__setattr__(self, "_hash", hash(known))
        return known

    def __eq__(self, other: Any) -> bool:
        if self is other:
            return True
        if not isinstance(other, TPUEmbeddingColumn):
            return NotImplemented
        return self._identity() == other._identity()

    def __hash__(self) -> int:
        self._identity()
        return self.__dict__["_hash"]

    def __copy__(self) -> Any:
        return self

    def __deepcopy__(self, memo: Any) -> Any:
        return self

    def __reduce__(self) -> Any:
        # Without the cached hash: that of a str differs from process to process.
        return type(self), tuple(self._values().values())


@private.register_feature_column
@dataclasses.dataclass(frozen=True, eq=False)
class EmbeddingColumn(TPUEmbeddingColumn):
    """A feature with a table of its own. Made by `embedding_column`."""

    categorical_column: Any
    dimension: int
    combiner: str | None
    initializer: Callable[..., Any]
    max_sequence_length: int = 0
    learning_rate_fn: Callable[..., Any] | None = None
    embedding_lookup_device: LookupDevice | None = None
    tensor_core_shape: tuple[int | None, int] | None = None
    use_safe_embedding_lookup: bool = True

    @property
    def name(self) -> str:
        """`<categorical column>_embedding`; old programs use it as a key."""
        return f"{self.categorical_column.name}_embedding"

    def get_embedding_var_name(self) -> str:
        """Returns the categorical column's name."""
        return self._reads.name

    def create_state(self, state_manager: Any) -> None:
        """Makes the table as a variable of the feature layer, unless an embedding core owns it."""
        if self._core_looks_up():
            self._record_in_input_layer()  # Keras' build gives the same scopes
            return
        state_manager.create_variable(
            self,
            name=tables.WEIGHTS,
            shape=self.get_embedding_table_size(),
            dtype=tf.float32,
            trainable=True,
            use_resource=True,
            initializer=self.initializer,
        )

    def _layer_table(self, state_manager: Any) -> Any:
        return state_manager.get_variable(self, name=tables.WEIGHTS)

    def _input_layer_table(self, weight_collections: Any, trainable: bool) -> Any:
        if weight_collections and tf1.GraphKeys.GLOBAL_VARIABLES not in weight_collections:
            weight_collections.append(tf1.GraphKeys.GLOBAL_VARIABLES)
        return tf1.get_variable(
            tables.WEIGHTS,
            shape=self.get_embedding_table_size(),
            dtype=tf.float32,
            initializer=self.initializer,
            trainable=trainable,
            collections=weight_collections,
        )

    def _record_in_input_layer(self) -> None:
        tables.record_core_table(
            self.get_embedding_var_name(), tables.WEIGHTS, column_name=self.name, shared=False
        )

    def _record_in_call(self) -> None:
        """Recorded when the layer was built."""


@private.register_feature_column
@dataclasses.dataclass(frozen=True, eq=False)
class SharedEmbeddingColumn(TPUEmbeddingColumn):
    """A feature that shares its table with others. Made by `shared_embedding_columns`.

    Attributes:
      shared_embedding_collection_name: the table; columns of one name (and their copies) look up in
        one variable.
    """

    categorical_column: Any
    dimension: int
    combiner: str | None
    initializer: Callable[..., Any]
    shared_embedding_collection_name: str
    max_sequence_length: int = 0
    learning_rate_fn: Callable[..., Any] | None = None
    embedding_lookup_device: LookupDevice | None = None
    tensor_core_shape: tuple[int | None, int] | None = None
    use_safe_embedding_lookup: bool = True

    @property
    def name(self) -> str:
        """`<categorical column>_shared_embedding`."""
        return f"{self.categorical_column.name}_shared_embedding"

    def get_embedding_var_name(self) -> str:
        """Returns the name of the shared collection."""
        return self.shared_embedding_collection_name

    def create_state(self, state_manager: Any) -> None:
        """Makes nothing in a graph, where no layer owns the table; eagerly, a layer holds it."""
        if tf.executing_eagerly():
            state_manager.add_resource(self, tables.WEIGHTS, self._shared_table())

    def _layer_table(self, state_manager: Any) -> Any:
        return self._shared_table()

    def _input_layer_table(self, weight_collections: Any, trainable: bool) -> Any:
        return self._shared_table(scope=self._outer_scope(), trainable=trainable)

    @staticmethod
    def _outer_scope() -> str:
        """Two scopes up: out of the layer's scope and the column's. The table is of neither."""
        return "/".join(tf1.get_variable_scope().name.split("/")[:-2])

    def _shared_table(self, scope: str | None = None, trainable: bool = True) -> Any:
        return tables.shared_variable(
            self.shared_embedding_collection_name,
            self.get_embedding_table_size(),
            self.initializer,
            scope=scope,
            trainable=trainable,
        )

    def _record_in_input_layer(self) -> None:
        name = self.get_embedding_var_name()
        tables.record_core_table(name, name, scope=self._outer_scope(), shared=True)

    def _record_in_call(self) -> None:
        name = self.get_embedding_var_name()
        tables.record_core_table(name, name, shared=True)


def embedding_column(
    categorical_column: Any,
    dimension: int,
    combiner: str | None = "mean",
    initializer: Callable[..., Any] | None = None,
    max_sequence_length: int = 0,
    learning_rate_fn: Callable[..., Any] | None = None,
    embedding_lookup_device: str | LookupDevice | None = None,
    tensor_core_shape: Sequence[int | None] | None = None,
    use_safe_embedding_lookup: bool = True,
) -> EmbeddingColumn:
    """Makes a column that looks up a categorical feature in a table of its own.

    Takes the place of `tf.compat.v1.tpu.experimental.embedding_column` and
    `tf.contrib.tpu.feature_column.embedding_column`.

    Args:
      categorical_column: from `tf.feature_column.categorical_column_with_identity`,
        `…_with_vocabulary_list`, `…_with_vocabulary_file`, `weighted_categorical_column`, or a
        `sequence_` form of the first three (weighted, too).
      dimension: width of the table, > 0.
      combiner: how the ids of a row become one vector: 'mean', 'sqrtn' or 'sum'. None is mean on a
        CPU and sum on a TPU.
      initializer: makes the table's first values; default truncated normal, mean 0, deviation
        1/√dimension.
      max_sequence_length: steps of a sequence column (> 0): longer sequences are cut, shorter
        padded with zeros. 0 for others.
      learning_rate_fn: global step -> learning rate of this table on an embedding core. Pass the
        same function object to all columns that mean the same rate.
      embedding_lookup_device: 'cpu', 'tpu_tensor_core', 'tpu_embedding_core', or None; see
        `tpu_columns.route`.
      tensor_core_shape: [batch or None, n] of ids padded for the tensor core; needed by
        'tpu_tensor_core'.
      use_safe_embedding_lookup: drop negative ids and ids of weight <= 0, give zeros for rows
        without ids. False is faster.

    Returns:
      The column.

    Raises:
      TypeError: a categorical column of another kind (hashed, bucketized, crossed), or an argument
        of a wrong type.
      ValueError: an argument out of range, or two that contradict each other.

    >>> words = tf.feature_column.categorical_column_with_identity("words", num_buckets=1000)
    >>> column = embedding_column(words, dimension=16)
    >>> column.name, column.get_embedding_table_size()
    ('words_embedding', (1000, 16))
    """
    categorical.check_supported(categorical_column, "embedding_column")
    _check_dimension(dimension)
    _check_initializer(initializer, categorical_column.name)
    return EmbeddingColumn(
        categorical_column=categorical_column,
        dimension=int(dimension),
        combiner=combiner,
        initializer=initializer or _default_initializer(dimension),
        max_sequence_length=max_sequence_length,
        learning_rate_fn=_check_learning_rate_fn(learning_rate_fn, categorical_column.name),
        embedding_lookup_device=LookupDevice.parse(embedding_lookup_device),
        tensor_core_shape=_tensor_core_shape(tensor_core_shape),
        use_safe_embedding_lookup=bool(use_safe_embedding_lookup),
    )


def shared_embedding_columns(
    categorical_columns: Iterable[Any],
    dimension: int,
    combiner: str | None = "mean",
    initializer: Callable[..., Any] | None = None,
    shared_embedding_collection_name: str | None = None,
    max_sequence_lengths: Sequence[int] | None = None,
    learning_rate_fn: Callable[..., Any] | None = None,
    embedding_lookup_device: str | LookupDevice | None = None,
    tensor_core_shape: Sequence[int | None] | None = None,
    use_safe_embedding_lookup: bool = True,
) -> list[SharedEmbeddingColumn]:
    """Makes columns that look up several categorical features in one table.

    Takes the place of `tf.compat.v1.tpu.experimental.shared_embedding_columns`.

    Args:
      categorical_columns: as for `embedding_column`; all with the same number of buckets.
      dimension: width of the table, > 0.
      combiner: as for `embedding_column`.
      initializer: as for `embedding_column`.
      shared_embedding_collection_name: name of the table's variable; default: the sorted names of
        the categorical columns, joined by `_`, and `_shared_embedding`.
      max_sequence_lengths: one entry a column: > 0 for a sequence column, 0 for others. None or
        empty: all 0.
      learning_rate_fn: as for `embedding_column`.
      embedding_lookup_device: as for `embedding_column`.
      tensor_core_shape: as for `embedding_column`.
      use_safe_embedding_lookup: as for `embedding_column`.

    Returns:
      One column a categorical column, in their order.

    Raises:
      TypeError: as for `embedding_column`.
      ValueError: as for `embedding_column`; or the columns differ in their number of buckets.

    >>> make = tf.feature_column.categorical_column_with_identity
    >>> columns = shared_embedding_columns([make("watched", 50), make("liked", 50)], dimension=8)
    >>> [column.name for column in columns], columns[0].get_embedding_var_name()
    (['watched_shared_embedding', 'liked_shared_embedding'], 'liked_watched_shared_embedding')
    """
    categorical_columns = list(categorical_columns)
    if not categorical_columns:
        raise ValueError(
            "shared_embedding_columns needs at least one categorical column, got none."
        )
    for column in categorical_columns:
        categorical.check_supported(column, "shared_embedding_columns")
    lengths = list(max_sequence_lengths or [0] * len(categorical_columns))
    if len(lengths) != len(categorical_columns):
        raise ValueError(
            "max_sequence_lengths and categorical_columns must be of the same length. "
            f"len(max_sequence_lengths)={len(lengths)} "
            f"len(categorical_columns)={len(categorical_columns)}."
        )
    _check_dimension(dimension)
    names = sorted(column.name for column in categorical_columns)
    _check_initializer(initializer, ", ".join(names))
    _check_same_buckets(categorical_columns)
    name = shared_embedding_collection_name or "_".join(names) + "_shared_embedding"
    # One object for all, so that an initializer without a config is still the same one.
    initializer = initializer or _default_initializer(dimension)
    return [
        SharedEmbeddingColumn(
            categorical_column=column,
            dimension=int(dimension),
            combiner=combiner,
            initializer=initializer,
            shared_embedding_collection_name=name,
            max_sequence_length=length,
            learning_rate_fn=_check_learning_rate_fn(learning_rate_fn, column.name),
            embedding_lookup_device=LookupDevice.parse(embedding_lookup_device),
            tensor_core_shape=_tensor_core_shape(tensor_core_shape),
            use_safe_embedding_lookup=bool(use_safe_embedding_lookup),
        )
        for column, length in zip(categorical_columns, lengths, strict=True)
    ]


def split_sequence_columns(
    feature_columns: Iterable[TPUEmbeddingColumn],
) -> tuple[list[TPUEmbeddingColumn], list[TPUEmbeddingColumn]]:
    """Splits columns by the feature layer they belong to.

    Args:
      feature_columns: TPU embedding columns.

    Returns:
      sequence columns (for `SequenceFeatures`, `sequence_input_layer`), other columns (for
      `DenseFeatures`, `input_layer`).

    Raises:
      TypeError: a column of another kind.
    """
    sequence: list[TPUEmbeddingColumn] = []
    pooled: list[TPUEmbeddingColumn] = []
    for column in feature_columns:
        if not isinstance(column, TPUEmbeddingColumn):
            raise TypeError(
                "column must be a TPU embedding column, made by embedding_column or "
                "shared_embedding_columns, "
                f"but got {type(column)} instead."
            )
        (sequence if column.is_sequence_column() else pooled).append(column)
    return sequence, pooled


def _default_initializer(dimension: int) -> Callable[..., Any]:
    return tf1.truncated_normal_initializer(mean=0.0, stddev=1 / math.sqrt(dimension))


def _check_dimension(dimension: Any) -> None:
    if dimension is not None and (
        isinstance(dimension, (bool, float, str)) or not hasattr(dimension, "__index__")
    ):
        raise TypeError(f"Invalid dimension {dimension!r}. Must be an int, got {type(dimension)}.")
    if dimension is None or dimension < 1:
        raise ValueError(f"Invalid dimension {dimension}. Must be at least 1.")


def _check_initializer(initializer: Any, column_name: str) -> None:
    if initializer is not None and not callable(initializer):
        raise ValueError(
            f"initializer must be callable if specified. Embedding of column_name: {column_name}, "
            f"got {initializer!r}."
        )


def _check_learning_rate_fn(learning_rate_fn: Any, column_name: str) -> Any:
    if learning_rate_fn is not None and not callable(learning_rate_fn):
        raise ValueError(
            "learning_rate_fn must be callable if specified: a function of the global step. "
            "Embedding of column_name: "
            f"{column_name}, got {learning_rate_fn!r}. A constant rate belongs in the spec's "
            "optimization_parameters."
        )
    return learning_rate_fn


def _check_max_sequence_length(length: Any, reads: categorical.Lookup) -> None:
    if isinstance(length, (bool, float, str)) or not hasattr(length, "__index__"):
        raise TypeError(
            f"max_sequence_length of column {reads.name} must be an int, got {length!r}."
        )
    if reads.is_sequence and length < 1:
        raise ValueError(
            "max_sequence_length must be greater than 0 for sequence columns. Got "
            f"max_sequence_length={length} "
            f"for sequence column {reads.name}."
        )
    if not reads.is_sequence and length != 0:
        raise ValueError(
            f"Non zero max_seq_length={length} specified for non sequence column {reads.name}."
        )


def _tensor_core_shape(shape: Any) -> tuple[int | None, int] | None:
    if not shape:
        return None
    shape = tuple(shape)
    if len(shape) != 2:
        raise ValueError(f"tensor_core_shape must be size 2. Got {list(shape)}.")
    batch, width = shape
    if not isinstance(width, int) or isinstance(width, bool) or width < 1:
        raise ValueError(
            f"tensor_core_shape must be [batch or None, number of ids > 0]. Got {list(shape)}."
        )
    if batch is not None and (not isinstance(batch, int) or batch == 0 or batch < -1):
        raise ValueError(
            f"tensor_core_shape must have a batch size, None or -1 first. Got {list(shape)}."
        )
    return batch, width


def _check_tensor_core(column: TPUEmbeddingColumn) -> None:
    """Checks that need no graph; the old system found the last one only at the lookup."""
    if column.tensor_core_shape is None:
        raise ValueError(
            "Using embedding_lookup_device=tpu_tensor_core requires tensor_core_shape to be set. "
            f"Column: {column.name}."
        )
    if column.is_sequence_column():
        raise ValueError(
            "embedding_lookup_device=tpu_tensor_core currently does not support sequence columns. "
            f"Column: {column.name}. Leave the device unset."
        )
    if column.combiner is None:
        raise ValueError(
            "Dense TPU Embedding does not support combiner other than sum and mean (and here "
            "sqrtn), got None. "
            f"Column: {column.name}."
        )


def _check_same_buckets(categorical_columns: list[Any]) -> None:
    first, *others = sorted(categorical_columns, key=lambda column: column.name)
    for other in others:
        if other.num_buckets != first.num_buckets:
            raise ValueError(
                "To use shared_embedding_column, all categorical_columns must have the same "
                "number of buckets. "
                f"Given column: {first.name} with buckets: {first.num_buckets} does not match "
                f"column: {other.name} "
                f"with buckets: {other.num_buckets}."
            )
