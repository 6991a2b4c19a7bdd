# SPDX-License-Identifier: Apache-2.0
"""After disable_v2_behavior(), as in most old programs, a dimension is an object, not a number."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest

PROGRAM = """
import json, sys
import numpy as np
import tensorflow as tf
tf1 = tf.compat.v1
if sys.argv[1] == "old":
    tf1.disable_v2_behavior()
import estimator_spec, tpu_columns

fc, size = tf.feature_column, 4
WIDTH = 40  # one that sums of rows are cut for
normal = tf1.truncated_normal_initializer(seed=5)
def column(key, make):
    ids = make(key, 20)
    length = 3 if key == "sequence" else 0
    return tpu_columns.embedding_column(ids, WIDTH, initializer=normal, max_sequence_length=length)
identity = fc.categorical_column_with_identity
sequence = fc.sequence_categorical_column_with_identity
names = [f"one{i}" for i in range(18)] + ["some", "sparse"]  # so many that their gradient is split
columns = [column(name, identity) for name in names]
steps = column("sequence", sequence)

def input_fn(params):
    rng = np.random.RandomState(1)
    features = {n: rng.randint(1, 20, (8 * size, 1)) for n in names}
    features["some"] = rng.randint(0, 20, (8 * size, 3))
    dataset = tf.data.Dataset.from_tensor_slices(features).batch(size, drop_remainder=True)
    def sparse(features):
        features["sparse"] = tf.sparse.from_dense(features["sparse"] % 7)
        features["sequence"] = tf.sparse.from_dense(features["some"])
        return features, tf.cast(features["one0"][:, 0] % 2, tf.float32)
    return dataset.map(sparse)

def model_fn(features, labels, mode, params):
    layer = tpu_columns.input_layer(features, columns)
    by_step, _ = tpu_columns.sequence_input_layer(features, [steps])
    layer = tf.concat([layer, tf.reduce_sum(by_step, 1)], 1)
    for number in range(2):
        weights = tf1.get_variable(f"w{number}", [layer.shape[1], 8], initializer=normal)
        layer = tf.tanh(tf.matmul(layer, weights))
    logits = tf.reduce_sum(layer, 1)
    if mode == estimator_spec.ModeKeys.PREDICT:
        return estimator_spec.TPUEstimatorSpec(mode, predictions={"logits": logits})
    loss = tf1.losses.sigmoid_cross_entropy(labels, logits)
    train_op = tf1.train.AdagradOptimizer(0.1).minimize(loss, tf1.train.get_global_step())
    return estimator_spec.TPUEstimatorSpec(mode, loss=loss, train_op=train_op)

found = []
for core, pipelining in ((None, False), ("host", True)):
    directory = f"{sys.argv[2]}/{core}{pipelining}"
    estimator = estimator_spec.TPUEstimator(
        model_fn, directory, estimator_spec.RunConfig(model_dir=directory, tf_random_seed=1),
        use_tpu=False, train_batch_size=size, eval_batch_size=size, predict_batch_size=size,
        embedding_core=core,
        embedding_config_spec=estimator_spec.EmbeddingConfigSpec(
            [*columns, steps], optimization_parameters=estimator_spec.AdagradParameters(0.1),
            pipeline_execution_with_tensor_core=pipelining))
    estimator.train(input_fn, steps=5)
    found.append([float(example["logits"]) for example in estimator.predict(input_fn)])
print(json.dumps(found))
"""


@pytest.mark.slow
def test_numbers_are_those_of_tf2(tmp_path):
    """Wide tables, dense, sparse and sequence ids train and predict as without that line."""
    found = {}
    for behavior in ("old", "new"):
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, behavior, str(tmp_path / behavior)],
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-3000:]
        found[behavior] = json.loads(done.stdout.splitlines()[-1])
    assert np.shape(found["old"]) == (2, 32)
    np.testing.assert_allclose(found["old"], found["new"], rtol=1e-4, atol=1e-5)
