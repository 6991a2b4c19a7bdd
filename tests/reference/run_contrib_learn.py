# SPDX-License-Identifier: Apache-2.0
"""Trains models of `tf.contrib.learn`, and the same models of the reference's `tf.estimator`.

    SIDE=reference python run_contrib_learn.py OUT deep_classes linear_binary
    SIDE=ours python run_contrib_learn.py OUT deep_classes linear_binary

TensorFlow 2.15.1 has no `tf.contrib.learn`. Its canned estimators of the first generation are the
same models, with the loss reduction, the columns and the optimizers that `tf.contrib.learn` has by
default, given there. Both sides start at the same values; records have the reference's names.
"""

from __future__ import annotations

import argparse
import os
import re

import numpy as np
import tensorflow as tf
from side import SIDE, estimator

tf1 = tf.compat.v1
if SIDE == "ours":
    import estimator_spec

    estimator_spec.install()
    learn, layers = tf.contrib.learn, tf.contrib.layers

STEPS = 10
WORDS = ("ant", "bee", "cat")
WEIGHT = "z_weight"
BOUNDS = (-1.0, 0.0, 1.5)
MEAN = tf1.losses.Reduction.SUM_OVER_BATCH_SIZE


def data(seed, count=64):
    """Returns features and a number of each example."""
    rng = np.random.RandomState(seed)
    word = rng.randint(0, 4, size=(count, 1))
    place = rng.randint(0, 6, size=(count, 1))
    features = {
        "b_word": np.array([*WORDS, "eel"])[word],
        "a_place": np.char.add("p", place.astype(str)),
        "c_id": rng.randint(0, 5, size=(count, 1)).astype(np.int64),
        "y_pair": rng.normal(size=(count, 2)).astype(np.float32),
        "z_size": rng.normal(size=(count, 1)).astype(np.float32),
        WEIGHT: rng.uniform(0.5, 2, size=(count, 1)).astype(np.float32),
    }
    return features, features["z_size"] + word + 0.3 * place - 2


def columns():
    """Returns (deep columns, linear columns) of a side; layers of both sides have one order."""
    if SIDE == "ours":
        word = layers.sparse_column_with_keys("b_word", WORDS)
        place = layers.sparse_column_with_hash_bucket("a_place", 7)
        number = layers.sparse_column_with_integerized_feature("c_id", 5)
        size = layers.real_valued_column("z_size")
        deep = [
            layers.embedding_column(place, 3),
            layers.one_hot_column(word),
            layers.real_valued_column("z_size", normalizer=lambda value: value * 2),
            layers.real_valued_column("y_pair", dimension=2),
        ]
        cross = layers.crossed_column([word, place], 11, hash_key=0xDECAFCAFFE)
        buckets = layers.bucketized_column(size, BOUNDS)
        weighted = layers.weighted_sparse_column(place, WEIGHT)
        return deep, [word, number, cross, buckets, weighted, size]
    column = tf.feature_column
    word = column.categorical_column_with_vocabulary_list("b_word", WORDS)
    place = column.categorical_column_with_hash_bucket("a_place", 7)
    number = column.categorical_column_with_identity("c_id", 5)
    size = column.numeric_column("z_size")
    deep = [
        column.embedding_column(place, 3),
        column.indicator_column(word),
        column.numeric_column("z_size", normalizer_fn=lambda value: value * 2),
        column.numeric_column("y_pair", shape=2),
    ]
    cross = column.crossed_column(["a_place", "b_word"], 11)
    buckets = column.bucketized_column(size, BOUNDS)
    weighted = column.weighted_categorical_column(place, WEIGHT)
    return deep, [word, number, cross, buckets, weighted, size]


def deep_classes(model_dir):
    """Three classes, by the default optimizer."""
    deep, _ = columns()
    if SIDE == "ours":
        return learn.DNNClassifier([4, 3], deep, model_dir, n_classes=3)
    adagrad = tf1.train.AdagradOptimizer(0.05)
    return estimator.DNNClassifier(
        [4, 3], deep, model_dir, n_classes=3, optimizer=adagrad, loss_reduction=MEAN
    )


def deep_regressor(model_dir):
    """Weighted numbers, with clipped gradients."""
    deep, _ = columns()
    if SIDE == "ours":
        return learn.DNNRegressor(
            [4], deep, model_dir, WEIGHT, optimizer="SGD", gradient_clip_norm=0.5
        )

    class Clipped(tf1.train.GradientDescentOptimizer):
        def apply_gradients(self, grads_and_vars, *args, **kwargs):
            gradients, variables = zip(*grads_and_vars, strict=True)
            clipped, _ = tf.clip_by_global_norm(gradients, 0.5)
            pairs = list(zip(clipped, variables, strict=True))
            return super().apply_gradients(pairs, *args, **kwargs)

    return estimator.DNNRegressor(
        *([4], deep, model_dir, 1, WEIGHT), optimizer=Clipped(0.05), loss_reduction=MEAN
    )


def linear_binary(model_dir):
    """Two classes of weighted examples, by the default optimizer."""
    _, linear = columns()
    if SIDE == "ours":
        return learn.LinearClassifier(linear, model_dir, weight_column_name=WEIGHT)
    ftrl = tf1.train.FtrlOptimizer(min(0.2, len(linear) ** -0.5))
    return estimator.LinearClassifier(
        linear, model_dir, weight_column=WEIGHT, optimizer=ftrl, loss_reduction=MEAN
    )


def linear_regressor(model_dir):
    """Numbers, by an optimizer's name."""
    _, linear = columns()
    if SIDE == "ours":
        return learn.LinearRegressor(linear, model_dir, optimizer="Adagrad")
    rate = min(0.2, len(linear) ** -0.5)
    return estimator.LinearRegressor(
        linear, model_dir, optimizer=tf1.train.AdagradOptimizer(rate), loss_reduction=MEAN
    )


def combined_binary(model_dir):
    """Two classes by both parts and their default optimizers."""
    deep, linear = columns()
    if SIDE == "ours":
        return learn.DNNLinearCombinedClassifier(
            model_dir,
            linear_feature_columns=linear,
            dnn_feature_columns=deep,
            dnn_hidden_units=[4, 3],
            fix_global_step_increment_bug=True,
        )
    return estimator.DNNLinearCombinedClassifier(
        *(model_dir, linear, tf1.train.FtrlOptimizer(min(0.2, len(linear) ** -0.5))),
        *(deep, tf1.train.AdagradOptimizer(0.05), [4, 3]),
        loss_reduction=MEAN,
    )


CASES = {
    "deep_classes": deep_classes,
    "deep_regressor": deep_regressor,
    "linear_binary": linear_binary,
    "linear_regressor": linear_regressor,
    "combined_binary": combined_binary,
}
# By the names of tf.contrib.learn.
METRICS = {
    "loss": "average_loss",
    "accuracy": "accuracy",
    "auc": "auc",
    "auc_precision_recall": "auc_precision_recall",
    "precision/positive_threshold_0.500000_mean": "precision",
    "recall/positive_threshold_0.500000_mean": "recall",
    "labels/prediction_mean": "prediction/mean",
    "labels/actual_label_mean": "label/mean",
    "global_step": "global_step",
}


def input_fn_of(case, seed, repeat=False):
    """Returns an input_fn over batches of 16, by tensors as both sides take them."""

    def input_fn():
        features, numbers = data(seed)
        labels = numbers
        if "binary" in case:
            labels = (numbers > 0).astype(np.int64)
        elif "classes" in case:
            labels = np.digitize(numbers, [-0.5, 0.5]).astype(np.int64)
        made = tf.data.Dataset.from_tensor_slices((features, labels.astype(labels.dtype)))
        made = (made.repeat() if repeat else made).batch(16)
        return tf1.data.make_one_shot_iterator(made).get_next()

    return input_fn


def reference_name(name):
    """Returns the reference's name of a variable."""
    name = re.sub(r"/part_0$", "", name)
    if SIDE == "reference":
        return name
    name = re.sub(r"^(dnn/.*)/weights$", r"\1/kernel", name)
    name = re.sub(r"^(dnn/.*)/biases$", r"\1/bias", name)
    name = re.sub(
        r"^(dnn/input_from_feature_columns)/(.*)/kernel$",
        r"\1/input_layer/\2/embedding_weights",
        name,
    )
    name = name.replace("linear/bias_weight", "linear/linear_model/bias_weights")
    return re.sub(r"^linear/([^/]*)/weights?$", r"linear/linear_model/\1/weights", name)


class Start(tf1.train.SessionRunHook):
    """Hook that sets the variables before the first step, and records losses."""

    def __init__(self):
        self.losses = []

    def begin(self):
        self._loss = tf1.get_collection(tf1.GraphKeys.LOSSES)[-1]

    def after_create_session(self, session, coord):
        for variable in tf1.trainable_variables():
            name = reference_name(variable.op.name)
            rng = np.random.RandomState(sum(map(ord, name)))
            variable.load(rng.uniform(-0.5, 0.5, size=variable.shape), session)

    def before_run(self, run_context):
        return tf1.train.SessionRunArgs(self._loss)

    def after_run(self, run_context, run_values):
        self.losses.append(run_values.results)


def run_case(case, model_dir):
    """Returns the record of a case."""
    model, hook = CASES[case](model_dir), Start()
    train, test = input_fn_of(case, 1, repeat=True), input_fn_of(case, 2)
    if SIDE == "ours":
        model.fit(input_fn=train, steps=STEPS, monitors=[hook])
        metrics = model.evaluate(input_fn=test, steps=1)
        key = "scores" if "regressor" in case else "probabilities"
        found = [one[key] for one in model.predict(input_fn=test, outputs=[key])]
    else:
        model.train(train, hooks=[hook], steps=STEPS)
        metrics = model.evaluate(test, steps=1)
        key = "predictions" if "regressor" in case else "probabilities"
        found = [one[key] for one in model.predict(test)]
    record = {"losses": np.array(hook.losses)}
    record["predictions"] = np.reshape(np.array(found), [len(found), -1])
    for contrib, new in METRICS.items():
        name = contrib if SIDE == "ours" else new
        # tf.contrib.learn's regressions have the loss only.
        if name in metrics and not ("regressor" in case and "/" in new):
            record[f"metric:{new}"] = metrics[name]
    trained = {reference_name(name): name for name in model.get_variable_names()}
    for name, own in trained.items():
        if re.search("(kernel|bias|weights|global_step)$", name):
            record[f"variable:{name}"] = model.get_variable_value(own)
    return record


def main():
    """Runs all cases."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out")
    parser.add_argument("cases", nargs="+")
    args = parser.parse_args()
    tf1.logging.set_verbosity("ERROR")
    for case in args.cases:
        path = os.path.join(args.out, case)
        np.savez(path + ".npz", **run_case(case, path))


if __name__ == "__main__":
    main()
