# SPDX-License-Identifier: Apache-2.0
"""Each example of an evaluation or a prediction counts once, in order, however it is batched.

The models are the identity; `tests/reference/test_mirrored.py` compares with TensorFlow 2.15.1.
"""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

import estimator_spec as es
from estimator_spec.core.driver import evaluation, predictor
from estimator_spec.experimental import InMemoryEvaluatorHook

tf1 = tf.compat.v1
PIPELINES = es.InputPipelineConfig

# (rows, batch size, replicas), with all relations between them; seeded, because shrinking a failure
# of hypothesis would build hundreds of graphs.
RANDOM = np.random.RandomState(0)
CASES = [(12, 4, 2), (12, 5, 2), (12, 12, 2), (1, 1, 4), (3, 8, 3)]
CASES += [tuple(map(int, RANDOM.randint([1, 1, 2], [14, 7, 5]))) for _ in range(7)]


def batches(rows, size, *, drop=False):
    """Returns a dataset of `rows` examples 0, 1, … as dense, sparse and string features."""
    values = np.arange(rows, dtype=np.float32)
    data = tf.data.Dataset.from_tensor_slices({"x": values}).batch(size, drop_remainder=drop)

    def add(features):
        x = features["x"]
        ids = tf.sparse.from_dense(tf.cast(x[:, tf.newaxis], tf.int64) + 1)
        return {**features, "ids": ids, "text": tf.strings.as_string(x)}, x

    return data.map(add)


def numbers(features):
    """Returns the examples' numbers from their sparse feature, with 0 for padding."""
    return tf.sparse.to_dense(features["ids"])[:, 0] - 1


def model_fn(features, labels, mode):
    """The identity, with metrics of the examples, and one that counts the batches."""
    x = features["x"]
    tf1.get_variable("weight", [], initializer=tf1.zeros_initializer())
    if mode == "infer":
        return es.EstimatorSpec(mode, {"x": x, "ids": numbers(features), "text": features["text"]})
    metrics = {
        "mean": tf1.metrics.mean(x),
        "mean_id": tf1.metrics.mean(numbers(features)),
        "below_three": tf1.metrics.percentage_below(x, 3.0),
        "rows": tf1.metrics.true_positives(tf.ones_like(labels), tf.ones_like(labels)),
        "batches": tf1.metrics.true_positives([1], [1]),
    }
    train_op = tf1.assign_add(tf1.train.get_global_step(), 1)
    return es.EstimatorSpec(mode, x, tf.reduce_mean(x), train_op, metrics)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Returns a model_dir with a checkpoint of the model."""
    directory = str(tmp_path_factory.mktemp("trained"))
    es.Estimator(model_fn, directory).train(lambda: batches(1, 1), steps=1)
    return directory


def mirrored(replicas):
    """Returns a MirroredStrategy of logical CPUs, which need no configuration."""
    with tf.Graph().as_default():
        return tf.distribute.MirroredStrategy(
            [f"/cpu:{i}" for i in range(replicas)],
            cross_device_ops=tf.distribute.ReductionToOneDevice(),
        )


def expected_metrics(rows, size):
    """Returns what an evaluation of `batches` on one device finds."""
    values = np.arange(rows, dtype=np.float32)
    parts = [values[start : start + size] for start in range(0, rows, size)]
    expected = {
        "mean": values.mean(),
        "mean_id": values.mean(),
        "below_three": (values < 3).mean(),
        "rows": rows,
        "batches": len(parts),
        "loss": np.mean([part.mean() for part in parts]),
        "global_step": 1,
    }
    return pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(("rows", "size", "replicas"), CASES)
def test_evaluation_of_a_strategy(trained, rows, size, replicas):
    """A MirroredStrategy counts each row and each batch once, however many are left for a step."""
    config = es.RunConfig(eval_distribute=mirrored(replicas))
    found = es.Estimator(model_fn, trained, config).evaluate(lambda: batches(rows, size))
    assert found == expected_metrics(rows, size)


def test_evaluation_of_whole_batches(trained):
    """Metrics that read no data of a batch, whose size is known, don't count one that isn't there.

    TensorFlow computes the number of rows of such a batch before it runs.
    """
    config = es.RunConfig(eval_distribute=mirrored(2))
    estimator = es.Estimator(model_fn, trained, config)
    found = estimator.evaluate(lambda: batches(11, 2, drop=True))
    assert found == expected_metrics(10, 2)


def test_metric_of_several_replicas(trained, tf_log):
    """A metric that reads the batches of all replicas takes complete steps, and the log says so."""

    def summed(features, labels, mode):
        context = tf.distribute.get_replica_context()
        total = context.all_reduce("sum", tf.reduce_sum(features["x"]))
        spec = model_fn(features, labels, mode)
        spec.eval_metric_ops["total"] = tf1.metrics.mean(total)
        return spec

    config = es.RunConfig(eval_distribute=mirrored(2))
    found = es.Estimator(summed, trained, config).evaluate(lambda: batches(3, 1))
    assert found["total"] == 1.0
    assert any("computed from batches of other replicas" in line for line in tf_log)


def tpu_model(features, labels, mode, params):
    """The same model for a TPUEstimator."""
    del params
    x = features["x"]
    tf1.get_variable("weight", [], initializer=tf1.zeros_initializer())

    def metrics(x, ids, rows):
        return {
            "mean": tf1.metrics.mean(x),
            "mean_id": tf1.metrics.mean(ids),
            "below_three": tf1.metrics.percentage_below(x, 3.0),
            "rows": tf1.metrics.true_positives(rows, rows),
        }

    if mode == "infer":
        predictions = {"x": x, "ids": numbers(features), "text": features["text"]}
        return es.TPUEstimatorSpec(mode, predictions)
    train_op = tf1.assign_add(tf1.train.get_global_step(), 1)
    given = (metrics, [x, numbers(features), tf.ones_like(labels)])
    return es.TPUEstimatorSpec(mode, x, tf.reduce_mean(x), train_op, eval_metrics=given)


def tpu_estimator(directory, size, replicas=None, model=tpu_model, **tpu_config):
    """Returns a TPUEstimator with batches of `size` rows on replicas of the host."""
    config = es.RunConfig(tpu_config=es.TPUConfig(**tpu_config))
    sizes = {f"{mode}_batch_size": size for mode in ("train", "eval", "predict")}
    return es.TPUEstimator(model, directory, config, use_tpu=False, host_replicas=replicas, **sizes)


V1 = {}
V2 = {"per_host_input_for_training": PIPELINES.PER_HOST_V2}
SLICED = {"eval_training_input_configuration": PIPELINES.SLICED, **V2}
BROADCAST = {"per_host_input_for_training": PIPELINES.BROADCAST}


@pytest.mark.parametrize(
    ("tpu_config", "rows", "size", "replicas"),
    [(V1, 12, 4, 2), (V1, 11, 4, 2), (V1, 1, 4, 4), (V1, 7, 6, 3), (SLICED, 9, 4, 2)]
    + [(V2, 12, 4, 2), (V2, 11, 4, 4), (V2, 1, 4, 4), (V2, 10, 6, 3)],
)
def test_evaluation_on_host_replicas(trained, tpu_config, rows, size, replicas):
    """Replicas of the host count each row once, whether they share a batch or take one each."""
    estimator = tpu_estimator(trained, size, replicas, **tpu_config)
    found = estimator.evaluate(lambda params: batches(rows, params["batch_size"]))
    expected = expected_metrics(rows, size // replicas if tpu_config is V2 else size)
    assert {**found, "batches": expected.expected["batches"]} == expected


@pytest.mark.parametrize(
    ("tpu_config", "rows", "replicas", "single"),
    [
        (tpu_config, rows, replicas, single)
        for tpu_config in (V1, V2, SLICED, BROADCAST)
        for rows, replicas in [(8, 2), (9, 2), (3, 2), (1, 4), (10, 4), (5, None)]
        if replicas or tpu_config is not SLICED  # which slices for replicas
        for single in ([True, False] if rows in (9, 5) else [True])
    ],
)
def test_predictions(trained, tpu_config, rows, replicas, single):
    """A prediction of a TPUEstimator yields each row once, in order, and no padding."""
    estimator = tpu_estimator(trained, 4, replicas, **tpu_config)
    found = list(
        estimator.predict(
            lambda params: batches(rows, params["batch_size"]), yield_single_examples=single
        )
    )
    if single:
        found = [{key: [value] for key, value in each.items()} for each in found]
    for key in ("x", "ids", "text"):
        assert [float(value) for each in found for value in each[key]] == list(range(rows))


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("single", [True, False])
def test_prediction_without_examples(trained, named, single):
    """A scalar, which replicas can't put after each other's, is an error that names it."""

    def summed(features, labels, mode, params):
        spec = tpu_model(features, labels, mode, params)
        total = tf.reduce_sum(features["x"])
        return spec._replace(predictions={**spec.predictions, "total": total} if named else total)

    estimator = tpu_estimator(trained, 4, 2, summed)
    what = "The prediction 'total'" if named else "The prediction"
    with pytest.raises(ValueError, match=f"{what} has no batch .*yield_single_examples=False"):
        list(estimator.predict(lambda params: batches(4, 4), yield_single_examples=single))


@pytest.mark.parametrize(("rows", "size"), [(7, 3), (6, 3), (1, 4)])
def test_prediction_of_batches(trained, rows, size):
    """An Estimator yields the batches of the input, the last, smaller one included."""
    estimator = es.Estimator(model_fn, trained)
    found = list(estimator.predict(lambda: batches(rows, size), yield_single_examples=False))
    starts = range(0, rows, size)
    expected = [list(range(start, min(start + size, rows))) for start in starts]
    assert [each["x"].tolist() for each in found] == expected
    assert [each["ids"].tolist() for each in found] == expected


def test_predictor(trained):
    """A predictor returns each row of a call once, in order, for calls of any size."""

    def receive():
        x = tf1.placeholder(tf.float32, [None])
        ids = tf.sparse.from_dense(tf.cast(x[:, tf.newaxis], tf.int64) + 1)
        features = {"x": x, "ids": ids, "text": tf.strings.as_string(x)}
        return es.ServingInputReceiver(features, {"x": x})

    def serving_model(features, labels, mode):
        spec = model_fn(features, labels, mode)
        output = es.export.PredictOutput(spec.predictions)
        return spec._replace(export_outputs={"serving_default": output})

    predict = predictor.from_estimator(es.Estimator(serving_model, trained), receive)
    for rows in RANDOM.randint(1, 9, size=5):
        values = RANDOM.permutation(rows).astype(np.float32)
        found = predict({"x": values})
        for key in ("x", "ids", "text"):
            np.testing.assert_array_equal(found[key].astype(np.float32), values)
    predict.session.close()


@pytest.mark.parametrize("kind", ["Estimator", "TPUEstimator", "host_replicas"])
@pytest.mark.parametrize(("rows", "size"), [(7, 4), (8, 4), (1, 4)])
def test_evaluation_in_memory(tmp_path, monkeypatch, kind, rows, size):
    """An evaluation within a training counts each row once, each time."""
    found = []

    def record(directory, results, checkpoint):
        del directory, checkpoint
        found.append(results)

    monkeypatch.setattr(evaluation, "write_summaries", record)
    estimator = es.Estimator(model_fn, str(tmp_path))
    if kind != "Estimator":
        estimator = tpu_estimator(str(tmp_path), size, 2 if kind == "host_replicas" else None)
    hook = InMemoryEvaluatorHook(estimator, lambda params: batches(rows, size), every_n_iter=1)
    estimator.train(lambda params: batches(8, 4, drop=True).repeat(), hooks=[hook], steps=2)
    assert len(found) > 2
    expected = expected_metrics(rows, size).expected
    for each in found:
        for key in ("mean", "mean_id", "below_three", "rows", "loss"):
            assert each[key] == pytest.approx(expected[key], rel=1e-6)
