# SPDX-License-Identifier: Apache-2.0
"""Clusters points by `KMeans` on one side, and records comparable results.

    SIDE=reference python run_kmeans.py OUT full_batch mini_batch
    SIDE=ours python run_kmeans.py OUT full_batch mini_batch --donor OTHER_OUT
    SIDE=reference python run_kmeans.py OUT full_batch --donor OTHER_OUT --continue-only

Each case trains at most 20 steps, then evaluates, predicts and exports; its record is
OUT/<case>.npz. With a donor it does so again from the donor's last checkpoint on, to step 30:
OUT/<case>-continued.npz.

In TensorFlow's mini-batches reads and writes of one step have no order; `ordered_mini_batches`
gives them that of its documentation.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil

import numpy as np
import run_side
import tensorflow as tf
from side import SIDE, ServingInputReceiver, estimator

tf1 = tf.compat.v1
KMeans = estimator.experimental.KMeans
STEPS, MORE = 20, 30
POINTS, BATCH = 60, 12


def points():
    """Returns points around five centers: coordinates by name."""
    rng = np.random.RandomState(5)
    centers = rng.uniform(-4, 4, size=(5, 3))
    found = (centers[np.arange(POINTS) % 5] + rng.normal(size=(POINTS, 3))).astype(np.float32)
    return {name: found[:, n : n + 1] for n, name in enumerate("xyz")}


def first_two(inputs, missing):
    """Returns two points of a batch, or one if one center is missing."""
    return inputs[0][: tf.minimum(missing, 2)]


FIRST = np.float32([[1, 0, 0], [0, 1, 0], [0, 0, 1], [-1, -1, -1]])
COLUMNS = [tf.feature_column.numeric_column(name) for name in "zx"]
# By name: arguments, and points of a batch. A tensor instead of a dict without columns.
CASES = {
    "full_batch": ({"num_clusters": 5, "use_mini_batch": False}, POINTS),
    "full_batch_cosine": (
        {
            "num_clusters": 4,
            "initial_clusters": "kmeans_plus_plus",
            "distance_metric": "cosine",
            "use_mini_batch": False,
            "relative_tolerance": 1e-3,
            "seed": 3,
        },
        POINTS,
    ),
    "mini_batch": ({"num_clusters": 20, "seed": 8}, BATCH),
    "mini_batch_cosine": ({"num_clusters": 5, "distance_metric": "cosine"}, BATCH),
    "several_steps": (
        {
            "num_clusters": 4,
            "initial_clusters": FIRST,
            "mini_batch_steps_per_iteration": 5,
            "distance_metric": "cosine",
        },
        BATCH,
    ),
    "columns": (
        {
            "num_clusters": 5,
            "initial_clusters": first_two,
            "feature_columns": COLUMNS,
            "mini_batch_steps_per_iteration": 3,
        },
        BATCH,
    ),
}


def input_fn_of(batch, repeat):
    """Returns an input_fn over batches."""

    def input_fn():
        made = tf.data.Dataset.from_tensor_slices(points())
        return (made.repeat() if repeat else made).batch(batch)

    return input_fn


@contextlib.contextmanager
def ordered_mini_batches():
    """Orders what TensorFlow's mini-batch graph leaves to chance, in training graphs of the block.

    Counts are read before a batch is added, and centers after they were replaced by the moved ones.
    """
    from tensorflow.python.ops import clustering_ops

    kind = clustering_ops.KMeans
    move, synchronize = kind._mini_batch_training_op, kind._mini_batch_sync_updates_op

    def new_ops(build, *arguments):
        graph = tf1.get_default_graph()
        before = set(graph.get_operations())
        found = build(*arguments)
        return found, [op for op in graph.get_operations() if op not in before]

    def ordered_move(*arguments):
        found, ops = new_ops(move, *arguments)
        reads = [op for op in ops if op.type == "ResourceGather"]
        for op in ops:
            if op.type == "ResourceScatterAdd":
                op._add_control_inputs(reads)
        return found

    def ordered_synchronize(self, *arguments):
        neighbors = [
            op for op in tf1.get_default_graph().get_operations() if op.type == "NearestNeighbors"
        ]
        found, _ = new_ops(synchronize, self, *arguments)
        for op in neighbors:
            read = op.inputs[1].op
            while read.type != "ReadVariableOp":
                read = read.inputs[0].op
            read._add_control_inputs([getattr(found, "op", found)])
        return found

    kind._mini_batch_training_op = ordered_move
    kind._mini_batch_sync_updates_op = ordered_synchronize
    try:
        yield
    finally:
        kind._mini_batch_training_op = move
        kind._mini_batch_sync_updates_op = synchronize


class Losses(tf1.train.SessionRunHook):
    """Hook that records the loss of each step."""

    def __init__(self):
        self.values = []

    def begin(self):
        self._loss = tf1.get_collection(tf1.GraphKeys.LOSSES)[-1]

    def before_run(self, run_context):
        return tf1.train.SessionRunArgs(self._loss)

    def after_run(self, run_context, run_values):
        self.values.append(run_values.results)


def receiver_fn():
    """Returns a receiver of raw features."""
    features = {name: tf1.placeholder(tf.float32, [None, 1], name) for name in "xyz"}
    return ServingInputReceiver(features, features)


def run_case(name, model_dir, steps):
    """Returns the record of a case."""
    arguments, batch = CASES[name]
    config = estimator.RunConfig(tf_random_seed=4, model_dir=model_dir)
    kmeans = KMeans(config=config, **arguments)
    hook = Losses()
    with ordered_mini_batches() if SIDE == "reference" else contextlib.nullcontext():
        kmeans.train(input_fn_of(batch, True), hooks=[hook], max_steps=steps)
    test = input_fn_of(25, False)
    everything = input_fn_of(POINTS, False)
    record = {
        "losses": np.array(hook.values),
        "names": np.array(kmeans.get_variable_names()),
        "score": kmeans.score(everything),
        "centers": kmeans.cluster_centers(),
        "clusters": np.array(list(kmeans.predict_cluster_index(test))),
        "distances": np.array(list(kmeans.transform(test))),
    }
    export = kmeans.export_saved_model(os.path.join(model_dir, "export"), receiver_fn)
    groups = {
        "metrics": kmeans.evaluate(test),
        "predictions": run_side.stacked(kmeans.predict(test)),
        "variables": run_side.variables(kmeans.latest_checkpoint()),
        "served": run_side.served(tf.compat.as_str_any(export), points()),
    }
    for group, values in groups.items():
        record.update({f"{group}:{key}": np.asarray(value) for key, value in values.items()})
    return record


def main():
    """Runs all cases."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out")
    parser.add_argument("cases", nargs="+")
    parser.add_argument("--donor")
    parser.add_argument("--continue-only", action="store_true")
    args = parser.parse_args()
    tf1.logging.set_verbosity("ERROR")
    for name in args.cases:
        endings = [] if args.continue_only else [""]
        endings += ["-continued"] if args.donor else []
        for ending in endings:
            model_dir = os.path.join(args.out, name + ending)
            if ending:
                shutil.copytree(os.path.join(args.donor, name), model_dir)
            record = run_case(name, model_dir, MORE if ending else STEPS)
            np.savez(model_dir + ".npz", **record)


if __name__ == "__main__":
    main()
