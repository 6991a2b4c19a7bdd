# SPDX-License-Identifier: Apache-2.0
"""Embedding core of a TPU, through TensorFlow's mid-level API.

    hosts:     ids ─▶ prepare ─▶ enqueue ═══▶ embedding core, which holds the tables
    replicas:  dequeue ◀═════════════════════╡         ▲
               model ─▶ loss ─▶ gradients ═════════════╛
    hosts:     variables under the legacy names ◀═ retrieve ═ before a checkpoint is written
                                                 ═ load ════▶ after one is restored

Not verified on hardware: graphs were built for a TPU, and run with an engine on the host instead of
TensorFlow's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import tensorflow as tf

from estimator_spec.core.cores import enqueue, interface, table_variables
from estimator_spec.core.cores.activation_gradients import ActivationGradients
from estimator_spec.core.embedding import optimizers
from estimator_spec.core.embedding.spec import (
    EmbeddingConfigSpec,
    id_rules,
    table_optimizer,
    tables_and_features,
)
from tpu_columns import categorical, lookup, storage
from tpu_columns.partition import RowPartition, shard_name

tf1 = tf.compat.v1

TABLE = "parameters"  # the mid-level API's name for a table among its slots

Shards = dict[str, dict[str, list[Any]]]  # the variables of the hosts, by table, then by slot


class Engine(Protocol):
    """TensorFlow's `TPUEmbedding` in one graph: the methods that are used."""

    configuration: Any

    def enqueue(self, ids: Any, weights: Any, training: bool) -> list[Any]:
        """Returns the ops that send the ids (and weights, or None) of all replicas."""

    def dequeue(self) -> dict[str, Any]:
        """Returns the activations of a replica, by feature."""

    def apply_gradients(self, gradients: Mapping[str, Any], step: Any) -> list[Any]:
        """Returns the ops that send a replica's gradients.

        Args:
            gradients: gradients of the activations, by feature.
            step: the global step at the beginning of the step, for learning rates.
        """

    def slot_names(self, table: str) -> dict[str, str]:
        """Returns the engine's name of each slot variable of a table."""

    def load(self, shards: Shards) -> Any:
        """Returns the op that loads tables and slots from the hosts to the core."""

    def retrieve(self, shards: Shards) -> Any:
        """Returns the op that retrieves tables and slots from the core to the hosts."""


class TpuCore(interface.EmbeddingCore):
    """Embedding core that looks up and trains the tables of a spec on a TPU.

    Create it within the strategy's scope.

    Args:
        spec: tables, features and optimizers.
        engine: `TPUEmbedding`, or what has its methods.
        training: whether tables are trained.
        host_devices: the CPU of each host; they hold the tables that aren't loaded to the core.
        pad: pads the ids of the tensor core's columns.

    Raises:
        ValueError, TypeError: `tables_and_features` raises it.
    """

    def __init__(
        self,
        spec: EmbeddingConfigSpec,
        engine: Engine,
        training: bool,
        host_devices: Sequence[str] = ("/device:CPU:0",),
        pad: Callable[[Any], dict[str, Any]] = dict,
    ) -> None:
        super().__init__(pad)
        self._spec = spec
        self._tables, self._features = tables_and_features(spec)
        self._engine = engine
        self._training = training
        self._host_devices = host_devices
        self._strategy = tf.distribute.get_strategy()
        self._enqueued: list[Any] = []
        tables = {key: feature.table_id for key, feature in self._features.items()}
        self._gradients = ActivationGradients(tables) if training else None
        # By replica: a strategy of the host switches between replicas within `model_fn`.
        self._received: dict[int, tuple[dict[str, Any], Any]] = {}

    @property
    def configuration(self) -> Any:
        """The proto that configures the embedding core."""
        return self._engine.configuration

    def prepare(self, features: Mapping[str, Any]) -> dict[str, Any]:
        """Converts features to the form that a TPU takes, in the input pipeline.

        Args:
            features: tensors by key; not modified.

        Returns:
            A new dict: under each feature's key its ids, an int32 SparseTensor, and under its
            weights' key a float32 one; the lengths of a sequence, int64 [B], under
            `<key>_seq_length_`.

        Raises:
            ValueError: a TPU can't look up a feature.
        """
        found = self._pad(features)
        rules = id_rules(self._spec)
        for key, feature in self._features.items():
            table = self._tables[feature.table_id]
            taken = enqueue.take(key, feature, table, found, rules[key])
            ids = taken.ids
            found[key] = ids.with_values(tf.cast(ids.values, tf.int32))
            if feature.weight_key is not None and taken.weights is not None:
                found[feature.weight_key] = taken.weights
            elif feature.weight_key is not None:
                found.pop(feature.weight_key, None)  # those of dense ids have no effect
            length = taken.max_sequence_length
            if length:
                lengths = tf.minimum(lookup.sequence_lengths(ids), length)
                lengths.set_shape([ids.shape[0]])
                found[categorical.sequence_length_key(key)] = lengths
        return found

    def feed(self, features: list[Any]) -> list[Any]:
        """Sends the ids of all replicas to the embedding core; returns the other features."""
        prepared = [self.prepare(part) for part in features]
        keys = list(self._features)
        ids = {key: self._distribute([part.pop(key) for part in prepared]) for key in keys}
        weights = {
            key: self._distribute([part.pop(feature.weight_key or "", None) for part in prepared])
            for key, feature in self._features.items()
        }
        weighted = any(value is not None for value in weights.values())
        self._enqueued = self._engine.enqueue(ids, weights if weighted else None, self._training)
        return prepared

    def receive(self, features: Any) -> dict[str, Any]:
        """Adds the activations to a replica's features."""
        # Before the model increments it.
        step = tf.identity(tf1.train.get_global_step(), name="step_of_embeddings")
        with tf.control_dependencies([step]):
            received = {key: tf.identity(a) for key, a in self._engine.dequeue().items()}
        replica = interface.replica_id()
        self._received[replica] = received, step
        if self._gradients is not None:
            received = self._gradients.connect(received, replica)
        return {**features, **received}

    def send(self) -> list[Any]:
        """Sends the gradients of the activations to the embedding core."""
        assert self._gradients is not None  # only called in training
        replica = interface.replica_id()
        received, step = self._received[replica]
        multiplier = self._spec.experimental_gradient_multiplier_fn
        factor = None if multiplier is None else tf.cast(multiplier(step), tf.float32)
        gradients = {}
        for key in sorted(received):
            gradient = self._gradients.captured(key, replica)
            if gradient is None:
                gradient = tf.zeros_like(received[key])
            gradients[key] = gradient if factor is None else gradient * factor
        return self._engine.apply_gradients(gradients, step)

    def finish(self) -> list[Any]:
        """Creates the variables of tables and slots; returns the ops that send the ids."""
        if self._gradients is not None:
            self._gradients.finish()
        names = table_variables.variable_names(self._spec, self._tables)
        with tf.init_scope():
            shards = {key: self._create_variables(key, name) for key, name in names.items()}
            self._load = LoadTables(self._engine.load(shards))
            self._retrieve = RetrieveTables(self._engine.retrieve(shards), self._load)
        return self._enqueued

    def hooks(self) -> list[tf1.train.SessionRunHook]:
        """Returns the hook that loads the tables after they are restored or initialized."""
        return [self._load]

    def listeners(self) -> list[interface.TablesListener]:
        """Returns the listener that retrieves the tables before a checkpoint is written."""
        return [self._retrieve]

    def _distribute(self, values: list[Any]) -> Any:
        """Returns one distributed value for a value per replica; None for a list of None."""
        return None if values[0] is None else interface.distribute_values(self._strategy, values)

    def _create_variables(self, key: str, name: str) -> dict[str, list[Any]]:
        """Creates a table and its slots on the hosts, under the names of a legacy checkpoint."""
        table = self._tables[key]
        hosts = len(self._host_devices)
        # The mid-level API has no other strategy, so the spec's is ignored.
        storage.record_layout(name, RowPartition("div", table.vocabulary_size, hosts))
        shape = (table.vocabulary_size, table.dimension)
        found = {TABLE: self._create_shards(name, shape, table.initializer, saved=True)}
        parameters = table_optimizer(self._spec, table)
        if parameters is None:
            return found
        values = optimizers.slot_initial_values(parameters)
        names = optimizers.slot_names(parameters, name)
        for slot, theirs in self._engine.slot_names(key).items():
            initial = tf1.constant_initializer(values[slot])
            # A core requires slots in evaluation as well, where a checkpoint may lack them.
            found[theirs] = self._create_shards(names[slot], shape, initial, saved=self._training)
        return found

    def _create_shards(self, name: str, shape: Any, initializer: Any, saved: bool) -> list[Any]:
        """Creates the shards of a variable; local variables if they aren't saved."""
        hosts = self._host_devices
        collection = tf1.GraphKeys.GLOBAL_VARIABLES if saved else tf1.GraphKeys.LOCAL_VARIABLES

        def place(op: Any) -> str:
            part = shard_name(op.name)
            return hosts[part.shard if part else 0]

        with tf1.device(place):
            variable = table_variables.create_variable(
                name,
                shape,
                initializer,
                reuse=False,
                collections=[collection],
                layout=RowPartition("div", shape[0], len(hosts)) if len(hosts) > 1 else None,
            )
        return list(variable) if len(hosts) > 1 else [variable]


class LoadTables(tf1.train.SessionRunHook):
    """Hook that loads tables and slots from the hosts to the core.

    It must precede the hook that saves checkpoints, which may save before the first step.

    Args:
        op: the op that loads them.
    """

    def __init__(self, op: Any) -> None:
        self._op = op
        self.may_have_changed = False

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Loads the tables; variables have been restored or initialized."""
        session.run(self._op)
        self.may_have_changed = False

    def before_run(self, run_context: Any) -> None:
        """Notes that the core's tables may be newer than those of the hosts."""
        self.may_have_changed = True


class RetrieveTables(interface.TablesListener):
    """Listener that retrieves tables and slots before a checkpoint is written.

    Args:
        op: the op that retrieves them.
        loaded: the hook that loads them.
    """

    def __init__(self, op: Any, loaded: LoadTables) -> None:
        self._op = op
        self._loaded = loaded

    def before_save(self, session: Any, global_step_value: int) -> None:
        """Retrieves the tables if a step ran since they were loaded."""
        if self._loaded.may_have_changed:
            session.run(self._op)
