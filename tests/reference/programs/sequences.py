# SPDX-License-Identifier: Apache-2.0
"""Looks up sequence columns of every kind through Keras `SequenceFeatures`; momentum.

`max_sequence_length` covers the longest row and the model masks: the reference doesn't pad to it
on a CPU.
"""

from __future__ import annotations

import side
import tensorflow as tf
from programs import common

tf1 = tf.compat.v1
LONGEST = 6


def rows(random, count):
    """Returns the features; a row's sequences have equal lengths, and some are empty."""
    steps = common.sparse(random, count, LONGEST, lambda r: r.randint(0, 11))
    places = [common.PLACES[i % 8] for i in steps.values]
    words = [(common.WORDS + ("gnu",))[i % 7] for i in steps.values[::-1]]
    return {
        "step": steps,
        "place": tf1.SparseTensorValue(steps.indices, places, steps.dense_shape),
        "word": tf1.SparseTensorValue(steps.indices, words, steps.dense_shape),
        "left": common.sparse(random, count, LONGEST, lambda r: r.randint(0, 5)),
        "right": common.sparse(random, count, LONGEST, lambda r: r.randint(0, 5)),
    }


train_input_fn, test_input_fn = common.input_fns(rows, seed=500)


def columns(vocabulary_file):
    """Returns three plain sequence columns, and two that share a table."""
    fc = tf.feature_column
    plain = [
        fc.sequence_categorical_column_with_identity("step", 11),
        fc.sequence_categorical_column_with_vocabulary_file("place", vocabulary_file),
        fc.sequence_categorical_column_with_vocabulary_list("word", common.WORDS),
    ]
    pair = [fc.sequence_categorical_column_with_identity(key, 5) for key in ("left", "right")]
    return [
        side.tpu_columns.embedding_column(
            column, 4, max_sequence_length=LONGEST, initializer=common.normal(51 + i)
        )
        for i, column in enumerate(plain)
    ], side.tpu_columns.shared_embedding_columns(
        pair, 3, max_sequence_lengths=[LONGEST, LONGEST + 2], initializer=common.normal(59)
    )


def sequence_features(tpu_columns):
    """Returns Keras' layer from its module in this TensorFlow."""
    try:
        return tf.keras.experimental.SequenceFeatures(tpu_columns)
    except AttributeError:
        from tf_keras.src.feature_column import sequence_feature_column

        return sequence_feature_column.SequenceFeatures(tpu_columns)


def masked_mean(sequence, lengths):
    """Averages over steps: `[B, L, D]` and `[B]` to `[B, D]`."""
    mask = tf.sequence_mask(lengths, tf.shape(sequence)[1], dtype=tf.float32)
    total = tf.reduce_sum(sequence * mask[:, :, tf.newaxis], axis=1)
    return total / tf.maximum(tf.cast(lengths, tf.float32), 1.0)[:, tf.newaxis]


def make_estimator(model_dir):
    """Returns the estimator."""
    plain, shared = columns(common.write_vocabulary(model_dir, common.PLACES))

    def model_fn(features, labels, mode, params):
        del params
        pooled = [masked_mean(*sequence_features(plain)(features))]
        # Separate layers: the two sequences have different lengths.
        pooled += [masked_mean(*sequence_features([column])(features)) for column in shared]
        logits = common.head(tf.concat(pooled, axis=1), seed=60)

        def train_op_fn(loss):
            optimizer = tf1.train.MomentumOptimizer(0.2, 0.9, use_nesterov=True)
            return optimizer.minimize(loss, global_step=tf1.train.get_global_step())

        return common.spec(mode, logits, labels, train_op_fn)

    return common.make_estimator(model_fn, model_dir, plain + shared)
