# SPDX-License-Identifier: Apache-2.0
"""`TPUEmbeddingV2` that trains on any machine."""

from __future__ import annotations

import copy
from typing import Any

import tensorflow as tf

from estimator_spec.core._tensorflow import tpu_embedding
from estimator_spec.mid_level import moving, samples, stacked, stacking, state
from estimator_spec.mid_level.replicas import LocalReplicas, warn_if_installed

# TensorFlow 2.15 has none.
_TENSORFLOWS: Any = getattr(tf.tpu.experimental.embedding, "TPUEmbeddingV2", object)


class TPUEmbeddingV2(_TENSORFLOWS):  # type: ignore[misc]
    """`tf.tpu.experimental.embedding.TPUEmbeddingV2` that trains on a machine without a TPU, too.

    In the scope of a `TPUStrategy` it is TensorFlow's. Elsewhere lookups and updates are computed
    on the host, in variables of the same layout: tables of equal optimizer are stacked, over four
    SparseCores for each replica. What `TPUEmbeddingV2` ignores on a TPU (clipping,
    `use_gradient_accumulation=False`, non-lazy Adam) it ignores here, with a warning.

    >>> def train():
    ...     api = tf.tpu.experimental.embedding
    ...     words = api.TableConfig(10, 2, initializer=tf.ones_initializer(), name="words")
    ...     features = {"w": api.FeatureConfig(words, output_shape=[4])}
    ...     embedding = TPUEmbeddingV2(features, api.SGD(0.5))
    ...     activations, preserved = embedding({"w": tf.constant([3, 3, 1, 0])})
    ...     embedding.apply_gradients({"w": tf.ones([4, 2])}, preserved)
    ...     return embedding({"w": tf.constant([3, 1, 0, 9])})[0]["w"].numpy()[:, 0].tolist()
    >>> has_one = hasattr(tf.tpu.experimental.embedding, "TPUEmbeddingV2")  # 2.15 hasn't
    >>> train() if has_one else [0.0, 0.5, 0.5, 1.0]
    [0.0, 0.5, 0.5, 1.0]

    Off a TPU, unlike on one: ids aren't cut to int32, and ids out of range are errors.

    Args:
        feature_config: a nested structure of `FeatureConfig`s, each with an `output_shape`.
        optimizer: optimizer of the tables without one. None: they can't be trained.
        pipeline_execution_with_tensor_core: as for `TPUEmbedding`.
        sparse_core_embedding_config: a `SparseCoreEmbeddingConfig`; here only its
            `disable_table_stacking` has an effect.

    Raises:
        ValueError: an `output_shape` is missing, or its samples can't be divided among the
            SparseCores; two tables have one name, or a table none.
        NotImplementedError: an optimizer has weight decay.
        RuntimeError: this TensorFlow has no `TPUEmbeddingV2`; as `TPUEmbedding`.
    """

    def __init__(
        self,
        feature_config: Any,
        optimizer: Any = None,
        pipeline_execution_with_tensor_core: bool = False,
        sparse_core_embedding_config: Any = None,
    ) -> None:
        if _TENSORFLOWS is object:
            raise RuntimeError(
                f"TensorFlow {tf.__version__} has no TPUEmbeddingV2; a newer one has (2.21 does)."
            )
        self._host: stacked.StackedEmbedding | None = None
        strategy = tf.distribute.get_strategy()
        of_tpu = (tf.distribute.TPUStrategy, tf.distribute.experimental.TPUStrategy)
        if isinstance(strategy, of_tpu):
            super().__init__(
                feature_config,
                optimizer,
                pipeline_execution_with_tensor_core,
                sparse_core_embedding_config,
            )
            return
        warn_if_installed("TPUEmbeddingV2", type(self))
        cloned = _clone(feature_config)
        structure = tf.nest.map_structure(lambda feature: feature, cloned)
        tpu_embedding.initialize_base(self, _TENSORFLOWS, cloned, optimizer)
        config = sparse_core_embedding_config
        self._host = stacked.StackedEmbedding(
            structure,
            tpu_embedding.table_configs(self),
            LocalReplicas(strategy),
            pipeline_execution_with_tensor_core,
            config is not None and config.disable_table_stacking,
        )

    @property
    def embedding_tables(self) -> dict[str, Any]:
        """Returns the variable of each stack of tables by its name."""
        if self._host is None:
            return super().embedding_tables  # type: ignore[no-any-return]
        return {name: slots["parameters"] for name, slots in self.variables.items()}

    @property
    def embedding_table_shards(self) -> dict[str, list[tuple[str, Any]]]:
        """Returns the device and the rows of each replica's part of each stack, by its name."""
        if self._host is None:
            return super().embedding_table_shards  # type: ignore[no-any-return]
        devices = self._host.replicas.devices
        return {
            name: list(zip(devices, tf.split(variable, len(devices)), strict=True))
            for name, variable in self.embedding_tables.items()
        }

    @property
    def embedding_layouts(self) -> dict[str, Any]:
        """Returns the `SparseCoreTableLayout` of each table by its name."""
        if self._host is None:
            return super().embedding_layouts  # type: ignore[no-any-return]
        return self._host.layouts

    @property
    def variables(self) -> dict[str, dict[str, Any]]:
        """Returns the variables by name of the stack, then by slot; the rows as 'parameters'."""
        if self._host is None:
            return super().variables  # type: ignore[no-any-return]
        with tf.init_scope():
            self.build()
            self._host.flush()
        return tpu_embedding.variables(self)

    def build(self) -> None:
        """Creates the variables of stacks and slots, unless it was called before."""
        if self._host is None:
            super().build()
            return
        if tpu_embedding.is_built(self):
            return
        state.create_outside(super().build)
        self._host.set_variables(tpu_embedding.variables(self))

    def _create_variables_and_slots(self) -> Any:
        if self._host is None:
            return super()._create_variables_and_slots()
        return {stack.name: self._create(stack) for stack in self._host.stacks}

    def _create(self, stack: stacking.Stack) -> dict[str, Any]:
        assert self._host is not None
        initializer = stacking.initializer(stack, self._host.layouts)
        variable = tpu_embedding.add_variable(self, stack.name, stack.shape, initializer)

        def create(slot: str, initial: Any) -> Any:
            return tpu_embedding.add_variable(self, f"{stack.name}/{slot}", stack.shape, initial)

        optimizer = stack.configs[0].optimizer
        slots = {} if optimizer is None else tpu_embedding.create_slots(optimizer, variable, create)
        return {**slots, "parameters": variable}

    def __call__(self, features: Any, weights: Any = None) -> Any:
        """Looks up features; see `embedding_lookup`."""
        return self.embedding_lookup(features, weights)

    @tf.autograph.experimental.do_not_convert
    def embedding_lookup(self, features: Any, weights: Any = None) -> Any:
        """Looks up the features of a replica.

        Args:
            features: integer tensors, SparseTensors or RaggedTensors in the structure of the
                features.
            weights: floats of the kinds and places of `features`, or None for ones.

        Returns:
            activations: float32 [*output_shape, D] in the structure of the features.
            preserved_outputs: what `apply_gradients` needs of the lookup, by name of the stack.

        Raises:
            ValueError: ids or weights don't fit; an id is out of range (in a function:
                InvalidArgumentError).
        """
        if self._host is None:
            return super().embedding_lookup(features, weights)
        return self.dequeue(self.enqueue(features, weights))

    @tf.autograph.experimental.do_not_convert
    def enqueue(self, features: Any, weights: Any = None, device: str | None = None) -> Any:
        """Prepares features for `dequeue`, and returns the result.

        Args:
            features: as in `embedding_lookup`.
            weights: as in `embedding_lookup`.
            device: the replica's device; has no effect without a TPU.
        """
        if self._host is None:
            return super().enqueue(features, weights, device)
        return self._host.prepare(*samples.flatten(self._host.structure, features, weights))

    def preprocess_features(self, flat_inputs: Any, flat_weights: Any = None, **layout: Any) -> Any:
        """Does what `enqueue` does for lists of features, under the name of older TensorFlows.

        Args:
            flat_inputs: the features in the order of the flattened structure.
            flat_weights: weights or None for each; None for none.
            **layout: further arguments of TensorFlow's method, which the object knows.
        """
        if self._host is None:
            method = tpu_embedding.preprocessing_method(super())
            return method(flat_inputs=flat_inputs, flat_weights=flat_weights, **layout)
        return self._host.prepare(flat_inputs, flat_weights or [None] * len(flat_inputs))

    @tf.autograph.experimental.do_not_convert
    def dequeue(self, partitioned_tensors: Any) -> Any:
        """Looks up what `enqueue` returned; the result is that of `embedding_lookup`."""
        if self._host is None:
            return super().dequeue(partitioned_tensors)
        with tf.init_scope():
            self.build()
        activations, preserved = self._host.look_up(partitioned_tensors)
        structure = self._host.structure
        return tf.nest.pack_sequence_as(structure, activations), preserved

    @tf.autograph.experimental.do_not_convert
    def apply_gradients(self, gradients: Any, preserved_outputs: Any) -> None:
        """Trains the tables by the gradients of a lookup's activations, summed over all replicas.

        Args:
            gradients: in the structure of the features; None is a gradient of zero.
            preserved_outputs: the second result of the lookup.

        Raises:
            RuntimeError: the object isn't built.
            ValueError: a gradient isn't a tensor, or has another size than its activation; a table
                can't be trained on this machine.
            TypeError: the structure differs.
        """
        if self._host is None:
            super().apply_gradients(gradients, preserved_outputs)
            return
        if not tpu_embedding.is_built(self):
            raise RuntimeError(
                "apply_gradients called on unbuilt TPUEmbeddingV2 object. Please either call the "
                "embedding lookup method first or manually call the build method."
            )
        tf.nest.assert_same_structure(self._host.structure, gradients)
        self._host.apply_gradients(tf.nest.flatten(gradients), preserved_outputs)

    @classmethod
    def compute_sparse_core_stats(
        cls,
        features: Any,
        feature_config: Any,
        num_tpu_chips: int,
        num_sc_per_chip: int = stacked.CORES_PER_CHIP,
        optimizer: Any = None,
        sparse_core_embedding_config: Any = None,
    ) -> tuple[dict[str, int], dict[str, int]]:
        """Returns how many ids of one batch a SparseCore needs of another at most.

        TensorFlow's method has no kernel without a TPU; this one counts in NumPy, ids of equal
        sample once.

        Args:
            features: the batch of one chip, eager tensors.
            feature_config: structure of `FeatureConfig`s with `output_shape`s.
            num_tpu_chips: number of chips.
            num_sc_per_chip: SparseCores of a chip.
            optimizer: optimizer of the tables without one.
            sparse_core_embedding_config: as in the constructor.

        Returns:
            Numbers of ids, and of different ids, by name of the stack: for
            `SparseCoreEmbeddingConfig(max_ids_per_table=…, max_unique_ids_per_table=…)`.
        """
        if tf.config.list_logical_devices("TPU"):
            return super().compute_sparse_core_stats(  # type: ignore[no-any-return]
                features,
                feature_config,
                num_tpu_chips,
                num_sc_per_chip,
                optimizer,
                sparse_core_embedding_config,
            )
        cloned = _clone(feature_config)
        flat = tf.nest.flatten(cloned)
        configs = list({id(each.table): each.table for each in flat}.values())
        for config in configs:
            config.optimizer = config.optimizer or optimizer
        alone = (
            sparse_core_embedding_config is not None
            and sparse_core_embedding_config.disable_table_stacking
        )
        found = stacking.layouts(configs, flat, num_tpu_chips, num_sc_per_chip, alone)
        return stacked.count_ids(cloned, features, found, num_sc_per_chip)

    def _trackable_children(self, save_type: Any = "checkpoint", **more: Any) -> Any:
        if self._host is not None and tf.executing_eagerly() and tpu_embedding.is_built(self):
            self._host.flush()
        return super()._trackable_children(save_type, **more)

    def _checkpoint_adapter(self, path: str) -> Any:
        # Called before a checkpoint is restored. TensorFlow's adapter lays tables out anew, but
        # leaves their slots at initial values.
        if self._host is not None:
            moving.check_layouts(path, self._host.layouts)
            self._host.forget_delayed()
        return super()._checkpoint_adapter(path)


def _clone(feature_config: Any) -> Any:
    """Returns copies of features and tables, which TensorFlow changes."""
    known: dict[int, Any] = {}
    found = []
    for feature in tf.nest.flatten(feature_config):
        cloned = copy.copy(feature)
        if id(feature.table) not in known:
            known[id(feature.table)] = copy.copy(feature.table)
        cloned.table = known[id(feature.table)]
        found.append(cloned)
    return tf.nest.pack_sequence_as(feature_config, found)
