# SPDX-License-Identifier: Apache-2.0
"""A program whose processes train one table, each row of which is a function of its slot.

    python counting_program.py MODEL_DIR '{"max_steps": 100, "save_steps": 10}'

Each element of a row has the gradient one in each step that looks the row up. So Adagrad's
accumulator is the number of these steps, plus its initial value, and the row is a sum over them.
SIDE=reference in the environment runs it with TensorFlow 2.15.1's own TPUEstimator.
"""

from __future__ import annotations

import json
import os
import sys
import time

import numpy as np
import tensorflow as tf

tf1 = tf.compat.v1
RATE, START = 0.1, 0.1
DEFAULTS = {"rows": 2_000, "batch": 1_500, "width": 16, "max_steps": 100, "save_steps": 10}


def random_ids(rows, count):
    """Returns random rows of a table, each once, as an op."""
    return tf.random.shuffle(tf.range(rows, dtype=tf.int64))[:count]


def read_table(reader):
    """Returns the rows of a checkpoint's table, and their accumulators."""
    shapes = reader.get_variable_to_shape_map()
    table, slot = sorted((name for name in shapes if len(shapes[name]) == 2), key=len)
    return reader.get_tensor(table), reader.get_tensor(slot)


def count_wrong_rows(reader):
    """Returns how many rows of a checkpoint disagree with their accumulators."""
    rows, accumulators = read_table(reader)
    counts = np.rint(accumulators - START).astype(int)
    taken = START + np.arange(1, counts.max() + 1)
    values = -RATE * np.concatenate([[0.0], np.cumsum(1 / np.sqrt(taken))])
    lost = accumulators.min(axis=1) != accumulators.max(axis=1)
    wrong = ~np.isclose(rows, values[counts], rtol=1e-3, atol=1e-3).all(axis=1)
    return int((lost | wrong).sum())


def main(model_dir, options):
    """Runs this process' task."""
    options = DEFAULTS | {"core": None} | options
    more = {}
    if os.environ.get("SIDE") == "reference":
        names, tpu, columns = tf1.estimator, tf1.estimator.tpu, tf1.tpu.experimental
        spec, adagrad = tpu.experimental.EmbeddingConfigSpec, columns.AdagradParameters
    else:
        import estimator_spec as tpu
        import tpu_columns as columns

        names, spec, adagrad = tpu, tpu.EmbeddingConfigSpec, tpu.AdagradParameters
        more["embedding_core"] = options["core"]
    words = tf1.feature_column.categorical_column_with_identity("word", options["rows"])
    column = columns.embedding_column(
        words, options["width"], combiner="sum", initializer=tf1.zeros_initializer()
    )
    config = tpu.RunConfig(
        save_checkpoints_steps=options["save_steps"],
        save_summary_steps=None,
        keep_checkpoint_max=1_000,
        experimental_max_worker_delay_secs=0,
    )
    servers = max(config.num_ps_replicas, 1)
    partitioner = tf1.fixed_size_partitioner(servers) if not more and servers > 1 else None

    def input_fn(params):
        del params
        shape = [options["batch"], 1]

        def ids(_):
            rows = random_ids(options["rows"], options["batch"])
            return {"word": tf.ensure_shape(rows[:, tf.newaxis], shape)}

        return tf.data.Dataset.range(1).repeat().map(ids)

    def model_fn(features, labels, mode, params):
        del labels, params
        with tf1.variable_scope("model", partitioner=partitioner):
            loss = tf.reduce_sum(tf1.feature_column.input_layer(features, [column]))
        step = tf1.train.get_or_create_global_step()
        optimizer = tf1.train.AdagradOptimizer(RATE, START)
        train_op = optimizer.minimize(loss, step)
        return tpu.TPUEstimatorSpec(mode, loss=loss, train_op=train_op)

    estimator = tpu.TPUEstimator(
        model_fn,
        model_dir=model_dir,
        config=config,
        use_tpu=False,
        train_batch_size=options["batch"],
        eval_batch_size=options["batch"],
        embedding_config_spec=spec(
            feature_columns=[column],
            optimization_parameters=adagrad(RATE, initial_accumulator=START),
        ),
        **more,
    )
    start = time.perf_counter()
    names.train_and_evaluate(
        estimator,
        names.TrainSpec(input_fn, options["max_steps"]),
        names.EvalSpec(input_fn, steps=1),
    )
    print("done", config.task_type, round(time.perf_counter() - start, 1), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]) if len(sys.argv) > 2 else {})
