# SPDX-License-Identifier: Apache-2.0
"""A complete small program for TPUEstimator: learns which of 100 words are odd."""

import numpy as np
import tensorflow as tf

import estimator_spec
import tpu_columns

tf1 = tf.compat.v1

columns = [
    tpu_columns.embedding_column(
        tf.feature_column.categorical_column_with_identity("word", num_buckets=100), dimension=8
    )
]


def input_fn(params):
    words = np.random.RandomState(0).randint(100, size=[5000, 1])
    dataset = tf.data.Dataset.from_tensor_slices(({"word": words}, words[:, 0] % 2))
    return dataset.batch(params["batch_size"], drop_remainder=True)


def model_fn(features, labels, mode, params):
    logits = tf.reduce_sum(tpu_columns.input_layer(features, columns), axis=1)
    odd = tf.sigmoid(logits)
    if mode == estimator_spec.ModeKeys.PREDICT:
        return estimator_spec.TPUEstimatorSpec(mode, predictions={"odd": odd})
    loss = tf1.losses.sigmoid_cross_entropy(labels, logits)
    train_op = tf1.train.AdagradOptimizer(0.5).minimize(loss, tf1.train.get_global_step())
    metrics = (lambda labels, odd: {"auc": tf1.metrics.auc(labels, odd)}, [labels, odd])
    return estimator_spec.TPUEstimatorSpec(mode, loss=loss, train_op=train_op, eval_metrics=metrics)


estimator = estimator_spec.TPUEstimator(
    model_fn,
    config=estimator_spec.RunConfig(tf_random_seed=1),
    use_tpu=False,
    train_batch_size=50,
    eval_batch_size=50,
    predict_batch_size=50,
    embedding_config_spec=estimator_spec.EmbeddingConfigSpec(
        feature_columns=columns,
        optimization_parameters=estimator_spec.AdagradParameters(0.5),  # a TPU would use this one
    ),
)
estimator.train(input_fn)
print("AUC", round(float(estimator.evaluate(input_fn)["auc"]), 3))
print("table", estimator.get_variable_value("input_layer/word_embedding/embedding_weights").shape)
