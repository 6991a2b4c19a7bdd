# SPDX-License-Identifier: Apache-2.0
"""Writes the data of the click model: made-up impressions, as files of tf.Examples.

python make_data.py DIRECTORY EXAMPLES
"""

import os
import sys

import numpy as np
import tensorflow as tf

USERS, ITEMS, TAGS = 400, 600, 50


def int_feature(values):
    """Returns a feature of integers."""
    return tf.train.Feature(int64_list=tf.train.Int64List(value=np.asarray(values, np.int64)))


def float_feature(values):
    """Returns a feature of floats."""
    return tf.train.Feature(float_list=tf.train.FloatList(value=np.asarray(values, np.float32)))


def make_examples(count, seed):
    """Yields serialized examples: some users click more, and some items are clicked more."""
    taste = np.random.RandomState(0).normal(size=USERS + ITEMS)
    random = np.random.RandomState(seed)
    for _ in range(count):
        user, shown = random.randint(USERS), random.randint(ITEMS)
        tags = random.choice(TAGS, size=random.randint(4), replace=False)
        clicked = taste[user] + taste[USERS + shown] + 0.3 * random.normal() > 0
        features = {
            "user": int_feature([user]),
            "shown_item": int_feature([shown]),
            "past_items": int_feature(random.randint(ITEMS, size=random.randint(5))),
            "tags": int_feature(tags),
            "tag_weights": float_feature(random.uniform(0.5, 1.5, size=len(tags))),
            "hour": float_feature([random.uniform()]),
            "clicked": int_feature([clicked]),
        }
        yield tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()


def main():
    """Writes train.tfrecord and test.tfrecord, a tenth as long."""
    directory, examples = sys.argv[1], int(sys.argv[2])
    os.makedirs(directory, exist_ok=True)
    for name, count, seed in (("train", examples, 1), ("test", examples // 10, 2)):
        with tf.io.TFRecordWriter(os.path.join(directory, f"{name}.tfrecord")) as writer:
            for example in make_examples(count, seed):
                writer.write(example)


if __name__ == "__main__":
    main()
