# SPDX-License-Identifier: Apache-2.0
"""Exports for TensorFlow Model Analysis: written without it, in the form that it reads today.

`tests/neighbours/programs/model_analysis_export.py` has TFMA itself evaluate one.
"""

from __future__ import annotations

import importlib
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

import estimator_spec
from estimator_spec.legacy import model_analysis
from estimator_spec.legacy.migrate.migration import migrate

tf1 = tf.compat.v1

FEATURES = {
    "age": tf.io.FixedLenFeature([1], tf.float32),
    "words": tf.io.VarLenFeature(tf.string),
    "weight": tf.io.FixedLenFeature([1], tf.float32),
    "label": tf.io.FixedLenFeature([1], tf.int64),
}
ROWS = [(20.0, [b"a"], 1.0, 0), (50.0, [], 2.0, 1), (70.0, [b"b", b"c"], 0.5, 1)]


def serialize(age, words, weight, label):
    """Returns an example."""
    features = {
        "age": tf.train.Feature(float_list=tf.train.FloatList(value=[age])),
        "words": tf.train.Feature(bytes_list=tf.train.BytesList(value=words)),
        "weight": tf.train.Feature(float_list=tf.train.FloatList(value=[weight])),
        "label": tf.train.Feature(int64_list=tf.train.Int64List(value=[label])),
    }
    return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()


EXAMPLES = [serialize(*row) for row in ROWS]


def input_fn():
    """Returns one batch of all rows."""

    def parse(serialized):
        features = tf.io.parse_example(serialized, FEATURES)
        return features, features.pop("label")

    return tf.data.Dataset.from_tensors(EXAMPLES).map(parse)


def make_estimator(model_dir):
    """Returns an estimator that hasn't been trained."""
    words = tf.feature_column.categorical_column_with_hash_bucket("words", 5)
    columns = [tf.feature_column.numeric_column("age"), tf.feature_column.indicator_column(words)]
    return estimator_spec.canned.LinearClassifier(
        columns, weight_column="weight", model_dir=str(model_dir)
    )


receiver_fn = model_analysis.build_parsing_eval_input_receiver_fn(FEATURES, "label")


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A trained estimator."""
    estimator = make_estimator(tmp_path_factory.mktemp("model"))
    estimator.train(input_fn, steps=1)
    return estimator


def test_signatures_of_an_export(trained, tmp_path):
    """They compute from serialized examples features, labels, predictions and weights."""
    path = model_analysis.export_eval_saved_model(trained, str(tmp_path), receiver_fn).decode()
    signatures = tf.saved_model.load(path, ["eval"]).signatures
    assert sorted(signatures) == ["eval", "transformed_features", "transformed_labels"]
    found = {name: made(examples=tf.constant(EXAMPLES)) for name, made in signatures.items()}
    ages, _, weights, labels = zip(*ROWS, strict=True)
    predictions = list(trained.predict(input_fn))
    outputs = found["eval"]
    np.testing.assert_array_equal(outputs["features/age"][:, 0], ages)
    assert outputs["features/words"].numpy().tolist() == [[b"a", b""], [b"", b""], [b"b", b"c"]]
    np.testing.assert_array_equal(outputs["labels"][:, 0], labels)
    np.testing.assert_array_equal(outputs["weights"][:, 0], weights)
    np.testing.assert_allclose(
        outputs["predictions/logistic"], [each["logistic"] for each in predictions], rtol=1e-6
    )
    assert {key for key in outputs if key.startswith("predictions/")} == {
        f"predictions/{key}" for key in predictions[0]
    }
    np.testing.assert_array_equal(found["transformed_labels"]["labels"][:, 0], labels)
    np.testing.assert_array_equal(found["transformed_features"]["weights"][:, 0], weights)
    assert {*FEATURES, "weights"} == set(found["transformed_features"])


def test_a_graph_for_serving_is_added(trained, tmp_path):
    """With a receiver for serving, the model also has the graph of `export_saved_model`."""
    serving = {key: FEATURES[key] for key in ("age", "words")}
    path = model_analysis.export_eval_saved_model(
        trained,
        tmp_path,
        receiver_fn,
        estimator_spec.build_parsing_serving_input_receiver_fn(serving),
    ).decode()
    served = tf.saved_model.load(path, ["serve"]).signatures["predict"]
    evaluated = tf.saved_model.load(path, ["eval"]).signatures["eval"]
    np.testing.assert_array_equal(
        served(examples=tf.constant(EXAMPLES))["logistic"],
        evaluated(examples=tf.constant(EXAMPLES))["predictions/logistic"],
    )


def test_labels_by_key_and_predictions_of_any_kind(tmp_path):
    """A `model_fn` may take labels by key and predict one tensor; there may be no weights."""

    def model_fn(features, labels, mode):
        logits = tf1.layers.dense(features["age"], 1)
        loss = (
            None if mode == "infer" else tf.reduce_mean(logits - tf.cast(labels["a"], tf.float32))
        )
        step = tf1.assign_add(tf1.train.get_global_step(), 1)
        return estimator_spec.EstimatorSpec(mode, logits, loss, step)

    def labeled():
        return input_fn().map(lambda features, labels: (features, {"a": labels}))

    def receiver():
        made = receiver_fn()
        return made._replace(labels={"a": made.labels}, receiver_tensors=made.receiver_tensors)

    estimator = estimator_spec.Estimator(model_fn, str(tmp_path / "model"))
    estimator.train(labeled, steps=1)
    path = model_analysis.export_eval_saved_model(estimator, tmp_path, receiver).decode()
    outputs = tf.saved_model.load(path, ["eval"]).signatures["eval"](tf.constant(EXAMPLES))
    assert outputs["predictions/predictions"].shape == (3, 1)
    assert "labels/a" in outputs and "weights" not in outputs


def test_a_label_that_is_no_feature():
    """The label's key must be one of the parsed features."""
    with pytest.raises(ValueError, match="label_key 'y' isn't in feature_spec"):
        model_analysis.build_parsing_eval_input_receiver_fn(FEATURES, "y")
    assert model_analysis.build_parsing_eval_input_receiver_fn(FEATURES, None)


@pytest.mark.nightly("an exporter's call is that of the function")
def test_exporters(tmp_path):
    """`train_and_evaluate` exports after each evaluation, and at the end, for TFMA."""
    with estimator_spec.install(replace=True):
        from tensorflow_model_analysis import export, exporter

        made = [
            exporter.adapt_to_remove_metrics(
                exporter.FinalExporter(
                    "final", export.build_parsing_eval_input_receiver_fn(FEATURES, "label")
                ),
                ["auc"],
            ),
            exporter.LatestExporter("latest", receiver_fn, exports_to_keep=1),
        ]
    estimator_spec.train_and_evaluate(
        make_estimator(tmp_path),
        estimator_spec.TrainSpec(lambda: input_fn().repeat(), max_steps=2),
        estimator_spec.EvalSpec(input_fn, steps=1, exporters=made),
    )
    for name in ("final", "latest"):
        (path,) = (tmp_path / "export" / name).iterdir()
        assert "eval" in tf.saved_model.load(str(path), ["eval"]).signatures


_PROGRAM = """
import estimator_spec, sys
with estimator_spec.install(replace=True):
    assert "tensorflow_model_analysis" not in sys.modules
    import tensorflow_model_analysis as tfma
    from tensorflow_model_analysis.eval_saved_model import exporter
    import tensorflow_model_analysis.eval_saved_model.export
    assert tfma.ITS_OWN == 5
    export = tfma.export
    assert export is sys.modules["tensorflow_model_analysis.export"]
    assert export.export_eval_savedmodel is tfma.eval_saved_model.export.export_eval_saved_model
    assert exporter.FinalExporter is tfma.exporter.FinalExporter
assert not hasattr(tfma, "export") and tfma.ITS_OWN == 5
assert not hasattr(tfma.eval_saved_model, "export")
assert "tensorflow_model_analysis.export" not in sys.modules
"""


def test_an_installed_library_gets_the_names(tmp_path):
    """The library isn't imported by `install()`; when it is, it has the names, until the end."""
    package = tmp_path / "tensorflow_model_analysis"
    (package / "eval_saved_model").mkdir(parents=True)
    (package / "__init__.py").write_text(
        "from tensorflow_model_analysis import eval_saved_model\nITS_OWN = 5\n"
    )
    (package / "eval_saved_model" / "__init__.py").write_text("")
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n{_PROGRAM}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_without_the_library(monkeypatch):
    """Where it isn't installed, `install()` makes modules with the names, and takes them away."""
    monkeypatch.setitem(sys.modules, "tensorflow_model_analysis", None)
    monkeypatch.delitem(sys.modules, "tensorflow_model_analysis")
    if importlib.util.find_spec("tensorflow_model_analysis") is not None:
        pytest.skip("TFMA is installed")
    with estimator_spec.install(replace=True):
        found = importlib.import_module("tensorflow_model_analysis")
        assert found.export.EvalInputReceiver is model_analysis.EvalInputReceiver
        with pytest.raises(AttributeError):
            found.run_model_analysis()
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("tensorflow_model_analysis")


@pytest.mark.parametrize(
    "source",
    [
        "import tensorflow_model_analysis as tfma\nf = tfma.export.export_eval_savedmodel\n",
        "from tensorflow_model_analysis import export\nf = export.export_eval_savedmodel\n",
        "from tensorflow_model_analysis.export import export_eval_savedmodel\n"
        "f = export_eval_savedmodel\n",
        "import tensorflow_model_analysis as tfma\n"
        "f = tfma.eval_saved_model.export.export_eval_savedmodel\n",
    ],
)
def test_migrated_names(source):
    """`migrate` writes programs that have the function without `install()`."""
    done = migrate(source)
    scope: dict[str, object] = {}
    lines = [line for line in done.source.splitlines() if "import tensorflow_model" not in line]
    exec("\n".join(lines), scope)  # the library isn't installed
    assert scope["f"] is model_analysis.export_eval_saved_model
