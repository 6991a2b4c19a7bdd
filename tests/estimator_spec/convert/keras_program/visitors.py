"""A model of the tests with one of many things: who stays? For differences that are planted."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

import estimator_spec
from estimator_spec import heads
from estimator_spec.core.common import legacy_keras

fc = tf.feature_column


def input_fn():
    """Returns batches of visitors, the last one of them smaller."""
    random = np.random.RandomState(0)
    size = 44
    counts = random.randint(0, 4, size)
    tags = [list(random.choice(["new", "old", "odd", "red"], count)) for count in counts]
    features = {
        "age": random.uniform(10, 80, size).astype(np.float32),
        "city": random.choice(["Rome", "Oslo", "Lima", "Bonn", ""], size),
        "tags": tf.ragged.constant(tags, tf.string).to_sparse(),
        "page": random.randint(0, 8, (size, 2)),
        "weight": random.uniform(0.5, 2.0, size).astype(np.float32),
    }
    labels = np.where(features["age"] + random.normal(0, 30, size) > 45, "yes", "no")
    return tf.data.Dataset.from_tensor_slices((features, labels)).repeat(3).batch(10)


def make_estimator(model_dir):
    """Returns the estimator, untrained."""
    age = fc.numeric_column("age", normalizer_fn=lambda value: (value - 40.0) / 20.0)
    city = fc.categorical_column_with_vocabulary_list(
        "city", ["Rome", "Oslo", "Lima"], default_value=1
    )
    tags = fc.categorical_column_with_vocabulary_list("tags", ["new", "old"], num_oov_buckets=1)
    page = fc.categorical_column_with_identity("page", 8, default_value=0)
    buckets = fc.bucketized_column(fc.numeric_column("age"), [20.0, 40.0, 60.0])
    optimizers = legacy_keras.keras_2().optimizers.legacy
    return estimator_spec.DNNLinearCombinedEstimator(
        heads.BinaryClassHead("weight", thresholds=[0.25], label_vocabulary=["no", "yes"]),
        model_dir,
        linear_feature_columns=[city, fc.crossed_column(["city", buckets], 16)],
        linear_optimizer=optimizers.Ftrl(0.1, l2_regularization_strength=0.01),
        dnn_feature_columns=[
            age,
            fc.indicator_column(page),
            fc.embedding_column(tags, 2, "mean"),
            fc.embedding_column(city, 2),
        ],
        dnn_hidden_units=[4],
        dnn_optimizer=optimizers.Adam(0.02, beta_1=0.8),
        dnn_activation_fn=tf.nn.elu,
        dnn_dropout=0.25,
        batch_norm=True,
        config=estimator_spec.RunConfig(tf_random_seed=1),
    )
