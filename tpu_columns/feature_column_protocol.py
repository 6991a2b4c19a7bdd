# SPDX-License-Identifier: Apache-2.0
"""Feature column interfaces of TPU embedding columns, for TF1's functions and Keras' layers.

TF1's functions call the methods with an underscore and own the variable scope; Keras' layers call
those without and own the variables. Both end in `_pooled` or `_sequence`, which select the device
and build the lookup.
"""

from __future__ import annotations

import abc
import contextlib
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from tpu_columns import _tensorflow as private
from tpu_columns import categorical, column_lookup, invalid_ids, padded_lookup
from tpu_columns.checks import check_name
from tpu_columns.layer_inputs import (
    LayerInputs,
    cast_weights,
    convert_ragged,
    explain_feature_errors,
)
from tpu_columns.placement import LookupDevice, current_device


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
    invalid_ids: str | int | None
    _feature: categorical.CategoricalFeature

    @abc.abstractmethod
    def _layer_table(self, state_manager: Any) -> Any:
        """Returns the table that a Keras feature layer owns."""

    @abc.abstractmethod
    def _input_layer_table(
        self, weight_collections: Any, trainable: bool, owner: Any = None
    ) -> Any:
        """Returns the table as a variable of the current TF1 variable scope; see `eager_tables`."""

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
    def _var_scope_name(self) -> str:
        self._check_name()
        return self.name

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
        return self._pooled(self._keras_inputs(transformation_cache, state_manager))

    def _get_dense_tensor(
        self, inputs: Any, weight_collections: Any = None, trainable: Any = None
    ) -> tf.Tensor:
        return self._pooled(self._tf1_inputs(inputs, weight_collections, trainable))

    # Sequence lookups.

    def get_sequence_dense_tensor(
        self, transformation_cache: Any, state_manager: Any, training: Any = None
    ) -> Any:
        """Returns embeddings [batch, max_sequence_length, dimension] and lengths [batch].

        Raises:
            ValueError: this isn't a sequence column, or its device is forbidden here.
        """
        return self._sequence(self._keras_inputs(transformation_cache, state_manager))

    def _get_sequence_dense_tensor(
        self, inputs: Any, weight_collections: Any = None, trainable: Any = None
    ) -> Any:
        return self._sequence(self._tf1_inputs(inputs, weight_collections, trainable))

    # Common to both interfaces.

    def _core_looks_up(self) -> bool:
        return current_device(self) is LookupDevice.TPU_EMBEDDING_CORE

    def _keras_inputs(self, cache: Any, state_manager: Any) -> LayerInputs:
        if self._core_looks_up():
            self._record_in_call()
        return LayerInputs(
            cache,
            state_manager,
            lambda: self._layer_table(state_manager),
            private.features_of(cache),
        )

    def _tf1_inputs(self, inputs: Any, weight_collections: Any, trainable: Any) -> LayerInputs:
        if self._core_looks_up():
            self._record_in_input_layer()
        is_trainable = trainable is None or bool(trainable)
        return LayerInputs(
            categorical.BuilderCache(inputs),
            None,
            lambda: self._input_layer_table(weight_collections, is_trainable, inputs),
            private.features_of(inputs),
        )

    def _check_name(self) -> None:
        """Checks that a graph can have ops of the column's name; eager ops have no names."""
        if not tf.executing_eagerly():
            check_name(self.name, f"Column of feature {self._feature.feature_key!r}", in_scope=True)

    def _activation(self, inputs: LayerInputs) -> tf.Tensor:
        """Returns the activations that an embedding core puts in place of the column's ids.

        Raises:
            ValueError: the feature still has its ids, or the core's table another dimension.
        """
        key = self._feature.feature_key
        activation = inputs.cache.get(key, inputs.state_manager)
        if isinstance(activation, tf.SparseTensor) or not activation.dtype.is_floating:
            raise ValueError(
                f"Column {self.name!r}: the embedding core doesn't look up its feature {key!r}, "
                "because the column isn't in the embedding_config_spec of TPUEstimator. Add it to "
                "the feature_columns of the spec, or give the column "
                "embedding_lookup_device='tpu_tensor_core' and a tensor_core_shape."
            )
        width = tf.compat.dimension_value(activation.shape[-1]) if activation.shape.rank else None
        if width not in (None, self.dimension):
            raise ValueError(
                f"Column {self.name!r} has dimension {self.dimension} in the model, but the table "
                f"of feature {key!r} has dimension {width} in the embedding_config_spec. Use the "
                "same columns in both."
            )
        return activation

    def _ids_and_weights(
        self, inputs: LayerInputs
    ) -> tuple[tf.SparseTensor, tf.SparseTensor | None]:
        return column_lookup.ids_and_weights(
            self.name,
            self.categorical_column,
            self._feature,
            inputs,
            invalid_ids.rule_for_column(self),
        )

    def _lookup_scope(self) -> contextlib.AbstractContextManager[None]:
        return column_lookup.lookup_scope(self.name, self._feature)

    def _pooled(self, inputs: LayerInputs) -> tf.Tensor:
        if self._feature.is_sequence:
            raise ValueError(
                f"In embedding_column: {self.name}. categorical_column must not be of type "
                "SequenceCategoricalColumn. "
                "Suggested fix A: use a categorical column without sequence_ in its name. "
                "Suggested fix B: use SequenceFeatures or sequence_input_layer for this column. "
                f"Given (type {type(self.categorical_column)}): {self.categorical_column}"
            )
        inputs = convert_ragged(inputs, self._feature)
        with explain_feature_errors(inputs, self.name, self._feature):
            device = current_device(self)
            if device is LookupDevice.TPU_EMBEDDING_CORE:
                return self._activation(inputs)
            if device is LookupDevice.TPU_TENSOR_CORE:
                return self._on_tensor_core(inputs)
            return self._on_cpu(inputs)

    def _on_cpu(self, inputs: LayerInputs) -> tf.Tensor:
        return column_lookup.look_up(
            self.name,
            self.categorical_column,
            self._feature,
            cast_weights(inputs, self._feature),
            self.combiner,
            safe=self.use_safe_embedding_lookup,
            rule=invalid_ids.rule_for_column(self),
        )

    def _on_tensor_core(self, inputs: LayerInputs) -> tf.Tensor:
        """Looks up ids that the input pipeline padded and masked; other ids are padded here."""
        assert self.tensor_core_shape is not None  # checked when the device was chosen
        table = inputs.table()
        cache, state_manager = inputs.cache, inputs.state_manager
        key = self._feature.feature_key
        mask = _feature_or_none(cache, categorical.tensor_core_mask_key(key), state_manager)
        if mask is not None:
            values = cache.get(key, state_manager)
        else:
            ids, weights = self._ids_and_weights(inputs)
            values, mask = padded_lookup.pad_for_tensor_core(
                ids, weights, self.tensor_core_shape[1]
            )
        with self._lookup_scope():
            return padded_lookup.tensor_core_lookup(table, values, mask, self.combiner)

    def _sequence(self, inputs: LayerInputs) -> Any:
        if not self._feature.is_sequence:
            raise ValueError(
                f"In embedding_column: {self.name}. categorical_column must be of type "
                "SequenceCategoricalColumn to use SequenceFeatures. Suggested fix: Use one of "
                "sequence_categorical_column_with_*. "
                f"Given (type {type(self.categorical_column)}): {self.categorical_column}"
            )
        pair = private.SequenceDenseColumn.TensorSequenceLengthPair
        inputs = convert_ragged(inputs, self._feature)
        with explain_feature_errors(inputs, self.name, self._feature):
            looks_up = self._core_sequence if self._core_looks_up() else self._cpu_sequence
            steps, lengths = looks_up(inputs)
        return pair(dense_tensor=steps, sequence_length=lengths)

    def _core_sequence(self, inputs: LayerInputs) -> tuple[tf.Tensor, tf.Tensor]:
        steps = self._activation(inputs)
        key = categorical.sequence_length_key(self._feature.feature_key)
        lengths = inputs.cache.get(key, inputs.state_manager)
        if lengths.shape.rank == 2:  # the layers' cache adds a second axis to every feature
            lengths = tf.squeeze(lengths, -1)
        return steps, lengths

    def _cpu_sequence(self, inputs: LayerInputs) -> tuple[tf.Tensor, tf.Tensor]:
        return column_lookup.look_up_sequence(
            self.name,
            self.categorical_column,
            self._feature,
            cast_weights(inputs, self._feature),
            self.combiner,
            self.max_sequence_length,
            rule=invalid_ids.rule_for_column(self),
        )


def _feature_or_none(cache: Any, key: str, state_manager: Any) -> Any:
    try:
        return cache.get(key, state_manager)
    except ValueError:  # raised by the caches for an unknown key
        return None
