# SPDX-License-Identifier: Apache-2.0
"""Predicts incomes above 50,000 dollars: a legacy TPUEstimator program on today's TensorFlow.

    python examples/census/census.py

trains, evaluates, predicts and exports; then a second process serves the SavedModel and must give
the same probabilities. Only imports are not as they were:

    from tensorflow.compat.v1.estimator import tpu as tpu_estimator
    from tensorflow.compat.v1.tpu import experimental as tpu_columns

became

    import estimator_spec as tpu_estimator
    import tpu_columns
"""

from __future__ import annotations

import itertools
import json
import os
import random
import subprocess
import sys
import tempfile
from typing import Any

import census_data
import census_model
import census_report
import tensorflow as tf
from absl import app, flags

import estimator_spec as tpu_estimator

tf1 = tf.compat.v1

FLAGS = flags.FLAGS
flags.DEFINE_string("data_dir", census_data.DATA_DIR, "Where the Adult data is.")
flags.DEFINE_string("model_dir", None, "Checkpoints and summaries; a new directory if not given.")
flags.DEFINE_integer("train_steps", 2000, "Train up to this step.", lower_bound=1)
flags.DEFINE_integer("batch_size", 512, "Rows a training step.", lower_bound=1)
flags.DEFINE_integer("eval_batch_size", 1024, "Rows a step otherwise.", lower_bound=1)
flags.DEFINE_float("learning_rate", 0.001, "Adam's, at the first step.", lower_bound=0.0)
flags.DEFINE_float("dropout", census_model.DROPOUT, "Part of the units that a step leaves out.")
flags.DEFINE_integer("save_checkpoints_steps", 1000, "Steps between two checkpoints.")
flags.DEFINE_integer("iterations_per_loop", 100, "Steps between two returns from the TPU.")
flags.DEFINE_integer("serve_rows", 512, "Test rows on which serving is checked.", lower_bound=1)
flags.DEFINE_integer("seed", 1, "Seed of the initial values and the dropout.")
flags.DEFINE_bool("use_tpu", False, "Run on a TPU.")
flags.DEFINE_string("tpu", None, "The TPU's name or address.")
flags.DEFINE_enum(
    "embedding_core",
    None,
    ["host"],
    "Train the tables as a TPU would, on this machine. Not given: the model trains them.",
)


def run_config(model_dir: str) -> Any:
    """Parses the command line."""
    resolver = None
    if FLAGS.use_tpu:
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver(FLAGS.tpu)
    return tpu_estimator.RunConfig(
        cluster=resolver,
        model_dir=model_dir,
        tf_random_seed=FLAGS.seed,
        save_checkpoints_steps=FLAGS.save_checkpoints_steps,
        log_step_count_steps=500,
        tpu_config=tpu_estimator.TPUConfig(iterations_per_loop=FLAGS.iterations_per_loop),
    )


def make_estimator(config: Any, columns: list[Any]) -> Any:
    """Returns the estimator."""
    model_fn = census_model.model_fn_builder(
        columns,
        config.model_dir,
        FLAGS.learning_rate,
        FLAGS.train_steps,
        FLAGS.use_tpu,
        FLAGS.dropout,
    )
    return tpu_estimator.TPUEstimator(
        model_fn=model_fn,
        config=config,
        use_tpu=FLAGS.use_tpu,
        train_batch_size=FLAGS.batch_size,
        eval_batch_size=FLAGS.eval_batch_size,
        predict_batch_size=FLAGS.eval_batch_size,
        export_to_tpu=False,
        embedding_config_spec=census_model.embedding_config_spec(columns),
        embedding_core=FLAGS.embedding_core,
    )


def serve_elsewhere(saved_model: str, work_dir: str) -> list[float]:
    """Returns probabilities of the first test rows from a process with TensorFlow only."""
    output = os.path.join(work_dir, "served.json")
    command = [
        sys.executable,
        "-E",  # `estimator_spec run` restores the removed names by PYTHONPATH
        os.path.join(os.path.dirname(os.path.abspath(__file__)), "serve.py"),
        f"--saved_model={saved_model}",
        f"--data={os.path.join(FLAGS.data_dir, census_data.TEST_FILE)}",
        f"--rows={FLAGS.serve_rows}",
        f"--output={output}",
    ]
    subprocess.run(command, check=True)
    with open(output, encoding="utf-8") as file:
        answer = json.load(file)
    if answer["ours"]:
        raise RuntimeError(f"The serving process imported {answer['ours']}.")
    return list(answer["probability"])


def check_served(served: list[float], predicted: list[float]) -> float:
    """Returns the largest difference of served and predicted probabilities.

    Raises:
        RuntimeError: if they differ by more than rounding.
    """
    if len(served) != len(predicted):
        raise RuntimeError(f"{len(served)} probabilities served, {len(predicted)} predicted.")
    worst = max(abs(a - b) for a, b in zip(served, predicted, strict=True))
    if worst > 1e-5:
        raise RuntimeError(f"A served probability is {worst} off the predicted one.")
    return worst


def main(argv: list[str]) -> None:
    """Trains, evaluates, predicts, exports, serves, reports."""
    del argv
    tf1.logging.set_verbosity(tf1.logging.INFO)
    random.seed(FLAGS.seed)  # from which tf1.layers takes the seeds of its initial values
    model_dir = FLAGS.model_dir or tempfile.mkdtemp(prefix="census_")
    config = run_config(model_dir)
    columns = census_model.embedding_columns(FLAGS.data_dir)
    has_core = FLAGS.use_tpu or FLAGS.embedding_core is not None
    estimator = make_estimator(config, columns)

    def input_fn(file_name: str, is_training: bool) -> Any:
        return census_data.input_fn_builder(
            FLAGS.data_dir,
            file_name,
            is_training,
            FLAGS.use_tpu,
            columns if has_core else None,
        )

    speed = census_report.StepsPerSecondHook()
    estimator.train(
        input_fn(census_data.TRAIN_FILE, True), hooks=[speed], max_steps=FLAGS.train_steps
    )
    # A TPU evaluates full batches only, and needs their number.
    steps = census_data.TEST_ROWS // FLAGS.eval_batch_size if FLAGS.use_tpu else None
    metrics = estimator.evaluate(input_fn(census_data.TEST_FILE, False), steps=steps)
    predictions = estimator.predict(input_fn(census_data.TEST_FILE, False))
    first = itertools.islice(predictions, FLAGS.serve_rows)
    predicted = [float(prediction["probability"][0]) for prediction in first]
    predictions.close()

    saved_model = estimator.export_saved_model(
        os.path.join(model_dir, "export"), census_data.serving_input_receiver_fn
    )
    saved_model = tf.compat.as_str_any(saved_model)
    worst = check_served(serve_elsewhere(saved_model, model_dir), predicted)
    rows = census_report.column_rows(columns, has_core)
    print(
        f"\n{saved_model}\nserves the same {len(predicted)} probabilities "
        f"(largest difference {worst:.1e}).\n"
    )
    print(census_report.summary(metrics["auc"], speed.steps_per_second, rows))


if __name__ == "__main__":
    app.run(main)
