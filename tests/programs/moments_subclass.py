# SPDX-License-Identifier: Apache-2.0
"""A research group's own TPUEstimator, which scales inputs and times its training.

The style of experiment frameworks: a subclass that overrides the Estimator's protected methods,
under the private import names of TensorFlow itself.
"""

import argparse
import json
import os
import sys
import time

import numpy as np
import tensorflow.compat.v1 as tf
from tensorflow.python.tpu import tpu_config
from tensorflow.python.tpu import tpu_estimator

ModeKeys = tf.estimator.ModeKeys


class Moments:
    """Means and standard deviations of the features' columns."""

    def __init__(self, data):
        self.mean = {name: values.mean(axis=0) for name, values in data.items()}
        self.std = {name: values.std(axis=0) + 1e-6 for name, values in data.items()}

    def scale(self, features):
        return {
            name: (value - self.mean[name].astype(np.float32)) / self.std[name].astype(np.float32)
            for name, value in features.items()
        }


# Estimator forbids overriding its methods, but to classes of this name.
class TPUEstimator(tpu_estimator.TPUEstimator):
    """Standardizes every input, and adds to what the model_fn makes.

    Args:
        moments: of the features; input_fns needn't know of them.
        kwargs: what a TPUEstimator takes.
    """

    def __init__(self, moments, **kwargs):
        super(TPUEstimator, self).__init__(**kwargs)
        self._moments = moments
        self.calls = []
        self.seconds = 0.0

    def _call_input_fn(self, input_fn, mode, input_context=None):
        dataset = super(TPUEstimator, self)._call_input_fn(
            input_fn, mode, input_context=input_context
        )
        self.calls.append("input_fn/" + mode)

        def scale(features, *labels):
            scaled = self._moments.scale(features)
            return (scaled,) + labels if labels else scaled

        return dataset.map(scale)

    def _call_model_fn(self, features, labels, mode, config):
        spec = super(TPUEstimator, self)._call_model_fn(features, labels, mode, config)
        self.calls.append("model_fn/" + mode)
        if mode == ModeKeys.TRAIN:
            norm = tf.global_norm(tf.trainable_variables(), name="weight_norm")
            tf.summary.scalar("weight_norm", norm)
            return spec._replace(
                training_hooks=list(spec.training_hooks) + [tf.train.NanTensorHook(norm)]
            )
        if mode == ModeKeys.EVAL:
            metrics = dict(spec.eval_metric_ops)
            total = tf.metrics.mean(tf.global_norm(tf.trainable_variables()))
            metrics["weight_norm"] = total
            return spec._replace(eval_metric_ops=metrics)
        return spec

    def _convert_train_steps_to_hooks(self, steps, max_steps):
        hooks = super(TPUEstimator, self)._convert_train_steps_to_hooks(steps, max_steps)
        self.calls.append("train_steps/%s/%s" % (steps, max_steps))
        return hooks

    def _convert_eval_steps_to_hooks(self, steps):
        self.calls.append("eval_steps/%s" % steps)
        return super(TPUEstimator, self)._convert_eval_steps_to_hooks(steps)

    def _train_model(self, input_fn, hooks, saving_listeners):
        start = time.time()
        try:
            return super(TPUEstimator, self)._train_model(input_fn, hooks, saving_listeners)
        finally:
            self.seconds += time.time() - start


class CountSaves(tf.train.CheckpointSaverListener):
    """Notes when checkpoints are saved."""

    def __init__(self):
        self.events = []

    def begin(self):
        self.events.append("begin")

    def after_save(self, session, global_step_value):
        self.events.append("saved %d" % global_step_value)

    def end(self, session, global_step_value):
        self.events.append("end %d" % global_step_value)


class StepLoss(tf.train.SessionRunHook):
    """Notes every loss."""

    def __init__(self):
        self.losses = []

    def before_run(self, run_context):
        return tf.train.SessionRunArgs("mean_squared_error/value:0")

    def after_run(self, run_context, run_values):
        self.losses.append(float(run_values.results))


def houses(count, seed):
    """Sizes and ages in their own units, and prices."""
    random = np.random.RandomState(seed)
    size = random.uniform(30, 200, size=(count, 1))
    age = random.uniform(0, 100, size=(count, 2))
    price = 0.02 * size[:, 0] - 0.01 * age.sum(axis=1) + 0.1 * random.normal(size=count)
    features = {"size": size.astype(np.float32), "age": age.astype(np.float32)}
    return features, price.astype(np.float32)


def make_input_fn(mode, seed, count):
    def input_fn(params):
        features, labels = houses(count, seed)
        if mode == ModeKeys.PREDICT:
            dataset = tf.data.Dataset.from_tensor_slices(features)
        else:
            dataset = tf.data.Dataset.from_tensor_slices((features, labels))
        if mode == ModeKeys.TRAIN:
            dataset = dataset.repeat()
        return dataset.batch(params["batch_size"], drop_remainder=mode == ModeKeys.TRAIN)

    return input_fn


def model_fn(features, labels, mode, config, params):
    del config
    inputs = tf.concat([features["age"], features["size"]], axis=1)
    with tf.variable_scope("tower", initializer=tf.glorot_uniform_initializer(seed=8)):
        for units in params["hidden"]:
            inputs = tf.layers.dense(inputs, units, activation=tf.nn.tanh)
        price = tf.layers.dense(inputs, 1)[:, 0]
    if mode == ModeKeys.PREDICT:
        return tpu_estimator.TPUEstimatorSpec(mode, predictions={"price": price})
    loss = tf.losses.mean_squared_error(labels, price)
    if mode == ModeKeys.EVAL:

        def metric_fn(labels, price):
            return {"mae": tf.metrics.mean_absolute_error(labels, price)}

        return tpu_estimator.TPUEstimatorSpec(mode, loss=loss, eval_metrics=(metric_fn, [labels, price]))
    optimizer = tf.train.RMSPropOptimizer(params["learning_rate"], momentum=0.5)
    train_op = optimizer.minimize(loss, tf.train.get_global_step())
    return tpu_estimator.TPUEstimatorSpec(mode, loss=loss, train_op=train_op)


def main(argv):
    parser = argparse.ArgumentParser(description="Trains, twice in a row, and reports.")
    parser.add_argument("output")
    parser.add_argument("--steps", type=int, default=25)
    parser.add_argument("--use_tpu", action="store_true")
    args = parser.parse_args(argv)
    training_data, _ = houses(400, seed=1)
    estimator = TPUEstimator(
        moments=Moments(training_data),
        model_fn=model_fn,
        config=tpu_config.RunConfig(
            model_dir=os.path.join(args.output, "model"),
            save_checkpoints_steps=20,
            save_summary_steps=10,
            tpu_config=tpu_config.TPUConfig(10),
        ),
        params={"learning_rate": 0.01, "hidden": [8, 4]},
        use_tpu=args.use_tpu,
        train_batch_size=20,
        eval_batch_size=25,
        predict_batch_size=7,
        export_to_tpu=False,
    )
    recorder = StepLoss()
    saves = CountSaves()
    train_input_fn = make_input_fn(ModeKeys.TRAIN, 1, 400)
    # steps adds to what was trained; max_steps counts from the start
    estimator.train(train_input_fn, steps=args.steps, hooks=[recorder], saving_listeners=[saves])
    estimator.train(train_input_fn, max_steps=2 * args.steps, hooks=[recorder])
    estimator.train(train_input_fn, max_steps=2 * args.steps, hooks=[recorder])
    metrics = estimator.evaluate(make_input_fn(ModeKeys.EVAL, 2, 90), steps=3)
    prices = [
        float(p["price"])
        for p in estimator.predict(make_input_fn(ModeKeys.PREDICT, 3, 20), predict_keys="price")
    ]
    raw = {"size": np.zeros([1, 1], np.float32), "age": np.zeros([1, 2], np.float32)}

    def serving_input_receiver_fn():
        features = {
            name: tf.placeholder(tf.float32, [None, value.shape[1]], name=name)
            for name, value in raw.items()
        }
        return tf.estimator.export.ServingInputReceiver(
            Moments(training_data).scale(features), features
        )

    estimator.export_saved_model(
        os.path.join(args.output, "export"), serving_input_receiver_fn, as_text=True
    )
    assert estimator.seconds > 0
    report = {
        "calls": estimator.calls,
        "saves": saves.events,
        "losses": recorder.losses,
        "metrics": {name: float(value) for name, value in metrics.items()},
        "prices": prices,
        "variables": estimator.get_variable_names(),
    }
    with open(os.path.join(args.output, "results.json"), "w") as f:
        json.dump(report, f, indent=4)


if __name__ == "__main__":
    main(sys.argv[1:])
