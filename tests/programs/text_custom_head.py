# SPDX-License-Identifier: Apache-2.0
"""Is the comment rude? A DNNEstimator over words, with a head of its own.

The style of a text tutorial of 2019: hashed words, a shared vocabulary file, two hidden layers, and
a head that weighs the two kinds of mistakes differently.
"""

import os
import json

from absl import app
from absl import flags
import numpy as np
import tensorflow as tf

flags.DEFINE_string("output_dir", None, "Where the model and results go.", required=True)
flags.DEFINE_integer("steps", 150, "Training steps.")
flags.DEFINE_float("miss_cost", 2.0, "How much worse a missed rude comment is than a false alarm.")

FLAGS = flags.FLAGS

NEUTRAL = ["the", "a", "it", "was", "is", "on", "of", "movie", "today", "really", "car", "tea"]
RUDE = ["stupid", "idiot", "awful", "trash"]
KIND = ["thanks", "please", "lovely", "great"]
LENGTH = 8


def comments(count, seed):
    rng = np.random.RandomState(seed)
    words = np.array(NEUTRAL * 2 + RUDE + KIND)[rng.randint(32, size=(count, LENGTH))]
    lengths = rng.randint(3, LENGTH + 1, size=count)
    words[np.arange(LENGTH) >= lengths[:, np.newaxis]] = ""
    rude = np.isin(words, RUDE).sum(axis=1) - 0.5 * np.isin(words, KIND).sum(axis=1)
    return {"words": words.astype("S"), "first": words[:, :1].astype("S")}, (rude > 0.6).astype(np.float32).reshape(-1, 1)


def input_fn(data, batch_size, training=False):
    dataset = tf.data.Dataset.from_tensor_slices(data)
    if training:
        dataset = dataset.shuffle(500, seed=2).repeat()
    return dataset.batch(batch_size)


class CostHead(tf.estimator.Head):
    """Logistic regression whose loss counts a missed positive `miss_cost` times."""

    def __init__(self, miss_cost, name=None):
        self._miss_cost = miss_cost
        self._name = name

    @property
    def name(self):
        return self._name

    @property
    def logits_dimension(self):
        return 1

    @property
    def loss_reduction(self):
        return tf.keras.losses.Reduction.SUM_OVER_BATCH_SIZE

    def loss(self, labels, logits, features=None, mode=None, regularization_losses=None):
        del features, mode
        losses = tf.nn.weighted_cross_entropy_with_logits(
            labels=tf.cast(labels, tf.float32), logits=logits, pos_weight=self._miss_cost)
        loss = tf.reduce_mean(losses)
        if regularization_losses:
            loss += tf.add_n(regularization_losses)
        return loss

    def predictions(self, logits):
        rude = tf.sigmoid(logits)
        # The threshold at which both kinds of mistakes cost the same.
        threshold = 1.0 / (1.0 + self._miss_cost)
        return {"logits": logits, "rude": rude, "flag": tf.cast(rude > threshold, tf.int64)}

    def metrics(self, regularization_losses=None):
        return {"recall": tf.keras.metrics.Recall(), "mean_rude": tf.keras.metrics.Mean()}

    def update_metrics(self, eval_metrics, features, logits, labels, mode=None,
                       regularization_losses=None):
        predictions = self.predictions(logits)
        eval_metrics["recall"].update_state(labels, predictions["flag"])
        eval_metrics["mean_rude"].update_state(predictions["rude"])
        return eval_metrics

    def create_estimator_spec(self, features, mode, logits, labels=None, optimizer=None,
                              trainable_variables=None, train_op_fn=None, update_ops=None,
                              regularization_losses=None):
        predictions = self.predictions(logits)
        if mode == tf.estimator.ModeKeys.PREDICT:
            output = tf.estimator.export.PredictOutput(predictions)
            return tf.estimator.EstimatorSpec(
                mode, predictions=predictions,
                export_outputs={"serving_default": output, "predict": output})
        loss = self.loss(labels, logits, features, mode, regularization_losses)
        if mode == tf.estimator.ModeKeys.EVAL:
            metrics = self.update_metrics(
                self.metrics(), features, logits, labels, mode, regularization_losses)
            return tf.estimator.EstimatorSpec(
                mode, predictions=predictions, loss=loss, eval_metric_ops=metrics)
        if train_op_fn is not None:
            train_op = train_op_fn(loss)
        else:
            train_op = tf.group(*optimizer.get_updates(loss, trainable_variables))
        return tf.estimator.EstimatorSpec(mode, predictions=predictions, loss=loss,
                                          train_op=train_op)


class Recorder(tf.estimator.SessionRunHook):
    """Starts all layers with the same weights everywhere, and records the losses."""

    def __init__(self):
        self.losses = []

    def begin(self):
        self._loss = tf.compat.v1.get_collection("losses")[-1]
        self._assigned = []
        rng = np.random.RandomState(8)
        for variable in sorted(tf.compat.v1.trainable_variables(), key=lambda v: v.name):
            if len(variable.shape) == 2:
                value = tf.compat.v1.placeholder(tf.float32, variable.shape)
                start = 0.4 * rng.normal(size=variable.shape.as_list())
                self._assigned.append((variable.assign(value).op, {value: start}))

    def after_create_session(self, session, coord):
        if session.run(tf.compat.v1.train.get_global_step()) == 0:
            for op, feed in self._assigned:
                session.run(op, feed)

    def before_run(self, run_context):
        return tf.estimator.SessionRunArgs(self._loss)

    def after_run(self, run_context, run_values):
        self.losses.append(float(run_values.results))


def serving_input_fn():
    features = {"words": tf.compat.v1.placeholder(tf.string, [None, LENGTH], name="words"),
                "first": tf.compat.v1.placeholder(tf.string, [None, 1], name="first")}
    return tf.estimator.export.ServingInputReceiver(features, features)


def feature_columns(vocabulary_file):
    known = tf.feature_column.categorical_column_with_vocabulary_file(
        "words", vocabulary_file, num_oov_buckets=3)
    hashed = tf.feature_column.categorical_column_with_hash_bucket("first", 40)
    return [
        tf.feature_column.embedding_column(known, 6, combiner="sqrtn"),
        tf.feature_column.embedding_column(hashed, 3, combiner="mean"),
    ]


def main(argv):
    del argv
    vocabulary_file = os.path.join(FLAGS.output_dir, "words.txt")
    with open(vocabulary_file, "w") as f:
        f.write("\n".join(sorted(NEUTRAL + RUDE + KIND)) + "\n")
    train, test, new = comments(500, 1), comments(120, 2), comments(5, 3)
    columns = feature_columns(vocabulary_file)
    estimator = tf.estimator.DNNEstimator(
        head=CostHead(FLAGS.miss_cost, name="cost"),
        feature_columns=columns,
        hidden_units=[8, 4],
        activation_fn=tf.nn.elu,
        optimizer=tf.keras.optimizers.legacy.Adam(0.02),
        model_dir=os.path.join(FLAGS.output_dir, "model"),
        config=tf.estimator.RunConfig(tf_random_seed=4, save_checkpoints_steps=75))
    recorder = Recorder()
    estimator.train(lambda: input_fn(train, 32, training=True), hooks=[recorder], steps=FLAGS.steps)
    metrics = estimator.evaluate(lambda: input_fn(test, 50))
    predictions = list(estimator.predict(lambda: input_fn((new[0], new[1]), 3)))
    path = estimator.export_saved_model(
        os.path.join(FLAGS.output_dir, "export"),
        serving_input_fn)
    serve = tf.saved_model.load(path.decode("utf-8")).signatures["serving_default"]
    served = serve(words=tf.constant(new[0]["words"]), first=tf.constant(new[0]["first"]))
    with open(os.path.join(FLAGS.output_dir, "results.json"), "w") as f:
        json.dump({
            "losses": recorder.losses,
            "metrics": {key: float(value) for key, value in metrics.items()},
            "rude": [float(p["rude"][0]) for p in predictions],
            "flags": [int(p["flag"][0]) for p in predictions],
            "served": served["rude"].numpy()[:, 0].tolist(),
            "variables": estimator.get_variable_names(),
        }, f, indent=2)


if __name__ == "__main__":
    tf.get_logger().setLevel("ERROR")
    app.run(main)
