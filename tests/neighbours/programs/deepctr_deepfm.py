# SPDX-License-Identifier: Apache-2.0
"""DeepCTR's DeepFM as an estimator, over TensorFlow's feature columns."""

import sys

import numpy as np
import tensorflow as tf
from deepctr.estimator import DeepFMEstimator


def input_fn():
    random = np.random.RandomState(1)
    features = {
        "user": random.randint(0, 10, 64),
        "item": random.randint(0, 20, 64),
        "price": random.rand(64).astype(np.float32),
    }
    labels = (features["user"] % 2).astype(np.float32)[:, None]
    return tf.data.Dataset.from_tensor_slices((features, labels)).repeat(20).batch(16)


linear, deep = [], []
for name, size in (("user", 10), ("item", 20)):
    ids = tf.feature_column.categorical_column_with_identity(name, size)
    linear.append(ids)
    deep.append(tf.feature_column.embedding_column(ids, 4))
price = tf.feature_column.numeric_column("price")
estimator = DeepFMEstimator(
    linear + [price],
    deep + [price],
    task="binary",
    model_dir=sys.argv[1],
    config=tf.estimator.RunConfig(tf_random_seed=2021),
)
estimator.train(input_fn)
metrics = estimator.evaluate(input_fn)
assert metrics["AUC"] > 0.6, metrics
assert len(list(estimator.predict(input_fn))) == 64 * 20
