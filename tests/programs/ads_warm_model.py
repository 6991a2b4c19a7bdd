# SPDX-License-Identifier: Apache-2.0
"""Trains an exported model further: SavedModelEstimator.

The style of 2018: a model arrives as a SavedModel with graphs for training and evaluation; a job
without the model's code goes on with new data.
"""
from __future__ import absolute_import
from __future__ import division
from __future__ import print_function

import argparse
import json
import os

import numpy as np
import tensorflow.compat.v1 as tf
from tensorflow_estimator.python.estimator.canned import saved_model_estimator


def input_fn(seed=1):
    random = np.random.RandomState(seed)
    x = random.normal(size=(64, 3)).astype(np.float32)
    y = (x.dot([[1.0], [-2.0], [0.5]]) + 0.1).astype(np.float32)
    return tf.data.Dataset.from_tensor_slices(({'x': x}, y)).repeat().batch(16)


def model_fn(features, labels, mode):
    outputs = tf.layers.dense(features['x'], 1, kernel_initializer=tf.zeros_initializer())
    if mode == tf.estimator.ModeKeys.PREDICT:
        exported = {'serving_default': tf.estimator.export.PredictOutput({'y': outputs})}
        return tf.estimator.EstimatorSpec(
            mode, predictions={'y': outputs}, export_outputs=exported)
    loss = tf.losses.mean_squared_error(labels, outputs)
    train_op = tf.train.MomentumOptimizer(0.05, 0.5).minimize(
        loss, tf.train.get_global_step())
    metrics = {'mae': tf.metrics.mean_absolute_error(labels, outputs)}
    return tf.estimator.EstimatorSpec(
        mode, loss=loss, train_op=train_op, eval_metric_ops=metrics, predictions={'y': outputs})


def supervised_input_receiver_fn():
    x = tf.placeholder(tf.float32, [None, 3])
    y = tf.placeholder(tf.float32, [None, 1])
    return tf.estimator.experimental.build_raw_supervised_input_receiver_fn({'x': x}, y)()


def serving_input_receiver_fn():
    x = tf.placeholder(tf.float32, [None, 3])
    return tf.estimator.export.ServingInputReceiver({'x': x}, {'x': x})


class Losses(tf.train.SessionRunHook):

    def __init__(self):
        self.losses = []

    def before_run(self, run_context):
        losses = run_context.session.graph.get_collection(tf.GraphKeys.LOSSES)
        return tf.train.SessionRunArgs(losses[-1])

    def after_run(self, run_context, run_values):
        self.losses.append(float(run_values.results))


def main(args):
    def place(name):
        return os.path.join(args.model_dir, name)

    tf.disable_eager_execution()
    config = tf.estimator.RunConfig(tf_random_seed=4)
    first = tf.estimator.Estimator(model_fn, place('first'), config)
    first.train(input_fn, steps=4)
    exported = first.experimental_export_all_saved_models(place('exported'), {
        tf.estimator.ModeKeys.TRAIN: supervised_input_receiver_fn,
        tf.estimator.ModeKeys.EVAL: supervised_input_receiver_fn,
        tf.estimator.ModeKeys.PREDICT: serving_input_receiver_fn,
    })
    exported = tf.compat.as_str_any(exported)

    further = saved_model_estimator.SavedModelEstimator(exported, place('further'))
    before = further.evaluate(lambda: input_fn(2), steps=4)
    hook = Losses()
    further.train(input_fn, steps=24, hooks=[hook])
    after = further.evaluate(lambda: input_fn(2), steps=4)
    further.export_saved_model(place('export'), serving_input_receiver_fn)
    results = {
        'losses': hook.losses,
        'metrics': {k: [float(before[k]), float(after[k])] for k in sorted(after)},
        'variables': further.get_variable_names(),
    }
    with tf.gfile.Open(place('results.json'), 'w') as f:
        json.dump(results, f, indent=1)


if __name__ == '__main__':
    parser = argparse.ArgumentParser()
    parser.add_argument('--model_dir', required=True)
    main(parser.parse_args())
