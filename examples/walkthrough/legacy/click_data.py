# SPDX-License-Identifier: Apache-2.0
"""Input functions of the click model."""

import os

import click_columns
import tensorflow as tf

LABEL = "clicked"


def feature_spec():
    columns = click_columns.embedding_columns() + click_columns.dense_columns()
    return tf.feature_column.make_parse_example_spec(columns)


def parse(serialized):
    spec = dict(feature_spec(), **{LABEL: tf.io.FixedLenFeature([1], tf.int64)})
    features = tf.io.parse_example(serialized, spec)
    return features, tf.cast(features.pop(LABEL), tf.float32)


def make_input_fn(data_dir, training):
    def input_fn(params):
        name = "train.tfrecord" if training else "test.tfrecord"
        dataset = tf.data.TFRecordDataset(os.path.join(data_dir, name))
        if training:
            dataset = dataset.shuffle(10000, seed=1).repeat()
        return dataset.batch(params["batch_size"], drop_remainder=training).map(parse)

    return input_fn
