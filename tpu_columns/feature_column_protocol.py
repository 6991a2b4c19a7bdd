# SPDX-License-Identifier: Apache-2.0
"""How a TPU embedding column answers feature layers: TF1's functions and Keras' classes.

TF1 layers call the methods with an underscore and own the variable scope; Keras layers call those
without and own the variables. Both ends meet in `_pooled` and `_steps`, which route the lookup.
"""

from __future__ import annotations

import abc
from typing import Any

import tensorflow as tf

from tpu_columns import _tensorflow as private
from tpu_columns import categorical, lookup, lookup_errors, padded_lookup
from tpu_columns.placement import LookupDevice, device_now, updates_tables


class FeatureColumnProtocol(
    private.DenseColumn,
    private.SequenceDenseColumn,
    private.DenseColumnV1,
    private.SequenceDenseColumnV1,
):
    """The feature column interfaces of TF1 and TF2, over the questions a subclass answers."""

    # What a subclass is asked.

    categorical_column: Any
    dimension: int
    combiner: str | None
    max_sequence_length: int
    tensor_core_shape: tuple[int | None, int] | None
    use_safe_embedding_lookup: bool
    _reads: categorical.Lookup

    @abc.abstractmethod
    def _layer_table(self, state_manager: Any) -> Any:
        """Returns the table as a Keras feature layer keeps it."""

    @abc.abstractmethod
    def _input_layer_table(self, weight_collections: Any, trainable: bool) -> Any:
        """Returns the table as a variable of the current TF1 variable scope."""

    @abc.abstractmethod
    def _record_in_input_layer(self) -> None:
        """Notes the table's scope for the core that owns it, in TF1's layer and column scope."""

    @abc.abstractmethod
    def _record_in_call(self) -> None:
        """The same where a Keras layer is called, in no scope of its own."""

    # What layers ask of any column.

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
        """What `tf.io.parse_example` needs to read the ids (and weights) from examples."""
        return self.categorical_column.parse_example_spec

    @property
    def _parse_example_spec(self) -> dict[str, Any]:
        return self.parse_example_spec

    def transform_feature(self, transformation_cache: Any, state_manager: Any) -> Any:
        """Returns the categorical column's transformed feature."""
        return transformation_cache.get(self.categorical_column, state_manager)

    def _transform_feature(self, inputs: Any) -> Any:
        return self.transform_feature(categorical.cache_of(inputs), None)

    # Pooled lookups.

    def get_dense_tensor(
        self, transformation_cache: Any, state_manager: Any, training: Any = None
    ) -> tf.Tensor:
        """Returns embeddings [batch, dimension], for DenseFeatures.

        Raises:
          ValueError: this is a sequence column; or its device is forbidden here (see `route`).
        """
        del training
        if self._core_looks_up():
            self._record_in_call()
        return self._pooled(
            transformation_cache, state_manager, lambda: self._layer_table(state_manager)
        )

    def _get_dense_tensor(
        self, inputs: Any, weight_collections: Any = None, trainable: Any = None
    ) -> tf.Tensor:
        if self._core_looks_up():
            self._record_in_input_layer()
        return self._pooled(
            categorical.cache_of(inputs),
            None,
            lambda: self._input_layer_table(
                weight_collections, trainable is None or bool(trainable)
            ),
        )

    # Sequence lookups.

    def get_sequence_dense_tensor(
        self, transformation_cache: Any, state_manager: Any, training: Any = None
    ) -> Any:
        """Returns embeddings [batch, max_sequence_length, dimension] and lengths [batch].

        Raises:
          ValueError: this is no sequence column; or its device is forbidden here.
        """
        del training
        if self._core_looks_up():
            self._record_in_call()
        return self._steps(
            transformation_cache, state_manager, lambda: self._layer_table(state_manager)
        )

    def _get_sequence_dense_tensor(
        self, inputs: Any, weight_collections: Any = None, trainable: Any = None
    ) -> Any:
        if self._core_looks_up():
            self._record_in_input_layer()
        return self._steps(
            categorical.cache_of(inputs),
            None,
            lambda: self._input_layer_table(
                weight_collections, trainable is None or bool(trainable)
            ),
        )

    # Where the two ends meet.

    def _core_looks_up(self) -> bool:
        return device_now(self) is LookupDevice.TPU_EMBEDDING_CORE

    def _pooled(self, cache: Any, state_manager: Any, table: Any) -> tf.Tensor:
        if self._reads.is_sequence:
            raise ValueError(
                f"In embedding_column: {self.name}. categorical_column must not be of type "
                "SequenceCategoricalColumn. "
                "Suggested fix A: use a categorical column without sequence_ in its name. "
                "Suggested fix B: use SequenceFeatures or sequence_input_layer for this column. "
                f"Given (type {type(self.categorical_column)}): {self.categorical_column}"
            )
        device = device_now(self)
        if device is LookupDevice.TPU_EMBEDDING_CORE:
            return cache.get(self._reads.feature_key, state_manager)
        if device is LookupDevice.TPU_TENSOR_CORE:
            return self._on_tensor_core(cache, state_manager, table())
        if self.use_safe_embedding_lookup:
            dense = categorical.dense_ids(
                self.categorical_column, cache, state_manager, most=lookup.NARROW
            )
            if dense is not None:
                return self._of_dense_ids(*dense, table())
        ids, weights = categorical.ids_and_weights(self.categorical_column, cache, state_manager)
        # As ever, skipping the checks is for matrices of ids only.
        safe = self.use_safe_embedding_lookup or ids.shape.rank not in (1, 2)
        variable = table()
        with tf.name_scope(f"{self.name}_weights") as scope:
            self._record_site(scope)
            return lookup.pooled_lookup(
                variable, ids, weights, self.combiner, safe=safe, unique=updates_tables()
            )

    def _record_site(self, scope: str) -> None:
        reads = self._reads
        lookup_errors.record_site(scope, self.name, reads.feature_key, reads.num_buckets)

    def _of_dense_ids(self, ids: tf.Tensor, missing: tf.Tensor, table: Any) -> tf.Tensor:
        with tf.name_scope(f"{self.name}_weights") as scope:
            self._record_site(scope)
            return lookup.dense_lookup(table, ids, missing, self.combiner, unique=updates_tables())

    def _on_tensor_core(self, cache: Any, state_manager: Any, table: Any) -> tf.Tensor:
        """Takes ids that the input pipeline padded (with a mask beside them), or pads them here."""
        assert self.tensor_core_shape is not None  # checked when the device was chosen
        key = self._reads.feature_key
        mask_key = categorical.tensor_core_mask_key(key)
        padded = _feature_or_none(cache, mask_key, state_manager)
        if padded is not None:
            values, mask = cache.get(key, state_manager), padded
        else:
            ids, weights = categorical.ids_and_weights(
                self.categorical_column, cache, state_manager
            )
            values, mask = padded_lookup.pad_for_tensor_core(
                ids, weights, self.tensor_core_shape[1]
            )
        with tf.name_scope(f"{self.name}_weights") as scope:
            self._record_site(scope)
            return padded_lookup.tensor_core_lookup(table, values, mask, self.combiner)

    def _steps(self, cache: Any, state_manager: Any, table: Any) -> Any:
        if not self._reads.is_sequence:
            raise ValueError(
                f"In embedding_column: {self.name}. categorical_column must be of type "
                "SequenceCategoricalColumn "
                "to use SequenceFeatures. Suggested fix: Use one of "
                "sequence_categorical_column_with_*. "
                f"Given (type {type(self.categorical_column)}): {self.categorical_column}"
            )
        pair = private.SequenceDenseColumn.TensorSequenceLengthPair
        key = self._reads.feature_key
        if self._core_looks_up():
            lengths = cache.get(categorical.sequence_length_key(key), state_manager)
            if lengths.shape.rank == 2:  # the layers' cache gives every feature a second axis
                lengths = tf.squeeze(lengths, -1)
            return pair(dense_tensor=cache.get(key, state_manager), sequence_length=lengths)
        ids, weights = categorical.ids_and_weights(self.categorical_column, cache, state_manager)
        variable = table()
        with tf.name_scope(f"{self.name}_weights") as scope:
            self._record_site(scope)
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
    except ValueError:  # the caches' answer to an unknown key
        return None
