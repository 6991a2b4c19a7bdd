# SPDX-License-Identifier: Apache-2.0
"""Program of the TensorFlow 1.15.5 fixture: started there, continued in ours.

`tests/data/make_tf1_checkpoint.py` runs it in TensorFlow 1.15.5 and keeps the checkpoint of step
40 and what TensorFlow 1.15.5 did next. Runs on Python 3.7 too.
"""

from __future__ import annotations

import numpy as np
import side
import tensorflow as tf
from programs import common

tf1 = tf.compat.v1

FIRST_STEPS = 40  # two epochs of 20 batches: a new run sees the batches of an uninterrupted one
LAST_STEP = 100


def rows(random, count):
    """Returns the features of `count` rows."""
    words = np.array(common.WORDS + ("", "gnu"))
    tags = common.sparse(random, count, 4, lambda r: r.randint(0, 9))
    weights = random.uniform(0.1, 2.0, len(tags.values)).round(1).astype(np.float32)
    return {
        "colour": random.randint(-1, 10, (count, 3)).astype(np.int64),
        "word": words[random.randint(0, len(words), (count, 2))],
        "tag": tags,
        "tag_weight": tf1.SparseTensorValue(tags.indices, weights, tags.dense_shape),
        "left": common.sparse(random, count, 3, lambda r: r.randint(0, 7)),
        "right": common.sparse(random, count, 3, lambda r: r.randint(0, 7)),
    }


train_input_fn, test_input_fn = common.input_fns(rows, seed=1100)


def columns():
    """Returns identity, vocabulary list and weighted columns, and two that share a table."""
    fc = tf.feature_column
    identity = fc.categorical_column_with_identity
    plain = [
        identity("colour", 10),
        fc.categorical_column_with_vocabulary_list("word", common.WORDS),
        fc.weighted_categorical_column(identity("tag", 9), "tag_weight"),
    ]
    return [
        side.tpu_columns.embedding_column(column, 4, initializer=common.normal(111 + i))
        for i, column in enumerate(plain)
    ], side.tpu_columns.shared_embedding_columns(
        [identity("left", 7), identity("right", 7)], 3, initializer=common.normal(119)
    )


def make_estimator(model_dir):
    """Returns the estimator."""
    plain, shared = columns()

    def model_fn(features, labels, mode, params):
        del params
        hidden = tf.concat(
            [
                tf1.feature_column.input_layer(features, plain),
                tf.keras.layers.DenseFeatures(shared)(features),
            ],
            axis=1,
        )
        hidden = tf1.layers.dense(
            hidden, 5, tf.nn.relu, kernel_initializer=common.normal(121), name="hidden"
        )
        logits = common.head(hidden, seed=122)

        def train_op_fn(loss):
            step = tf1.train.get_global_step()
            return tf1.train.AdagradOptimizer(0.2).minimize(loss, global_step=step)

        return common.spec(mode, logits, labels, train_op_fn)

    return common.make_estimator(
        model_fn, model_dir, plain + shared, save_checkpoints_steps=FIRST_STEPS
    )


def continue_training(model_dir):
    """Continues from the checkpoint in `model_dir`; returns plain numbers for a JSON file."""
    estimator = make_estimator(model_dir)

    def logits():
        return [float(row["logit"][0]) for row in estimator.predict(test_input_fn)]

    record = {"tensorflow": tf.__version__, "logits_before": logits()}
    hook = common.RecordLosses()
    estimator.train(train_input_fn, hooks=[hook], max_steps=LAST_STEP)
    record["losses"] = [float(loss) for loss in hook.losses]
    record["logits_after"] = logits()
    metrics = estimator.evaluate(test_input_fn)
    record["metrics"] = {name: float(value) for name, value in metrics.items()}
    return record
