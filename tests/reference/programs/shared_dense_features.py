# SPDX-License-Identifier: Apache-2.0
"""Looks up shared and plain columns through Keras `DenseFeatures`; `tf.compat.v1.layers`, Adam.

The input function gives tensors, not a dataset; two layers make two scopes.
"""

from __future__ import annotations

import numpy as np
import side
import tensorflow as tf
from programs import common

tf1 = tf.compat.v1


def rows(random, count):
    """Returns the features of `count` rows."""
    places = np.array(common.PLACES + ("",))
    return {
        "home": places[random.randint(0, 9, (count, 1))],
        "work": common.sparse(random, count, 3, lambda r: common.PLACES[r.randint(0, 8)]),
        "first": random.randint(0, 15, (count, 1)).astype(np.int64),
        "second": common.sparse(random, count, 4, lambda r: r.randint(0, 15)),
        "third": random.randint(-1, 6, (count, 2)).astype(np.int64),
        "age": random.normal(size=(count, 2)).astype(np.float32),
    }


_train_dataset_fn, test_input_fn = common.input_fns(rows, seed=300)


def train_input_fn(params):
    """Returns tensors instead of a dataset, as the first TPU programs did."""
    return tf1.data.make_one_shot_iterator(_train_dataset_fn(params)).get_next()


def columns(vocabulary_file):
    """Returns columns with two shared tables, one with a name of its own, and a plain column."""
    fc = tf.feature_column
    shared = side.tpu_columns.shared_embedding_columns
    towns = [
        fc.categorical_column_with_vocabulary_file(key, vocabulary_file) for key in ("work", "home")
    ]
    numbers = [fc.categorical_column_with_identity(key, 15) for key in ("first", "second")]
    third = fc.categorical_column_with_identity("third", 6)
    return (
        shared(towns, 4, combiner="sqrtn", initializer=common.normal(31))
        + shared(
            numbers,
            3,
            initializer=common.normal(32),
            shared_embedding_collection_name="numbers",
        )
        + [side.tpu_columns.embedding_column(third, 4, initializer=common.normal(33))]
    )


def make_estimator(model_dir):
    """Returns the estimator."""
    tpu_columns = columns(common.write_vocabulary(model_dir, common.PLACES))

    def model_fn(features, labels, mode, params):
        del params
        age = tf.feature_column.numeric_column("age", shape=(2,))
        left = tf.keras.layers.DenseFeatures(tpu_columns + [age])(features)
        right = tf.keras.layers.DenseFeatures([age])(features)
        hidden = tf1.layers.dense(
            tf.concat([left, right], axis=1),
            6,
            tf.nn.relu,
            kernel_initializer=common.normal(34),
            name="hidden",
        )
        logits = common.head(hidden, seed=35)

        def train_op_fn(loss):
            step = tf1.train.get_global_step()
            return tf1.train.AdamOptimizer(0.01).minimize(loss, global_step=step)

        return common.spec(mode, logits, labels, train_op_fn)

    return common.make_estimator(model_fn, model_dir, tpu_columns)
