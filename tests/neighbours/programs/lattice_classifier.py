# SPDX-License-Identifier: Apache-2.0
"""TensorFlow Lattice's canned classifier, with a monotonic feature."""

import sys

import numpy as np
import tensorflow as tf
import tensorflow_lattice as tfl


def input_fn():
    x = np.random.RandomState(1).rand(64, 2).astype(np.float32)
    labels = (x[:, 0] + 0.2 * x[:, 1] > 0.6).astype(np.int32)
    features = {"a": x[:, 0], "b": x[:, 1]}
    return tf.data.Dataset.from_tensor_slices((features, labels)).repeat(20).batch(16)


def analysis_fn():
    return input_fn().take(4)


estimator = tfl.estimators.CannedClassifier(
    feature_columns=[tf.feature_column.numeric_column(name) for name in "ab"],
    model_config=tfl.configs.CalibratedLatticeConfig(
        feature_configs=[
            tfl.configs.FeatureConfig(name="a", monotonicity="increasing"),
            tfl.configs.FeatureConfig(name="b"),
        ]
    ),
    feature_analysis_input_fn=analysis_fn,
    optimizer=tf.keras.optimizers.Adam(0.05),
    model_dir=sys.argv[1],
)
estimator.train(input_fn)
metrics = estimator.evaluate(input_fn)
assert metrics["accuracy"] > 0.8, metrics
