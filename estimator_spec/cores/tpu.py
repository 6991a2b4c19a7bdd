# SPDX-License-Identifier: Apache-2.0
"""The embedding core of a TPU, through TensorFlow's mid-level API.

Make the core within the scope of a `TPUStrategy`. `prepare` belongs into the input pipeline of each
host; `look_up`, `attach` and `update`, in this order, into the function that the strategy runs in
each replica, within a `tf.function`.

Not verified on hardware. The driver has no loop that calls this.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from estimator_spec.convert import mid_level
from estimator_spec.cores import enqueue, naming
from estimator_spec.spec import EmbeddingConfigSpec, tables_and_features
from tpu_columns import categorical, lookup

tf1 = tf.compat.v1


class TpuCore:
    """Looks up and trains the tables of a spec on a TPU.

    Args:
        spec: what is looked up and how it is trained.
        embedding: a `tf.tpu.experimental.embedding.TPUEmbedding` of the spec; None makes one (see
            `convert.mid_level.to_tpu_embedding`).
        **options: as for `to_tpu_embedding`: `batch_size`, `step`, `allow_lossy`.

    Raises:
        LossyConversionError: the mid-level API lacks something that the spec asks for, and
            `allow_lossy` isn't given.
        ValueError, TypeError: as `tables_and_features`.
    """

    def __init__(self, spec: EmbeddingConfigSpec, embedding: Any = None, **options: Any) -> None:
        self._spec = spec
        self._tables, self._features = tables_and_features(spec)
        self.embedding = embedding or mid_level.to_tpu_embedding(spec, **options)
        self._activations: dict[str, Any] = {}
        self._step: Any = None

    def prepare(self, features: Mapping[str, Any]) -> dict[str, Any]:
        """Makes features fit for a TPU, in the input pipeline.

        Returns:
            A new dict: under each feature's key its ids, an int32 SparseTensor, and under its
            weights' key float32 ones; the lengths of a sequence, int64 [B], under
            `<key>_seq_length_`.

        Raises:
            ValueError: a feature that a TPU can't look up.
        """
        found = dict(features)
        for key, feature in self._features.items():
            taken = enqueue.take(key, feature, self._tables[feature.table_id], found)
            ids = taken.ids
            found[key] = ids.with_values(tf.cast(ids.values, tf.int32))
            if taken.weights is not None:
                found[feature.weight_key] = taken.weights
            length = taken.max_sequence_length
            if length:
                lengths = tf.minimum(lookup.sequence_lengths(ids), length)
                found[categorical.sequence_length_key(key)] = lengths
        return found

    def look_up(self, features: Any, global_step: Any) -> dict[str, Any]:
        """Sends ids to the embedding core, and puts its activations in their place.

        Args:
            features: from `prepare`; direct inputs of the replica's function.
            global_step: the step counter, for `experimental_gradient_multiplier_fn`.

        Returns:
            A new dict, see `interface.EmbeddingCore`.

        Raises:
            RuntimeError: not under a `TPUStrategy`.
        """
        found = dict(features)
        self._step = global_step
        ids = {key: found.pop(key) for key in self._features}
        weights = {
            key: None if feature.weight_key is None else found.pop(feature.weight_key)
            for key, feature in self._features.items()
        }
        weighted = any(value is not None for value in weights.values())
        self.embedding.enqueue(ids, weights=weights if weighted else None)
        self._activations = dict(self.embedding.dequeue())
        found.update(self._activations)
        return found

    def attach(self) -> None:
        """Checks that the model used every column.

        Raises:
            RuntimeError: a column of the spec is in no feature layer of the model.
        """
        self.variable_names()

    def variable_names(self) -> dict[str, str]:
        """Returns the full name of each table in a legacy checkpoint, by table key.

        Raises:
            RuntimeError: a column of the spec is in no feature layer of the model.
        """
        return naming.variable_names(self._spec, self._tables)

    def update(self, loss: Any) -> Any:
        """Sends the gradients of the activations to the embedding core.

        Args:
            loss: of this replica, scaled as the model's own optimizer scales it.

        Returns:
            What `apply_gradients` of the mid-level API returns.
        """
        keys = sorted(self._activations)
        activations = [self._activations[key] for key in keys]
        gradients = tf1.gradients(loss, activations, name="embedding_gradients")
        gradients = [
            tf.zeros_like(activation) if gradient is None else gradient
            for gradient, activation in zip(gradients, activations, strict=True)
        ]
        multiplier = self._spec.experimental_gradient_multiplier_fn
        if multiplier is not None:
            factor = tf.cast(multiplier(self._step), tf.float32)
            gradients = [gradient * factor for gradient in gradients]
        return self.embedding.apply_gradients(dict(zip(keys, gradients, strict=True)))
