# SPDX-License-Identifier: Apache-2.0
"""`TPUEmbedding` that trains on any machine."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from estimator_spec.core._tensorflow import tpu_embedding
from estimator_spec.mid_level import samples, state
from estimator_spec.mid_level.host import HostEmbedding
from estimator_spec.mid_level.replicas import warn_if_installed


class TPUEmbedding(tf.tpu.experimental.embedding.TPUEmbedding):  # type: ignore[misc]
    """`tf.tpu.experimental.embedding.TPUEmbedding` that trains on a machine without a TPU, too.

    In the scope of a `TPUStrategy` it is TensorFlow's. Elsewhere `enqueue`, `dequeue` and
    `apply_gradients` compute on the host what a TPU's embedding core does: without a strategy, and
    in the scopes of `OneDeviceStrategy` and `MirroredStrategy`. There is one copy of each table.
    A program's step is the same on both:

    >>> api = tf.tpu.experimental.embedding
    >>> words = api.TableConfig(10, 2, initializer=tf.ones_initializer(), name="words")
    >>> embedding = TPUEmbedding({"w": api.FeatureConfig(words)}, api.SGD(0.5))
    >>> embedding.enqueue({"w": tf.constant([3, 3])})
    >>> with tf.GradientTape() as tape:
    ...     activations = embedding.dequeue()
    ...     tape.watch(activations)
    ...     loss = tf.reduce_sum(activations["w"])
    >>> embedding.apply_gradients(tape.gradient(loss, activations))
    >>> embedding.embedding_tables[words][3].numpy()
    array([0., 0.], dtype=float32)

    Off a TPU, unlike on one: ids out of range are errors, batches may have an unknown size, and a
    `dequeue` without a batch is an error rather than a wait without end.

    Args:
        feature_config: a nested structure of `FeatureConfig`s.
        optimizer: optimizer of the tables without one: SGD, Adagrad, AdagradMomentum, Adam or FTRL.
            None: such tables have no slots and can't be trained.
        pipeline_execution_with_tensor_core: whether the lookup of a step lacks the update of the
            step before, as on a TPU. Reading `embedding_tables`, saving a checkpoint and a batch of
            `training=False` apply the last update first.

    Raises:
        ValueError: two tables have one name, or an optimizer is of another class.
        RuntimeError: the strategy has replicas in several processes, or parameter servers.
    """

    def __init__(
        self,
        feature_config: Any,
        optimizer: Any,
        pipeline_execution_with_tensor_core: bool = False,
    ) -> None:
        # TensorFlow puts wrappers in the place of lists and dictionaries, also of those inside.
        structure = tf.nest.map_structure(lambda feature: feature, feature_config)
        super().__init__(feature_config, optimizer, pipeline_execution_with_tensor_core)
        self._host: HostEmbedding | None = None
        if tpu_embedding.is_on_tpu(self):
            return
        warn_if_installed("TPUEmbedding", type(self))
        self._host = HostEmbedding(
            structure,
            tpu_embedding.table_configs(self),
            tf.distribute.get_strategy(),
            pipeline_execution_with_tensor_core,
        )

    @classmethod
    def of_any_batch_size(cls, feature_config: Any, optimizer: Any, pipelined: bool) -> Any:
        """Returns an object whose batches may differ in size; it isn't for a TPU."""
        made = cls(feature_config, optimizer, pipelined)
        assert made._host is not None
        made._host.any_batch_size = True
        return made

    def build(
        self, per_replica_input_shapes: Any = None, per_replica_batch_size: int | None = None
    ) -> None:
        """Creates the variables of tables and slots, unless it was called before.

        Args:
            per_replica_input_shapes: shapes of the ids of a replica, in the structure of the
                features; or the number of examples of a replica. None: those of the first batch.
            per_replica_batch_size: deprecated: the number of examples.

        Raises:
            ValueError: a shape differs from the `FeatureConfig`'s `output_shape`.
            RuntimeError: eager execution is disabled.
        """
        if self._host is None:
            super().build(per_replica_input_shapes, per_replica_batch_size)
            return
        if tpu_embedding.is_built(self):
            return
        with tf.init_scope():
            if not tf.executing_eagerly():
                raise RuntimeError(
                    "TPUEmbedding needs eager execution, and tf.functions; in graphs of TensorFlow "
                    "1, tables of an EmbeddingConfigSpec are trained by a TPUEstimator."
                )
        shapes = self._host.shapes_of_inputs(per_replica_input_shapes, per_replica_batch_size)
        if shapes is not None:
            self._host.set_shapes(shapes)
        # The optimizers are checked by now; super() creates the variables in the scope's thread.
        state.create_outside(super().build)
        self._host.set_variables(tpu_embedding.variables(self))

    @property
    def embedding_tables(self) -> dict[Any, Any]:
        """Returns the variable of each table by its `TableConfig`."""
        self._build_and_flush()
        return super().embedding_tables  # type: ignore[no-any-return]

    @property
    def variables(self) -> dict[str, dict[str, Any]]:
        """Returns the variables by name of the table, then by slot; the table as 'parameters'."""
        self._build_and_flush()
        return tpu_embedding.variables(self)

    def _build_and_flush(self) -> None:
        if self._host is not None:
            self._build_eagerly()
            with tf.init_scope():
                self._host.flush()

    @tf.autograph.experimental.do_not_convert
    def enqueue(
        self,
        features: Any,
        weights: Any = None,
        training: bool = True,
        name: str | None = None,
        device: str | None = None,
    ) -> None:
        """Adds a batch for the next `dequeue` without one.

        Args:
            features: integer tensors, SparseTensors or RaggedTensors in the structure of the
                features, of a replica's batch or of all (`tf.distribute.DistributedValues`).
            weights: floats of the kinds and places of `features`, or None for ones.
            training: whether `apply_gradients` will be called for the batch.
            name: a name that `dequeue` and `apply_gradients` get, too.
            device: the device of the replica that gets the batch; None: all replicas, or the
                current one.

        Raises:
            ValueError: ids or weights don't fit the features or earlier batches; a table can't be
                trained on this machine.
            TypeError: the structure differs.
        """
        if self._host is None:
            super().enqueue(features, weights, training, name, device)
            return
        inputs, flat_weights = samples.flatten(self._host.structure, features, weights)
        replicas = self._host.replicas
        for replica in replicas.of_enqueue(device):
            mine = [replicas.local(value, replica) for value in inputs]
            self._host.detect_shapes(mine)
            self._build_eagerly()
            own_weights = [replicas.local(value, replica) for value in flat_weights]
            self._host.enqueue(mine, own_weights, bool(training), name, replica)

    @tf.autograph.experimental.do_not_convert
    def dequeue(self, name: str | None = None) -> Any:
        """Returns the activations of the current replica's next batch.

        Args:
            name: as in `enqueue`.

        Returns:
            float32 [B, D], [B, L, D] of sequences, in the structure of the features.

        Raises:
            RuntimeError: no batch is enqueued (in a function: InvalidArgumentError), or the object
                isn't built.
            ValueError: an id is out of range (in a function: InvalidArgumentError).
        """
        if self._host is None:
            return super().dequeue(name)
        self._check_built("dequeue")
        return tf.nest.pack_sequence_as(self._host.structure, self._host.dequeue(name))

    @tf.autograph.experimental.do_not_convert
    def apply_gradients(self, gradients: Any, name: str | None = None) -> None:
        """Trains the tables by the gradients of the activations that were dequeued last.

        The gradients of a row are summed over its occurrences and over all replicas, and the row is
        updated once; with an optimizer of `use_gradient_accumulation=False` once for each replica.

        Args:
            gradients: of the activations, in their structure. None is a gradient of zero: Adam
                moves the rows of such a feature nevertheless.
            name: as in `enqueue`.

        Raises:
            RuntimeError: no batch for training was dequeued, or the object isn't built.
            ValueError: a gradient isn't a tensor, or has another shape than its activation.
            TypeError: the structure differs.
        """
        if self._host is None:
            super().apply_gradients(gradients, name)
            return
        self._check_built("apply_gradients")
        tf.nest.assert_same_structure(self._host.structure, gradients)
        self._host.apply_gradients(tf.nest.flatten(gradients), name)

    def serve(self, features: Any, weights: Any = None) -> Any:
        """Returns the activations of features by TensorFlow's own ops, for a SavedModel.

        Args:
            features: as in `enqueue`.
            weights: as in `enqueue`.
        """
        assert self._host is not None
        found = tf.tpu.experimental.embedding.serving_embedding_lookup(
            features, weights, self.embedding_tables, self._host.structure
        )

        def without_last_axis(ids: Any, activation: Any) -> Any:
            # Of dense ids [B, 1], which that function doesn't reduce.
            is_matrix = isinstance(ids, tf.Tensor) and ids.shape.rank not in (0, 1)
            return tf.squeeze(activation, -2) if is_matrix else activation

        return tf.nest.map_structure(without_last_axis, features, found)

    def _check_built(self, method: str) -> None:
        if not tpu_embedding.is_built(self):
            raise RuntimeError(
                f"{method} called on unbuilt TPUEmbedding object. Please either call enqueue first "
                "or manually call the build method."
            )

    def _build_eagerly(self) -> None:
        if not tpu_embedding.is_built(self):
            with tf.init_scope():
                self.build()

    # What TensorFlow's saver calls before it saves, and after it has restored.

    def _retrieve_variables(self) -> None:
        if self._host is None:
            super()._retrieve_variables()
        elif tf.executing_eagerly():
            self._host.flush()

    def _load_variables(self) -> None:
        if self._host is None:
            super()._load_variables()
        else:
            with tf.init_scope():
                self._host.forget_delayed()
