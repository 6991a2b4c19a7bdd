# SPDX-License-Identifier: Apache-2.0
"""Makes estimators of SavedModels on one side, and records comparable results.

    SIDE=reference python run_saved_models.py OUT classifier regressor
    SIDE=ours python run_saved_models.py OUT classifier regressor --donor OTHER_OUT
    SIDE=reference python run_saved_models.py OUT classifier --donor OTHER_OUT --continue-only

Trains a model for ten steps, exports all its modes to OUT/<case>/saved, and makes a
`SavedModelEstimator` of it, which evaluates, predicts, trains and exports: OUT/<case>.npz. With a
donor also one of the donor's SavedModel: OUT/<case>-continued.npz.
"""

from __future__ import annotations

import argparse
import os

import numpy as np
import run_side
import tensorflow as tf
from side import SIDE, estimator

tf1 = tf.compat.v1
ModeKeys = tf.estimator.ModeKeys if SIDE == "reference" else estimator.ModeKeys
if SIDE == "reference":
    from tensorflow_estimator.python.estimator.canned.saved_model_estimator import (
        SavedModelEstimator,
    )

    canned = tf.estimator
    export_lib = tf.estimator.export
    build_supervised = tf.estimator.experimental.build_raw_supervised_input_receiver_fn
else:
    SavedModelEstimator = estimator.experimental.SavedModelEstimator
    canned = export_lib = estimator
    build_supervised = estimator.build_raw_supervised_input_receiver_fn

STEPS = 10
WORDS = ("ant", "bee", "cat")


def data(seed):
    """Returns features and labels of 32 examples."""
    rng = np.random.RandomState(seed)
    word = rng.randint(0, 4, size=(32, 1))
    size = rng.normal(size=(32, 1)).astype(np.float32)
    features = {"word": np.array([*WORDS, "eel"])[word], "size": size}
    return features, (size + word > 1.5).astype(np.float32)


def seeded():
    """Returns a configuration with which each run has the same initial values."""
    return (tf.estimator if SIDE == "reference" else estimator).RunConfig(tf_random_seed=1)


def classifier(model_dir):
    """Returns a classifier with a vocabulary file, an asset of its SavedModel."""
    path = model_dir + "-words.txt"
    with open(path, "w") as file:
        file.write("".join(word + "\n" for word in WORDS))
    column = tf.feature_column.categorical_column_with_vocabulary_file(
        "word", path, len(WORDS), num_oov_buckets=1
    )
    columns = [
        tf.feature_column.embedding_column(column, 2),
        tf.feature_column.numeric_column("size"),
    ]
    return canned.DNNClassifier([4], columns, model_dir, config=seeded()), columns


def regressor(model_dir):
    """Returns a linear regressor."""
    column = tf.feature_column.categorical_column_with_hash_bucket("word", 5)
    columns = [column, tf.feature_column.numeric_column("size")]
    return canned.LinearRegressor(columns, model_dir, optimizer="Adagrad", config=seeded()), columns


CASES = {"classifier": classifier, "regressor": regressor}


def input_fn_of(seed, repeat=False):
    """Returns an input_fn over batches of 8."""

    def input_fn():
        made = tf.data.Dataset.from_tensor_slices(data(seed))
        return (made.repeat() if repeat else made).batch(8)

    return input_fn


def examples():
    """Returns the features of eight examples, serialized."""
    features, _ = data(3)
    made = []
    for word, size in zip(features["word"][:8, 0], features["size"][:8, 0], strict=True):
        example = tf.train.Example()
        example.features.feature["word"].bytes_list.value.append(word.encode())
        example.features.feature["size"].float_list.value.append(size)
        made.append(example.SerializeToString())
    return np.array(made, object)


def predict_input_fn_of(key):
    """Returns an input_fn of serialized examples."""

    def input_fn():
        return tf.data.Dataset.from_tensors({key: tf.constant(examples())})

    return input_fn


def receivers(spec):
    """Returns receiver functions by mode: raw features and labels, and serialized examples."""
    features = {
        "word": tf1.placeholder(tf.string, [None, 1], "word"),
        "size": tf1.placeholder(tf.float32, [None, 1], "size"),
    }
    supervised = build_supervised(features, tf1.placeholder(tf.float32, [None, 1], "label"))
    return {
        ModeKeys.TRAIN: supervised,
        ModeKeys.EVAL: supervised,
        ModeKeys.PREDICT: export_lib.build_parsing_serving_input_receiver_fn(spec),
    }


def make_saved_model(case, model_dir):
    """Trains a model and exports it to <model_dir>/saved."""
    model, columns = CASES[case](model_dir)
    model.train(input_fn_of(1, repeat=True), steps=STEPS)
    with tf.Graph().as_default():
        functions = receivers(tf.feature_column.make_parse_example_spec(columns))
        path = model.experimental_export_all_saved_models(model_dir, functions)
    os.rename(path.decode(), os.path.join(model_dir, "saved"))


class Losses(tf1.train.SessionRunHook):
    """Hook that records the loss of each step."""

    def __init__(self):
        self.values = []

    def begin(self):
        self._loss = tf1.get_collection(tf1.GraphKeys.LOSSES)[-1]

    def before_run(self, run_context):
        return tf1.train.SessionRunArgs(self._loss)

    def after_run(self, run_context, run_values):
        self.values.append(run_values.results)


def run_case(saved, model_dir):
    """Returns the record of an estimator of a SavedModel."""
    model = SavedModelEstimator(saved, model_dir)
    test, hook = input_fn_of(2), Losses()
    with tf1.Session(graph=tf.Graph()) as session:
        signatures = tf1.saved_model.load(session, ["serve"], saved).signature_def
    (key,) = signatures["serving_default"].inputs
    groups = {"metrics before": model.evaluate(test)}
    groups["predictions before"] = run_side.stacked(model.predict(predict_input_fn_of(key)))
    model.train(input_fn_of(1, repeat=True), hooks=[hook], steps=STEPS)
    groups["metrics"] = model.evaluate(test)
    groups["predictions"] = run_side.stacked(model.predict(predict_input_fn_of(key)))
    groups["variables"] = run_side.variables(model.latest_checkpoint())

    def receiver_fn():
        inputs = {key: tf1.placeholder(tf.string, [None])}
        return export_lib.ServingInputReceiver(inputs, inputs)

    path = model.export_saved_model(os.path.join(model_dir, "export"), receiver_fn)
    groups["served"] = run_side.served(path.decode(), {key: examples()})
    record = {"losses": np.array(hook.values), "names": np.array(model.get_variable_names())}
    for group, values in groups.items():
        for name, value in values.items():
            array = np.asarray(value)
            record[f"{group}:{name}"] = array.astype("S") if array.dtype == object else array
    return record


def main():
    """Runs all cases."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out")
    parser.add_argument("cases", nargs="+")
    parser.add_argument("--donor")
    parser.add_argument("--continue-only", action="store_true")
    args = parser.parse_args()
    tf1.logging.set_verbosity("ERROR")
    for case in args.cases:
        model_dir = os.path.join(args.out, case)
        runs = {}
        if not args.continue_only:
            make_saved_model(case, model_dir)
            runs[""] = model_dir
        if args.donor:
            runs["-continued"] = os.path.join(args.donor, case)
        for ending, source in runs.items():
            saved = os.path.join(source, "saved")
            record = run_case(saved, model_dir + ending + "-model")
            np.savez(model_dir + ending + ".npz", **record)


if __name__ == "__main__":
    main()
