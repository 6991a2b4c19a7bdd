# SPDX-License-Identifier: Apache-2.0
"""Programs of the mid-level API in a MirroredStrategy of logical CPUs.

python mid_level_replicas.py REPLICAS EXAMPLES SEED
"""

from __future__ import annotations

import sys

import pytest
import tensorflow as tf
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as seeded
from hypothesis import strategies as st

from estimator_spec.mid_level import TPUEmbedding
from mid_level_cases import API, HAS_V2, Program, cases


def check_calls(strategy):
    """Asserts what the calls of a step do with replicas, in each way to give them batches."""
    count = strategy.num_replicas_in_sync

    def make():
        table = API.TableConfig(9, 2, tf.zeros_initializer(), combiner="sum", name="t")
        with strategy.scope():
            return TPUEmbedding({"x": API.FeatureConfig(table)}, API.SGD(1.0)), table

    def update(embedding):
        found = embedding.dequeue()["x"]
        embedding.apply_gradients({"x": tf.ones_like(found)})

    whole = tf.sparse.from_dense(tf.constant([[1, 2], [3, 0], [1, 1], [4, 0]], tf.int64))
    dataset = tf.data.Dataset.from_tensors(whole).unbatch().batch(4, drop_remainder=True).repeat()
    batches = iter(strategy.experimental_distribute_dataset(dataset))
    expected = [0, -3, -1, -1, -1, 0, 0, 0, 0]

    embedding, table = make()
    embedding.enqueue({"x": next(batches)})
    strategy.run(update, (embedding,))
    assert embedding.embedding_tables[table].numpy()[:, 0].tolist() == expected

    within, table = make()

    def in_replica(ids):
        within.enqueue({"x": ids})
        update(within)

    tf.function(lambda ids: strategy.run(in_replica, (ids,)))(next(batches))
    assert within.embedding_tables[table].numpy()[:, 0].tolist() == expected

    by_device, table = make()
    for number, device in enumerate(strategy.extended.worker_devices):
        by_device.enqueue({"x": tf.constant([number])}, device=device)
    strategy.run(update, (by_device,))
    rows = by_device.embedding_tables[table].numpy()[:, 0]
    assert rows.tolist() == [-float(row < count) for row in range(9)]

    with pytest.raises(RuntimeError, match="Call them in a function that strategy.run runs"):
        by_device.dequeue()
    alone = TPUEmbedding(API.FeatureConfig(table), API.SGD(1.0))
    with pytest.raises(RuntimeError, match="created under no strategy"):
        strategy.run(lambda: alone.enqueue(tf.constant([1])))


def main(replicas, examples, seed):
    """Trains random programs in a MirroredStrategy."""
    (cpu,) = tf.config.list_physical_devices("CPU")
    tf.config.set_logical_device_configuration(
        cpu, [tf.config.LogicalDeviceConfiguration()] * replicas
    )
    strategy = tf.distribute.MirroredStrategy([f"/cpu:{number}" for number in range(replicas)])
    check_calls(strategy)
    kinds = st.booleans() if HAS_V2 else st.just(False)

    @seeded(seed)
    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(kinds.flatmap(cases))
    def train(case):
        with strategy.scope():
            program = Program(case, strategy)
        program.train(2)

    train()
    print("trained", examples)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
