# SPDX-License-Identifier: Apache-2.0
"""Further steps of a program without TensorFlow, whose optimizers leave rows without gradient."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from estimator_spec import canned
from estimator_spec.compare.stages import Tolerances
from estimator_spec.convert.keras_columns.optimizers import OTHER_ROWS
from estimator_spec.convert.keras_columns.readings import NUMPY
from estimator_spec.convert.keras_program import batches, proof, training, written
from estimator_spec.convert.keras_program.first_use import EstimatorUse
from estimator_spec.convert.keras_program.recording import ProofRecording
from estimator_spec.core.user_functions.model_spec import ModeKeys

pytest.importorskip("keras_rs", reason="needs the extra keras-rs")

fc = tf.feature_column
tf1 = tf.compat.v1
WORDS = fc.categorical_column_with_vocabulary_list("word", ["ant", "bee", "cow"])


def input_fn():
    """Returns batches of words, of which one has a weight of 0 in every second batch."""
    words = np.array([["ant", "bee"], ["cow", "ant"], ["bee", "cow"], ["ant", "bee"]])
    weights = np.array([[1.0, 2.0], [1.0, 0.5], [0.0, 1.0], [1.0, 0.0]], np.float32)
    features = {"word": tf.sparse.from_dense(words)}
    features["weight"] = features["word"].with_values(tf.reshape(weights, [-1]))
    return tf.data.Dataset.from_tensor_slices((features, [0, 1, 1, 0])).repeat().batch(2)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Returns the use of an estimator, its program's sources, and its further steps."""
    estimator = canned.v1.LinearClassifier(
        [fc.weighted_categorical_column(WORDS, "weight")],
        str(tmp_path_factory.mktemp("models")),
        optimizer=tf1.train.MomentumOptimizer(0.1, 0.9),
    )
    estimator.train(input_fn, steps=2)
    use = EstimatorUse(estimator, estimator.canned_model, (), None, input_fn, ModeKeys.TRAIN)
    sources = written.plan_program(use, estimator.model_dir, "words.py", "", reading=NUMPY)
    found = batches.read_batches(use, 2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training, "STEPS", 8)
        directory = str(tmp_path_factory.mktemp("steps"))
        yield use, sources, found, training.train_estimator(use, sources, found, directory)


@pytest.mark.parametrize("rate", ["learning_rate=0.1", "learning_rate=0.11"])
def test_a_rule_that_differs_is_named(rate, trained, tmp_path, monkeypatch):
    """Values that differ by the stated rule alone are a note; beside another cause they differ."""
    use, sources, found, steps = trained
    text = sources.texts["model.py"]
    assert text.count("learning_rate=0.1,") == 1
    (tmp_path / "model.py").write_text(text.replace("learning_rate=0.1,", f"{rate},"))
    module = written.load_module(str(tmp_path))
    model = written.trained_model(sources, module)
    monkeypatch.setattr(training, "train_estimator", lambda *_: steps)
    items, notes = training.compare(
        use, sources, module, model, found, Tolerances(*proof.RULES), ProofRecording()
    )
    table = "linear/linear_model/word_weighted_by_weight/weights"
    names = {item.name for item in items}
    if rate == "learning_rate=0.1":
        (note,) = notes
        assert OTHER_ROWS in note and table in note
        assert all(item.agrees for item in items) and table not in names
        assert {"linear/linear_model/bias_weights", "global_step"} & names
    else:
        assert not notes and table in {item.name for item in items if not item.agrees}
