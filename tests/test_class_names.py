# SPDX-License-Identifier: Apache-2.0
"""Names of classes: each means one thing in the packages."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

_WRITTEN = "what `to-keras` and `to-torch` write stands alone"
_CONTRIB = "tf.contrib.learn and tf.estimator each have a class of this name"
_GENERATIONS = "both generations of tf.estimator have it, and tf.contrib.learn may, too"
# What several classes may be called, and why.
DICTATED = {
    "BaselineClassifier": _GENERATIONS,
    "BaselineEstimator": _GENERATIONS,
    "BaselineRegressor": _GENERATIONS,
    "DNNClassifier": _GENERATIONS,
    "DNNEstimator": _GENERATIONS,
    "DNNLinearCombinedClassifier": _GENERATIONS,
    "DNNLinearCombinedEstimator": _GENERATIONS,
    "DNNLinearCombinedRegressor": _GENERATIONS,
    "DNNRegressor": _GENERATIONS,
    "EmbeddingColumn": "tf.contrib.layers has one, too",
    "Estimator": _CONTRIB,
    "Head": _CONTRIB,
    "KMeansClustering": "tf.contrib.factorization and TensorFlow 1 each have a class of this name",
    "LinearClassifier": _GENERATIONS,
    "LinearEstimator": _GENERATIONS,
    "LinearRegressor": _GENERATIONS,
    "Mean": "tf.contrib.eager has a metric of this name; what `to-torch` writes has a head's",
    "ModeKeys": _CONTRIB,
    "MultiClassHead": _CONTRIB,
    "RegressionHead": _CONTRIB,
    "Sparse": _WRITTEN,
    **dict.fromkeys(("Adadelta", "Adagrad", "Adam", "Adamax", "Ftrl", "RMSprop", "SGD"), _WRITTEN),
    **dict.fromkeys(("Bias", "Keras2RMSprop", "RowsLookedUp", "RowsSummed"), _WRITTEN),
    "RunConfig": "tf.estimator, tf.estimator.tpu and tf.contrib.learn each have one",
}


def classes_by_name(sources: dict[str, str]) -> dict[str, list[str]]:
    """Returns the files that define a class of each name."""
    found = defaultdict(list)
    for path, source in sources.items():
        for name in {n.name for n in ast.walk(ast.parse(source)) if isinstance(n, ast.ClassDef)}:
            found[name].append(path)
    return found


def several_of_one_name() -> dict[str, list[str]]:
    """Returns the names that classes in several files of the packages have, with the files."""
    sources = {
        path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
        for package in ("tpu_columns", "estimator_spec")
        for path in sorted((ROOT / package).rglob("*.py"))
    }
    return {name: paths for name, paths in classes_by_name(sources).items() if len(paths) > 1}


def test_no_two_classes_have_one_name():
    """A class' name is found in one file, unless TensorFlow's API has several classes of it."""
    found = several_of_one_name()
    assert {name: found[name] for name in {*found} - {*DICTATED}} == {}


def test_every_exception_is_needed():
    """The list of names that TensorFlow dictates has none that stands once."""
    assert {*DICTATED} <= {*several_of_one_name()}


def test_two_classes_of_one_name_are_found():
    """Classes of one name are found wherever a file has them, twice in one file or not."""
    one, other = "class A: ...\nclass B: ...", "def f():\n    class A: ...\nclass C: ..."
    assert classes_by_name({"one.py": one, "other.py": other}) == {
        "A": ["one.py", "other.py"],
        "B": ["one.py"],
        "C": ["other.py"],
    }
