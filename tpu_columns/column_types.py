# SPDX-License-Identifier: Apache-2.0
"""The two classes of TPU embedding column: immutable values that know their metadata."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any

import tensorflow as tf

from tpu_columns import _tensorflow as private
from tpu_columns import callables, categorical, lookup, storage, tables
from tpu_columns.checks import is_int
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
        object.__setattr__(
            self, "tensor_core_shape", checked_tensor_core_shape(self.tensor_core_shape)
        )
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

        def make(name: str, shape: Any, dtype: Any, initializer: Any, trainable: bool) -> Any:
            return state_manager.create_variable(
                self,
                name=name,
                shape=shape,
                dtype=dtype,
                trainable=trainable,
                use_resource=True,
                initializer=initializer,
            )

        storage.make_table(make, tables.WEIGHTS, self.get_embedding_table_size(), self.initializer)

    def _layer_table(self, state_manager: Any) -> Any:
        return storage.table(partial(state_manager.get_variable, self), tables.WEIGHTS)

    def _input_layer_table(self, weight_collections: Any, trainable: bool) -> Any:
        if weight_collections and tf1.GraphKeys.GLOBAL_VARIABLES not in weight_collections:
            weight_collections.append(tf1.GraphKeys.GLOBAL_VARIABLES)
        return tables.get_table(
            tables.WEIGHTS,
            self.get_embedding_table_size(),
            self.initializer,
            trainable,
            weight_collections,
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


def _check_max_sequence_length(length: Any, reads: categorical.Lookup) -> None:
    if not is_int(length):
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


def checked_tensor_core_shape(shape: Any) -> tuple[int | None, int] | None:
    """Returns a tensor_core_shape as (batch or None, number of ids), or None for none.

    Raises:
      ValueError: another rank, or senseless entries.
    """
    if not shape:
        return None
    shape = tuple(shape)
    if len(shape) != 2:
        raise ValueError(f"tensor_core_shape must be size 2. Got {list(shape)}.")
    batch, width = shape
    if not is_int(width) or width < 1:
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
