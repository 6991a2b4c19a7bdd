# SPDX-License-Identifier: Apache-2.0
"""Which customers are alike? k-means over feature columns, exported for serving.

The style of code after `tf.contrib.factorization` had moved to `tf.estimator.experimental`.
"""
from __future__ import absolute_import
from __future__ import division
from __future__ import print_function

import argparse
import json
import os

import numpy as np
import tensorflow.compat.v1 as tf

KEYS = ['income', 'spending']
CENTERS = np.array([[1.0, 0.0], [-1.0, 0.5], [0.2, -1.0]])


def load_data():
    random = np.random.RandomState(5)
    points = np.concatenate([c + 0.2 * random.normal(size=(40, 2)) for c in CENTERS])
    points = points[random.permutation(len(points))].astype(np.float32)
    return {key: points[:, i] for i, key in enumerate(KEYS)}


def input_fn():
    return tf.data.Dataset.from_tensor_slices(load_data()).batch(200)


def serving_input_receiver_fn():
    inputs = {key: tf.placeholder(tf.float32, [None], name=key) for key in KEYS}
    return tf.estimator.export.ServingInputReceiver(inputs, inputs)


class Losses(tf.train.SessionRunHook):

    def __init__(self):
        self.losses = []

    def before_run(self, run_context):
        losses = run_context.session.graph.get_collection(tf.GraphKeys.LOSSES)
        return tf.train.SessionRunArgs(losses[-1])

    def after_run(self, run_context, run_values):
        self.losses.append(float(run_values.results))


def main(args):
    kmeans = tf.estimator.experimental.KMeans(
        num_clusters=3,
        model_dir=args.model_dir,
        initial_clusters=lambda inputs, _: inputs[0][:3] * 3.0,
        use_mini_batch=False,
        seed=1,
        config=tf.estimator.RunConfig(tf_random_seed=1, save_checkpoints_steps=4),
        feature_columns=[tf.feature_column.numeric_column(key) for key in KEYS])
    # Lloyd's algorithm, a step a call as in the example of the documentation.
    hook = Losses()
    scores = []
    for _ in range(12):
        kmeans.train(input_fn, steps=1, hooks=[hook])
        scores.append(float(kmeans.score(input_fn)))
    order = np.argsort(kmeans.cluster_centers()[:, 0])
    results = {
        'losses': hook.losses,
        'scores': scores,
        'centers': kmeans.cluster_centers()[order].tolist(),
        'clusters': [int(i) for i in kmeans.predict_cluster_index(input_fn)],
        'distances': [d.tolist() for d in kmeans.transform(input_fn)],
        'variables': kmeans.get_variable_names(),
    }
    kmeans.export_saved_model(os.path.join(args.model_dir, 'export'), serving_input_receiver_fn)
    with tf.gfile.Open(os.path.join(args.model_dir, 'results.json'), 'w') as f:
        json.dump(results, f, indent=1)


if __name__ == '__main__':
    parser = argparse.ArgumentParser()
    parser.add_argument('--model_dir', required=True)
    main(parser.parse_args())
