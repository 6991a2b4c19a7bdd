# SPDX-License-Identifier: Apache-2.0
"""Writes the checkpoint of a TPU run of the old system on 3 hosts: OUT STRATEGY...

The tables and slots of an embedding core, named as on a TPU, one shard a host, the rows on them by
STRATEGY; dense layers with TF1's own slots; saved by this TensorFlow's own Saver in OUT/STRATEGY/.
OUT/STRATEGY.npz has the tables and slots in row order.

TensorFlow 1.15.5 wrote `tests/data/tf1_15_tpu_checkpoint/div/` and `mod/` so (see
`tests/data/make_tf1_checkpoint.py` for its environment); there `expected.npz` is in the directory.
"""

from __future__ import annotations

import os
import sys

import numpy as np
import tensorflow as tf

tf1 = tf.compat.v1

HOSTS, ROWS, WIDTH, STEP = 3, 11, 4, 25
TABLE = "input_layer/word_embedding/embedding_weights"


def write(model_dir, strategy):
    """Creates and saves the variables."""
    os.makedirs(model_dir)
    generator = np.random.default_rng(0)
    values = {
        TABLE: generator.normal(size=(ROWS, WIDTH)),
        TABLE + "/Adam/m": generator.normal(size=(ROWS, WIDTH)),
        TABLE + "/Adam/v": generator.random((ROWS, WIDTH)),
    }
    order = np.arange(ROWS)
    if strategy == "mod":
        order = np.concatenate([order[host::HOSTS] for host in range(HOSTS)])
    with tf.Graph().as_default(), tf1.Session() as session:
        for name, value in values.items():
            shards = tf1.get_variable(
                name, [ROWS, WIDTH], partitioner=tf1.fixed_size_partitioner(HOSTS), trainable=False
            )
            start = 0
            for shard in shards:
                rows = order[start : start + shard.shape[0]]
                shard.load(value[rows].astype(np.float32), session)
                start += len(rows)
        kernel = tf1.get_variable("head/kernel", [WIDTH, 1])
        step = tf1.train.get_or_create_global_step()
        train_op = tf1.train.AdamOptimizer(0.1).minimize(tf.reduce_sum(kernel**2), step)
        others = [v for v in tf1.global_variables() if not v.op.name.startswith(TABLE)]
        session.run([variable.initializer for variable in others])
        for _ in range(STEP):
            session.run(train_op)
        saver = tf1.train.Saver(sharded=True)
        saver.save(session, os.path.join(model_dir, "model.ckpt"), step, write_meta_graph=False)
    np.savez(model_dir + ".npz", version=tf.__version__, **values)


if __name__ == "__main__":
    out, *strategies = sys.argv[1:]
    for each in strategies:
        write(os.path.join(out, each), each)
