# SPDX-License-Identifier: Apache-2.0
"""Trains the census model on a cluster of parameter servers, or in one process.

    python -m estimator_spec launch examples/census/census_cluster.py \
        --workers 2 --ps 2 --evaluator -- --model_dir=/tmp/census

runs it on this machine; without `launch` (and without TF_CONFIG) it trains and evaluates in one
process. `examples/cluster/` has manifests for Kubernetes and Vertex AI. Model and flags are those
of `census.py`.
"""

from __future__ import annotations

import census
import census_data
import census_model
import tensorflow as tf
from absl import app, flags

import estimator_spec as tpu_estimator

tf1 = tf.compat.v1

FLAGS = flags.FLAGS
# Every process must name the same directory.
flags.mark_flag_as_required("model_dir")


def main(argv: list[str]) -> None:
    """Runs this process' task: TF_CONFIG says which."""
    del argv
    tf1.logging.set_verbosity(tf1.logging.INFO)
    columns = census_model.embedding_columns(FLAGS.data_dir)

    def input_fn(file_name: str, is_training: bool) -> object:
        return census_data.input_fn_builder(FLAGS.data_dir, file_name, is_training, FLAGS.use_tpu)

    result = tpu_estimator.train_and_evaluate(
        census.make_estimator(census.run_config(FLAGS.model_dir), columns),
        tpu_estimator.TrainSpec(
            input_fn(census_data.TRAIN_FILE, True), max_steps=FLAGS.train_steps
        ),
        tpu_estimator.EvalSpec(
            input_fn(census_data.TEST_FILE, False), steps=None, start_delay_secs=0, throttle_secs=0
        ),
    )
    if result is not None:  # in one process, or in the evaluator
        metrics, _ = result
        print(f"test AUC {metrics['auc']:.4f} at step {metrics['global_step']}")


if __name__ == "__main__":
    app.run(main)
