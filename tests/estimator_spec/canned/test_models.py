# SPDX-License-Identifier: Apache-2.0
"""Canned estimators of both generations: they learn, are served, and start from checkpoints."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.feature_column import feature_column as column_of_tf1

import estimator_spec as es
import host_runs
import tpu_columns
from estimator_spec import canned

tf1 = tf.compat.v1
fc = tf.feature_column

WORDS = ("ant", "bee", "cat", "dog")


def words():
    """Returns the categorical column of the words."""
    return fc.categorical_column_with_vocabulary_list("word", WORDS)


def wide():
    """Returns columns of linear models."""
    return [fc.numeric_column("x"), words()]


def deep():
    """Returns columns of deep models."""
    initializer = tf1.truncated_normal_initializer(seed=1)
    return [fc.numeric_column("x"), fc.embedding_column(words(), 4, initializer=initializer)]


def families(generation):
    """Returns a classifier's class and arguments, by family."""

    def adam():
        # One object for both parts of a combined model would move its powers of beta twice a step,
        # and nothing would say whether before or after the other part's update.
        return generation.adam(learning_rate=0.05)

    return {
        "linear": ("LinearClassifier", {"feature_columns": wide(), "optimizer": adam()}),
        "combined": (
            "DNNLinearCombinedClassifier",
            {
                "linear_feature_columns": wide(),
                "linear_optimizer": adam(),
                "dnn_feature_columns": deep(),
                "dnn_optimizer": adam(),
                "dnn_hidden_units": [8],
            },
        ),
    }


@pytest.mark.parametrize("family", ["linear", "combined"])
def test_classifiers_learn_and_are_served(
    generation, config, train_input, test_input, tmp_path, family
):
    """A classifier learns a separable rule, and its SavedModel serves tf.Examples."""
    kind, arguments = families(generation)[family]
    estimator = getattr(generation.classes, kind)(config=config(), **arguments)
    estimator.train(train_input, steps=150)
    assert estimator.evaluate(test_input)["accuracy"] > 0.9
    spec = fc.make_parse_example_spec([*wide(), *deep()])
    receiver = es.build_parsing_serving_input_receiver_fn(spec)
    path = tf.compat.as_str_any(estimator.export_saved_model(tmp_path / "export", receiver))
    example = tf.train.Example()
    example.features.feature["x"].float_list.value.append(0.75)
    example.features.feature["word"].bytes_list.value.append(b"cat")
    served = tf.saved_model.load(path).signatures["predict"]
    output = served(examples=tf.constant([example.SerializeToString()]))["probabilities"]
    assert output.shape == (1, 2) and output[0, 1] > 0.9


class Doubled(column_of_tf1._DenseColumn):
    """A dense column of TF1's protocol, as other libraries define them."""

    name = "doubled"
    _variable_shape = tf.TensorShape([1])
    _parse_example_spec = {"x": tf.io.FixedLenFeature([1], tf.float32)}  # noqa: RUF012  # TF1's

    def _transform_feature(self, inputs):
        return inputs.get("x") * 2.0

    def _get_dense_tensor(self, inputs, weight_collections=None, trainable=None):
        return inputs.get(self)


def test_columns_of_the_old_protocol(config, train_input, variables):
    """Models of the first generation train columns of TF1's protocol, TensorFlow's and others'."""
    ids = column_of_tf1._categorical_column_with_identity("id", len(WORDS))
    linear = canned.v1.LinearClassifier([Doubled(), ids], config=config("linear"))
    linear.train(train_input, steps=2)
    names = set(linear.get_variable_names())
    assert {f"linear/linear_model/{n}/weights" for n in ("doubled", "id")} < names
    assert np.ptp(linear.get_variable_value("linear/linear_model/id/weights")) > 0
    embedded = column_of_tf1._embedding_column(ids, 2)
    deep = canned.v1.DNNClassifier([2], [Doubled(), embedded], config=config("deep"))
    deep.train(train_input, steps=1)
    scope = "dnn/input_from_feature_columns/input_layer"
    assert f"{scope}/id_embedding/embedding_weights" in deep.get_variable_names()


def test_regressors_learn(generation, config, train_input, test_input):
    """The deep, linear and baseline regressors beat, or equal, the mean of the labels."""
    made = generation.classes
    regressors = {
        "deep": made.DNNRegressor(
            [8], deep(), optimizer=generation.adam(learning_rate=0.05), config=config("deep")
        ),
        "linear": made.LinearRegressor(wide(), config=config("linear")),
        "baseline": made.BaselineRegressor(config=config("baseline")),
    }
    losses = {
        name: regressor.train(train_input, steps=150).evaluate(test_input)["average_loss"]
        for name, regressor in regressors.items()
    }
    labels = np.concatenate([y for _, y in test_input().as_numpy_iterator()])
    assert losses["baseline"] == pytest.approx(labels.var(), rel=0.02)
    assert losses["deep"] < 0.5 * losses["baseline"]
    assert losses["linear"] < 0.7 * losses["baseline"]


def test_the_baseline_reads_batches_of_static_shape(generation, config):
    """Predictions of a baseline end with the input, where each batch's size is known before."""

    def input_fn():
        rows = tf.data.Dataset.from_tensor_slices(({"x": np.zeros(6, np.float32)}, np.ones(6)))
        return rows.batch(2, drop_remainder=True)

    estimator = generation.classes.BaselineRegressor(config=config())
    estimator.train(input_fn)
    assert len(list(itertools.islice(estimator.predict(input_fn), 9))) == 6


def test_the_baseline_learns_frequencies(generation, config, train_input, test_input):
    """The baseline predicts the frequency of each class for every example."""
    classes = ["no", "yes"]

    def with_names(input_fn):
        return lambda: input_fn().map(
            lambda features, label: (features, tf.gather(tf.constant(classes), label))
        )

    estimator = generation.classes.BaselineClassifier(label_vocabulary=classes, config=config())
    estimator.train(with_names(train_input), steps=200)
    labels = np.concatenate([y for _, y in test_input().as_numpy_iterator()])
    predictions = list(estimator.predict(test_input))
    likeliest = classes[int(labels.mean() > 0.5)].encode()
    for prediction in predictions:
        assert prediction["probabilities"][1] == pytest.approx(labels.mean(), abs=0.03)
        assert prediction["classes"].tolist() == [likeliest]


REGRESSION_METRICS = {"average_loss", "label/mean", "prediction/mean"}


def test_estimators_take_heads(generation, config, train_input, test_input):
    """The three estimators with a head report the head's metrics."""
    made = generation.classes
    head = es.heads.RegressionHead()  # of few metrics
    for estimator in (
        made.DNNEstimator(head, [4], deep(), config=config("deep")),
        made.LinearEstimator(head, wide(), config=config("linear")),
        made.DNNLinearCombinedEstimator(
            head,
            linear_feature_columns=wide(),
            dnn_feature_columns=deep(),
            dnn_hidden_units=[4],
            config=config("combined"),
        ),
        made.BaselineEstimator(head, config=config("baseline")),
    ):
        metrics = estimator.train(train_input, steps=2).evaluate(test_input)
        assert set(metrics) == {*REGRESSION_METRICS, "loss", "global_step"}
        assert metrics["global_step"] == 2


def test_each_part_of_a_combined_model_has_its_optimizer(generation, config, train_input):
    """A learning rate of 0 leaves the linear part as it was, while the deep part is trained."""
    estimator = generation.classes.DNNLinearCombinedClassifier(
        linear_feature_columns=wide(),
        linear_optimizer=generation.sgd(learning_rate=0.0),
        dnn_feature_columns=deep(),
        dnn_optimizer=generation.sgd(learning_rate=0.5),
        dnn_hidden_units=[4],
        config=config(),
    )
    estimator.train(train_input, steps=3)
    assert not estimator.get_variable_value("linear/linear_model/word/weights").any()
    assert estimator.get_variable_value("dnn/logits/bias").any()
    assert estimator.get_variable_value("global_step") == 3


def test_two_trainings_equal_one(generation, config, train_input):
    """Training twice, with one optimizer object, continues its slots: as one longer training."""
    kind, arguments = families(generation)["combined"]
    whole = getattr(generation.classes, kind)(config=config("whole"), **arguments)
    whole.train(train_input, steps=4)
    parts = getattr(generation.classes, kind)(config=config("parts"), **arguments)
    parts.train(train_input, steps=2).train(train_input, steps=2)  # the batches repeat after two
    host_runs.assert_same_values(parts, whole)


def test_dropout_is_for_training_only(generation, config, train_input, test_input):
    """With all outputs dropped a model learns nothing but its bias; predictions drop none."""
    estimator = generation.classes.DNNClassifier(
        [16], deep(), dropout=0.999, optimizer=generation.sgd(learning_rate=0.5), config=config()
    )
    estimator.train(train_input, steps=2)
    first, second = (
        np.array([p["logits"] for p in estimator.predict(test_input)]) for _ in range(2)
    )
    np.testing.assert_array_equal(first, second)
    assert np.ptp(first) > 0.01  # the hidden layer has its outputs


def test_batch_normalization_moves_its_averages(generation, config, train_input):
    """Training updates the moving averages that evaluations use."""
    estimator = generation.classes.DNNClassifier([4, 4], deep(), batch_norm=True, config=config())
    estimator.train(train_input, steps=2)
    moved = [n for n in estimator.get_variable_names() if n.endswith("moving_variance")]
    assert len(moved) == 2
    for name in moved:
        assert (estimator.get_variable_value(name) != 1).all()


def test_warm_start(generation, config, train_input):
    """A path warm-starts all weights, and settings those of their expression."""
    made = generation.classes
    old = made.DNNClassifier([4], deep(), config=config("old")).train(train_input, steps=3)
    for settings, moved in (
        (old.model_dir, ["kernel", "embedding_weights"]),
        (
            es.WarmStartSettings(old.model_dir, vars_to_warm_start=".*input_layer.*"),
            ["embedding_weights"],
        ),
    ):
        new = made.DNNClassifier(
            [4],
            deep(),
            optimizer=generation.sgd(learning_rate=0.0),
            warm_start_from=settings,
            config=config(f"new_{len(moved)}"),
        )
        new.train(train_input, steps=1)
        names = [n for n in new.get_variable_names() if n.endswith(("kernel", "weights"))]
        equal = {n for n in names if _equal(old, new, n)}
        assert equal == {n for n in names if n.endswith(tuple(moved))}


def _equal(old, new, name):
    return np.array_equal(old.get_variable_value(name), new.get_variable_value(name))


@pytest.mark.parametrize("shared", [False, True])
def test_tpu_columns(generation, config, train_input, test_input, shared):
    """TPU embedding columns have the variables and values of TensorFlow's columns."""
    initializer = tf1.truncated_normal_initializer(seed=1)
    ids = fc.categorical_column_with_identity("id", 4)
    if shared:
        columns = tpu_columns.shared_embedding_columns(
            [ids, words()], 4, initializer=initializer, shared_embedding_collection_name="both"
        )
    else:
        columns = [tpu_columns.embedding_column(ids, 4, initializer=initializer)]
    estimator = generation.classes.DNNClassifier(
        [8], columns, optimizer=generation.adam(learning_rate=0.05), config=config("tpu")
    )
    estimator.train(train_input, steps=1)
    if shared:
        (name,) = (n for n in estimator.get_variable_names() if n.endswith("both"))
        first = estimator.get_variable_value(name)
        estimator.train(train_input, steps=5)
        assert (estimator.get_variable_value(name) != first).all()
        return
    theirs = generation.classes.DNNClassifier(
        [8],
        [fc.embedding_column(ids, 4, initializer=initializer)],
        optimizer=generation.adam(learning_rate=0.05),
        config=config("theirs"),
    )
    theirs.train(train_input, steps=1)
    host_runs.assert_same_values(estimator, theirs, atol=0)


def test_partitioned_tables(config, train_input, variables):
    """A partitioner of the first generation cuts tables; results and checkpoints stay the same."""

    def make(directory, partitioner):
        return canned.v1.DNNLinearCombinedClassifier(
            linear_feature_columns=wide(),
            dnn_feature_columns=deep(),
            dnn_hidden_units=[4],
            input_layer_partitioner=partitioner,
            config=config(directory),
        )

    whole = make("whole", None).train(train_input, steps=1)
    # The weights of the deep part are drawn by ops of other seeds: continue the same ones.
    checkpoint = whole.latest_checkpoint()
    restored = make("restored", tf1.fixed_size_partitioner(2))
    tf.io.gfile.makedirs(restored.model_dir)
    for path in tf.io.gfile.glob(checkpoint + "*"):
        tf.io.gfile.copy(path, restored.model_dir + path[path.rfind("/") :])
    tf1.train.update_checkpoint_state(restored.model_dir, f"{restored.model_dir}/model.ckpt-1")
    restored.train(train_input, steps=2, hooks=[variables])
    assert "linear/linear_model/word/weights/part_1" in variables.names
    whole.train(train_input, steps=2)
    host_runs.assert_same_values(restored, whole, rtol=1e-4)


def narrow_models(generation, config):
    """Returns models with tables of all kinds of columns, whose variables may be in parts."""
    words_and_ids = [fc.categorical_column_with_identity("id", 4), words()]
    shared = tpu_columns.shared_embedding_columns(
        words_and_ids, 3, shared_embedding_collection_name="both"
    )
    dense = [*deep(), *shared, tpu_columns.embedding_column(words_and_ids[0], 2)]
    cut = {"partitioner": tf1.fixed_size_partitioner(3)}
    is_first = generation.name == "v1"

    def by_hand(features, labels, mode):
        with tf1.variable_scope("mine", **cut):
            found = tpu_columns.input_layer(features, [*shared, dense[-1]])
        output = tf.reduce_sum(found, 1)
        return host_runs.regression(output, labels, mode, tf1.train.GradientDescentOptimizer, 0.1)

    yield generation.classes.DNNLinearCombinedRegressor(
        linear_feature_columns=wide(),
        dnn_feature_columns=dense,
        dnn_hidden_units=[4],
        config=config("combined"),
        **({"input_layer_partitioner": cut["partitioner"]} if is_first else {}),
    )
    if is_first:
        yield generation.classes.DNNRegressor([4], dense, config=config("deep"))
        yield es.Estimator(by_hand, config=config("by_hand"))


@pytest.mark.parametrize(
    "dtype", [pytest.param("float16", marks=pytest.mark.nightly("int8 has more parts")), "int8"]
)
def test_narrow_tables_of_partitioned_variables(
    generation, config, train_input, test_input, tmp_path, dtype
):
    """Tables are exported in fewer bytes, by a model that partitions its variables, too."""
    features, _ = next(test_input().as_numpy_iterator())
    receiver = es.build_raw_serving_input_receiver_fn(
        {key: tf.constant(value) for key, value in features.items()}
    )
    for estimator in narrow_models(generation, config):
        estimator.train(train_input, steps=1)
        path = estimator.export_saved_model(tmp_path, receiver, tables=dtype).decode()
        reader = tf.train.load_checkpoint(f"{path}/variables/variables")
        types = reader.get_variable_to_dtype_map()
        assert sum(kind == tf.as_dtype(dtype) for kind in types.values()) >= 2
        signatures = tf.saved_model.load(path).signatures
        served = signatures.get("predict", signatures.get("serving_default"))
        found = served(**{key: tf.constant(value) for key, value in features.items()})
        (name,) = found
        predictions = estimator.predict(test_input, yield_single_examples=False)
        wanted = next(predictions)[name]
        predictions.close()
        np.testing.assert_allclose(found[name], wanted, atol=0.02)
        assert np.ptp(wanted) > 0.1
