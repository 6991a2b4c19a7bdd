# SPDX-License-Identifier: Apache-2.0
"""Looks up every kind of categorical column and combiner through `input_layer`.

Dense and sparse ids, missing values (-1 and ''), unknown words, empty rows, weights of zero and
below.
"""

from __future__ import annotations

import os

import numpy as np
import side
import tensorflow as tf
from programs import common

tf1 = tf.compat.v1


def rows(random, count):
    """Returns the features of `count` rows."""
    words = common.WORDS + ("", "gnu")  # a missing and an unknown word
    tags = common.sparse(random, count, 4, lambda r: r.randint(0, 9))
    weights = random.uniform(-0.5, 2.0, len(tags.values)).round(1).astype(np.float32)
    return {
        "colour": random.randint(-1, 10, (count, 3)).astype(np.int64),
        "size": common.sparse(random, count, 5, lambda r: r.randint(0, 7)),
        "word": np.array(words)[random.randint(0, len(words), (count, 2))],
        "place": common.sparse(
            random, count, 3, lambda r: (common.PLACES + ("Izmir",))[r.randint(0, 9)]
        ),
        "tag": tags,
        "tag_weight": tf1.SparseTensorValue(tags.indices, weights, tags.dense_shape),
        "item": random.randint(0, 12, (count, 2)).astype(np.int64),
        "item_weight": random.uniform(0.1, 1.0, (count, 2)).astype(np.float32),
        "full": common.sparse(random, count, 3, lambda r: r.randint(0, 5), shortest=1),
        "height": random.normal(size=(count, 1)).astype(np.float32),
    }


train_input_fn, test_input_fn = common.input_fns(rows, seed=1)


def columns(vocabulary_file):
    """Returns the TPU embedding columns."""
    fc = tf.feature_column
    embedding = side.tpu_columns.embedding_column
    identity = fc.categorical_column_with_identity
    place = fc.categorical_column_with_vocabulary_file("place", vocabulary_file, num_oov_buckets=2)
    word = fc.categorical_column_with_vocabulary_list("word", common.WORDS)
    tag = fc.weighted_categorical_column(identity("tag", 9), "tag_weight")
    item = fc.weighted_categorical_column(identity("item", 12), "item_weight")
    return [
        embedding(identity("colour", 10), 4, combiner="mean", initializer=common.normal(1)),
        embedding(identity("size", 7), 3, combiner="sum", initializer=common.normal(2)),
        embedding(word, 5, combiner="sqrtn", initializer=common.normal(3)),
        embedding(place, 4, combiner=None, initializer=common.normal(4)),
        embedding(tag, 2, combiner="sum", initializer=common.normal(5)),
        embedding(item, 4, combiner="mean", initializer=common.normal(6)),
        embedding(
            identity("full", 5),
            4,
            initializer=common.normal(7),
            use_safe_embedding_lookup=False,
        ),
    ]


def host_call_fn(global_step, loss):
    """Writes summaries on the host; both arguments are `[1]`."""
    writer = tf.summary.create_file_writer(os.environ["HOST_CALL_DIR"])
    with writer.as_default(), tf.summary.record_if(True):
        # Not tf.summary.scalar: it needs TensorBoard, which TensorFlow 2.21 doesn't install.
        scalar = tf1.summary.scalar("host_loss", loss[0], collections=[])
        tf.summary.experimental.write_raw_pb(scalar, global_step[0])
    return tf1.summary.all_v2_summary_ops()


def make_estimator(model_dir):
    """Returns the estimator."""
    os.environ["HOST_CALL_DIR"] = os.path.join(model_dir, "host_call")
    tpu_columns = columns(common.write_vocabulary(model_dir, common.PLACES))

    def model_fn(features, labels, mode, params):
        del params
        height = tf.feature_column.numeric_column("height")
        hidden = tf1.feature_column.input_layer(features, tpu_columns + [height])
        logits = common.head(hidden, seed=21)
        step = tf1.train.get_or_create_global_step()

        def train_op_fn(loss):
            return tf1.train.AdagradOptimizer(0.1).minimize(loss, global_step=step)

        extra = {}
        if mode == side.estimator.ModeKeys.TRAIN:
            # The loss under another name: `recorded_loss` belongs to the spec.
            loss = tf.reduce_mean(tf.square(tf.sigmoid(logits) - labels))
            scalars = [tf.reshape(step, [1]), tf.reshape(loss, [1])]
            extra["host_call"] = (host_call_fn, scalars)
        return common.spec(mode, logits, labels, train_op_fn, **extra)

    return common.make_estimator(model_fn, model_dir, tpu_columns)


def serving_input_receiver_fn():
    """Returns the receiver of dense raw features; -1 and '' are padding."""
    dense = {
        "colour": tf.int64,
        "size": tf.int64,
        "word": tf.string,
        "place": tf.string,
        "tag": tf.int64,
        "tag_weight": tf.float32,
        "item": tf.int64,
        "item_weight": tf.float32,
        "full": tf.int64,
        "height": tf.float32,
    }
    receivers = {
        key: tf1.placeholder(dtype, [None, 1 if key == "height" else None], key)
        for key, dtype in dense.items()
    }
    return side.ServingInputReceiver(dict(receivers), receivers)


def serving_request():
    """Returns a client's request: NumPy arrays by key."""
    return {
        "colour": np.array([[1, -1], [2, 3]], np.int64),
        "size": np.array([[-1], [6]], np.int64),
        "word": np.array([["ant", ""], ["gnu", "fox"]]),
        "place": np.array([["Izmir"], ["Cairo"]]),
        "tag": np.array([[3, 4], [5, 8]], np.int64),
        "tag_weight": np.array([[0.5, 1.5], [2.0, -1.0]], np.float32),
        "item": np.array([[3], [11]], np.int64),
        "item_weight": np.array([[0.5], [1.5]], np.float32),
        "full": np.array([[0], [4]], np.int64),
        "height": np.array([[0.3], [-1.0]], np.float32),
    }
