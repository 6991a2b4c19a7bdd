# SPDX-License-Identifier: Apache-2.0
"""Feature column interfaces of TPU embedding columns, for TF1's functions and Keras' layers.

TF1's functions call the methods with an underscore and own the variable scope; Keras' layers call
those without and own the variables. Both end in `_pooled` or `_sequence`, which select the device
and build the lookup.
"""

from __future__ import annotations

import abc
import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf

from tpu_columns import _tensorflow as private
from tpu_columns import categorical, lookup, lookup_errors, padded_lookup
from tpu_columns.placement import LookupDevice, current_device, updates_tables

# A transformation cache, the owner of vocabulary tables, and a function that returns the table.
_Inputs = tuple[Any, Any, Callable[[], Any]]


class FeatureColumnProtocol(
    private.DenseColumn,
    private.SequenceDenseColumn,
    private.DenseColumnV1,
    private.SequenceDenseColumnV1,
):
    """Feature column interfaces of TF1 and TF2 over the attributes and methods of a subclass."""

    # Defined by subclasses.

    categorical_column: Any
    dimension: int
    combiner: str | None
    max_sequence_length: int
    learning_rate_fn: Callable[..., Any] | None
    embedding_lookup_device: LookupDevice | None
    tensor_core_shape: tuple[int | None, int] | None
    use_safe_embedding_lookup: bool
    _feature: categorical.CategoricalFeature

    @abc.abstractmethod
    def _layer_table(self, state_manager: Any) -> Any:
        """Returns the table that a Keras feature layer owns."""

    @abc.abstractmethod
    def _input_layer_table(self, weight_collections: Any, trainable: bool) -> Any:
        """Returns the table as a variable of the current TF1 variable scope."""

    @abc.abstractmethod
    def _record_in_input_layer(self) -> None:
        """Records the table's scope for the embedding core, in TF1's layer and column scope."""

    @abc.abstractmethod
    def _record_in_call(self) -> None:
        """Records the table's scope for the embedding core, in the call of a Keras layer."""

    # Required by all feature layers.

    @property
    def _is_v2_column(self) -> bool:
        return True

    @property
    def parents(self) -> list[Any]:
        """The categorical column, in a list."""
        return [self.categorical_column]

    @property
    def variable_shape(self) -> tf.TensorShape:
        """Shape of one embedding: [dimension]."""
        return tf.TensorShape([self.dimension])

    @property
    def _variable_shape(self) -> tf.TensorShape:
        return self.variable_shape

    @property
    def parse_example_spec(self) -> dict[str, Any]:
        """Features of `tf.io.parse_example` for the ids (and weights)."""
        return self.categorical_column.parse_example_spec

    @property
    def _parse_example_spec(self) -> dict[str, Any]:
        return self.parse_example_spec

    def transform_feature(self, transformation_cache: Any, state_manager: Any) -> Any:
        """Returns the categorical column's transformed feature."""
        return transformation_cache.get(self.categorical_column, state_manager)

    def _transform_feature(self, inputs: Any) -> Any:
        return self.transform_feature(categorical.BuilderCache(inputs), None)

    # Pooled lookups.

    def get_dense_tensor(
        self, transformation_cache: Any, state_manager: Any, training: Any = None
    ) -> tf.Tensor:
        """Returns embeddings [batch, dimension], for DenseFeatures.

        Raises:
            ValueError: this is a sequence column, or its device is forbidden here (see `route`).
        """
        del training
        return self._pooled(*self._keras_inputs(transformation_cache, state_manager))

    def _get_dense_tensor(
        self, inputs: Any, weight_collections: Any = None, trainable: Any = None
    ) -> tf.Tensor:
        return self._pooled(*self._tf1_inputs(inputs, weight_collections, trainable))

    # Sequence lookups.

    def get_sequence_dense_tensor(
        self, transformation_cache: Any, state_manager: Any, training: Any = None
    ) -> Any:
        """Returns embeddings [batch, max_sequence_length, dimension] and lengths [batch].

        Raises:
            ValueError: this isn't a sequence column, or its device is forbidden here.
        """
        del training
        return self._sequence(*self._keras_inputs(transformation_cache, state_manager))

    def _get_sequence_dense_tensor(
        self, inputs: Any, weight_collections: Any = None, trainable: Any = None
    ) -> Any:
        return self._sequence(*self._tf1_inputs(inputs, weight_collections, trainable))

    # Common to both interfaces.

    def _core_looks_up(self) -> bool:
        return current_device(self) is LookupDevice.TPU_EMBEDDING_CORE

    def _keras_inputs(self, cache: Any, state_manager: Any) -> _Inputs:
        if self._core_looks_up():
            self._record_in_call()
        return cache, state_manager, lambda: self._layer_table(state_manager)

    def _tf1_inputs(self, inputs: Any, weight_collections: Any, trainable: Any) -> _Inputs:
        if self._core_looks_up():
            self._record_in_input_layer()
        is_trainable = trainable is None or bool(trainable)
        cache = categorical.BuilderCache(inputs)
        return cache, None, lambda: self._input_layer_table(weight_collections, is_trainable)

    @contextlib.contextmanager
    def _lookup_scope(self) -> Iterator[None]:
        """Enters the name scope of the column's lookup; records it for errors of bad ids."""
        feature = self._feature
        with tf.name_scope(f"{self.name}_weights") as scope:
            lookup_errors.record_site(scope, self.name, feature.feature_key, feature.num_buckets)
            yield

    def _pooled(self, cache: Any, state_manager: Any, table: Callable[[], Any]) -> tf.Tensor:
        if self._feature.is_sequence:
            raise ValueError(
                f"In embedding_column: {self.name}. categorical_column must not be of type "
                "SequenceCategoricalColumn. "
                "Suggested fix A: use a categorical column without sequence_ in its name. "
                "Suggested fix B: use SequenceFeatures or sequence_input_layer for this column. "
                f"Given (type {type(self.categorical_column)}): {self.categorical_column}"
            )
        device = current_device(self)
        if device is LookupDevice.TPU_EMBEDDING_CORE:
            return cache.get(self._feature.feature_key, state_manager)
        if device is LookupDevice.TPU_TENSOR_CORE:
            return self._on_tensor_core(cache, state_manager, table())
        column = self.categorical_column
        if self.use_safe_embedding_lookup:
            dense = categorical.dense_ids(column, cache, state_manager, lookup.MAX_DENSE_WIDTH)
            if dense is not None:
                variable = table()
                with self._lookup_scope():
                    return lookup.dense_lookup(
                        variable, *dense, self.combiner, unique=updates_tables()
                    )
        ids, weights = categorical.ids_and_weights(column, cache, state_manager)
        # As in TensorFlow, only matrices of ids are looked up without checks.
        safe = self.use_safe_embedding_lookup or ids.shape.rank not in (1, 2)
        variable = table()
        with self._lookup_scope():
            return lookup.pooled_lookup(
                variable, ids, weights, self.combiner, safe=safe, unique=updates_tables()
            )

    def _on_tensor_core(self, cache: Any, state_manager: Any, table: Any) -> tf.Tensor:
        """Looks up ids that the input pipeline padded and masked; other ids are padded here."""
        assert self.tensor_core_shape is not None  # checked when the device was chosen
        key = self._feature.feature_key
        mask = _feature_or_none(cache, categorical.tensor_core_mask_key(key), state_manager)
        if mask is not None:
            values = cache.get(key, state_manager)
        else:
            ids, weights = categorical.ids_and_weights(
                self.categorical_column, cache, state_manager
            )
            values, mask = padded_lookup.pad_for_tensor_core(
                ids, weights, self.tensor_core_shape[1]
            )
        with self._lookup_scope():
            return padded_lookup.tensor_core_lookup(table, values, mask, self.combiner)

    def _sequence(self, cache: Any, state_manager: Any, table: Callable[[], Any]) -> Any:
        if not self._feature.is_sequence:
            raise ValueError(
                f"In embedding_column: {self.name}. categorical_column must be of type "
                "SequenceCategoricalColumn to use SequenceFeatures. Suggested fix: Use one of "
                "sequence_categorical_column_with_*. "
                f"Given (type {type(self.categorical_column)}): {self.categorical_column}"
            )
        pair = private.SequenceDenseColumn.TensorSequenceLengthPair
        key = self._feature.feature_key
        if self._core_looks_up():
            lengths = cache.get(categorical.sequence_length_key(key), state_manager)
            if lengths.shape.rank == 2:  # the layers' cache adds a second axis to every feature
                lengths = tf.squeeze(lengths, -1)
            return pair(dense_tensor=cache.get(key, state_manager), sequence_length=lengths)
        ids, weights = categorical.ids_and_weights(self.categorical_column, cache, state_manager)
        variable = table()
        with self._lookup_scope():
            steps, lengths = lookup.sequence_lookup(
                variable,
                ids,
                weights,
                self.combiner,
                self.max_sequence_length,
                unique=updates_tables(),
            )
        return pair(dense_tensor=steps, sequence_length=lengths)


def _feature_or_none(cache: Any, key: str, state_manager: Any) -> Any:
    try:
        return cache.get(key, state_manager)
    except ValueError:  # raised by the caches for an unknown key
        return None
