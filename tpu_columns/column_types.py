# SPDX-License-Identifier: Apache-2.0
"""Classes of TPU embedding columns: immutable values with the legacy getters."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import tensorflow as tf

from tpu_columns import _tensorflow as private
from tpu_columns import (
    callables,
    categorical,
    eager_tables,
    invalid_ids,
    padded_lookup,
    storage,
    tables,
)
from tpu_columns.checks import is_int
from tpu_columns.feature_column_protocol import FeatureColumnProtocol
from tpu_columns.kernels.calls import check_combiner
from tpu_columns.placement import LookupDevice

tf1 = tf.compat.v1


@dataclasses.dataclass(frozen=True, eq=False)
class TPUEmbeddingColumn(FeatureColumnProtocol):
    """Base class of TPU embedding columns: metadata under the legacy getter names.

    Columns are immutable values: two columns are equal, and hash alike, if all their fields are.
    Copying returns the column itself; pickle and `get_config`/`from_config` return an equal one.

    Attributes:
        categorical_column: TensorFlow's categorical column: feature key, vocabulary, weights,
            sequence or not.
        dimension: width D of the table.
        combiner: 'mean', 'sqrtn', 'sum', or None (mean on a CPU, sum on a TPU).
        initializer: callable that makes the table's initial values.
        max_sequence_length: steps L of a sequence column, 0 for others.
        learning_rate_fn: global step -> learning rate of the table on an embedding core, or None.
        embedding_lookup_device: requested `LookupDevice`, or None.
        tensor_core_shape: (batch or None, n) of ids padded for the tensor core, or None.
        use_safe_embedding_lookup: whether a CPU lookup drops negative ids and returns zeros for
            rows without ids.
        invalid_ids: policy for invalid ids, or None; see `tpu_columns.invalid_ids`.
    """

    categorical_column: Any
    dimension: int
    combiner: str | None
    initializer: Callable[..., Any]

    def __post_init__(self) -> None:
        object.__setattr__(self, "_feature", categorical.read(self.categorical_column))
        check_dimension(self.dimension)
        object.__setattr__(self, "dimension", int(self.dimension))
        _check_max_sequence_length(self.max_sequence_length, self._feature)
        object.__setattr__(self, "max_sequence_length", int(self.max_sequence_length))
        check_combiner(self.combiner)
        object.__setattr__(
            self, "embedding_lookup_device", LookupDevice.parse(self.embedding_lookup_device)
        )
        object.__setattr__(
            self, "tensor_core_shape", parse_tensor_core_shape(self.tensor_core_shape)
        )
        policy = invalid_ids.check_policy(
            self.invalid_ids, f"column {self.name!r}", self._feature.num_buckets
        )
        object.__setattr__(self, "invalid_ids", policy)
        if self.embedding_lookup_device is LookupDevice.TPU_TENSOR_CORE:
            _check_tensor_core(self)

    def get_combiner(self) -> str | None:
        """Returns 'mean', 'sqrtn', 'sum' or None."""
        return self.combiner

    def get_embedding_table_size(self) -> tuple[int, int]:
        """Returns (vocabulary size, dimension)."""
        return self._feature.num_buckets, self.dimension

    def get_feature_key_name(self) -> str:
        """Returns the key of the ids in the features dict."""
        return self._feature.feature_key

    def get_weight_key_name(self) -> str | None:
        """Returns the key of the weights in the features dict, or None."""
        return self._feature.weight_key

    def get_initializer(self) -> Callable[..., Any]:
        """Returns the table's initializer."""
        return self.initializer

    def get_max_sequence_length(self) -> int:
        """Returns the number of steps of a sequence column, 0 for others."""
        return self.max_sequence_length

    def get_learning_rate_fn(self) -> Callable[..., Any] | None:
        """Returns the function that maps the global step to the table's learning rate, or None."""
        return self.learning_rate_fn

    def get_sequence_length_feature_key_name(self) -> str:
        """Returns the key of the sequence lengths in a TPU's features dict."""
        return categorical.sequence_length_key(self.get_feature_key_name())

    def is_sequence_column(self) -> bool:
        """Returns whether each id of a row gets its own embedding (weighted or not)."""
        return self._feature.is_sequence

    def is_categorical_column_weighted(self) -> bool:
        """Returns whether the ids have weights."""
        return self._feature.weight_key is not None

    def get_embedding_var_name(self) -> str:
        """Returns the name that identifies the column's table."""
        raise NotImplementedError

    def get_config(self) -> dict[str, Any]:
        """Returns the column as a dict that JSON can hold.

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
        """Returns the column of a config.

        Args:
            config: result of `get_config`.
            custom_objects: classes and functions by name.
            columns_by_name: columns that exist already, for TensorFlow's deserializer.
        """
        fields = dict(config)
        fields["categorical_column"] = private.deserialize_feature_column(
            config["categorical_column"], custom_objects, columns_by_name
        )
        for name in ("initializer", "learning_rate_fn"):
            fields[name] = callables.from_config(config[name], custom_objects)
        return cls(**fields)

    def _replace(self, **changes: Any) -> Any:
        """Returns a checked copy with changed fields, as the legacy named tuples did."""
        return type(self)(**{**self._values(), **changes})

    def _values(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}

    def _equality_key(self) -> tuple[Any, ...]:
        known = self.__dict__.get("_value")
        if known is None:
            values = self._values().values()
            known = (
                type(self),
                *(callables.equality_key(value) if callable(value) else value for value in values),
            )
            object.__setattr__(self, "_value", known)
            object.__setattr__(self, "_hash", hash(known))
        return known

    def __eq__(self, other: Any) -> bool:
        if self is other:
            return True
        if not isinstance(other, TPUEmbeddingColumn):
            return NotImplemented
        return self._equality_key() == other._equality_key()

    def __hash__(self) -> int:
        self._equality_key()
        return self.__dict__["_hash"]

    def __copy__(self) -> Any:
        return self

    def __deepcopy__(self, memo: Any) -> Any:
        return self

    def __reduce__(self) -> Any:
        # Without the cached hash: the hash of a str differs between processes.
        return type(self), tuple(self._values().values())


def _register(kind: Any) -> Any:
    """Registers a class of columns with TensorFlow, under a name that none of its own has.

    TensorFlow's registry, and the configs of layers, know a class by its `__name__`; pickle, and
    messages, by `__qualname__`, which stays.
    """
    kind.__name__ = f"tpu_columns>{kind.__qualname__}"
    return private.register_feature_column(kind)


@_register
@dataclasses.dataclass(frozen=True, eq=False)
class EmbeddingColumn(TPUEmbeddingColumn):
    """Column with a table of its own; made by `embedding_column`."""

    max_sequence_length: int = 0
    learning_rate_fn: Callable[..., Any] | None = None
    embedding_lookup_device: LookupDevice | None = None
    tensor_core_shape: tuple[int | None, int] | None = None
    use_safe_embedding_lookup: bool = True
    invalid_ids: str | int | None = None

    @property
    def name(self) -> str:
        """`<categorical column>_embedding`; legacy programs use it as a key."""
        return f"{self.categorical_column.name}_embedding"

    @classmethod
    def from_config(
        cls,
        config: dict[str, Any],
        custom_objects: dict[str, Any] | None = None,
        columns_by_name: Any = None,
    ) -> Any:
        """Returns the column of a config; a column of TensorFlow's, if the config is of one.

        Former releases saved this class by the name of TensorFlow's own. Keras reads such `.h5`
        files and configs with `custom_objects={"EmbeddingColumn": tpu_columns.EmbeddingColumn}`; it
        passes no custom objects to the columns of a `.keras` file.

        Args:
            config: as for `TPUEmbeddingColumn`.
            custom_objects: as for `TPUEmbeddingColumn`.
            columns_by_name: as for `TPUEmbeddingColumn`.
        """
        if "learning_rate_fn" in config:
            return super().from_config(config, custom_objects, columns_by_name)
        return private.EmbeddingColumn.from_config(config, custom_objects, columns_by_name)

    def get_embedding_var_name(self) -> str:
        """Returns the categorical column's name."""
        return self._feature.name

    def create_state(self, state_manager: Any) -> None:
        """Creates the table as the feature layer's variable, unless an embedding core owns it."""
        self._check_name()
        if self._core_looks_up():
            self._record_in_input_layer()  # Keras' `build` has the same variable scopes
            return
        create = partial(state_manager.create_variable, self, use_resource=True)
        shape = self.get_embedding_table_size()
        storage.create_table(create, tables.WEIGHTS, shape, self.initializer)

    def _layer_table(self, state_manager: Any) -> Any:
        return storage.find_table(partial(state_manager.get_variable, self), tables.WEIGHTS)

    def _input_layer_table(
        self, weight_collections: Any, trainable: bool, owner: Any = None
    ) -> Any:
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
        """Does nothing: `create_state` recorded the table."""


@_register
@dataclasses.dataclass(frozen=True, eq=False)
class SharedEmbeddingColumn(TPUEmbeddingColumn):
    """Column that shares its table with others; made by `shared_embedding_columns`.

    Attributes:
        shared_embedding_collection_name: name of the table; columns with the same name (and their
            copies) share one variable.
    """

    shared_embedding_collection_name: str
    max_sequence_length: int = 0
    learning_rate_fn: Callable[..., Any] | None = None
    embedding_lookup_device: LookupDevice | None = None
    tensor_core_shape: tuple[int | None, int] | None = None
    use_safe_embedding_lookup: bool = True
    invalid_ids: str | int | None = None

    @property
    def name(self) -> str:
        """`<categorical column>_shared_embedding`."""
        return f"{self.categorical_column.name}_shared_embedding"

    def get_embedding_var_name(self) -> str:
        """Returns the name of the shared collection."""
        return self.shared_embedding_collection_name

    def create_state(self, state_manager: Any) -> None:
        """Adds the table to an eager layer; creates nothing in a graph."""
        self._check_name()
        if tf.executing_eagerly():
            name, shape = self.shared_embedding_collection_name, self.get_embedding_table_size()
            table = tables.get_layer_table(name, shape, self.initializer, state_manager)
            state_manager.add_resource(self, tables.WEIGHTS, table)

    def _layer_table(self, state_manager: Any) -> Any:
        # Also the graph of a `tf.function` reads the table of a layer that was built outside of it.
        if not state_manager.has_resource(self, tables.WEIGHTS):
            return self._shared_table(owner=state_manager)
        table = state_manager.get_resource(self, tables.WEIGHTS)
        eager_tables.check_one_table(self.shared_embedding_collection_name, table)
        return table

    def _input_layer_table(
        self, weight_collections: Any, trainable: bool, owner: Any = None
    ) -> Any:
        return self._shared_table(self._outer_scope(), trainable, owner)

    @staticmethod
    def _outer_scope() -> str:
        """Returns the variable scope that contains the layer's scope and the column's."""
        return "/".join(tf1.get_variable_scope().name.split("/")[:-2])

    def _shared_table(
        self, scope: str | None = None, trainable: bool = True, owner: Any = None
    ) -> Any:
        return tables.get_shared_table(
            self.shared_embedding_collection_name,
            self.get_embedding_table_size(),
            self.initializer,
            scope=scope,
            trainable=trainable,
            owner=owner,
        )

    def _record_in_input_layer(self) -> None:
        name = self.get_embedding_var_name()
        tables.record_core_table(name, name, scope=self._outer_scope(), shared=True)

    def _record_in_call(self) -> None:
        name = self.get_embedding_var_name()
        tables.record_core_table(name, name, shared=True)


def check_dimension(dimension: Any) -> None:
    """Raises an error if a table can't have a dimension.

    Raises:
        TypeError: it is no integer.
        ValueError: it is less than 1.
    """
    if dimension is not None and not is_int(dimension):
        raise TypeError(f"Invalid dimension {dimension!r}. Must be an int, got {type(dimension)}.")
    if dimension is None or dimension < 1:
        raise ValueError(f"Invalid dimension {dimension}. Must be at least 1.")


def _check_max_sequence_length(length: Any, feature: categorical.CategoricalFeature) -> None:
    if not is_int(length):
        raise TypeError(
            f"max_sequence_length of column {feature.name} must be an int, got {length!r}."
        )
    if feature.is_sequence and length < 1:
        raise ValueError(
            "max_sequence_length must be greater than 0 for sequence columns. Got "
            f"max_sequence_length={length} for sequence column {feature.name}."
        )
    if not feature.is_sequence and length != 0:
        raise ValueError(
            f"Non zero max_seq_length={length} specified for non sequence column {feature.name}."
        )


def parse_tensor_core_shape(shape: Any) -> tuple[int | None, int] | None:
    """Returns a checked `tensor_core_shape` as a tuple.

    Args:
        shape: [batch size, -1 or None, number of ids per row], or None.

    Raises:
        ValueError: the rank isn't 2, or an entry is out of range.
    """
    if not shape:
        return None
    shape = tuple(shape) if isinstance(shape, Iterable) else (shape,)
    if len(shape) != 2:
        raise ValueError(f"tensor_core_shape must be size 2. Got {list(shape)}.")
    batch, width = shape
    if not is_int(width) or width < 1:
        raise ValueError(
            f"tensor_core_shape must be [batch or None, number of ids > 0]. Got {list(shape)}."
        )
    if batch is not None and (not is_int(batch) or batch == 0 or batch < -1):
        raise ValueError(
            f"tensor_core_shape must have a batch size, None or -1 first. Got {list(shape)}."
        )
    return None if batch is None else int(batch), int(width)


def _check_tensor_core(column: TPUEmbeddingColumn) -> None:
    """Checks a column whose requested device is the tensor core."""
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
    # TensorFlow's own columns check the combiner only at the lookup.
    padded_lookup.check_supported(column.combiner, column.name)
