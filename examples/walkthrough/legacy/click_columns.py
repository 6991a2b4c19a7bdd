# SPDX-License-Identifier: Apache-2.0
"""Embedding columns of the click model."""

import tensorflow as tf

USERS, ITEMS, TAGS = 400, 600, 50


def initializer(seed):
    return tf.compat.v1.truncated_normal_initializer(stddev=0.3, seed=seed)


def embedding_columns():
    identity = tf.feature_column.categorical_column_with_identity
    user = tf.compat.v1.tpu.experimental.embedding_column(
        identity("user", USERS), dimension=8, initializer=initializer(1)
    )
    tags = tf.compat.v1.tpu.experimental.embedding_column(
        tf.feature_column.weighted_categorical_column(identity("tags", TAGS), "tag_weights"),
        dimension=4,
        combiner="sum",
        initializer=initializer(2),
    )
    items = tf.compat.v1.tpu.experimental.shared_embedding_columns(
        [identity("shown_item", ITEMS), identity("past_items", ITEMS)],
        dimension=8,
        combiner="mean",
        initializer=initializer(3),
        shared_embedding_collection_name="items",
    )
    return [user, tags] + items


def dense_columns():
    return [tf.feature_column.numeric_column("hour")]


def embedding_spec():
    return tf.compat.v1.estimator.tpu.experimental.EmbeddingConfigSpec(
        feature_columns=embedding_columns(),
        optimization_parameters=tf.compat.v1.tpu.experimental.AdagradParameters(
            0.1, initial_accumulator=0.1
        ),
    )
