# SPDX-License-Identifier: Apache-2.0
"""Inspection, conversion and continued training of other systems' checkpoints.

One of TensorFlow 1.15.5 (see `tests/data/`), and what a TPU run leaves, written by 1.15.5 (the
same folder) and by 2.15.1 (a golden).
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

import estimator_spec
import goldens
import tpu_columns
from estimator_spec import checkpoints
from goldens import TPU_CHECKPOINTS

tf1 = tf.compat.v1

FIXTURE = Path(__file__).resolve().parents[1] / "data" / "tf1_15_checkpoint"
TABLE = "input_layer/word_embedding/embedding_weights"
ROWS, WIDTH, STEP = 11, 4, 25


@pytest.mark.slow
@pytest.mark.parametrize("layout", [("div", 4), ("mod", 3)])
def test_tensorflow_1_converted(tmp_path, continue_training, tolerance, layout):
    """TensorFlow 1.15.5's checkpoint, re-sharded, continues as in TensorFlow 1.15.5."""
    strategy, shards = layout
    target = tmp_path / "model" / "model.ckpt-40"
    report = checkpoints.convert(FIXTURE, target, strategy=strategy, shards=shards)
    assert f"div × 1 → {strategy} × {shards}" in str(report)
    assert not checkpoints.diff(FIXTURE, target)
    actual = continue_training(str(target.parent))
    expected = json.loads((FIXTURE / "expected.json").read_text())
    for name in ("logits_before", "losses"):
        np.testing.assert_allclose(
            actual[name], expected[name], rtol=tolerance, atol=tolerance, err_msg=name
        )


def spec_of(strategy):
    """Returns the spec of the TPU run."""
    word = tf.feature_column.categorical_column_with_identity("word", ROWS)
    return estimator_spec.EmbeddingConfigSpec(
        [tpu_columns.embedding_column(word, WIDTH, combiner="sum")],
        estimator_spec.AdamParameters(0.1),
        partition_strategy=strategy,
    )


def input_fn(params):
    """Returns each word once."""
    ids = tf.SparseTensor([[i, 0] for i in range(ROWS)], list(range(ROWS)), [ROWS, 1])
    ids = tf.cast(ids, tf.int64)
    return tf.data.Dataset.from_tensors(({"word": ids}, np.zeros((ROWS, 1), np.float32)))


def model_fn(features, labels, mode, params):
    """Applies a dense layer to the word's embedding; predicts the embedding too."""
    embedded = tpu_columns.input_layer(features, spec_of("div").feature_columns)
    with tf1.variable_scope("head"):
        kernel = tf1.get_variable("kernel", [WIDTH, 1])
    loss = train_op = None
    if mode != estimator_spec.ModeKeys.PREDICT:
        loss = tf1.losses.mean_squared_error(labels, tf.matmul(embedded, kernel))
    if mode == estimator_spec.ModeKeys.TRAIN:
        train_op = tf1.train.AdamOptimizer(0.1).minimize(loss, tf1.train.get_global_step())
    return estimator_spec.TPUEstimatorSpec(
        mode, loss=loss, train_op=train_op, predictions={"embedded": embedded}
    )


def make(model_dir, strategy, shards=1, core=None):
    """Returns an estimator that continues from the checkpoint."""
    return estimator_spec.TPUEstimator(
        model_fn,
        config=estimator_spec.RunConfig(model_dir=str(model_dir)),
        params={},
        use_tpu=False,
        train_batch_size=ROWS,
        predict_batch_size=ROWS,
        embedding_config_spec=spec_of(strategy),
        embedding_core=core,
        embedding_shards=shards,
    )


TPU_RUNS = [
    pytest.param("2.15.", "div", marks=pytest.mark.reference),
    pytest.param("2.15.", "mod", marks=pytest.mark.reference),
    ("1.15.", "div"),
    ("1.15.", "mod"),
]


@pytest.fixture
def copied(request, tmp_path):
    """Copies the TPU run's checkpoint: (directory, tables and slots in row order)."""

    def copied(version, strategy):
        target = tmp_path / "old"
        if version == "1.15.":
            shutil.copytree(FIXTURE.parent / "tf1_15_tpu_checkpoint" / strategy, target)
            expected = dict(np.load(target / "expected.npz"))
        elif goldens.is_live(TPU_CHECKPOINTS.prefix + strategy):
            python = request.getfixturevalue("reference_python")
            goldens.start("reference", python, TPU_CHECKPOINTS.script, tmp_path, strategy)
            target = tmp_path / strategy  # stays where its state file says that it is
            expected = goldens.load(tmp_path, strategy)
        else:
            golden = goldens.read(TPU_CHECKPOINTS.prefix + strategy)
            goldens.lay_out(golden, target)
            expected = golden.record
        assert str(expected["version"]).startswith(version)
        return target, expected

    return copied


@pytest.mark.slow
@pytest.mark.parametrize(("version", "strategy"), TPU_RUNS)
def test_a_tpu_run_is_inspected(copied, version, strategy):
    """Its tables, shards and Adam slots are recognized, with a spec and without one."""
    directory, expected = copied(version, strategy)
    found = checkpoints.inspect(directory, spec_of(strategy))
    (table,) = found.tables
    assert (table.name, table.optimizer, table.shape) == (TABLE, "Adam (tpu)", (ROWS, WIDTH))
    assert (table.strategy, table.shards, table.stored_in) == (strategy, 3, 3)
    assert (found.missing, found.leftover, found.global_step) == ((), (), STEP)
    assert checkpoints.inspect(directory).tables[0].optimizer == "Adam (tpu)"
    for name in (TABLE, TABLE + "/Adam/m", TABLE + "/Adam/v"):
        rows = checkpoints.read_table(directory, name, strategy=strategy)
        np.testing.assert_array_equal(rows, expected[name].astype(np.float32))


@pytest.mark.slow
@pytest.mark.parametrize(("version", "strategy"), TPU_RUNS)
def test_a_tpu_run_trains_on_in_the_model(copied, tmp_path, version, strategy):
    """Converted to TF1's slots and one shard, it is evaluated and trained by the model's Adam."""
    directory, expected = copied(version, strategy)
    target = tmp_path / "new" / f"model.ckpt-{STEP}"
    report = checkpoints.convert(
        directory, target, spec_of(strategy), strategy="div", shards=1, slots="cpu"
    )
    assert any(note.startswith("Adam:") for note in report.notes)
    estimator = make(target.parent, "div")
    embedded = np.stack([found["embedded"] for found in estimator.predict(input_fn)])
    np.testing.assert_allclose(embedded, expected[TABLE], rtol=1e-6)
    estimator.train(input_fn, steps=1)
    found = {
        name: checkpoints.read_table(target.parent, name)
        for name in (TABLE, TABLE + "/Adam", TABLE + "/Adam_1")
    }
    # m = 0.9·m + 0.1·g, v = 0.999·v + 0.001·g²: continued from the old slots.
    m, v = expected[TABLE + "/Adam/m"], expected[TABLE + "/Adam/v"]
    gradient = (found[TABLE + "/Adam"] - 0.9 * m) / 0.1
    np.testing.assert_allclose(
        found[TABLE + "/Adam_1"], 0.999 * v + 0.001 * gradient**2, rtol=1e-3, atol=1e-4
    )
    powers = checkpoints.Checkpoint(tf.train.latest_checkpoint(str(target.parent)))
    with powers:
        beta2 = powers.value("beta2_power")
    t = STEP + 1
    assert beta2 == pytest.approx(0.999 ** (t + 1), rel=1e-5)
    rate = 0.1 * np.sqrt(1 - 0.999**t) / (1 - 0.9**t)
    step = rate * found[TABLE + "/Adam"] / (np.sqrt(found[TABLE + "/Adam_1"]) + 1e-8)
    np.testing.assert_allclose(found[TABLE], expected[TABLE] - step, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(("version", "strategy"), TPU_RUNS)
def test_a_tpu_run_trains_on_on_the_host_core(copied, version, strategy):
    """The host core continues from its tables and slots without a conversion."""
    directory, expected = copied(version, strategy)
    estimator = make(directory, strategy, 2, "host")
    embedded = np.stack([found["embedded"] for found in estimator.predict(input_fn)])
    np.testing.assert_allclose(embedded, expected[TABLE], rtol=1e-6)
    estimator.train(input_fn, steps=1)
    found = checkpoints.inspect(directory, spec_of(strategy))
    assert (found.global_step, found.missing, found.leftover) == (STEP + 1, (), ())
    m = checkpoints.read_table(directory, TABLE + "/Adam/m")
    v = checkpoints.read_table(directory, TABLE + "/Adam/v")
    gradient = (m - 0.9 * expected[TABLE + "/Adam/m"]) / 0.1
    wanted = 0.999 * expected[TABLE + "/Adam/v"] + 0.001 * gradient**2
    np.testing.assert_allclose(v, wanted, rtol=1e-3, atol=1e-4)
    # no bias correction
    table = checkpoints.read_table(directory, TABLE)
    np.testing.assert_allclose(
        table, expected[TABLE] - 0.1 * m / np.sqrt(v + 1e-16), rtol=1e-4, atol=1e-5
    )
