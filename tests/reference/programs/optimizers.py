# SPDX-License-Identifier: Apache-2.0
"""Trains one table with each optimizer of TensorFlow 1, with a scaffold and hooks.

It says `disable_v2_behavior()` as most old programs do: no eager mode, and reference variables.
Some tables are cut in two by a partitioner.
"""

from __future__ import annotations

import side
import tensorflow as tf
from programs import common

tf1 = tf.compat.v1
tf1.disable_v2_behavior()


def optimizers():
    """Returns optimizers by the key of the column they train; `rest` trains other variables."""
    return {
        "adagrad": tf1.train.AdagradOptimizer(0.1, initial_accumulator_value=0.2),
        "adam": tf1.train.AdamOptimizer(0.01),
        "ftrl": tf1.train.FtrlOptimizer(
            0.1, l1_regularization_strength=0.001, l2_regularization_strength=0.01
        ),
        "momentum": tf1.train.MomentumOptimizer(0.05, 0.9),
        "proximal": tf1.train.ProximalAdagradOptimizer(0.1, l2_regularization_strength=0.01),
        "rmsprop": tf1.train.RMSPropOptimizer(0.01, momentum=0.5),
        "sgd": tf1.train.GradientDescentOptimizer(0.1),
        "rest": tf1.train.AdagradOptimizer(0.1),
    }


KEYS = ("adagrad", "adam", "ftrl", "momentum", "proximal", "rmsprop", "sgd")
CUT = 3  # the first two have partitioned tables


def rows(random, count):
    """Returns the features of `count` rows."""
    return {key: common.sparse(random, count, 4, lambda r: r.randint(0, 13)) for key in KEYS}


train_input_fn, test_input_fn = common.input_fns(rows, seed=700)


def train_op(loss):
    """Applies each table's gradient by its own optimizer.

    All gradients come first: a reference variable may change under a reader.
    """
    variables = tf1.trainable_variables()
    gradients = tf1.gradients(loss, variables)
    groups = {key: [] for key in optimizers()}
    for gradient, variable in zip(gradients, variables, strict=True):
        keys = [key for key in KEYS if f"/{key}_embedding/" in variable.op.name]
        groups[keys[0] if keys else "rest"].append((gradient, variable))
    values = [g.values if isinstance(g, tf.IndexedSlices) else g for g in gradients]
    with tf1.control_dependencies(values):
        steps = [
            optimizer.apply_gradients(groups[key], name=key + "_step")
            for key, optimizer in optimizers().items()
        ]
    with tf1.control_dependencies(steps):
        return tf1.assign_add(tf1.train.get_global_step(), 1).op


class ReadHook(tf1.train.SessionRunHook):
    """Training hook of the program that reads the graph and the session."""

    def begin(self):
        """Finds the global step."""
        self._step = tf1.train.get_global_step()

    def before_run(self, run_context):
        """Requests the global step."""
        del run_context
        return tf1.train.SessionRunArgs(self._step)


def make_estimator(model_dir):
    """Returns the estimator."""
    identity = tf.feature_column.categorical_column_with_identity
    tpu_columns = [
        side.tpu_columns.embedding_column(
            identity(key, 13), 4, initializer=common.normal(71 + i), combiner="sum"
        )
        for i, key in enumerate(KEYS)
    ]

    def scaffold_fn():
        return tf1.train.Scaffold(saver=tf1.train.Saver(max_to_keep=None, sharded=True))

    def model_fn(features, labels, mode, params):
        del params
        partitioner = tf1.min_max_variable_partitioner(max_partitions=2, min_slice_size=120)
        with tf1.variable_scope("cut", partitioner=partitioner):
            cut = tf1.feature_column.input_layer(features, tpu_columns[:CUT])
        whole = tf1.feature_column.input_layer(features, tpu_columns[CUT:])
        hidden = tf.concat([cut, whole], axis=1)
        logits = common.head(hidden, seed=80)
        return common.spec(
            mode,
            logits,
            labels,
            train_op,
            scaffold_fn=scaffold_fn,
            training_hooks=[ReadHook()],
        )

    return common.make_estimator(model_fn, model_dir, tpu_columns)
