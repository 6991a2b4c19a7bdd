# SPDX-License-Identifier: Apache-2.0
"""A canned wide and deep model with embeddings, trained by each process as its task.

Its data, losses and last line are those of `cluster_program`.
"""

from __future__ import annotations

import tensorflow as tf

import cluster_program
import estimator_spec as es
import tpu_columns

tf1 = tf.compat.v1


def main(model_dir, options):
    """Runs this process' task.

    Args:
        model_dir: the directory that all processes share.
        options: 'max_steps', and 'generation': 1 or 2.
    """
    config = es.run_config.RunConfig(
        model_dir, tf_random_seed=1, save_checkpoints_steps=10, experimental_max_worker_delay_secs=0
    )
    words = tf.feature_column.categorical_column_with_identity("word", cluster_program.WORDS)
    number = tf.feature_column.numeric_column("number")
    start = tf1.constant_initializer(0.05)
    embedding = (tpu_columns if options["generation"] == 1 else tf.feature_column).embedding_column
    module = es.canned.v1 if options["generation"] == 1 else es
    estimator = module.DNNLinearCombinedClassifier(
        linear_feature_columns=[words],
        dnn_feature_columns=[embedding(words, 4, initializer=start), number],
        dnn_hidden_units=[8],
        config=config,
    )

    def input_fn():
        return cluster_program.input_fn("train", {"batch_size": cluster_program.BATCH_SIZE})

    hooks = [cluster_program.PrintSteps()]
    es.train_and_evaluate(
        estimator,
        es.TrainSpec(input_fn, options["max_steps"], hooks=hooks),
        es.EvalSpec(input_fn, steps=4),
    )
    print("done", config.task_type, config.task_id, flush=True)
