# SPDX-License-Identifier: Apache-2.0
"""TensorFlow Recommenders' `TPUEmbedding` layer, trained on the host by its own optimizer.

Without a TPU the library's layer looks tables up in a `TPUEmbeddingForServing`, and the model's
optimizer trains them; the layer's own optimizer has no effect but to create slots.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from estimator_spec.core._tensorflow import private
from estimator_spec.mid_level import samples
from estimator_spec.mid_level.embedding import TPUEmbedding

# Names of calls that run eagerly are used again after so many.
_EAGER_CALLS = 64


def embedding_layer(base: Any) -> Any:
    """Returns a subclass of the layer whose tables the host core trains.

    In the scope of a `TPUStrategy`, and for tables without an optimizer, it is the library's. Else
    it does what that does on a TPU: one variable of the layer, of shape [1], stands for the tables
    among the model's trainable variables, and a gradient of it trains the tables.

    Args:
        base: `tensorflow_recommenders.layers.embedding.TPUEmbedding`.
    """
    feature = tf.tpu.experimental.HardwareFeature.EmbeddingFeature.V1

    def create(
        self: Any, using_tpu: bool, embedding_feature: Any, pipelined: bool, *more: Any
    ) -> Any:
        configs = [each.table for each in tf.nest.flatten(self._feature_config)]
        has_optimizer = self._optimizer is not None or all(each.optimizer for each in configs)
        if using_tpu or not has_optimizer:
            return super(layer, self)._create_tpu_embedding_mid_level_api(
                using_tpu, embedding_feature, pipelined, *more
            )
        self._embedding_feature = feature
        return TPUEmbedding.of_any_batch_size(self._feature_config, self._optimizer, pipelined)

    def call(self: Any, features: Any, weights: Any = None, serving_config: Any = None) -> Any:
        trains_here = isinstance(self._tpu_embedding, TPUEmbedding)
        if trains_here and serving_config is None and private.is_saving_model():
            # A SavedModel has TensorFlow's ops only.
            return self._tpu_embedding.serve(features, weights)
        if tf.executing_eagerly():
            self._tpu_call_id %= _EAGER_CALLS
        if not trains_here or serving_config is not None:
            return super(layer, self).call(features, weights, serving_config)
        ids, factors = samples.flatten(self._feature_config, features, weights)
        configs = tf.nest.flatten(self._feature_config)
        batched = [
            tuple(None if each is None else _with_batch(each, config) for each in pair)
            for *pair, config in zip(ids, factors, configs, strict=True)
        ]
        features, weights = (
            tf.nest.pack_sequence_as(self._feature_config, each)
            for each in zip(*batched, strict=True)
        )
        found = tf.nest.flatten(super(layer, self).call(features, weights, None))
        kept = [
            tf.reshape(each, [config.table.dim]) if _is_one_sample(own, config) else each
            for each, own, config in zip(found, ids, configs, strict=True)
        ]
        return tf.nest.pack_sequence_as(self._feature_config, kept)

    members = {
        "__doc__": base.__doc__,
        "__module__": base.__module__,
        "__qualname__": base.__qualname__,
        "_create_tpu_embedding_mid_level_api": create,
        "call": call,
    }
    layer: Any = type(base.__name__, (base,), members)
    return layer


# Without a TPU the library's layer takes ids without a batch, too. An embedding core doesn't.


def _is_one_sample(ids: Any, feature: Any) -> bool:
    """Returns whether ids are one sample without an axis of a batch."""
    if isinstance(ids, tf.SparseTensor):
        return ids.shape.rank == 1 and feature.validate_weights_and_indices
    return isinstance(ids, tf.Tensor) and ids.shape.rank == 0


def _with_batch(ids: Any, feature: Any) -> Any:
    """Returns ids or weights with an axis of a batch.

    A sparse vector is one sample, also for a sequence; without `validate_weights_and_indices` each
    place of it is one.
    """
    if _is_one_sample(ids, feature):
        if isinstance(ids, tf.Tensor):
            return tf.reshape(ids, [1])
        return tf.sparse.expand_dims(tf.sparse.expand_dims(ids, 0), 0)
    if isinstance(ids, tf.SparseTensor) and ids.shape.rank == 1:
        return tf.sparse.expand_dims(ids, -1)
    return ids
