# SPDX-License-Identifier: Apache-2.0
"""Written programs of models with several heads, and with a loss function of the program."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

import estimator_spec
from estimator_spec import heads
from estimator_spec.compare.stages import Stage
from estimator_spec.convert.keras_program import batches, proof, report, written
from estimator_spec.convert.keras_program.first_use import EstimatorUse
from estimator_spec.core.common import legacy_keras
from estimator_spec.core.user_functions.model_spec import ModeKeys

pytest.importorskip("keras_rs", reason="needs the extra keras-rs")

fc = tf.feature_column
DELTA = 0.5


def huber(labels, logits):
    """Returns a loss that a program has written."""
    errors = tf.abs(labels - logits)
    return tf.where(errors < DELTA, 0.5 * errors**2, DELTA * (errors - 0.5 * DELTA))


def input_fn():
    """Returns batches with labels for each head."""
    random = np.random.RandomState(1)
    features = {
        "word": random.choice(["ant", "bee", ""], 24),
        "weight": random.uniform(0.5, 2.0, 24).astype(np.float32),
    }
    labels = {
        "price": random.normal(size=24).astype(np.float32),
        "sold": random.choice(["no", "yes"], 24),
    }
    return tf.data.Dataset.from_tensor_slices((features, labels)).repeat(4).batch(8)


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    """Returns the use of a trained estimator, its written program's parts and its directory."""
    directory = tmp_path_factory.mktemp("heads")
    head = heads.MultiHead(
        [
            heads.RegressionHead(name="price", loss_fn=huber),
            heads.BinaryClassHead("weight", label_vocabulary=["no", "yes"], name="sold"),
        ],
        [2.0, 0.5],
    )
    words = fc.categorical_column_with_vocabulary_list("word", ["ant", "bee"], num_oov_buckets=1)
    columns = [fc.embedding_column(words, 3)]
    estimator = estimator_spec.DNNEstimator(head, [4], columns, str(directory / "models"))
    estimator.train(input_fn)
    use = EstimatorUse(estimator, estimator.canned_model, (), None, input_fn, ModeKeys.TRAIN)
    sources = written.plan_program(use, estimator.model_dir, "heads.py", "")
    (directory / "out").mkdir()
    return use, written.write_program(sources, str(directory / "out")), directory / "out"


def test_everything_is_compared(program):
    """Predictions, losses and metrics of both heads agree, and the report says what differs."""
    use, written_program, _ = program
    found = batches.read_batches(use, 2)
    result = proof.compare(use, written_program, found, [], found)
    assert result.agrees, result.headline
    assert result.of(Stage.LOSSES) and result.of(Stage.TRAINED_VALUES)
    metrics = {item.name for item in result.of(Stage.METRICS)}
    assert {"loss", "loss/price", "loss/sold", "average_loss/price", "auc/sold"} <= metrics
    predictions = {item.name.removeprefix("batch 2: ") for item in result.of(Stage.PREDICTIONS)}
    assert {"price/predictions", "sold/probabilities", "sold/all_classes"} <= predictions
    sources = written_program.sources
    text = report.markdown(use, sources, result, report.of_keras(use, sources))
    assert "the loss of price" in text and "loss_fn" in text


def test_the_program_goes_on_where_this_project_is_not(program):
    """The moved program loads, and trains by the loss of the program that it has a copy of."""
    out = program[-1]
    text = (out / "model.py").read_text()
    assert "def price_loss(labels: Any, logits: Any) -> Any:" in text
    assert "    DELTA = 0.5\n" in text
    use = (
        "import keras, model, numpy as np, tensorflow as tf\n"
        "trained = keras.models.load_model(model.WEIGHTS)\n"
        "features = {'word': np.array(['ant', 'x']), 'weight': np.array([1.0, 2.0], 'f4')}\n"
        "labels = {'price': np.array([0.5, -1.0], 'f4'), 'sold': np.array(['no', 'yes'])}\n"
        "data = tf.data.Dataset.from_tensors((features, labels)).map(model.training_batch)\n"
        "losses = trained.fit(data, epochs=5, verbose=0).history['loss']\n"
        "assert losses[-1] < losses[0], losses\n"
    )
    subprocess.run([sys.executable, "-c", use], cwd=out, check=True, env={"PATH": ""})


def test_without_a_counterpart_of_the_optimizer(tmp_path):
    """The written model asks for an optimizer, and the report says that training has no partner."""
    optimizer = legacy_keras.keras_2().optimizers.legacy.Nadam(0.1)
    estimator = estimator_spec.LinearRegressor(
        [fc.numeric_column("weight")], model_dir=str(tmp_path / "models"), optimizer=optimizer
    )

    def prices():
        return input_fn().map(lambda features, labels: (features, labels["price"]))

    estimator.train(prices)
    use = EstimatorUse(estimator, estimator.canned_model, (), None, prices, ModeKeys.TRAIN)
    sources = written.plan_program(use, estimator.model_dir, "nadam.py", "")
    (tmp_path / "out").mkdir()
    program = written.write_program(sources, str(tmp_path / "out"))
    found = batches.read_batches(use, 2)
    result = proof.compare(use, program, found, [], found)
    assert result.agrees and result.of(Stage.METRICS) and not result.of(Stage.TRAINED_VALUES)
    assert "Training wasn't compared" in " ".join(result.remarks)
    top, _, rest = report.markdown(use, sources, result, report.of_keras(use, sources)).partition(
        "## How each column"
    )
    assert "**The model has no optimizer" in top
    assert "there is none of the same rule" in rest and "compile_model(trained, " in rest
    keras = pytest.importorskip("keras")
    module = program.module
    loaded = keras.models.load_model(module.WEIGHTS)
    data = prices().map(module.training_batch)
    with pytest.raises(ValueError, match="compile"):
        loaded.fit(data, verbose=0)
    with pytest.raises(TypeError, match="optimizer"):
        module.compile_model(loaded)
    module.compile_model(loaded, keras.optimizers.Adam(0.01))
    losses = loaded.fit(data, epochs=5, verbose=0).history["loss"]
    assert losses[-1] < losses[0]
