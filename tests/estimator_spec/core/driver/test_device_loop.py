# SPDX-License-Identifier: Apache-2.0
"""Tests the training loop on host replicas: several steps per session call, split batches."""

from __future__ import annotations

import functools
import sys
import types
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

import estimator_spec as es
import host_runs
import tpu_columns
from estimator_spec.core.driver import device_loop

tf1 = tf.compat.v1
fc = tf.feature_column
TENSORFLOW = tf.__version__
ROWS, BATCH, STEPS = 12, 8, 7


def columns():
    """Returns a plain column, a weighted one on the tensor core, two shared ones and a sequence."""
    identity = fc.categorical_column_with_identity

    def init(seed):
        return tf1.random_normal_initializer(stddev=0.3, seed=seed)

    weighted = fc.weighted_categorical_column(identity("tags", ROWS), "tag_weights")
    return [
        tpu_columns.embedding_column(identity("user", ROWS), 3, initializer=init(1)),
        tpu_columns.embedding_column(
            weighted,
            2,
            "sum",
            init(2),
            embedding_lookup_device="tpu_tensor_core",
            tensor_core_shape=[None, 3],
        ),
        *tpu_columns.shared_embedding_columns(
            [identity("seen", ROWS), identity("liked", ROWS)], 3, "sqrtn", init(3)
        ),
        tpu_columns.embedding_column(
            fc.sequence_categorical_column_with_identity("clicks", ROWS),
            2,
            initializer=init(4),
            max_sequence_length=4,
        ),
    ]


def input_fn(params):
    """Returns different batches in each step: sparse features with empty rows, and a dense one."""
    size = params["batch_size"]
    count = params.get("count", 40)

    def sparse(seed, least, most):
        rng = np.random.RandomState(seed)
        lengths = rng.randint(least, most + 1, size=[count, size])
        present = np.arange(most) < lengths[..., np.newaxis]
        ids = rng.randint(0, ROWS, size=[count, size, most])
        return np.where(present, ids, -1)

    dense = {"user": sparse(1, 1, 1), "tags": sparse(2, 1, 3), "seen": sparse(3, 0, 3)}
    dense |= {"liked": sparse(4, 1, 2), "clicks": sparse(5, 0, 6)}
    dense["number"] = np.random.RandomState(6).normal(size=[count, size, 1]).astype(np.float32)
    labels = np.random.RandomState(7).randint(0, 2, size=[count, size, 1]).astype(np.float32)

    def to_sparse(features, labels):
        found = {"number": features["number"]}
        for key in ("user", "tags", "seen", "liked", "clicks"):
            indices = tf.where(features[key] >= 0)
            shape = tf.constant(features[key].shape.as_list(), tf.int64)
            found[key] = tf.SparseTensor(indices, tf.gather_nd(features[key], indices), shape)
        values = tf.cast(found["tags"].indices[:, 1] + 1, tf.float32) / 2
        found["tag_weights"] = found["tags"].with_values(values)
        return found, labels

    data = tf.data.Dataset.from_tensor_slices((dense, labels))
    return data.map(to_sparse).repeat(params.get("repeat"))


def logits_of(features, made):
    """Returns the logits of a feature layer of each kind and a dense layer."""
    sequence, pooled = tpu_columns.split_sequence_columns(made)
    steps, lengths = tpu_columns.sequence_input_layer(features, sequence)
    mask = tf.sequence_mask(lengths, steps.shape[1], tf.float32)[:, :, tf.newaxis]
    inputs = [tpu_columns.input_layer(features, pooled), tf.reduce_sum(steps * mask, 1)]
    inputs = tf.concat([*inputs, features["number"]], 1)
    kernel = tf1.get_variable(
        "kernel", [inputs.shape[1], 1], initializer=tf1.random_normal_initializer(seed=6)
    )
    return tf.matmul(inputs, kernel)


def host_call(model_dir):
    """Returns a host call that writes each step's number and mean loss to a summary file."""

    def write(step, loss):
        writer = tf.summary.create_file_writer(f"{model_dir}/host_call")
        with writer.as_default(), tf.summary.record_if(True):
            tf.summary.scalar("loss", tf.reduce_mean(loss), tf.cast(step[0], tf.int64))
        return tf1.summary.all_v2_summary_ops()

    return write


def model_fn(features, labels, mode, params, config):
    """A legacy model that trains `trainable_variables()` with Adagrad."""
    params["seen"].append((mode, params["batch_size"], features["number"].shape[0]))
    logits = logits_of(features, params["columns"])
    if mode == es.ModeKeys.PREDICT:
        return es.TPUEstimatorSpec(mode, predictions={"p": tf.sigmoid(logits)})
    loss = tf1.losses.sigmoid_cross_entropy(labels, logits)
    metrics = (lambda y, p: {"auc": tf1.metrics.auc(y, tf.sigmoid(p))}, [labels, logits])
    if mode == es.ModeKeys.EVAL:
        return es.TPUEstimatorSpec(mode, loss=loss, eval_metrics=metrics)
    step = tf1.train.get_global_step()
    tensors = [tf.reshape(step, [1]), tf.reshape(loss, [1])]
    return es.TPUEstimatorSpec(
        mode,
        loss=loss,
        train_op=tf1.train.AdagradOptimizer(0.2).minimize(loss, step),
        host_call=(host_call(config.model_dir), tensors) if params["host_call"] else None,
    )


class Calls(tf1.train.SessionRunHook):
    """Records the global step after each session call."""

    def __init__(self):
        self.steps = []

    def before_run(self, run_context):
        return None

    def after_run(self, run_context, run_values):
        step = tf1.train.get_global_step(run_context.session.graph)
        self.steps.append(int(run_context.session.run(step)))


def make(model_dir, replicas, core="host", iterations=3, host=False, spec=(), **config):
    """Makes an estimator of the columns."""
    made = columns()
    parameters = es.AdagradParameters(0.3)
    return host_runs.make_estimator(
        model_fn,
        model_dir,
        BATCH,
        config={
            "tf_random_seed": 1,
            "tpu_config": es.TPUConfig(iterations_per_loop=iterations),
            **config,
        },
        params={"columns": made, "seen": [], "host_call": host},
        embedding_config_spec=es.EmbeddingConfigSpec(made, parameters, **dict(spec)),
        embedding_core=core,
        host_replicas=replicas,
    )


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Trains by single steps, by the loop on one replica, and by the loop on two.

    On two replicas there is a host call.
    """
    found = {}
    for replicas in (None, 1, 2):
        model_dir = tmp_path_factory.mktemp(str(replicas))
        estimator = make(model_dir, replicas, host=replicas == 2)
        calls = Calls()
        estimator.train(input_fn, hooks=[calls], steps=STEPS)
        found[replicas] = estimator, calls.steps
    return found


@pytest.mark.parametrize("replicas", [1, 2])
def test_loops_and_replicas_train_alike(runs, replicas):
    """Loops and replicas give the checkpoint of single steps: same names, values to 1e-5."""
    found = host_runs.values_of(runs[replicas][0])
    assert "sequence_input_layer/clicks_embedding/embedding_weights/Adagrad" in found
    host_runs.assert_same_values(found, runs[None][0])


def test_hooks_are_called_once_a_loop(runs):
    """Hooks are called once per loop of three steps, of which the last is shorter."""
    assert runs[None][1] == [1, 2, 3, 4, 5, 6, 7]
    assert runs[1][1] == runs[2][1] == [3, 6, 7]


def test_evaluate_and_predict_after_a_loop(runs):
    """evaluate and predict read the loop's checkpoint on one device."""

    def few(params):
        return input_fn({**params, "count": 2, "repeat": 1})

    wanted, found = (runs[key][0].evaluate(few) for key in (None, 2))
    assert found == pytest.approx(wanted, rel=1e-5)
    wanted, found = ([p["p"] for p in runs[key][0].predict(few)] for key in (None, 2))
    np.testing.assert_allclose(found, wanted, rtol=1e-5)


def test_without_a_core(tmp_path):
    """Without an embedding core, two replicas give the results of a run without replicas."""
    one, two = (make(tmp_path / str(replicas), replicas, core=None) for replicas in (None, 2))
    for estimator in (one, two):
        estimator.train(input_fn, steps=4)
    host_runs.assert_same_values(two, one)


def test_keras_layers(tmp_path, monkeypatch):
    """Keras' feature layers and TF1's dense layers have the same names on each replica."""
    pytest.importorskip("tensorflow" if TENSORFLOW.startswith("2.15") else "tf_keras")

    def keras_logits(api, features, made):
        sequence, pooled = tpu_columns.split_sequence_columns(made)
        steps, _ = tpu_columns.sequence_input_layer(features, sequence)
        inputs = [api.keras.layers.DenseFeatures(pooled)(features), tf.reduce_sum(steps, 1)]
        return tf1.layers.dense(tf.concat(inputs, 1), 1)

    found = []
    for number, (api, replicas) in enumerate([(tf, 1), (tf, 2), (tf1, 2)]):
        logits = functools.partial(keras_logits, api)
        monkeypatch.setattr(sys.modules[__name__], "logits_of", logits)
        estimator = make(tmp_path / str(number), replicas)
        estimator.train(input_fn, steps=1)
        found.append(set(estimator.get_variable_names()))
    assert found[0] == found[1] == found[2]
    assert {"dense_features/user_embedding/embedding_weights/Adagrad", "dense/kernel"} < found[0]


def test_an_id_out_of_range_stops_the_loop(tmp_path):
    """In a loop, too, the error of an id out of range names the id and the feature."""

    def bad(params):
        def spoil(features, labels):
            user = features["user"]
            return {**features, "user": user.with_values(user.values + 99)}, labels

        return input_fn(params).map(spoil)

    with pytest.raises(ValueError, match="'user'.*outside of the vocabulary"):
        make(tmp_path, 1).train(bad, steps=2)


def test_training_continues(tmp_path):
    """Training in two parts gives the same values as training at once."""
    through = make(tmp_path / "a", 1)
    through.train(lambda params: input_fn({**params, "count": 1}), max_steps=6)
    parts = make(tmp_path / "b", 2, iterations=2)
    for last in (3, 6):
        parts.train(lambda params: input_fn({**params, "count": 1}), max_steps=last)
    host_runs.assert_same_values(parts, through)


def scores_with_params(features, labels, mode, params):
    """A model without tables that records the calls of its scaffold_fn in params."""

    def scaffold_fn():
        params["scaffolds"].append(mode)
        return tf1.train.Scaffold()

    predictions = {"p": tf.cast(features["number"], tf.float32) + 1.0}
    return es.TPUEstimatorSpec(mode, predictions=predictions, scaffold_fn=scaffold_fn)


def test_overrides_on_replicas(tmp_path):
    """Overrides with the legacy arguments are called on replicas; a build changes no attribute."""
    calls = []

    class Mine(es.TPUEstimator):
        def _call_input_fn(self, input_fn, mode, input_context=None):
            calls.append("input_fn")
            return super()._call_input_fn(input_fn, mode)

        def _call_model_fn(self, features, labels, mode, config):
            calls.append((type(self._run_embeddings).__name__, dict(vars(self)) == before))
            return super()._call_model_fn(features, labels, mode, config)

    estimator = make(tmp_path, 2)
    estimator.__class__ = Mine
    seen = []
    estimator._model_fn = lambda features, labels, mode, params, config: model_fn(
        features, labels, mode, {**params, "seen": seen}, config
    )
    before = dict(vars(estimator))
    estimator.train(input_fn, steps=1)
    # input_fn gets the global batch size, model_fn the batch of one replica.
    assert seen == [("train", BATCH // 2, BATCH // 2)] * 2
    assert calls == ["input_fn", *[("HostEmbeddings", True)] * 2]
    assert vars(estimator) == before


def test_another_estimators_model_on_replicas(tmp_path):
    """Another estimator's model_fn that is called on a replica isn't treated as the replica's."""
    scaffolds = []
    teacher = es.TPUEstimator(
        lambda features, labels, mode, params: scores_with_params(
            features, labels, mode, {"scaffolds": scaffolds}
        ),
        config=es.RunConfig(model_dir=str(tmp_path / "teacher")),
        use_tpu=False,
    )

    def student(features, labels, mode, params, config):
        taught = teacher.model_fn(features, None, mode, config)
        spec = model_fn(features, labels, mode, params, config)
        both = {"p": spec.predictions["p"], "taught": taught.predictions["p"]}
        return spec._replace(predictions=both)

    estimator = make(tmp_path, 2)
    estimator._model_fn = student
    found = list(estimator.predict(lambda params: input_fn({**params, "repeat": 1})))
    assert len(found) == 40 * BATCH and set(found[0]) == {"p", "taught"}
    assert scaffolds == ["infer"] * 2


def test_host_calls_run_every_step_on_all_replicas(runs):
    """The host call runs once per step, on the concatenated tensors of the replicas."""
    (path,) = Path(runs[2][0].model_dir, "host_call").iterdir()
    events = [e for e in tf1.train.summary_iterator(str(path)) if e.summary.value]
    assert [event.step for event in events] in ([*range(STEPS)], [*range(1, STEPS + 1)])


def test_pipelining(tmp_path):
    """Pipelined updates carry over between steps and loops: single steps give the same values."""
    found = []
    for replicas in (None, 1, 2):
        spec = {"pipeline_execution_with_tensor_core": True}
        estimator = make(tmp_path / str(replicas), replicas, spec=spec)
        estimator.train(input_fn, steps=STEPS)
        found.append(estimator)
    for other in found[1:]:
        host_runs.assert_same_values(other, found[0])


def test_tensors_in_place_of_a_dataset(runs, tmp_path):
    """Tensors returned by input_fn are evaluated anew in each step of a loop."""

    def tensors(params):
        return tf1.data.make_one_shot_iterator(input_fn(params)).get_next()

    estimator = make(tmp_path, 2)
    estimator.train(tensors, steps=STEPS)
    host_runs.assert_same_values(estimator, runs[None][0])


def test_loops_of_a_duration(tmp_path):
    """With iterations_per_loop='1h' the loops grow until the last step."""
    estimator = make(tmp_path, 1, iterations="1h")
    calls = Calls()
    estimator.train(input_fn, hooks=[calls], steps=30)
    assert calls.steps == [1, 11, 30]


@pytest.mark.parametrize(
    ("seconds", "most", "wanted"),
    [
        (10, 100, [1, 5, 5, 5, 4]),
        (1, 100, [1] * 20),
        (1000, 6, [1, 6, 6, 6, 1]),
        (1000, 100, [1, 10, 9]),
    ],
)
def test_loop_length_follows_the_duration(monkeypatch, seconds, most, wanted):
    """After a first loop of one step, which takes 2 s, loops have the length of `seconds`."""
    now, lengths = [0.0], []

    def work(length):
        now.append(now.pop() + 2.0 * length)
        lengths.append(int(length))
        return np.int64(length)

    clock = types.SimpleNamespace(monotonic=lambda: now[0])
    monkeypatch.setattr(device_loop, "time", clock)
    with tf.Graph().as_default():
        length = tf1.placeholder_with_default(most, [], device_loop._LENGTH)
        made = tf.numpy_function(work, [length], tf.int64)
        train_op = tf1.assign_add(tf1.train.create_global_step(), made)
        hook = device_loop.LoopLengthHook(device_loop.LoopLimit(most, seconds), 20, None)
        with tf1.train.MonitoredSession(hooks=[hook]) as session:
            while not session.should_stop():
                session.run(train_op)
    assert lengths == wanted


def test_evaluation_in_memory(tmp_path):
    """In-memory evaluation during a loop runs on one device, with the values of the loop."""
    estimator = make(tmp_path, 2)
    seen = []
    estimator._model_fn = lambda features, labels, mode, params, config: model_fn(
        features, labels, mode, {**params, "seen": seen}, config
    )

    def few(params):
        return input_fn({**params, "count": 2, "repeat": 1})

    hook = es.InMemoryEvaluatorHook(estimator, few, every_n_iter=3)
    estimator.train(input_fn, hooks=[hook], steps=3)
    assert ("eval", BATCH, BATCH) in seen
    found = [
        value.simple_value
        for path in (tmp_path / "eval").iterdir()
        for event in tf1.train.summary_iterator(str(path))
        for value in event.summary.value
        if value.tag == "loss" and event.step == 3
    ]
    assert found[-1] == pytest.approx(estimator.evaluate(few)["loss"], rel=1e-5)


class TestRefusals:
    """Errors of unsupported runs, raised before training."""

    def test_neither_steps_nor_max_steps(self, tmp_path):
        """Training without steps and max_steps raises an error, as on a TPU."""
        with pytest.raises(ValueError, match="one of `steps` or `max_steps` must be set"):
            make(tmp_path, 1).train(input_fn)

    def test_too_little_data(self, tmp_path):
        """An input that ends within the first loop raises an error that names input_fn."""
        with pytest.raises(ValueError, match="little.*fewer batches than the first loop"):

            def little(params):
                return input_fn({**params, "count": 2, "repeat": 1})

            make(tmp_path, 1).train(little, steps=5)
