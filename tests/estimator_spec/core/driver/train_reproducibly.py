# SPDX-License-Identifier: Apache-2.0
"""Trains a model with seeds and saves it; two processes should write the same bytes.

python train_reproducibly.py VARIANT MODEL_DIR [THREADS]

VARIANT is `default`, `host` (the host's embedding core), `reference_variables` or
`host_reference_variables`. THREADS is the number of threads of an op, by default that of the
processors.
"""

from __future__ import annotations

import sys

import numpy as np
import tensorflow as tf

import estimator_spec as es
import tpu_columns

tf1 = tf.compat.v1
fc = tf.feature_column

# So many ids that several threads work on a native op.
ROWS, COLUMNS, BATCH, STEPS = 20_000, 6, 512, 40
KEYS = [f"ids{number}" for number in range(COLUMNS)]


def input_fn(params):
    """Returns random ids, three of them in each example, with repetitions."""
    random = np.random.default_rng(1)
    rows = BATCH * STEPS
    ids = {key: random.integers(0, ROWS, [rows, 3]) ** 2 % ROWS for key in KEYS}
    labels = random.integers(0, 2, [rows, 1]).astype(np.float32)
    data = tf.data.Dataset.from_tensor_slices((ids, labels)).shuffle(1000, seed=2)
    return data.batch(params["batch_size"], drop_remainder=True)


def main(variant, model_dir, threads=0):
    """Trains once."""
    tf.config.threading.set_intra_op_parallelism_threads(int(threads))
    if variant.endswith("reference_variables"):
        tf1.disable_resource_variables()
    columns = [
        tpu_columns.embedding_column(fc.categorical_column_with_identity(key, ROWS), 16)
        for key in KEYS
    ]

    def model_fn(features, labels, mode, params):
        del params
        hidden = tf1.feature_column.input_layer(features, columns)
        # Keras' layers have random seeds of their own, in TensorFlow 2.15 too.
        first, last = (tf1.glorot_uniform_initializer(seed=seed) for seed in (4, 5))
        hidden = tf1.layers.dense(hidden, 64, tf.nn.relu, kernel_initializer=first)
        hidden = tf1.layers.dropout(hidden, seed=6, training=True)
        logits = tf1.layers.dense(hidden, 1, kernel_initializer=last)
        loss = tf1.losses.sigmoid_cross_entropy(labels, logits)
        optimizer = tf1.train.AdagradOptimizer(0.1)
        train_op = optimizer.minimize(loss, tf1.train.get_global_step())
        return es.TPUEstimatorSpec(mode, loss=loss, train_op=train_op)

    core = {}
    if variant.startswith("host"):
        parameters = es.AdagradParameters(0.1)
        spec = es.EmbeddingConfigSpec(columns, parameters)
        core = {"embedding_config_spec": spec, "embedding_core": "host"}
    estimator = es.TPUEstimator(
        model_fn,
        config=es.RunConfig(model_dir=model_dir, tf_random_seed=3),
        use_tpu=False,
        train_batch_size=BATCH,
        **core,
    )
    estimator.train(input_fn)


if __name__ == "__main__":
    main(*sys.argv[1:])
