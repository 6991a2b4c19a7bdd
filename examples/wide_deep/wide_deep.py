# SPDX-License-Identifier: Apache-2.0
"""Predicts incomes above 50,000 dollars by a linear, a deep, and a wide-and-deep model.

    python examples/wide_deep/wide_deep.py

trains the three canned estimators on the Adult data, evaluates them, and exports them for requests
of serialized `tf.Example`s; then a second process, with TensorFlow alone, evaluates the exported
models and must find the same probabilities. Wide and deep: H.-T. Cheng et al., DLRS 2016.

Only the import isn't as it was: `import estimator_spec as tf_estimator` was
`from tensorflow import estimator as tf_estimator`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from typing import Any

import numpy as np
import tensorflow as tf
import wide_deep_data as data
from absl import app, flags

import estimator_spec as tf_estimator

tf1 = tf.compat.v1

FLAGS = flags.FLAGS
flags.DEFINE_string("data_dir", data.DATA_DIR, "Where the Adult data is.")
flags.DEFINE_string("model_dir", None, "Checkpoints and exports; a new directory if not given.")
flags.DEFINE_multi_enum(
    "model",
    ["linear", "deep", "wide_deep"],
    ["linear", "deep", "wide_deep"],
    "Which models; --model may be repeated.",
)
flags.DEFINE_integer("train_steps", 1500, "Train up to this step.", lower_bound=1)
flags.DEFINE_integer("batch_size", 128, "Rows a training step.", lower_bound=1)
flags.DEFINE_integer("eval_batch_size", 1024, "Rows a step otherwise.", lower_bound=1)
flags.DEFINE_integer("seed", 1, "Seed of the initial values.")

HIDDEN_UNITS = (100, 50)


def linear_optimizer() -> Any:
    """Returns the optimizer of the linear model: FTRL with penalties keeps few of the weights."""
    return tf.keras.optimizers.legacy.Ftrl(
        0.1, l1_regularization_strength=0.05, l2_regularization_strength=0.05
    )


def deep_optimizer() -> Any:
    """Returns the optimizer of the network."""
    return tf.keras.optimizers.legacy.Adagrad(0.05)


def make_estimator(model: str, model_dir: str) -> Any:
    """Returns a canned estimator.

    Args:
        model: 'linear', 'deep' or 'wide_deep'.
        model_dir: its directory.
    """
    config = tf_estimator.RunConfig(
        model_dir=model_dir,
        tf_random_seed=FLAGS.seed,
        save_checkpoints_steps=1000,
        log_step_count_steps=500,
    )
    if model == "linear":
        return tf_estimator.LinearClassifier(
            data.wide_columns(), optimizer=linear_optimizer, config=config
        )
    if model == "deep":
        return tf_estimator.DNNClassifier(
            hidden_units=HIDDEN_UNITS,
            feature_columns=data.deep_columns(),
            optimizer=deep_optimizer,
            config=config,
        )
    return tf_estimator.DNNLinearCombinedClassifier(
        linear_feature_columns=data.wide_columns(),
        linear_optimizer=linear_optimizer,
        dnn_feature_columns=data.deep_columns(),
        dnn_optimizer=deep_optimizer,
        dnn_hidden_units=HIDDEN_UNITS,
        config=config,
    )


def export(estimator: Any, model: str, directory: str) -> str:
    """Exports a model whose requests are serialized `tf.Example`s; returns its path."""
    columns = {
        "linear": data.wide_columns,
        "deep": data.deep_columns,
        "wide_deep": lambda: data.wide_columns() + data.deep_columns(),
    }[model]()
    spec = tf.feature_column.make_parse_example_spec(columns)
    receiver_fn = tf_estimator.build_parsing_serving_input_receiver_fn(spec)
    return str(tf.compat.as_str_any(estimator.export_saved_model(directory, receiver_fn)))


def evaluate_elsewhere(paths: dict[str, str], work_dir: str) -> dict[str, Any]:
    """Returns AUC and probabilities of each exported model, from a process with TensorFlow only."""
    output = os.path.join(work_dir, "served.json")
    command = [
        sys.executable,
        os.path.join(data.HERE, "evaluate_exports.py"),
        f"--exports={json.dumps(paths)}",
        f"--data={os.path.join(FLAGS.data_dir, data.TEST_FILE)}",
        f"--output={output}",
    ]
    subprocess.run(command, check=True)
    with open(output, encoding="utf-8") as file:
        answer = json.load(file)
    if answer["ours"]:
        raise RuntimeError(f"The second process imported {answer['ours']}.")
    return dict(answer["models"])


def check_served(model: str, served: list[float], predicted: list[float]) -> float:
    """Returns the largest difference of served and predicted probabilities.

    Raises:
        RuntimeError: if they differ by more than rounding.
    """
    if len(served) != len(predicted):
        raise RuntimeError(f"{model}: {len(served)} rows served, {len(predicted)} predicted.")
    worst = float(np.abs(np.array(served) - np.array(predicted)).max())
    if worst > 1e-5:
        raise RuntimeError(f"{model}: a served probability is {worst} off the predicted one.")
    return worst


def main(argv: list[str]) -> None:
    """Trains, evaluates and exports the models, and compares with the second process."""
    del argv
    tf1.logging.set_verbosity(tf1.logging.INFO)
    work_dir = FLAGS.model_dir or tempfile.mkdtemp(prefix="wide_deep_")
    train = data.input_fn_builder(
        FLAGS.data_dir, data.TRAIN_FILE, FLAGS.batch_size, is_training=True
    )
    test = data.input_fn_builder(FLAGS.data_dir, data.TEST_FILE, FLAGS.eval_batch_size)
    metrics, predicted, paths = {}, {}, {}
    for model in FLAGS.model:
        estimator = make_estimator(model, os.path.join(work_dir, model))
        estimator.train(train, max_steps=FLAGS.train_steps)
        metrics[model] = estimator.evaluate(test)
        rows = estimator.predict(test, predict_keys=["probabilities"])
        predicted[model] = [float(row["probabilities"][1]) for row in rows]
        paths[model] = export(estimator, model, os.path.join(work_dir, "export", model))
    served = evaluate_elsewhere(paths, work_dir)
    print("\nmodel      test AUC  AUC when served  accuracy  largest difference")
    for model in FLAGS.model:
        worst = check_served(model, served[model]["probabilities"], predicted[model])
        found = metrics[model]
        print(
            f"{model:<9}  {found['auc']:.4f}    {served[model]['auc']:.4f}           "
            f"{found['accuracy']:.4f}    {worst:.1e}"
        )


if __name__ == "__main__":
    app.run(main)
