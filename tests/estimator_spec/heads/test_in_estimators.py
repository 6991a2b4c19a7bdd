# SPDX-License-Identifier: Apache-2.0
"""Models whose model_fn ends with a head: trained, evaluated, asked and exported."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

import estimator_spec as es
from estimator_spec import heads
from estimator_spec.core.common import legacy_keras
from estimator_spec.heads import first_generation

tf1 = tf.compat.v1

X = np.linspace(-1, 1, 32, dtype=np.float32)[:, np.newaxis]
Y = (X > 0.2).astype(np.int64)


def input_fn(mode, params=None):
    """Batches of 8; endless in training."""
    weights = np.where(X > 0, 2.0, 1.0).astype(np.float32)
    data = tf.data.Dataset.from_tensor_slices(({"x": X, "weight": weights}, Y))
    if mode == "train":
        data = data.repeat()
    return data.batch((params or {}).get("batch_size", 8), drop_remainder=True)


def keras_sgd():
    """Returns an optimizer of Keras 2 that counts the global step."""
    optimizer = legacy_keras.keras_2().optimizers.legacy.SGD(1.0)
    optimizer.iterations = tf1.train.get_or_create_global_step()
    return optimizer


def logits_of(features):
    """Returns the logits of a linear model."""
    weight = tf1.get_variable("weight", [1, 1], initializer=tf1.zeros_initializer())
    bias = tf1.get_variable("bias", [1], initializer=tf1.zeros_initializer())
    return tf.matmul(features["x"], weight) + bias


def model_fn_of(head, optimizer=lambda: tf1.train.GradientDescentOptimizer(1.0), tpu=False):
    """Returns the model_fn of a linear model with a head."""

    def model_fn(features, labels, mode, params):
        logits = logits_of(features)
        options = {}
        if isinstance(head, heads.Head):
            options["trainable_variables"] = tf1.trainable_variables()
        create = head._create_tpu_estimator_spec if tpu else head.create_estimator_spec
        return create(
            features=features,
            mode=mode,
            logits=logits,
            labels=labels,
            optimizer=optimizer() if mode == "train" else None,
            **options,
        )

    return model_fn


def receiver_fn():
    """What an exported model is fed: serialized examples."""
    serialized = tf1.placeholder(tf.string, [None], name="examples")
    parsed = tf.io.parse_example(serialized, {"x": tf.io.FixedLenFeature([1], tf.float32)})
    return es.ServingInputReceiver(parsed, {"examples": serialized})


BINARY_V1 = first_generation.binary_logistic_head_with_sigmoid_cross_entropy_loss


@pytest.mark.parametrize(
    "head, optimizer",
    [
        (heads.BinaryClassHead("weight"), lambda: tf1.train.GradientDescentOptimizer(1.0)),
        (heads.BinaryClassHead("weight"), keras_sgd),
        (
            BINARY_V1("weight", loss_reduction="weighted_mean"),
            lambda: tf1.train.GradientDescentOptimizer(1.0),
        ),
    ],
    ids=["tf1 optimizer", "keras optimizer", "first generation"],
)
def test_a_classifier(tmp_path, head, optimizer):
    """It learns, counts steps, has its metrics and predictions, and serves Classify requests."""
    estimator = es.Estimator(model_fn_of(head, optimizer), str(tmp_path / "model"), params={})
    estimator.train(lambda: input_fn("train"), steps=60)
    metrics = estimator.evaluate(lambda: input_fn("eval"))
    assert metrics["global_step"] == 60
    assert metrics["accuracy"] > 0.85 and metrics["auc"] == pytest.approx(1.0, abs=0.01)
    assert metrics["label/mean"] == pytest.approx(2 * Y.sum() / (2 * 16 + 16))
    predictions = list(estimator.predict(lambda: input_fn("infer")))
    assert [p["classes"] for p in predictions] == [
        [b"1"] if p["logits"] > 0 else [b"0"] for p in predictions
    ]
    exported = estimator.export_saved_model(str(tmp_path / "export"), receiver_fn)
    model = tf.saved_model.load(tf.compat.as_str_any(exported))
    assert {"serving_default", "classification", "regression", "predict"} == set(model.signatures)
    example = tf.train.Example()
    example.features.feature["x"].float_list.value.append(0.9)
    served = model.signatures["serving_default"](tf.constant([example.SerializeToString()]))
    assert served["classes"].numpy().tolist() == [[b"0", b"1"]]
    assert served["scores"].numpy()[0, 1] > 0.5


@pytest.mark.parametrize("head", [heads.RegressionHead(), first_generation.regression_head()])
def test_a_tpu_estimator(tmp_path, head):
    """A head's TPUEstimatorSpec trains and evaluates in a TPUEstimator."""
    estimator = es.TPUEstimator(
        model_fn_of(head, lambda: tf1.train.GradientDescentOptimizer(0.02), tpu=True),
        config=es.RunConfig(model_dir=str(tmp_path)),
        use_tpu=False,
        train_batch_size=8,
        eval_batch_size=8,
        predict_batch_size=8,
    )
    estimator.train(lambda params: input_fn("train", params), max_steps=60)
    metrics = estimator.evaluate(lambda params: input_fn("eval", params), steps=4)
    assert metrics["average_loss"] < 0.2
    assert metrics["label/mean"] == pytest.approx(Y.mean())


def test_summaries_of_training(tmp_path, events):
    """Training writes the loss and the regularization loss of a named head."""
    head = heads.RegressionHead(name="price")

    def model_fn(features, labels, mode):
        logits = logits_of(features)
        return head.create_estimator_spec(
            features,
            mode,
            logits,
            labels,
            train_op_fn=lambda loss: tf1.assign_add(tf1.train.get_global_step(), 1).op,
            regularization_losses=[tf.constant(0.5)],
        )

    config = es.RunConfig(save_summary_steps=1)
    estimator = es.Estimator(model_fn, str(tmp_path), config)
    estimator.train(lambda: input_fn("train"), steps=2)
    written = events(str(tmp_path))
    assert written["regularization_loss/price"][1] == 0.5
    assert written["loss/price"][1] == pytest.approx(float((Y[:8] ** 2).mean()) + 0.5)


@pytest.mark.parametrize(
    "options, words",
    [
        ({}, "train_op_fn and optimizer cannot both be None"),
        (
            {"optimizer": "sgd", "train_op_fn": lambda loss: loss},
            "train_op_fn and optimizer cannot both be set",
        ),
    ],
)
@pytest.mark.parametrize("head", [heads.RegressionHead(), first_generation.regression_head()])
def test_training_needs_one_way_to_train(head, options, words):
    """Neither or both of optimizer and train_op_fn are refused."""
    with tf.Graph().as_default(), pytest.raises(ValueError, match=words):
        head.create_estimator_spec({}, "train", tf.zeros([2, 1]), tf.zeros([2, 1]), **options)


def test_any_object_that_minimizes_trains_heads_of_the_first_generation():
    """The object's minimize gets loss and global step, and what it returns is the train op."""

    class Optimizer:
        def minimize(self, loss, global_step):
            assert loss.shape == () and global_step is tf1.train.get_global_step()
            self.op = tf1.assign_add(global_step, 1)
            return self.op

    optimizer, head = Optimizer(), first_generation.regression_head()
    with tf.Graph().as_default():
        tf1.train.get_or_create_global_step()
        logits, labels = logits_of({"x": tf.ones([2, 1])}), tf.zeros([2, 1])
        spec = head.create_estimator_spec({}, "train", logits, labels, optimizer=optimizer)
    assert spec.train_op is optimizer.op.op


def test_update_ops_run_with_each_step():
    """update_ops run beside the optimizer's op."""
    with tf.Graph().as_default(), tf1.Session() as session:
        tf1.train.get_or_create_global_step()
        logits = logits_of({"x": tf.ones([2, 1])})
        count = tf1.get_variable("count", [], initializer=tf1.zeros_initializer(), trainable=False)
        spec = heads.RegressionHead().create_estimator_spec(
            {},
            "train",
            logits,
            tf.ones([2, 1]),
            optimizer=tf1.train.GradientDescentOptimizer(0.2),
            update_ops=[count.assign_add(1.0)],
        )
        session.run(tf1.global_variables_initializer())
        for _ in range(3):
            session.run(spec.train_op)
        assert session.run(count) == 3
        assert session.run(spec.loss) < 0.1


def test_a_head_of_the_user(tmp_path):
    """A subclass may change a part; one of Head itself needs create_estimator_spec."""

    class Absolute(heads.RegressionHead):
        def loss(self, labels, logits, features=None, mode=None, regularization_losses=None):
            return tf.reduce_mean(tf.abs(logits - tf.cast(labels, tf.float32)))

    estimator = es.Estimator(model_fn_of(Absolute()), str(tmp_path), params={})
    estimator.train(lambda: input_fn("train"), steps=3)
    weight, bias = (estimator.get_variable_value(name) for name in ("weight", "bias"))
    loss = estimator.evaluate(lambda: input_fn("eval"))["loss"]
    assert loss == pytest.approx(np.abs(X * weight + bias - Y).mean(), rel=1e-5)

    class Incomplete(heads.Head):
        name, logits_dimension, loss_reduction = "incomplete", 1, "sum"
        loss = predictions = metrics = update_metrics = None

    with pytest.raises(NotImplementedError, match="Subclasses of Head must implement"):
        Incomplete().create_estimator_spec({}, "train", None)
    with pytest.raises(TypeError, match="abstract"):
        heads.Head()


def test_several_objectives(tmp_path):
    """A model with two heads trains on the sum of losses, and exports outputs of both."""
    head = heads.MultiHead([heads.BinaryClassHead(name="high"), heads.RegressionHead(name="y")])

    def model_fn(features, labels, mode):
        logits = logits_of(features)
        return head.create_estimator_spec(
            features=features,
            mode=mode,
            logits={"high": logits, "y": logits},
            labels={"high": labels, "y": labels},
            optimizer=tf1.train.GradientDescentOptimizer(0.1),
        )

    estimator = es.Estimator(model_fn, str(tmp_path / "model"))
    estimator.train(lambda: input_fn("train"), steps=5)
    metrics = estimator.evaluate(lambda: input_fn("eval"))
    assert metrics["loss"] == pytest.approx(metrics["loss/high"] + metrics["loss/y"])
    assert {"auc/high", "average_loss/y"} <= set(metrics)
    exported = estimator.export_saved_model(str(tmp_path / "export"), receiver_fn)
    model = tf.saved_model.load(tf.compat.as_str_any(exported))
    assert {"high/classification", "y/regression", "serving_default"} <= set(model.signatures)


def test_the_loss_of_several_heads_adds_no_summaries():
    """Only `create_estimator_spec` writes them, so they have their own names after `loss`, too."""
    head = heads.MultiHead([heads.RegressionHead(name="a"), heads.RegressionHead(name="b")])
    with tf.Graph().as_default():
        tf1.train.create_global_step()
        labels = dict.fromkeys("ab", tf.constant([[1.0]]))
        logits = {name: tf1.get_variable(name, [1, 1]) for name in "ab"}
        head.loss(labels, logits, mode="train")
        assert not tf1.get_collection(tf1.GraphKeys.SUMMARIES)
        head.create_estimator_spec({}, "train", logits, labels, train_op_fn=lambda loss: tf.no_op())
        tags = [each.op.name for each in tf1.get_collection(tf1.GraphKeys.SUMMARIES)]
    assert sorted(tags) == ["loss", "loss/a", "loss/b"]


def test_the_number_of_classes_may_be_a_tensor():
    """`logits_dimension` is what was given; the head works alike."""
    with tf.Graph().as_default(), tf1.Session() as session:
        count = tf.constant(3)
        head = heads.MultiClassHead(count)
        assert head.logits_dimension is count
        logits = tf.constant([[0.0, 1.0, 2.0]])
        loss, expected = (
            each.loss(tf.constant([[1]]), logits, mode="eval")
            for each in (head, heads.MultiClassHead(3))
        )
        found = head.predictions(logits)["class_ids"]
        assert session.run(found).tolist() == [[2]]
        assert session.run(loss) == session.run(expected)


@pytest.mark.parametrize(
    "head", [heads.BinaryClassHead, lambda **kw: heads.MultiLabelHead(3, **kw)]
)
def test_the_error_of_a_threshold_has_its_key_words(head):
    """Old programs' tests match the words of both heads, and the threshold."""
    with pytest.raises(ValueError, match=r"thresholds not in \(0, 1\)"):
        head(thresholds=[0.0, 0.5])
    with pytest.raises(ValueError, match=r"thresholds must be in \(0, 1\) range. Given: 1.0"):
        head(thresholds=[0.5, 1.0])
