# SPDX-License-Identifier: Apache-2.0
"""Defines the measured program: a `model_fn` for TensorFlow 2.15.1's TPUEstimator or ours.

Which one it is, the path decides (see `reference/`); nothing below asks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

import estimator_spec as tpu_estimator
import tpu_columns
from training_time import batches
from training_time.workloads import Feature, Workload

tf1 = tf.compat.v1
HIDDEN = 64
RATE = 0.05
LOOP = 100  # iterations_per_loop
# The reference divides log_step_count_steps by LOOP, without a TPU too: otherwise its log
# would have a line for each step.
LOG_FACTOR = LOOP if hasattr(tpu_estimator, "DIVIDES") else 1


def columns_of(workload: Workload) -> list[Any]:
    """Returns one column for each feature; features of a table share it."""
    fc = tf.feature_column
    made: dict[str, Any] = {}
    tables: dict[str, list[Feature]] = {}
    for feature in workload.features:
        if feature.sequence:
            ids = fc.sequence_categorical_column_with_identity(feature.name, feature.rows)
        else:
            ids = fc.categorical_column_with_identity(feature.name, feature.rows)
        if feature.weighted:
            ids = fc.weighted_categorical_column(ids, f"{feature.name}_weight")
        made[feature.name] = ids
        tables.setdefault(feature.table or feature.name, []).append(feature)
    for name, group in tables.items():
        lengths = [feature.ids if feature.sequence else 0 for feature in group]
        if group[0].table is None:
            (feature,), (length,) = group, lengths
            made[name] = tpu_columns.embedding_column(
                made[name], feature.width, combiner=feature.combiner, max_sequence_length=length
            )
            continue
        shared = tpu_columns.shared_embedding_columns(
            [made[feature.name] for feature in group],
            group[0].width,
            combiner=group[0].combiner,
            shared_embedding_collection_name=name,
            max_sequence_lengths=lengths,
        )
        made.update(zip((feature.name for feature in group), shared, strict=True))
    return [made[feature.name] for feature in workload.features]


def as_features(workload: Workload, arrays: dict[str, Any]) -> tuple[dict[str, Any], Any]:
    """Returns features and label of a batch."""
    features: dict[str, Any] = {}
    for feature in workload.features:
        values = arrays[feature.name]
        if feature.kind == "dense":
            features[feature.name] = values
            continue
        batch, longest = values.shape
        if feature.sequence:
            mask = tf.sequence_mask(arrays[f"{feature.name}_length"], longest)
        else:
            mask = tf.ones([batch, longest], tf.bool)
        found = tf.where(mask)

        def sparse(
            tensor: Any, found: Any = found, mask: Any = mask, shape: Any = (batch, longest)
        ) -> Any:
            return tf.SparseTensor(found, tf.boolean_mask(tensor, mask), shape)

        features[feature.name] = sparse(values)
        if feature.weighted:
            key = f"{feature.name}_weight"
            features[key] = sparse(arrays[key])
    return features, arrays["label"]


def dataset_of(workload: Workload, size: int, repeat: bool = True) -> Any:
    """Returns a repeated dataset of batches that are made once and kept in memory.

    Args:
        workload: whose features.
        size: of a batch.
        repeat: without end; else each batch once.
    """
    made = batches.dataset_of(workload, size, lambda arrays: as_features(workload, arrays))
    return (made.repeat() if repeat else made).prefetch(2)


def input_fn_of(workload: Workload) -> Callable[..., Any]:
    """Returns an endless input_fn."""

    def input_fn(params: dict[str, Any]) -> Any:
        return dataset_of(workload, params["batch_size"])

    return input_fn


def embed(features: dict[str, Any], columns: list[Any]) -> Any:
    """Returns all activations concatenated; a sequence is the mean of its steps."""
    sequences, pooled = tpu_columns.split_sequence_columns(columns)
    parts = [tpu_columns.input_layer(features, pooled)] if pooled else []
    for column in sequences:
        steps, lengths = tpu_columns.sequence_input_layer(features, [column])
        total = tf.reduce_sum(steps, axis=1)
        parts.append(total / tf.maximum(tf.cast(lengths, tf.float32), 1.0)[:, tf.newaxis])
    return parts[0] if len(parts) == 1 else tf.concat(parts, axis=1)


def network(layer: Any) -> Any:
    """Builds a network of two layers; returns logits `[B, 1]`."""
    with tf1.variable_scope("network"):
        hidden = tf1.get_variable("hidden", [layer.shape[1], HIDDEN])
        last = tf1.get_variable("last", [HIDDEN, 1])
    return tf.matmul(tf.nn.relu(tf.matmul(layer, hidden)), last)


def optimizer_of(workload: Workload) -> Any:
    """Returns the optimizer of the model_fn."""
    name = workload.optimizer
    if name == "adagrad":
        return tf1.train.AdagradOptimizer(RATE)
    if name == "adam":
        return tf1.train.AdamOptimizer(RATE / 50)
    return tf1.train.GradientDescentOptimizer(RATE)


def parameters_of(workload: Workload) -> Any:
    """Returns the optimizer of the specification."""
    name = workload.optimizer
    if name == "adagrad":
        return tpu_estimator.AdagradParameters(RATE)
    if name == "adam":
        return tpu_estimator.AdamParameters(RATE / 50)
    return tpu_estimator.StochasticGradientDescentParameters(RATE)


def metric_fn(labels: Any, probability: Any) -> dict[str, Any]:
    """Returns the metrics of an evaluation."""
    found = tf.cast(probability > 0.5, tf.float32)
    return {"accuracy": tf1.metrics.accuracy(labels, found)}


def model_fn_of(workload: Workload, columns: list[Any]) -> Callable[..., Any]:
    """Returns the model_fn over the columns."""

    def model_fn(features: Any, labels: Any, mode: Any, params: Any) -> Any:
        layer = embed(features, columns)
        step = tf1.train.get_global_step()
        if workload.verb == "embedding":
            # The same gradient for every activation; the optimizer needs a variable.
            with tf1.variable_scope("network"):
                one = tf1.get_variable("one", [], initializer=tf1.ones_initializer())
            loss = tf.reduce_sum(layer) * one
            train_op = optimizer_of(workload).minimize(loss, step)
            return tpu_estimator.TPUEstimatorSpec(mode, loss=loss, train_op=train_op)
        logits = network(layer)
        probability = tf.sigmoid(logits)
        if mode == tpu_estimator.ModeKeys.PREDICT:
            return tpu_estimator.TPUEstimatorSpec(mode, predictions={"probability": probability})
        losses = tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits)
        loss = tf.reduce_mean(losses)
        if mode == tpu_estimator.ModeKeys.EVAL:
            metrics = (metric_fn, [labels, probability])
            return tpu_estimator.TPUEstimatorSpec(mode, loss=loss, eval_metrics=metrics)
        train_op = optimizer_of(workload).minimize(loss, step)
        return tpu_estimator.TPUEstimatorSpec(mode, loss=loss, train_op=train_op)

    return model_fn


def receiver_fn_of(workload: Workload) -> Callable[[], Any]:
    """Returns a receiver of `[n, ids]` ids for every feature, without weights and lengths."""

    def serving_input_receiver_fn() -> Any:
        inputs = {
            feature.name: tf1.placeholder(tf.int64, [None, feature.ids], f"in_{feature.name}")
            for feature in workload.features
        }
        return tpu_estimator.ServingInputReceiver(inputs, inputs)

    return serving_input_receiver_fn


def make(workload: Workload, model_dir: str, core: dict[str, Any]) -> tuple[Any, Any]:
    """Returns the estimator and its input_fn.

    Args:
        workload: what to train.
        model_dir: for summaries; a checkpoint is written only where one is to be served.
        core: further arguments of the estimator, none or `embedding_core`.
    """
    columns = columns_of(workload)
    seconds = 600 if workload.verb == "serve" else None
    config = tpu_estimator.RunConfig(
        model_dir=model_dir,
        tf_random_seed=1,
        save_checkpoints_steps=None,
        save_checkpoints_secs=seconds,
        log_step_count_steps=workload.interval * LOG_FACTOR,
        tpu_config=tpu_estimator.TPUConfig(iterations_per_loop=LOOP),
    )
    estimator = tpu_estimator.TPUEstimator(
        model_fn_of(workload, columns),
        config=config,
        params={},
        use_tpu=False,
        train_batch_size=workload.batch_size,
        eval_batch_size=workload.batch_size,
        predict_batch_size=workload.batch_size,
        export_to_tpu=False,
        embedding_config_spec=tpu_estimator.EmbeddingConfigSpec(
            feature_columns=columns, optimization_parameters=parameters_of(workload)
        ),
        **core,
    )
    return estimator, input_fn_of(workload)
