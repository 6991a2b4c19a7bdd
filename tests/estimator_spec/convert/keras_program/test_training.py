# SPDX-License-Identifier: Apache-2.0
"""Further steps of programs whose optimizers haven't all rules of the estimator's."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

import estimator_spec
from estimator_spec import canned
from estimator_spec.compare.stages import Tolerances
from estimator_spec.convert.keras_columns.optimizers import OTHER_ROWS
from estimator_spec.convert.keras_columns.readings import NUMPY, TENSORFLOW
from estimator_spec.convert.keras_program import batches, proof, training, written
from estimator_spec.convert.keras_program.first_use import EstimatorUse
from estimator_spec.convert.keras_program.recording import ProofRecording
from estimator_spec.core.common.legacy_keras import keras_2
from estimator_spec.core.user_functions.model_spec import ModeKeys

pytest.importorskip("keras_rs", reason="needs the extra keras-rs")

fc = tf.feature_column
tf1 = tf.compat.v1
WORDS, WORDS_OF_OTHERS = (
    fc.categorical_column_with_vocabulary_list(key, ["ant", "bee", "cow"])
    for key in ("word", "other")
)


def input_fn():
    """Returns batches of words, of which one has a weight of 0 in every second batch."""
    words = np.array([["ant", "bee"], ["cow", "ant"], ["bee", "cow"], ["ant", "bee"]])
    weights = np.array([[1.0, 2.0], [1.0, 0.5], [0.0, 1.0], [1.0, 0.0]], np.float32)
    features = {"word": tf.sparse.from_dense(words)}
    features["other"] = tf.sparse.from_dense(words[::-1])
    features["weight"] = features["word"].with_values(tf.reshape(weights, [-1]))
    return tf.data.Dataset.from_tensor_slices((features, [0, 1, 1, 0])).repeat().batch(2)


def shared():
    """Returns columns with one table, which two lookups train."""
    with tf.Graph().as_default():
        return fc.shared_embeddings([WORDS, WORDS_OF_OTHERS], 2, max_norm=1.0)


def clipped():
    """Returns a deep model whose optimizer clips the gradient of each lookup."""
    optimizer = keras_2().optimizers.legacy.SGD(learning_rate=0.1, clipnorm=0.02)
    seed = estimator_spec.RunConfig(tf_random_seed=3)
    return estimator_spec.DNNClassifier([4], shared(), optimizer=optimizer, config=seed)


def weighted():
    """Returns a linear model whose optimizer changes rows with a gradient of 0."""
    columns = [fc.weighted_categorical_column(WORDS, "weight")]
    return canned.v1.LinearClassifier(columns, optimizer=tf1.train.MomentumOptimizer(0.1, 0.9))


CASES = {
    "zero gradients": (weighted, NUMPY, OTHER_ROWS, "linear/linear_model/word_weighted_by_weight"),
    "clipped sums": (clipped, TENSORFLOW, "clips the gradient of each lookup", "_shared_embedding"),
    "clipped sums by NumPy": (clipped, NUMPY, "clips the gradient of each lookup", "_shared_emb"),
}


MANY = pytest.mark.nightly("the same rule by the other reading")


@pytest.fixture(
    scope="module",
    params=[pytest.param(case, marks=[MANY] if "by NumPy" in case else []) for case in CASES],
)
def trained(request, tmp_path_factory):
    """Returns the use of an estimator, its program's sources, further steps, and the rule."""
    make, reading, *rule = CASES[request.param]
    estimator = make()
    estimator.train(input_fn, steps=2)
    use = EstimatorUse(estimator, estimator.canned_model, (), None, input_fn, ModeKeys.TRAIN)
    sources = written.plan_program(use, estimator.model_dir, "words.py", "", reading=reading)
    found = batches.read_batches(use, 2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training, "STEPS", 8)
        directory = str(tmp_path_factory.mktemp("steps"))
        yield use, sources, found, training.train_estimator(use, sources, found, directory), rule


@pytest.mark.parametrize("rate", ["learning_rate=0.1", "learning_rate=0.11"])
def test_a_rule_that_differs_is_named(rate, trained, tmp_path, monkeypatch):
    """Values that differ by the stated rule alone are a note; beside another cause they differ."""
    use, sources, found, steps, (rule, table) = trained
    text = sources.texts["model.py"]
    assert text.count("learning_rate=0.1,") == 1
    (tmp_path / "model.py").write_text(text.replace("learning_rate=0.1,", f"{rate},"))
    module = written.load_module(str(tmp_path))
    program = written.load_program(sources, module)
    monkeypatch.setattr(training, "train_estimator", lambda *_: steps)
    recording = ProofRecording()
    rest = (Tolerances(*proof.RULES), recording)
    items, notes = training.compare(use, program, found, *rest)
    wrong = [item.name for item in items if not item.agrees]
    if rate == "learning_rate=0.1":
        (note,) = notes
        assert rule in note and table in note and not wrong
        assert "global_step" in {item.name for item in items}
        assert {"8 further steps", "8 further steps: logits"} <= recording.stated.keys()
    else:
        assert not notes and not recording.stated
        assert any(table in name for name in wrong)
