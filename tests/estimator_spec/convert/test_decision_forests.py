# SPDX-License-Identifier: Apache-2.0
"""Boosted trees as models of Yggdrasil Decision Forests, compared with their estimators.

The trees are those of `tests/data/boosted_trees/`. Needs ydf.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

import estimator_spec
import make_boosted_trees as made
from estimator_spec import convert, heads

DATA = Path(__file__).resolve().parents[2] / "data"


def estimator_of(name, kind=None, **changed):
    """Returns an estimator, and the checkpoint of its trees."""
    own_kind, arguments, _ = made.make_models()[name]
    estimator = getattr(estimator_spec, kind or own_kind)(
        **{"n_batches_per_layer": 1, "model_dir": "nothing", **arguments, **changed}
    )
    return estimator, str(DATA / "boosted_trees" / "tf2.8.4" / name / "model.ckpt-14")


def examples():
    """Returns features of examples, among them those that no training has seen."""
    parts = [made.make_features(rows, seed) for rows, seed in ((made.TEST_ROWS, 1), (200, 5))]
    return {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}


@pytest.mark.parametrize("name", ["binary", "classes", "numbers", "equality"])
def test_predictions_are_equal(name, tmp_path):
    """A converted model, written and read again, predicts what the estimator predicts, to 1e-6."""
    ydf = pytest.importorskip("ydf")
    estimator, checkpoint = estimator_of(name)
    convert.to_ydf(estimator, checkpoint).save(str(tmp_path / "model"))
    features = examples()
    flat = {key: values if key == "x" else values[:, 0] for key, values in features.items()}
    flat["place"] = flat["place"].astype(str)
    found = ydf.load_model(str(tmp_path / "model")).predict(flat)
    predicted = estimator.predict(
        lambda: tf.data.Dataset.from_tensors(features), checkpoint_path=checkpoint
    )
    key = {"binary": "logistic", "classes": "probabilities"}.get(name, "predictions")
    expected = np.stack([one[key] for one in predicted])
    np.testing.assert_allclose(found, np.squeeze(expected), rtol=1e-6, atol=1e-6)


def test_words_of_a_categorical_column(tmp_path):
    """Unknown words and missing ones go where TensorFlow sends them, by the slow engine."""
    pytest.importorskip("ydf")
    words = tf.feature_column.categorical_column_with_vocabulary_list("place", ["a", "b", "c", "d"])
    estimator, checkpoint = estimator_of("equality", feature_columns=[words])
    given = np.asarray(["a", "b", "c", "d", "", "z"])
    features = {"place": given[:, np.newaxis]}
    predicted = estimator.predict(
        lambda: tf.data.Dataset.from_tensors(features), checkpoint_path=checkpoint
    )
    expected = [one["predictions"][0] for one in predicted]
    model = convert.to_ydf(estimator, checkpoint)
    found = model.predict({"place": given}, use_slow_engine=True)
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_the_command_in_the_error_of_train_trains():
    """The command that `train` names makes as many trees, as deep, by ydf."""
    ydf = pytest.importorskip("ydf")
    estimator, _ = estimator_of("numbers", n_trees=4, max_depth=2)
    with pytest.raises(RuntimeError, match="ydf") as error:
        estimator.train(lambda: None)
    command = re.search(r"ydf\.GradientBoostedTreesLearner\(.*\)\.train", str(error.value))[0]
    features = made.make_features(100, seed=5)
    examples = {"x": features["x"], "label": made.score(features)[:, 0]}
    model = eval(command, {"ydf": ydf})(examples, verbose=0)
    assert model.num_trees() == 4

    def splits(node):
        return 0 if node.is_leaf else 1 + max(splits(node.pos_child), splits(node.neg_child))

    assert [splits(tree.root) for tree in model.get_all_trees()] == [2] * 4


def with_columns(*columns):
    """Returns the estimator of numbers with other columns, whose trees don't matter."""
    return estimator_of("numbers", feature_columns=list(columns))[0]


column = tf.feature_column


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: estimator_spec.LinearRegressor([]), TypeError, "takes a BoostedTreesClassifier"),
        (lambda: estimator_of("pairs")[0], ValueError, "RegressionHead with 2 logits predicts n"),
        (
            lambda: estimator_of(
                "numbers", kind="BoostedTreesEstimator", head=heads.PoissonRegressionHead()
            )[0],
            ValueError,
            "PoissonRegressionHead with 1 logits",
        ),
        (
            lambda: with_columns(column.numeric_column("x", normalizer_fn=tf.math.log)),
            ValueError,
            "Column 'x' has a normalizer_fn",
        ),
        (
            lambda: with_columns(column.categorical_column_with_hash_bucket("place", 4)),
            ValueError,
            "'place', a HashedCategoricalColumn, has no counterpart",
        ),
        (
            lambda: with_columns(column.categorical_column_with_identity("place", 4, 0)),
            ValueError,
            "'place' has ids for words that aren't in its vocabulary",
        ),
        (lambda: with_columns(column.numeric_column("label")), ValueError, "key of a feature"),
        (lambda: estimator_of("numbers")[0], ValueError, "Could not find trained model"),
    ],
)
def test_what_has_no_counterpart(make, error, words):
    """Estimators, heads and columns that YDF can't have are refused by name, without ydf."""
    with pytest.raises(error, match=words):
        convert.to_ydf(make())


def test_without_ydf(monkeypatch):
    """Without the package, the error names the extra that installs it."""
    monkeypatch.setitem(sys.modules, "ydf", None)
    with pytest.raises(ImportError, match=r"tpu-columns\[ydf\]"):
        convert.to_ydf(*estimator_of("numbers"))
