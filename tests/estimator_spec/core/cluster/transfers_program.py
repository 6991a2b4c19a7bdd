# SPDX-License-Identifier: Apache-2.0
"""Trains a column in a cluster; prints the sizes of the tensors that a step sends to each server.

    python transfers_program.py sparse|dense|weighted

All servers of the cluster are in this process. The batch has the ids 7 (most), 60 and 8 of a table
with a shard on each of two servers. Traces may lack tensors, so the longest of many steps counts.
"""

from __future__ import annotations

import json
import os
import re
import sys

import numpy as np
import tensorflow as tf
from estimator_spec.run_config import RunConfig

import tpu_columns
from estimator_spec.core.cluster import devices, local_cluster
from tpu_columns import placement

tf1 = tf.compat.v1

ROWS, WIDTH, STEPS = 100, 4, 30
IDS = np.array([[7, 7], [7, 60], [8, 7], [60, 60]] * 25)


def start_servers():
    """Starts a chief and two parameter servers as TF_CONFIG's cluster; returns the chief."""
    environments = local_cluster.make_environments(local_cluster.Size(0, 2, evaluator=False))
    chief, *servers = [environment["TF_CONFIG"] for environment in environments.values()]
    os.environ["TF_CONFIG"] = chief
    started = []
    for config in map(json.loads, (chief, *servers)):
        task = config["task"]
        started.append(tf.distribute.Server(config["cluster"], task["type"], task["index"]))
    return started[0]


def embed(kind):
    """Returns the embeddings of the batch by a column of a kind."""
    category = tf.feature_column.categorical_column_with_identity("f", ROWS)
    ids = tf1.placeholder_with_default(IDS, IDS.shape)
    features = {"f": ids if kind == "dense" else tf.sparse.from_dense(ids)}
    if kind == "weighted":
        category = tf.feature_column.weighted_categorical_column(category, "w")
        features["w"] = features["f"].with_values(tf.ones([IDS.size]))
    column = tpu_columns.embedding_column(category, WIDTH, combiner="sum")
    return tf1.feature_column.input_layer(features, [column])


def received(step_stats):
    """Returns the sizes of the tensors that each parameter server received, without empty ones."""
    sizes = {}
    for device in step_stats.dev_stats:
        server = re.search(r"/job:ps/replica:0/task:(\d+)", device.device)
        labels = [node.timeline_label for node in device.node_stats]
        found = [re.match(r"\[(\w+)\]", label) for label in labels]
        if server and any(found):
            # Control dependencies are tensors of no bytes.
            sizes[server[1]] = sorted(match[1] for match in found if match and match[1] != "0B")
    return sizes


def main(kind):
    """Trains and prints the sizes."""
    chief = start_servers()
    with (
        tf.Graph().as_default() as graph,
        graph.device(devices.device_function(RunConfig())),
        placement.running(placement.Mode.TRAIN, placement.Hardware.CPU),
    ):
        with tf1.variable_scope("", partitioner=tf1.fixed_size_partitioner(2)):
            loss = tf.reduce_sum(embed(kind))
        train_op = tf1.train.AdagradOptimizer(0.1).minimize(loss)
        init = tf1.global_variables_initializer()
        with tf1.Session(chief.target) as session:
            session.run(init)
            longest = {}
            for _ in range(STEPS):
                stats = tf1.RunMetadata()
                options = tf1.RunOptions(trace_level=tf1.RunOptions.FULL_TRACE)
                session.run(train_op, options=options, run_metadata=stats)
                for server, sizes in received(stats.step_stats).items():
                    longest[server] = max(longest.get(server, []), sizes, key=len)
    print(json.dumps(longest), flush=True)
    os._exit(0)  # servers can't be stopped


if __name__ == "__main__":
    main(sys.argv[1])
