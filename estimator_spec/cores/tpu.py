# SPDX-License-Identifier: Apache-2.0
"""The embedding core of a TPU, through TensorFlow's mid-level API.

    hosts:     ids ─▶ prepare ─▶ enqueue ═══▶ embedding core, which holds the tables
    replicas:  dequeue ◀═════════════════════╡         ▲
               model ─▶ loss ─▶ gradients ═════════════╛
    hosts:     variables under the legacy names ◀═ retrieve ═ before a checkpoint is written
                                                 ═ load ════▶ after one is restored

Not verified on hardware: graphs were built for a TPU, and run with an engine on the host in place
of TensorFlow's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import tensorflow as tf

from estimator_spec.cores import enqueue, table_names
from estimator_spec.cores.interface import LoopCore, TablesListener, distribute_values, replica_id
from estimator_spec.embedding import optimizers
from estimator_spec.embedding.spec import EmbeddingConfigSpec, table_optimizer, tables_and_features
from tpu_columns import categorical, lookup, storage
from tpu_columns.partition import RowPartition

tf1 = tf.compat.v1

TABLE = "parameters"  # the mid-level API's name for a table among its slots

Shards = dict[str, dict[str, list[Any]]]  # by table, by slot: the variables of the hosts


class Engine(Protocol):
    """The embedding core proper: what TensorFlow's mid-level object does for us in one graph."""

    configuration: Any

    def enqueue(self, ids: Any, weights: Any, training: bool) -> list[Any]:
        """Sends the ids (and weights, or None) of all replicas; returns the ops that do."""

    def dequeue(self) -> dict[str, Any]:
        """Within a replica: the activations, by feature."""

    def apply_gradients(self, gradients: Mapping[str, Any], step: Any) -> list[Any]:
        """Within a replica: sends gradients by feature; returns the ops that do.

        `step` is the step counter as the step began, for learning rates.
        """

    def slot_names(self, table: str) -> dict[str, str]:
        """The engine's names of our slots of a table."""

    def load(self, shards: Shards) -> Any:
        """The op that brings tables and slots from the hosts to the core."""

    def retrieve(self, shards: Shards) -> Any:
        """The op that brings them back."""


class TpuCore(LoopCore):
    """Looks up and trains the tables of a spec on a TPU. Make it within the strategy's scope.

    Args:
        spec: what is looked up and how it is trained.
        engine: the core proper.
        training: whether tables are trained.
        host_devices: the CPU of each host, which hold the tables while they are in no core.
        pad: makes the ids of the tensor core's columns fit for it.

    Raises:
        ValueError, TypeError: as `tables_and_features`.
    """

    def __init__(
        self,
        spec: EmbeddingConfigSpec,
        engine: Engine,
        training: bool,
        host_devices: Sequence[str] = ("/device:CPU:0",),
        pad: Callable[[Any], dict[str, Any]] = dict,
    ) -> None:
        self._spec = spec
        self._tables, self._features = tables_and_features(spec)
        self._engine = engine
        self._training = training
        self._host_devices = host_devices
        self._pad = pad
        self._strategy = tf.distribute.get_strategy()
        self._enqueued: list[Any] = []
        # By replica, since a strategy of the host changes from one to another within `model_fn`.
        self._received: dict[int, tuple[dict[str, Any], Any]] = {}

    @property
    def configuration(self) -> Any:
        """The message that configures the embedding core."""
        return self._engine.configuration

    def prepare(self, features: Mapping[str, Any]) -> dict[str, Any]:
        """Makes features fit for a TPU, in the input pipeline.

        Returns:
            A new dict: under each feature's key its ids, an int32 SparseTensor, and under its
            weights' key float32 ones; the lengths of a sequence, int64 [B], under
            `<key>_seq_length_`.

        Raises:
            ValueError: a feature that a TPU can't look up.
        """
        found = self._pad(features)
        for key, feature in self._features.items():
            taken = enqueue.take(key, feature, self._tables[feature.table_id], found)
            ids = taken.ids
            found[key] = ids.with_values(tf.cast(ids.values, tf.int32))
            if taken.weights is not None:
                found[feature.weight_key] = taken.weights
            length = taken.max_sequence_length
            if length:
                lengths = tf.minimum(lookup.sequence_lengths(ids), length)
                lengths.set_shape([ids.shape[0]])
                found[categorical.sequence_length_key(key)] = lengths
        return found

    def feed(self, features: list[Any]) -> list[Any]:
        """Sends the ids of all replicas to the embedding core; the rest goes to the replicas."""
        prepared = [self.prepare(part) for part in features]
        keys = list(self._features)
        ids = {key: self._by_replica([part.pop(key) for part in prepared]) for key in keys}
        weights = {
            key: self._by_replica([part.pop(feature.weight_key, None) for part in prepared])
            for key, feature in self._features.items()
        }
        weighted = any(value is not None for value in weights.values())
        self._enqueued = self._engine.enqueue(ids, weights if weighted else None, self._training)
        return prepared

    def receive(self, features: Any) -> dict[str, Any]:
        """Puts the activations in the place of the ids."""
        # Before the model counts it up.
        step = tf.identity(tf1.train.get_global_step(), name="step_of_embeddings")
        with tf.control_dependencies([step]):
            received = {key: tf.identity(a) for key, a in self._engine.dequeue().items()}
        self._received[replica_id()] = received, step
        return {**features, **received}

    def send(self, loss: Any) -> list[Any]:
        """Sends the gradients of the activations to the embedding core."""
        received, step = self._received[replica_id()]
        keys = sorted(received)
        activations = [received[key] for key in keys]
        gradients = tf1.gradients(loss, activations, name="embedding_gradients")
        gradients = [
            tf.zeros_like(activation) if gradient is None else tf.convert_to_tensor(gradient)
            for gradient, activation in zip(gradients, activations, strict=True)
        ]
        multiplier = self._spec.experimental_gradient_multiplier_fn
        if multiplier is not None:
            factor = tf.cast(multiplier(step), tf.float32)
            gradients = [gradient * factor for gradient in gradients]
        return self._engine.apply_gradients(dict(zip(keys, gradients, strict=True)), step)

    def finish(self, loss: Any) -> list[Any]:
        """Makes the variables of tables and slots; returns the ops that sent the ids."""
        del loss
        names = self.variable_names()
        with tf.init_scope():
            shards = {key: self._variables(key, name) for key, name in names.items()}
            self._load = LoadTables(self._engine.load(shards))
            self._retrieve = RetrieveTables(self._engine.retrieve(shards), self._load)
        return self._enqueued

    def variable_names(self) -> dict[str, str]:
        """Returns the full name of each table in a legacy checkpoint, by table key.

        Raises:
            RuntimeError: a column of the spec is in no feature layer of the model.
        """
        return table_names.variable_names(self._spec, self._tables)

    def hooks(self) -> list[Any]:
        """Loads the tables when a session has restored or initialized them."""
        return [self._load]

    def listeners(self) -> list[Any]:
        """Retrieves the tables before a checkpoint is written."""
        return [self._retrieve]

    def _by_replica(self, values: list[Any]) -> Any:
        """Values of the replicas as one; None if there are none."""
        return None if values[0] is None else distribute_values(self._strategy, values)

    def _variables(self, key: str, name: str) -> dict[str, list[Any]]:
        """A table and its slots, on the hosts, under the names of a legacy checkpoint."""
        table = self._tables[key]
        hosts = len(self._host_devices)
        # Whatever the spec says: the API has no other strategy.
        storage.record_layout(name, RowPartition("div", table.vocabulary_size, hosts))
        shape = (table.vocabulary_size, table.dimension)
        found = {TABLE: self._variable(name, shape, table.initializer, kept=True)}
        parameters = table_optimizer(self._spec, table)
        if parameters is None:
            return found
        values = optimizers.slot_initial_values(parameters)
        names = optimizers.slot_names(parameters, name)
        for slot, theirs in self._engine.slot_names(key).items():
            initial = tf1.constant_initializer(values[slot])
            # A core wants slots in evaluation too, where no checkpoint need have them.
            found[theirs] = self._variable(names[slot], shape, initial, kept=self._training)
        return found

    def _variable(self, name: str, shape: Any, initializer: Any, kept: bool) -> list[Any]:
        """The shards of a variable; those that aren't kept are in no checkpoint."""
        hosts = self._host_devices
        collection = tf1.GraphKeys.GLOBAL_VARIABLES if kept else tf1.GraphKeys.LOCAL_VARIABLES

        def place(op: Any) -> str:
            part = re.search(r"/part_(\d+)(/|$)", op.name)
            return hosts[int(part[1])] if part else hosts[0]

        with (
            tf1.variable_scope(tf1.VariableScope(reuse=False), auxiliary_name_scope=False),
            tf1.device(place),
        ):
            variable = tf1.get_variable(
                name,
                shape=shape,
                dtype=tf.float32,
                initializer=initializer,
                trainable=False,
                use_resource=True,
                collections=[collection],
                partitioner=tf1.fixed_size_partitioner(len(hosts)) if len(hosts) > 1 else None,
            )
        return list(variable) if len(hosts) > 1 else [variable]


class LoadTables(tf1.train.SessionRunHook):
    """Brings tables and slots from the hosts to the core.

    It must come before the hook that saves, which may do so before the first step.

    Args:
        op: what does so.
    """

    def __init__(self, op: Any) -> None:
        self._op = op
        self.may_have_changed = False

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Variables are restored or initialized by now."""
        del coord
        session.run(self._op)
        self.may_have_changed = False

    def before_run(self, run_context: Any) -> None:
        """From now on the core's tables are the newer ones."""
        del run_context
        self.may_have_changed = True


class RetrieveTables(TablesListener):
    """Brings tables and slots back before a checkpoint is written.

    Args:
        op: what does so.
        loaded: the hook that brought them to the core.
    """

    def __init__(self, op: Any, loaded: LoadTables) -> None:
        self._op = op
        self._loaded = loaded

    def before_save(self, session: Any, global_step_value: int) -> None:
        """Does so, if there was a step."""
        del global_step_value
        if self._loaded.may_have_changed:
            session.run(self._op)
