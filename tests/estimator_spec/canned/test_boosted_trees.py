# SPDX-License-Identifier: Apache-2.0
"""Boosted trees of old checkpoints, compared with what the TensorFlow that trained them computes.

`tests/data/boosted_trees/` has the checkpoints and the numbers of TensorFlow 2.8.4 and 1.15.5;
`tests/data/make_boosted_trees.py` made them.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from google.protobuf import message
from hypothesis import given
from hypothesis import strategies as st

import estimator_spec
import make_boosted_trees as made
from estimator_spec import heads
from estimator_spec.canned import boosted_trees_model
from estimator_spec.checkpoints import boosted_trees as stored
from estimator_spec.core.driver.predictor import from_estimator
from estimator_spec.heads.tree_features import TreeFeature, TreeFeatureKind, number_features

tf1 = tf.compat.v1
DATA = Path(__file__).resolve().parents[2] / "data"
VERSIONS = ("tf2.8.4", "tf1.15.5")
RECORDED = {
    version: json.loads((DATA / "boosted_trees" / version / "expected.json").read_text())
    for version in VERSIONS
}
CASES = [
    (version, name)
    for version, recorded in RECORDED.items()
    for name in recorded
    if name not in ("tensorflow", "python")
]


@pytest.fixture
def estimator_of(tmp_path):
    """Returns a function that makes an estimator with a copy of a recorded checkpoint."""

    def make(name, version=VERSIONS[0], kind=None, **changed):
        folder = tmp_path / name
        shutil.copytree(DATA / "boosted_trees" / version / name, folder)
        own_kind, arguments, _ = made.make_models()[name]
        kind = getattr(estimator_spec, kind or own_kind)
        return kind(**{"n_batches_per_layer": 1, "model_dir": str(folder), **arguments, **changed})

    return make


def assert_equal(found, expected, path=""):
    """Checks that nested lists and dicts are equal, numbers up to 1e-6."""
    if isinstance(expected, dict):
        assert list(found) == list(expected) or sorted(found) == sorted(expected), path
        for key, value in expected.items():
            assert_equal(found[key], value, f"{path}/{key}")
    elif isinstance(expected, list):
        assert len(found) == len(expected), path
        for number, value in enumerate(expected):
            assert_equal(found[number], value, f"{path}/{number}")
    elif isinstance(expected, float):
        assert found == pytest.approx(expected, rel=1e-6, abs=1e-6), path
    else:
        assert found == expected, path


def rows(name="numbers"):
    """Returns the input_fn of a model's test."""
    return made.input_fn(made.make_models()[name][2], made.TEST_ROWS, seed=1)


@pytest.mark.parametrize(("version", "name"), CASES)
def test_numbers_are_those_of_the_tensorflow_that_trained(estimator_of, version, name):
    """Predictions, metrics, exports, importances and contributions are equal to 1e-6."""
    _, arguments, make_labels = made.make_models()[name]
    receiver = estimator_spec.ServingInputReceiver
    found = made.evaluate(estimator_of(name, version), arguments, make_labels, receiver)
    assert_equal(made.to_json(found), RECORDED[version][name])


def test_any_head(estimator_of):
    """A head of the second generation gives the classifier's predictions."""
    head = heads.BinaryClassHead()
    estimator = estimator_of("binary", kind="BoostedTreesEstimator", head=head)
    found = [made.to_json(one["logits"]) for one in estimator.predict(rows())]
    assert_equal(found, [one["logits"] for one in RECORDED["tf2.8.4"]["binary"]["predictions"]])
    explained = next(estimator.experimental_predict_with_explanations(rows(), ["logits"]))
    assert sorted(explained) == ["bias", "dfc", "logits"]
    assert_equal(explained["dfc"], RECORDED["tf2.8.4"]["binary"]["explained"][0]["dfc"])


def test_contributions_add_up_to_the_prediction(estimator_of):
    """Bias and contributions of all columns together are the prediction, for rows never seen."""
    wide = made.input_fn(made.make_models()["numbers"][2], 100, seed=3)
    for one in estimator_of("numbers").experimental_predict_with_explanations(wide):
        total = one["bias"] + sum(one["dfc"].values())
        assert total == pytest.approx(float(one["predictions"][0]), abs=1e-5)


def test_other_ways_to_the_checkpoint(estimator_of, tmp_path):
    """A path of a checkpoint, add_metrics and from_estimator use the trees of that checkpoint."""
    estimator = estimator_of("numbers")
    expected = [one["predictions"] for one in RECORDED["tf2.8.4"]["numbers"]["predictions"]]
    path = estimator.latest_checkpoint()
    kind, arguments, _ = made.make_models()["numbers"]
    empty = getattr(estimator_spec, kind)(
        n_batches_per_layer=1, model_dir=str(tmp_path / "empty"), **arguments
    )
    found = list(empty.predict(rows(), checkpoint_path=path))
    assert_equal(made.to_json([one["predictions"] for one in found]), expected)
    total = estimator_spec.add_metrics(
        estimator, lambda predictions: {"total": tf1.metrics.mean(predictions["predictions"])}
    ).evaluate(rows())["total"]
    assert total == pytest.approx(np.mean(expected), rel=1e-5)
    features = made.make_features(made.TEST_ROWS, seed=1)

    def receiver_fn():
        tensors = made.receiver_tensors()
        return estimator_spec.ServingInputReceiver(tensors, tensors)

    predictor = from_estimator(estimator, receiver_fn, output_key="predict")
    assert_equal(made.to_json(predictor(features)["predictions"]), expected)


def test_exports_need_no_variables_and_no_op_of_ours(estimator_of, tmp_path):
    """An exported model has TensorFlow's own ops only, and the step as its only variable."""

    def receiver_fn():
        tensors = made.receiver_tensors()
        return estimator_spec.ServingInputReceiver(tensors, tensors)

    path = estimator_of("classes").export_saved_model(str(tmp_path / "export"), receiver_fn)
    with tf.Graph().as_default() as graph, tf1.Session() as session:
        tf1.saved_model.load(session, ["serve"], path)
        kinds = {op.type for op in graph.get_operations()}
        assert not [kind for kind in kinds if "BoostedTrees" in kind or "TpuColumns" in kind]
        assert [variable.op.name for variable in tf1.global_variables()] == ["global_step"]


def test_exports_parse_examples(estimator_of, tmp_path):
    """The default signature of a parsing receiver takes serialized tf.Examples."""
    estimator = estimator_of("classes")
    columns = [feature.column for feature in estimator.boosted_trees_model.features]
    spec = tf1.feature_column.make_parse_example_spec(list(dict.fromkeys(columns)))
    receiver_fn = estimator_spec.build_parsing_serving_input_receiver_fn(spec)
    path = estimator.export_saved_model(str(tmp_path / "export"), receiver_fn)
    features = made.make_features(made.TEST_ROWS, seed=1)
    with tf1.Session(graph=tf.Graph()) as session:
        signature = tf1.saved_model.load(session, ["serve"], path).signature_def["serving_default"]
        rows_of = [
            tf.train.Example(
                features=tf.train.Features(
                    feature={
                        "x": tf.train.Feature(float_list=tf.train.FloatList(value=x)),
                        "age": tf.train.Feature(float_list=tf.train.FloatList(value=age)),
                        "color": tf.train.Feature(
                            bytes_list=tf.train.BytesList(value=[color[0].encode()])
                        ),
                    }
                )
            ).SerializeToString()
            for x, age, color in zip(features["x"], features["age"], features["color"], strict=True)
        ]
        (fed,) = signature.inputs.values()
        scores = session.run(signature.outputs["scores"].name, {fed.name: rows_of})
    expected = RECORDED["tf2.8.4"]["classes"]["predictions"]
    assert_equal(made.to_json(scores), [one["probabilities"] for one in expected])


def test_examples_without_an_id():
    """An example without an id counts as one with id 0, also in a batch without any."""
    features = number_features(made.make_columns("place"))
    with tf1.Session(graph=tf.Graph()) as session:
        empty = tf.SparseTensor(tf.zeros([0, 2], tf.int64), tf.zeros([0], tf.int64), [2, 0])
        inputs = boosted_trees_model.build_inputs({"place": empty}, features, [])
        assert session.run(inputs).tolist() == [[0], [0]]


INTEGERS = st.integers(0, 5)


@st.composite
def forests(draw):
    """Draws trees over three features, of two integers, one and one; some split by equality."""
    roots, nodes = [], []
    for _ in range(draw(st.integers(1, 3))):
        roots.append(len(nodes))
        nodes.append(None)
        waiting = [(roots[-1], 0)]
        while waiting:
            place, depth = waiting.pop()
            value = draw(st.integers(-4, 4))
            if depth == 3 or draw(st.booleans()):
                nodes[place] = (-1, 0, 0, False, place, place, value)
                continue
            children = len(nodes), len(nodes) + 1
            nodes += [None, None]
            waiting += [(child, depth + 1) for child in children]
            feature = draw(st.integers(0, 2))
            dimension = draw(st.integers(0, 1 if feature == 0 else 0))
            nodes[place] = (
                feature,
                dimension,
                draw(INTEGERS),
                draw(st.booleans()),
                *children,
                value,
            )
    columns = [np.asarray(column, np.int32) for column in zip(*nodes, strict=True)]
    features, dimensions, thresholds, is_equality, left, right, values = columns
    return stored.Forest(
        *(np.asarray(roots, np.int32), features, dimensions, thresholds, is_equality.astype(bool)),
        *(left, right, values[:, np.newaxis].astype(np.float32), np.zeros(len(nodes)), 3),
    )


def walk(forest, root, row):
    """Returns the leaf of an example by a loop, and the splits' features and nodes on its way."""
    node, way = root, []
    while forest.features[node] >= 0:
        feature = forest.features[node]
        value = row[(0, 2, 3)[feature] + forest.dimensions[node]]
        threshold = forest.thresholds[node]
        is_left = value == threshold if forest.is_equality[node] else value <= threshold
        node = (forest.left if is_left else forest.right)[node]
        way.append((feature, node))
    return node, way


@given(forests(), st.lists(st.lists(INTEGERS, min_size=4, max_size=4), min_size=1, max_size=4))
def test_trees_map_examples_to_leaves(forest, examples):
    """Logits are sums of the leaves that a loop over the splits finds."""
    widths = (2, 1, 1)
    features = [TreeFeature("f", TreeFeatureKind.BUCKET, None, width=width) for width in widths]
    with tf.Graph().as_default(), tf1.Session() as session:
        inputs = tf.constant(examples, tf.int32)
        logits = session.run(boosted_trees_model.build_logits(forest, inputs, features, 1))
    expected = [
        sum(forest.values[walk(forest, root, row)[0], 0] for root in forest.roots)
        for row in examples
    ]
    assert logits[:, 0].tolist() == expected


def without(key):
    """Returns an input_fn whose features lack one."""

    def input_fn():
        return rows()().map(
            lambda features, labels: ({k: features[k] for k in features if k != key}, labels)
        )

    return input_fn


@pytest.mark.parametrize(
    ("name", "changed", "words"),
    [
        (
            "binary",
            {"feature_columns": made.make_columns("age", "color")},
            "quantiles of 2 numbers",
        ),
        (
            "numbers",
            {"feature_columns": made.make_columns("x")},
            "splits by feature 5, and the columns have 2",
        ),
        (
            "classes",
            {"n_classes": 4, "label_vocabulary": None},
            "3 logits, and the head takes 4: check n_classes",
        ),
        ("pairs", {"label_dimension": 1}, "2 logits"),
    ],
)
def test_a_checkpoint_of_another_model(estimator_of, name, changed, words):
    """Trees that don't fit columns or head are refused with the checkpoint and what differs."""
    estimator = estimator_of(name, **changed)
    with pytest.raises(ValueError, match=f"model.ckpt-14' is of another model: .*{words}"):
        estimator.evaluate(rows(name))
    with pytest.raises(ValueError, match=words):
        estimator.experimental_feature_importances()


def test_a_checkpoint_without_trees(estimator_of, tmp_path):
    """A checkpoint of a linear model is refused; so are a folder without one and damaged trees."""
    linear = estimator_spec.LinearRegressor(made.make_columns("age"), str(tmp_path / "linear"))
    linear.train(rows(), steps=1)
    estimator = estimator_of("numbers")
    with pytest.raises(
        ValueError, match="no boosted trees, .*another model, with global_step, lin"
    ):
        next(estimator.predict(rows(), checkpoint_path=linear.latest_checkpoint()))
    for path in Path(estimator.model_dir).iterdir():
        path.unlink()
    with pytest.raises(
        ValueError, match="Could not find trained model in model_dir: .*TensorFlow 1"
    ):
        estimator.evaluate(rows())
    with pytest.raises(ValueError, match="Could not find trained model"):
        estimator.experimental_feature_importances()


@pytest.mark.parametrize("serialized", [b"\x0a\x05", b"\x0a\x00\x12\x04\x00\x00\x80\x3f", b"\xff"])
def test_damaged_trees(serialized):
    """Bytes that are no trees are refused by an error of theirs."""
    with pytest.raises((ValueError, message.DecodeError)):
        stored.parse_forest(serialized)


def test_no_trees(estimator_of):
    """A model without trees predicts 0, as in TensorFlow."""
    forest = stored.parse_forest(b"")
    with tf.Graph().as_default(), tf1.Session() as session:
        inputs = tf.zeros([3, 2], tf.int32)
        assert not session.run(boosted_trees_model.build_logits(forest, inputs, [], 2)).any()


def test_a_missing_feature(estimator_of):
    """An input without a feature of a column is refused by the feature's name."""
    with pytest.raises(ValueError, match="age"):
        estimator_of("numbers").evaluate(without("age"))


def test_training_is_refused_with_the_way_out(estimator_of, tmp_path):
    """`train` and `train_and_evaluate` raise an error that names ydf, and write nothing."""
    kind, arguments, _ = made.make_models()["numbers"]
    folder = tmp_path / "new"
    estimator = getattr(estimator_spec, kind)(
        n_batches_per_layer=1, model_dir=str(folder), **arguments
    )
    with pytest.raises(RuntimeError, match=r"no kernel.*convert\.to_ydf.*pip install ydf"):
        estimator.train(rows(), steps=1)
    with pytest.raises(RuntimeError, match="can't be trained"):
        estimator_spec.train_and_evaluate(
            estimator, estimator_spec.TrainSpec(rows()), estimator_spec.EvalSpec(rows())
        )
    assert not folder.exists()


@pytest.mark.parametrize(
    ("changed", "error", "words"),
    [
        ({"n_trees": 0}, ValueError, "Expected n_trees > 0, received: 0"),
        ({"l1_regularization": -1.0}, ValueError, "Expected l1_regularization >= 0"),
        ({"learning_rate": "high"}, TypeError, "learning_rate must be a number"),
        ({"n_classes": 3, "center_bias": True}, ValueError, "center_bias not yet"),
        ({"feature_columns": []}, ValueError, "feature_columns must not be empty"),
        (
            {
                "feature_columns": [
                    tf.feature_column.embedding_column(made.make_columns("place")[0], 2)
                ]
            },
            ValueError,
            "place_embedding', a EmbeddingColumn, can't be a feature of boosted trees",
        ),
    ],
)
def test_bad_arguments(estimator_of, changed, error, words):
    """The constructor refuses wrong arguments by their names."""
    with pytest.raises(error, match=words):
        estimator_of("binary", **changed)


def test_what_has_no_explanation(estimator_of):
    """Explanations without center_bias, or of a head with a link function, are refused."""
    with pytest.raises(ValueError, match="center_bias must be enabled"):
        next(estimator_of("equality").experimental_predict_with_explanations(rows()))
    head = heads.PoissonRegressionHead()
    estimator = estimator_of("numbers", kind="BoostedTreesEstimator", head=head)
    with pytest.raises(ValueError, match="identity inverse_link_fn"):
        next(estimator.experimental_predict_with_explanations(rows()))
