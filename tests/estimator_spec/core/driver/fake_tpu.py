# SPDX-License-Identifier: Apache-2.0
"""Fakes a TPU: replicas on the host, and an embedding core made of a few ops.

As on a TPU, the core holds its tables apart from the variables: tables that aren't loaded aren't
trained, and tables that aren't retrieved aren't saved.
"""

from __future__ import annotations

import contextlib

import tensorflow as tf

from estimator_spec.core.driver import systems
from estimator_spec.core.embedding.spec import tables_and_features

tf1 = tf.compat.v1


class FakeSystem(systems.HostSystem):
    """Replicas on the host that claim to be a TPU's."""

    is_tpu = True

    def __init__(self, replicas, hosts=1):
        super().__init__(replicas)
        self.num_hosts = hosts
        self.started = []

    def host_device(self, host):
        return "/device:CPU:0"

    @contextlib.contextmanager
    def running(self, embedding_config):
        self.started.append(embedding_config)
        yield


class FakeEngine:
    """An `Engine` that trains tables outside of the variables with Adagrad."""

    configuration = "tables of the fake"

    def __init__(self, spec, batch_size):
        self.tables, self.features = tables_and_features(spec)
        self.spec = spec
        self.batch_size = batch_size
        self.reads = {}
        self.strategy = tf.distribute.get_strategy()
        with tf.init_scope():
            self.memory = {
                (key, slot): tf.raw_ops.VarHandleOp(
                    dtype=tf.float32,
                    shape=[table.vocabulary_size, table.dimension],
                    shared_name=f"memory_of_{key}_{slot}",
                )
                for key, table in self.tables.items()
                for slot in ("parameters", "accumulators")
            }

    def _read(self, key, slot="parameters"):
        return tf.raw_ops.ReadVariableOp(resource=self.memory[key, slot], dtype=tf.float32)

    def enqueue(self, ids, weights, training):
        results = self.strategy.experimental_local_results
        self.ids = {key: results(value) for key, value in ids.items()}
        self.weights = {
            key: results(value) for key, value in (weights or {}).items() if value is not None
        }
        self.training = training
        return []

    def dequeue(self):
        replica = replica_number()
        read = {key: self._read(key) for key in self.tables}
        found = {key: self._activation(key, replica, read) for key in self.features}
        self.reads[replica] = read, found
        return found

    def _activation(self, key, replica, read):
        feature = self.features[key]
        table = self.tables[feature.table_id]
        ids = self.ids[key][replica]
        assert ids.shape[0] == self.batch_size
        weights = tf.ones_like(ids.values, tf.float32)
        if key in self.weights:
            weights = self.weights[key][replica].values
        rows = tf.gather(read[feature.table_id], ids.values) * weights[:, tf.newaxis]
        row, place = ids.indices[:, 0], ids.indices[:, 1]
        length = feature.max_sequence_length
        if length:
            kept = tf.where(place < length)[:, 0]
            places = tf.gather(row * length + place, kept)
            flat = tf.math.unsorted_segment_sum(
                tf.gather(rows, kept), places, self.batch_size * length
            )
            return tf.reshape(flat, [self.batch_size, length, table.dimension])
        total = tf.math.unsorted_segment_sum(rows, row, self.batch_size)
        norm = tf.math.unsorted_segment_sum(
            weights**2 if table.combiner == "sqrtn" else weights, row, self.batch_size
        )[:, tf.newaxis]
        if table.combiner == "mean":
            return tf.math.divide_no_nan(total, norm)
        return tf.math.divide_no_nan(total, tf.sqrt(norm)) if table.combiner == "sqrtn" else total

    def apply_gradients(self, gradients, step):
        read, activations = self.reads[replica_number()]
        keys = sorted(self.tables)
        dense = tf1.gradients(
            [activations[key] for key in sorted(gradients)],
            [read[key] for key in keys],
            [gradients[key] for key in sorted(gradients)],
        )
        dense = [tf.convert_to_tensor(gradient) for gradient in dense]
        context = tf.distribute.get_replica_context()
        return [context.merge_call(self._update, args=(keys, *dense))]

    def _update(self, strategy, keys, *gradients):
        writes = []
        for key, gradient in zip(keys, gradients, strict=True):
            total = tf.add_n(strategy.experimental_local_results(gradient))
            accumulator = self._read(key, "accumulators") + total**2
            rate = self.spec.optimization_parameters.learning_rate
            rows = self._read(key) - rate * total / tf.sqrt(accumulator)
            for slot, value in (("parameters", rows), ("accumulators", accumulator)):
                writes.append(
                    tf.raw_ops.AssignVariableOp(resource=self.memory[key, slot], value=value)
                )
        return tf.group(*writes)

    def slot_names(self, table):
        return {"accumulator": "accumulators"}

    def load(self, shards):
        return tf.group(
            *[
                tf.raw_ops.AssignVariableOp(resource=handle, value=tf.concat(shards[key][slot], 0))
                for (key, slot), handle in self.memory.items()
            ]
        )

    def retrieve(self, shards):
        return tf.group(
            *[
                variable.assign(part).op
                for key, slot in self.memory
                for variable, part in zip(
                    shards[key][slot],
                    tf.split(self._read(key, slot), [v.shape[0] for v in shards[key][slot]]),
                    strict=True,
                )
            ]
        )


def replica_number():
    """Returns the index of the current replica."""
    number = tf.distribute.get_replica_context().replica_id_in_sync_group
    return int(number if isinstance(number, int) else tf.get_static_value(number))
