# SPDX-License-Identifier: Apache-2.0
"""A hyperparameter service's worker, which reaches deep into the Estimator's modules.

The style of tools built around tf.estimator: names with a leading underscore, an Estimator whose
check of overridden methods is switched off, and old exports cleaned up by `gc`.
"""

import argparse
import json
import os
import re

import numpy as np
import tensorflow.compat.v1 as tf
from tensorflow_estimator.python.estimator import early_stopping
from tensorflow_estimator.python.estimator import estimator as estimator_lib
from tensorflow_estimator.python.estimator import exporter as exporter_lib
from tensorflow_estimator.python.estimator import gc
from tensorflow_estimator.python.estimator import model_fn as model_fn_lib
from tensorflow_estimator.python.estimator import training
from tensorflow_estimator.python.estimator import util
from tensorflow_estimator.python.estimator.export import export_lib
from tensorflow_estimator.python.estimator.hooks import hooks as hooks_lib
from tensorflow_estimator.python.estimator.tpu import tpu_estimator
from tensorflow_estimator.python.estimator.tpu._tpu_estimator_embedding import AdagradParameters

WEIGHTS = np.array([[1.5], [-2.0], [0.5]], np.float32)


class WorkerEstimator(tf.estimator.Estimator):
    """Reports what it does; overrides public methods, which tf.estimator forbids."""

    _assert_members_are_not_overridden = staticmethod(lambda _: None)

    def __init__(self, *args, **kwargs):
        self.calls = []
        super().__init__(*args, **kwargs)

    def evaluate(self, *args, **kwargs):
        self.calls.append("evaluate")
        return super().evaluate(*args, **kwargs)

    def _create_and_assert_global_step(self, graph):
        self.calls.append("global step")
        return super()._create_and_assert_global_step(graph)

    def _get_features_and_labels_from_input_fn(self, input_fn, mode):
        features, labels, hooks = super()._get_features_and_labels_from_input_fn(input_fn, mode)
        self.calls.append("{}: {} hooks".format(mode, len(hooks)))
        return {"x": 2.0 * features["x"]}, labels, hooks

    def _get_features_from_input_fn(self, input_fn, mode):
        features, hooks = super()._get_features_from_input_fn(input_fn, mode)
        return {"x": 2.0 * features["x"]}, hooks


class Strict(tf.estimator.Estimator):
    """Not allowed: the check is in place."""

    def evaluate(self, *args, **kwargs):
        return None


class Trials(training._ContinuousEvalListener):
    """Ends a trial after a number of evaluations."""

    def __init__(self, count):
        self.left = count
        self.seen = []

    def before_eval(self):
        self.seen.append("before")
        return True

    def after_eval(self, eval_result):
        assert eval_result.status == training._EvalStatus.EVALUATED
        self.seen.append(os.path.basename(eval_result.checkpoint_path))
        self.left -= 1
        return self.left > 0


class Losses(tf.train.SessionRunHook):
    """Keeps the loss of every step."""

    def __init__(self):
        self.values = []

    def before_run(self, run_context):
        return tf.train.SessionRunArgs(tf.get_collection("reported_loss")[0])

    def after_run(self, run_context, run_values):
        self.values.append(float(run_values.results))


def input_fn(repeat=True):
    random = np.random.RandomState(3)
    x = random.uniform(size=(64, 3)).astype(np.float32)
    data = tf.data.Dataset.from_tensor_slices(({"x": x}, x @ WEIGHTS))
    return (data.repeat() if repeat else data).batch(16)


def model_fn(features, labels, mode):
    kernel = tf.get_variable("kernel", [3, 1], initializer=tf.zeros_initializer())
    y = tf.matmul(features["x"], kernel)
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tf.estimator.EstimatorSpec(
            mode, {"y": y}, export_outputs={"serving_default": export_lib.PredictOutput({"y": y})}
        )
    loss = tf.losses.mean_squared_error(labels, y)
    tf.add_to_collection("reported_loss", loss)
    train_op = tf.train.GradientDescentOptimizer(0.1).minimize(loss, tf.train.get_global_step())
    metrics = {model_fn_lib.AVERAGE_LOSS_METRIC_KEY: tf.metrics.mean(loss)}
    return tf.estimator.EstimatorSpec(mode, {"y": y}, loss, train_op, metrics)


def refused(function):
    """The exception of a call."""
    try:
        function()
    except (TypeError, ValueError) as error:
        return type(error).__name__
    return None


def versions(export_dir, keep):
    """The numbers of the exports that a filter of `gc` keeps."""
    parser = lambda path: path._replace(
        export_version=int(re.search(r"(\d+)$", path.path).group(1))
    )
    return [path.export_version for path in keep(gc._get_paths(export_dir, parser))]


def collected(out):
    """What the filters of `gc` make of twelve versions."""
    base = os.path.join(out, "versions")
    for version in range(12):
        os.makedirs(os.path.join(base, str(version)))
    largest, every_fifth = gc._largest_export_versions(3), gc._mod_export_version(5)
    return {
        "largest": versions(base, largest),
        "every fifth": versions(base, every_fifth),
        "one of four": versions(base, gc._one_of_every_n_export_versions(4)),
        "both": versions(base, gc._union(largest, every_fifth)),
        "neither": versions(base, gc._negation(gc._union(largest, every_fifth))),
    }


def parsed():
    """What an input_fn's result is split into."""
    with tf.Graph().as_default():
        features, labels, hooks = util.parse_input_fn_result(input_fn())
        (hook,) = hooks
        assert isinstance(hook, util._DatasetInitializerHook)
        hook.begin()
        with tf.Session() as session:
            hook.after_create_session(session, None)
            shapes = [session.run(features["x"]).shape, session.run(labels).shape]
        only, nothing = util.parse_iterator_result(features)
    return [list(shape) for shape in shapes] + [only is features, nothing is None]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--job-dir", required=True)
    out = parser.parse_args().job_dir
    model_dir = os.path.join(out, "model")
    config = estimator_lib.maybe_overwrite_model_dir_and_session_config(
        tf.estimator.RunConfig(
            tf_random_seed=1, save_checkpoints_steps=20, save_summary_steps=1000
        ),
        model_dir,
    )
    estimator = WorkerEstimator(model_fn, config=config)
    before = estimator_lib._load_global_step_from_checkpoint_dir(model_dir)

    exporter = exporter_lib._SavedModelExporter(
        "latest", export_lib.build_raw_serving_input_receiver_fn({"x": tf.zeros([1, 3])})
    )
    eval_spec = tf.estimator.EvalSpec(
        lambda: input_fn(repeat=False), steps=None, exporters=exporter, throttle_secs=0
    )
    training._assert_eval_spec(eval_spec)
    losses, trials = Losses(), Trials(3)
    executor = training._TrainingExecutor(
        estimator,
        tf.estimator.TrainSpec(input_fn, max_steps=200),
        eval_spec,
        train_hooks=[losses],
        continuous_eval_listener=trials,
    )
    metrics, _ = executor.run()
    step = int(estimator_lib._load_global_step_from_checkpoint_dir(model_dir))

    stop_soon = early_stopping._StopOnPredicateHook(lambda: True, None, run_every_steps=5)
    also_stops = early_stopping._CheckForStoppingHook()
    WorkerEstimator(model_fn, os.path.join(out, "stopped")).train(
        input_fn, [stop_soon, also_stops], steps=50
    )
    stopped = estimator_lib._load_global_step_from_checkpoint_dir(os.path.join(out, "stopped"))
    last_step = hooks_lib._StopAtCheckpointStepHook(model_dir, step, 0)
    estimator.train(input_fn, [last_step], steps=20)

    report_dir = os.path.join(out, "report")
    estimator_lib._write_dict_to_summary(report_dir, {"score": 0.5, "global_step": 7}, 7)
    estimator_lib._write_checkpoint_path_to_summary(report_dir, "model.ckpt-7", 7)
    (events,) = tf.gfile.Glob(os.path.join(report_dir, "events*"))
    written = [
        [event.step, value.tag]
        for event in tf.train.summary_iterator(events)
        for value in event.summary.value
    ]

    receiver_fn = export_lib.build_supervised_input_receiver_fn_from_input_fn(input_fn)
    estimator.experimental_export_all_saved_models(
        os.path.join(out, "both"),
        {
            tf.estimator.ModeKeys.EVAL: receiver_fn,
            tf.estimator.ModeKeys.PREDICT: exporter._serving_input_receiver_fn,
        },
    )
    timestamped = export_lib.get_timestamped_export_dir(out).decode()
    temporary = export_lib.get_temp_export_dir(timestamped.encode()).decode()

    # Parts of the paths are times.
    for path in tf.gfile.Glob(os.path.join(model_dir, "export", "latest", "*")):
        if not path.endswith(max(tf.gfile.ListDirectory(os.path.dirname(path)))):
            tf.gfile.DeleteRecursively(path)
    for parent in (os.path.join(model_dir, "export", "latest"), os.path.join(out, "both")):
        (version,) = tf.gfile.ListDirectory(parent)
        tf.gfile.Rename(os.path.join(parent, version), os.path.join(parent, "version"))

    results = {
        "losses": losses.values,
        "metrics": {name: float(value) for name, value in metrics.items()},
        "variables": estimator.get_variable_names(),
        "predictions": [float(p["y"][0]) for p in estimator.predict(lambda: input_fn(False))],
        "steps": [int(before), step, int(stopped)],
        "calls": estimator.calls,
        "seen": trials.seen,
        "written": written,
        "gc": collected(out),
        "parsed": parsed(),
        "text": estimator_lib._dict_to_str({"b": 1, "a": 0.5, "image": b""}),
        "refused": [
            refused(lambda: Strict(model_fn)),
            refused(lambda: training._assert_eval_spec(None)),
            refused(lambda: training._TrainingExecutor(estimator, None, eval_spec)),
            refused(lambda: early_stopping._StopOnPredicateHook(None)),
            refused(lambda: hooks_lib._StopAtCheckpointStepHook(model_dir, None)),
            refused(lambda: util.parse_iterator_result((1, 2, 3))),
            refused(lambda: estimator_lib._verify_model_fn_args(lambda labels: None, None)),
        ],
        "tags": [list(export_lib.EXPORT_TAG_MAP[mode]) for mode in ("train", "eval", "infer")],
        "paths": [
            re.sub(r"\d+$", "TIME", os.path.basename(path)) for path in (timestamped, temporary)
        ],
        "batching": list(tpu_estimator.BatchConfig(1, 8, 1000, [2, 8])),
        "learning_rate": AdagradParameters(0.25).learning_rate,
        "keys": [model_fn_lib.LOSS_METRIC_KEY, tpu_estimator._WRAP_INPUT_FN_INTO_WHILE_LOOP],
        "unsupervised": sorted(
            export_lib.UnsupervisedInputReceiver({"a": tf.zeros([1])}, tf.zeros([1]))[0]
        ),
    }
    with open(os.path.join(out, "results.json"), "w") as file:
        json.dump(results, file)


if __name__ == "__main__":
    tf.disable_eager_execution()
    main()
