# SPDX-License-Identifier: Apache-2.0
"""A groupwise ranking model: TF-Ranking's head, transform function and scoring function."""

import sys

import numpy as np
import tensorflow as tf
import tensorflow_ranking as tfr

LIST_SIZE = 4


def input_fn():
    random = np.random.RandomState(1)
    features = {
        "query": random.rand(16, 2).astype(np.float32),
        "document": random.rand(16, LIST_SIZE, 3).astype(np.float32),
    }
    labels = (features["document"][:, :, 0] * 3).astype(np.int32).astype(np.float32)
    return tf.data.Dataset.from_tensor_slices((features, labels)).repeat(20).batch(8)


def transform_fn(features, mode):
    return tfr.feature.encode_listwise_features(
        features=features,
        context_feature_columns={"query": tf.feature_column.numeric_column("query", [2])},
        example_feature_columns={"document": tf.feature_column.numeric_column("document", [3])},
        mode=mode,
    )


def score_fn(context_features, group_features, mode, params, config):
    del mode, params, config
    parts = [tf.compat.v1.layers.flatten(context_features["query"])]
    parts.append(tf.compat.v1.layers.flatten(group_features["document"]))
    hidden = tf.compat.v1.layers.dense(tf.concat(parts, 1), 8, activation=tf.nn.relu)
    return tf.compat.v1.layers.dense(hidden, 1)


def train_op_fn(loss):
    optimizer = tf.compat.v1.train.AdagradOptimizer(0.1)
    return optimizer.minimize(loss, tf.compat.v1.train.get_global_step())


head = tfr.head.create_ranking_head(
    loss_fn=tfr.losses.make_loss_fn(tfr.losses.RankingLossKey.PAIRWISE_LOGISTIC_LOSS),
    eval_metric_fns={"ndcg": tfr.metrics.make_ranking_metric_fn(tfr.metrics.RankingMetricKey.NDCG)},
    train_op_fn=train_op_fn,
)
model_fn = tfr.model.make_groupwise_ranking_fn(
    group_score_fn=score_fn, group_size=1, transform_fn=transform_fn, ranking_head=head
)
estimator = tf.estimator.Estimator(model_fn, sys.argv[1])
tf.estimator.train_and_evaluate(
    estimator,
    tf.estimator.TrainSpec(input_fn, max_steps=40),
    tf.estimator.EvalSpec(input_fn, steps=2, start_delay_secs=0, throttle_secs=0),
)
metrics = estimator.evaluate(input_fn, steps=2)
assert 0.5 < metrics["ndcg"] <= 1, metrics
