# SPDX-License-Identifier: Apache-2.0
"""Defines the columns and the `model_fn`: embeddings, pairwise products, a small network."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import tensorflow as tf
from census_data import AGE_KNOTS, CATEGORICAL, DOLLAR_BUCKETS

import estimator_spec as tpu_estimator
import tpu_columns

tf1 = tf.compat.v1

WORKCLASSES = (
    "Federal-gov",
    "Local-gov",
    "Never-worked",
    "Private",
    "Self-emp-inc",
    "Self-emp-not-inc",
    "State-gov",
    "Without-pay",
)
MARITAL_STATUSES = (
    "Divorced",
    "Married-AF-spouse",
    "Married-civ-spouse",
    "Married-spouse-absent",
    "Never-married",
    "Separated",
    "Widowed",
)
RELATIONSHIPS = ("Husband", "Not-in-family", "Other-relative", "Own-child", "Unmarried", "Wife")
NUMERIC = ("age", "hours_per_week", "schooling", "log_gain", "log_loss")
HIDDEN_UNITS = (128, 64)
DROPOUT = 0.4


def embedding_columns(data_dir: str) -> list[Any]:
    """Returns a column of every kind that a TPU supports, for the spec and the model."""
    fc = tf.feature_column

    def listed(key: str, words: tuple[str, ...]) -> Any:
        return fc.categorical_column_with_vocabulary_list(key, words)

    def filed(key: str) -> Any:
        path = os.path.join(data_dir, key + ".txt")
        return fc.categorical_column_with_vocabulary_file(key, path)

    age = fc.weighted_categorical_column(
        fc.categorical_column_with_identity("age_knots", AGE_KNOTS), "age_weights"
    )
    dollars = [
        fc.categorical_column_with_identity(key, DOLLAR_BUCKETS)
        for key in ("gain_bucket", "loss_bucket")
    ]
    profile = fc.sequence_categorical_column_with_vocabulary_file(
        "profile", os.path.join(data_dir, "profile.txt")
    )
    return [
        tpu_columns.embedding_column(fc.categorical_column_with_identity("education_num", 17), 8),
        tpu_columns.embedding_column(listed("workclass", WORKCLASSES), 8),
        tpu_columns.embedding_column(listed("marital_status", MARITAL_STATUSES), 8),
        tpu_columns.embedding_column(listed("relationship", RELATIONSHIPS), 8),
        tpu_columns.embedding_column(filed("occupation"), 8),
        tpu_columns.embedding_column(filed("native_country"), 8),
        tpu_columns.embedding_column(age, 8, combiner="sum"),
        *tpu_columns.shared_embedding_columns(
            dollars, 8, shared_embedding_collection_name="dollars"
        ),
        tpu_columns.embedding_column(profile, 16, max_sequence_length=len(CATEGORICAL)),
    ]


def embedding_config_spec(columns: list[Any]) -> Any:
    """Returns the spec of the columns, with the optimizer of an embedding core."""
    return tpu_estimator.convert.to_distributed_embedding(tpu_estimator.EmbeddingConfigSpec(
        feature_columns=columns,
        optimization_parameters=tpu_estimator.AdagradParameters(learning_rate=0.05),
    ), optimizers="core")


def pairwise_products(sequence: Any) -> Any:
    """Sums the products of all pairs of a sequence's vectors: `[B, L, D]` to `[B, D]`.

    The second-order term of a factorization machine (S. Rendle, ICDM 2010). Padding is zeros and
    adds nothing.
    """
    total = tf.reduce_sum(sequence, axis=1)
    return 0.5 * (tf.square(total) - tf.reduce_sum(tf.square(sequence), axis=1))


def first_layer(columns: list[Any], activations: Any, numbers: Any) -> Any:
    """Computes the input of `network`'s first layer from activations by feature key.

    Args:
        columns: the columns.
        activations: what an embedding layer returns, `[B, D]` or `[B, L, D]` by feature key.
        numbers: the numeric features, `[B]` by name.
    """
    sequences, pooled = tpu_columns.split_sequence_columns(columns)
    by_name = {column.name: activations[column.get_feature_key_name()] for column in pooled}
    by_name.update({name: numbers[name][:, tf.newaxis] for name in NUMERIC})
    (profile,) = (activations[column.get_feature_key_name()] for column in sequences)
    # input_layer concatenates in the order of the names.
    return tf.concat([*(by_name[name] for name in sorted(by_name)), pairwise_products(profile)], 1)


def network(
    features: dict[str, Any], columns: list[Any], is_training: bool, dropout: float = DROPOUT
) -> Any:
    """Computes logits `[B, 1]` from features."""
    sequence_columns, pooled_columns = tpu_columns.split_sequence_columns(columns)
    numeric = [tf.feature_column.numeric_column(key) for key in NUMERIC]
    wide = tpu_columns.input_layer(features, pooled_columns + numeric)
    sequence, _ = tpu_columns.sequence_input_layer(features, sequence_columns)
    hidden = tf.concat([wide, pairwise_products(sequence)], axis=1)
    for layer, units in enumerate(HIDDEN_UNITS):
        hidden = tf1.layers.dense(hidden, units, tf.nn.relu, name=f"hidden_{layer}")
        hidden = tf1.layers.dropout(hidden, rate=dropout, training=is_training)
    return tf1.layers.dense(hidden, 1, name="logits")


def metric_fn(labels: Any, probabilities: Any) -> dict[str, Any]:
    """Computes metrics of the evaluation on the host."""
    return {
        "auc": tf1.metrics.auc(labels, probabilities, num_thresholds=2000),
        "accuracy": tf1.metrics.accuracy(labels, tf.cast(probabilities > 0.5, tf.float32)),
    }


def host_call_builder(model_dir: str, every_n_steps: int = 100) -> Callable[..., Any]:
    """Writes summaries on the host, as TPU programs do: each argument is `[1]` for one core."""

    def host_call_fn(global_step: Any, loss: Any, learning_rate: Any) -> Any:
        step = global_step[0]
        writer = tf.summary.create_file_writer(os.path.join(model_dir, "host_call"))
        with writer.as_default(), tf.summary.record_if(tf.equal(step % every_n_steps, 0)):
            scalars = [
                tf1.summary.scalar("training/loss", loss[0], collections=[]),
                tf1.summary.scalar("training/learning_rate", learning_rate[0], collections=[]),
            ]
            tf.summary.experimental.write_raw_pb(tf1.summary.merge(scalars, collections=[]), step)
        return tf1.summary.all_v2_summary_ops()

    return host_call_fn


def model_fn_builder(
    columns: list[Any],
    model_dir: str,
    learning_rate: float,
    train_steps: int,
    use_tpu: bool,
    dropout: float = DROPOUT,
) -> Callable[..., Any]:
    """Returns the `model_fn` of these columns."""

    def model_fn(features: Any, labels: Any, mode: Any, params: dict[str, Any]) -> Any:
        is_training = mode == tpu_estimator.ModeKeys.TRAIN
        logits = network(features, columns, is_training, dropout)
        probabilities = tf.sigmoid(logits)
        predictions = {"probability": probabilities}
        if mode == tpu_estimator.ModeKeys.PREDICT:
            return tpu_estimator.TPUEstimatorSpec(mode, predictions=predictions)

        losses = tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits)
        loss = tf.reduce_mean(losses)
        if not is_training:
            return tpu_estimator.TPUEstimatorSpec(
                mode, loss=loss, eval_metrics=(metric_fn, [labels, probabilities])
            )

        step = tf1.train.get_global_step()
        rate = tf1.train.cosine_decay(learning_rate, step, train_steps)
        optimizer = tf1.train.AdamOptimizer(rate)
        if use_tpu:
            optimizer = tpu_estimator.tpu.CrossShardOptimizer(optimizer)
        scalars = [tf.reshape(scalar, [1]) for scalar in (step, loss, rate)]
        return tpu_estimator.TPUEstimatorSpec(
            mode,
            loss=loss,
            train_op=optimizer.minimize(loss, global_step=step),
            host_call=(host_call_builder(model_dir), scalars),
        )

    return model_fn
