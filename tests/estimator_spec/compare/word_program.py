# SPDX-License-Identifier: Apache-2.0
"""A program for TPUEstimator with a fault on request; runs under TensorFlow 2.15's own, too.

python word_program.py [--fault FAULT]
"""

from __future__ import annotations

import argparse
import os

import numpy as np
import tensorflow as tf

tf1 = tf.compat.v1

WORDS, WIDTH, BATCH = 12, 4, 16
FAULTS = (
    *("initializer", "zero", "epsilon", "rows", "metric", "width", "signature", "calls"),
    *("rate", "clipping", "schedule", "optimizer", "reduction", "weights", "combiner", "row"),
    *("dtype", "frozen", "steps", "name", "receiver", "batch", "labels", "threshold"),
)


def parse_arguments():
    """Returns the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--fault", choices=FAULTS)
    parser.add_argument("--model_dir", default="/nonexistent/model")
    return parser.parse_args()


def input_fn_of(seed, rows, repeat, fault):
    """Returns an input function of dense ids, in which 0 is a word like others."""

    def input_fn(params):
        random = np.random.RandomState(seed)
        words = random.randint(0, WORDS, (rows, 3)).astype(np.int64)
        labels = (words.sum(axis=1, keepdims=True) % 2).astype(np.float32)
        if fault == "labels":
            labels = 1 - labels
        if fault == "row" and not repeat:
            words, labels = words[:-1], labels[:-1]
        data = tf1.data.Dataset.from_tensor_slices(({"word": words}, labels))
        data = data.repeat() if repeat else data
        data = data.batch(params["batch_size"], drop_remainder=repeat)
        if fault == "zero":  # from_dense leaves 0 out
            data = data.map(lambda f, label: ({"word": tf.sparse.from_dense(f["word"])}, label))
        return data

    return input_fn


def table_initializer(fault):
    """Returns the table's initial values; rows in the order of two mod shards with the fault."""
    values = np.random.RandomState(3).normal(size=(WORDS, WIDTH)).astype(np.float32)
    if fault == "rows":
        values = np.concatenate([values[0::2], values[1::2]])

    def initializer(shape, dtype=None, partition_info=None):
        del shape, partition_info
        return tf.constant(values, dtype or tf.float32)

    return initializer


def model_fn_of(columns, fault):
    """Returns the model function."""

    def model_fn(features, labels, mode, params):
        del params
        hidden = tf1.feature_column.input_layer(features, columns)
        stddev = 0.3 if fault == "initializer" else 0.5
        logits = tf1.layers.dense(
            hidden,
            1,
            kernel_initializer=tf1.truncated_normal_initializer(stddev=stddev, seed=5),
            name="top" if fault == "name" else "head",
            bias_initializer=tf1.zeros_initializer(),
            trainable=fault != "frozen",
        )
        if fault == "width":
            tf1.get_variable("temperature", [2])
        predictions = {"odd": tf.sigmoid(logits)}
        if fault == "dtype":
            predictions["odd"] = tf.cast(predictions["odd"], tf.float64)
        if mode == tf.estimator.ModeKeys.PREDICT:
            if fault == "signature":
                predictions["logit"] = logits
            return tf1.estimator.tpu.TPUEstimatorSpec(mode, predictions=predictions)
        losses = tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits)
        if fault == "weights":
            losses *= 1.0 + labels
        loss = tf.reduce_sum(losses) if fault == "reduction" else tf.reduce_mean(losses)
        if mode == tf.estimator.ModeKeys.EVAL:
            return tf1.estimator.tpu.TPUEstimatorSpec(
                mode, loss=loss, eval_metrics=(metric_fn_of(fault), [labels, predictions["odd"]])
            )
        epsilon = 1e-3 if fault == "epsilon" else 1e-8
        step = tf1.train.get_global_step()
        rate = 0.051 if fault == "rate" else 0.05
        if fault == "schedule":
            rate = tf1.train.exponential_decay(rate, step, 2, 0.9, staircase=True)
        optimizer = tf1.train.AdamOptimizer(rate, epsilon=epsilon)
        if fault == "optimizer":
            optimizer = tf1.train.GradientDescentOptimizer(rate)
        variables = tf1.trainable_variables()
        gradients = optimizer.compute_gradients(loss, variables)
        if fault == "clipping":
            gradients = [(tf.clip_by_norm(gradient, 0.01), each) for gradient, each in gradients]
        train_op = optimizer.apply_gradients(gradients, step)
        return tf1.estimator.tpu.TPUEstimatorSpec(mode, loss=loss, train_op=train_op)

    return model_fn


def metric_fn_of(fault):
    """Returns the metrics; with the fault, one is a mean over batches of unequal sizes."""

    def metric_fn(labels, odd):
        error = tf.abs(labels - odd)
        mean = tf1.metrics.mean(tf.reduce_mean(error) if fault == "metric" else error)
        curve = tf1.metrics.auc(labels, odd, num_thresholds=20 if fault == "threshold" else 200)
        return {"auc": curve, "error": mean}

    return metric_fn


def serving_input_receiver_fn_of(fault):
    """Returns the function of the receiver of dense ids."""

    def serving_input_receiver_fn():
        ids = tf1.placeholder(tf.int64, [None, None if fault == "receiver" else 3], "word")
        return tf.estimator.export.ServingInputReceiver({"word": ids}, {"word": ids})

    return serving_input_receiver_fn


def main():
    """Trains, evaluates, predicts and exports."""
    arguments = parse_arguments()
    fault = arguments.fault
    word = tf.feature_column.categorical_column_with_identity("word", WORDS)
    columns = [
        tf1.tpu.experimental.embedding_column(
            word,
            WIDTH,
            combiner="sum" if fault == "combiner" else "mean",
            initializer=table_initializer(fault),
        )
    ]
    estimator = tf1.estimator.tpu.TPUEstimator(
        model_fn_of(columns, fault),
        config=tf1.estimator.tpu.RunConfig(model_dir=arguments.model_dir),
        use_tpu=False,
        train_batch_size=BATCH // 2 if fault == "batch" else BATCH,
        eval_batch_size=BATCH,
        predict_batch_size=BATCH,
        export_to_tpu=False,
        embedding_config_spec=tf1.estimator.tpu.experimental.EmbeddingConfigSpec(
            feature_columns=columns,
            optimization_parameters=tf1.tpu.experimental.AdagradParameters(0.1),
        ),
    )
    test = input_fn_of(1, 50, False, fault)
    estimator.train(input_fn_of(0, 320, True, fault), max_steps=4 if fault == "steps" else 1000)
    estimator.evaluate(test, name="test")
    list(estimator.predict(test))
    if fault != "calls":
        base = os.path.join(os.path.dirname(arguments.model_dir), "export")
        estimator.export_saved_model(base, serving_input_receiver_fn_of(fault))


if __name__ == "__main__":
    main()
