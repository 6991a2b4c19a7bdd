# SPDX-License-Identifier: Apache-2.0
"""The same programs under TensorFlow 2.15's own estimators and under ours, in one process."""

from __future__ import annotations

import types

import numpy as np
import pytest
import tensorflow as tf

import estimator_spec
from estimator_spec.run_config import run_config

tf1 = tf.compat.v1

THEIRS = getattr(tf1, "estimator", None)

pytestmark = [
    pytest.mark.reference,
    pytest.mark.skipif(THEIRS is None, reason="this TensorFlow has no tf.estimator"),
]

OURS = types.SimpleNamespace(
    TPUEstimator=estimator_spec.TPUEstimator,
    TPURunConfig=estimator_spec.RunConfig,
    TPUEstimatorSpec=estimator_spec.TPUEstimatorSpec,
    Estimator=estimator_spec.Estimator,
    RunConfig=run_config.RunConfig,
    EstimatorSpec=estimator_spec.EstimatorSpec,
    ServingInputReceiver=estimator_spec.ServingInputReceiver,
    ClassificationOutput=estimator_spec.ClassificationOutput,
    PredictOutput=estimator_spec.PredictOutput,
    WarmStartSettings=estimator_spec.WarmStartSettings,
)
if THEIRS is not None:
    THEIRS = types.SimpleNamespace(
        TPUEstimator=tf1.estimator.tpu.TPUEstimator,
        TPURunConfig=tf1.estimator.tpu.RunConfig,
        TPUEstimatorSpec=tf1.estimator.tpu.TPUEstimatorSpec,
        Estimator=tf1.estimator.Estimator,
        RunConfig=tf1.estimator.RunConfig,
        EstimatorSpec=tf1.estimator.EstimatorSpec,
        ServingInputReceiver=tf1.estimator.export.ServingInputReceiver,
        ClassificationOutput=tf1.estimator.export.ClassificationOutput,
        PredictOutput=tf1.estimator.export.PredictOutput,
        WarmStartSettings=tf1.estimator.WarmStartSettings,
    )

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(100, 5)).astype(np.float32)
Y = (X @ RANDOM.normal(size=(5, 1)) > 0).astype(np.float32)
STEPS = 40


def input_fn(params, mode):
    """A hundred examples, in another order every time in training."""
    data = tf.data.Dataset.from_tensor_slices(({"x": X}, Y))
    if mode == "train":
        data = data.shuffle(100).repeat()
    return data.batch(params["batch_size"])


def logits_of(features, mode):
    """A hidden layer and dropout; nothing has a seed of its own."""
    hidden = tf1.get_variable("hidden", [5, 8])
    bias = tf1.get_variable("bias", [8], initializer=tf1.random_normal_initializer())
    out = tf1.get_variable("out", [8, 1], initializer=tf1.glorot_uniform_initializer())
    layer = tf.nn.relu(features["x"] @ hidden + bias)
    if mode == "train":
        layer = tf.nn.dropout(layer, 0.2)
    return layer @ out


def tpu_model_fn(lib):
    """A classifier in the manner of TPU programs."""

    def metric_fn(labels, probabilities):
        return {
            "auc": tf1.metrics.auc(labels, probabilities),
            "accuracy": tf1.metrics.accuracy(labels, tf.round(probabilities)),
        }

    def model_fn(features, labels, mode, params):
        logits = logits_of(features, mode)
        predictions = {"p": tf.sigmoid(logits), "logits": logits}
        if mode == "infer":
            return lib.TPUEstimatorSpec(mode, predictions=predictions)
        loss = tf1.losses.sigmoid_cross_entropy(labels, logits)
        rate = tf1.train.exponential_decay(0.05, tf1.train.get_global_step(), 10, 0.9)
        train_op = tf1.train.AdamOptimizer(rate).minimize(
            loss, global_step=tf1.train.get_global_step()
        )
        step = tf.reshape(tf1.train.get_global_step(), [1])
        return lib.TPUEstimatorSpec(
            mode,
            loss=loss,
            train_op=train_op,
            eval_metrics=(metric_fn, {"labels": labels, "probabilities": predictions["p"]}),
            host_call=(lambda step: [tf.identity(step[0])], [step]),
        )

    return model_fn


def plain_model_fn(lib):
    """The classifier with EstimatorSpec, a scaffold, and a summary of its own."""

    def model_fn(features, labels, mode, params):
        logits = logits_of(features, mode)
        default = tf.saved_model.DEFAULT_SERVING_SIGNATURE_DEF_KEY
        if mode == "infer":
            p = tf.sigmoid(logits)
            outputs = {
                default: lib.PredictOutput({"p": p}),
                "scores": lib.ClassificationOutput(scores=p),
            }
            return lib.EstimatorSpec(mode, predictions={"p": p}, export_outputs=outputs)
        loss = tf1.losses.sigmoid_cross_entropy(labels, logits)
        tf1.summary.scalar("mean_logit", tf.reduce_mean(logits))
        optimizer = tf1.train.RMSPropOptimizer(0.01, momentum=0.5)
        return lib.EstimatorSpec(
            mode,
            loss=loss,
            train_op=optimizer.minimize(loss, global_step=tf1.train.get_global_step()),
            eval_metric_ops={"mean": tf1.metrics.mean(tf.sigmoid(logits))},
            scaffold=tf1.train.Scaffold(saver=tf1.train.Saver(max_to_keep=2)),
        )

    return model_fn


def make_tpu(lib, directory, **kwargs):
    """A TPUEstimator of `lib`."""
    return lib.TPUEstimator(
        tpu_model_fn(lib),
        config=lib.TPURunConfig(
            model_dir=str(directory), tf_random_seed=7, save_checkpoints_steps=20
        ),
        use_tpu=False,
        train_batch_size=16,
        eval_batch_size=20,
        predict_batch_size=30,
        **kwargs,
    )


def make_plain(lib, directory, **kwargs):
    """An Estimator of `lib`."""
    config = lib.RunConfig(
        model_dir=str(directory), tf_random_seed=7, save_checkpoints_steps=20, save_summary_steps=5
    )
    return lib.Estimator(plain_model_fn(lib), config=config, params={"batch_size": 16}, **kwargs)


class Losses(tf1.train.SessionRunHook):
    """Keeps every loss."""

    def __init__(self):
        self.losses = []

    def begin(self):
        self.tensor = tf1.get_collection(tf1.GraphKeys.LOSSES)[-1]

    def before_run(self, run_context):
        return tf1.train.SessionRunArgs(self.tensor)

    def after_run(self, run_context, run_values):
        self.losses.append(run_values.results)


def losses(estimator, **kwargs):
    """The losses of a training."""
    hook = Losses()
    estimator.train(input_fn, hooks=[hook], **kwargs)
    return hook.losses


def checkpoint(estimator):
    """Names and shapes in the latest checkpoint."""
    return tf.train.list_variables(estimator.latest_checkpoint())


@pytest.mark.parametrize("make", [make_tpu, make_plain])
def test_a_whole_run(make, tmp_path):
    """Losses, checkpoint, metrics and predictions are the same, without any op's own seed."""
    theirs, ours = make(THEIRS, tmp_path / "theirs"), make(OURS, tmp_path / "ours")
    expected = losses(theirs, steps=STEPS)
    assert len(expected) == STEPS
    np.testing.assert_allclose(losses(ours, steps=STEPS), expected, rtol=1e-5)
    assert checkpoint(ours) == checkpoint(theirs)
    their_metrics, our_metrics = theirs.evaluate(input_fn), ours.evaluate(input_fn)
    assert sorted(our_metrics) == sorted(their_metrics)
    for name, value in their_metrics.items():
        np.testing.assert_allclose(our_metrics[name], value, rtol=1e-5, err_msg=name)
    their_predictions = list(theirs.predict(input_fn))
    our_predictions = list(ours.predict(input_fn))
    assert len(our_predictions) == len(their_predictions) == 100
    for one, other in zip(our_predictions, their_predictions, strict=True):
        assert sorted(one) == sorted(other)
        for name in one:
            np.testing.assert_allclose(one[name], other[name], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("make", [make_tpu, make_plain])
def test_each_continues_the_other(make, tmp_path):
    """A training can change sides at a checkpoint, both ways, and goes on with the same numbers."""
    for first, second in ((THEIRS, OURS), (OURS, THEIRS)):
        alone = tmp_path / f"alone{first is OURS}"
        both = tmp_path / f"both{first is OURS}"
        losses(make(first, alone), steps=10)
        losses(make(first, both), steps=10)
        np.testing.assert_allclose(
            losses(make(second, both), steps=10), losses(make(first, alone), steps=10), rtol=1e-5
        )


@pytest.mark.parametrize("make", [make_tpu, make_plain])
def test_untrained(make, tmp_path):
    """Without a checkpoint, both evaluate and predict the same initial values."""
    theirs, ours = make(THEIRS, tmp_path / "theirs"), make(OURS, tmp_path / "ours")
    expected = theirs.evaluate(input_fn, steps=2)
    found = ours.evaluate(input_fn, steps=2)
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-5, err_msg=name)
    np.testing.assert_allclose(
        next(ours.predict(input_fn))["p"], next(theirs.predict(input_fn))["p"], rtol=1e-5
    )


def test_summaries(tmp_path, events):
    """The same summaries are written, as often."""
    found = []
    for lib, name in ((THEIRS, "theirs"), (OURS, "ours")):
        estimator = make_plain(lib, tmp_path / name)
        losses(estimator, steps=12)
        estimator.evaluate(input_fn, steps=2)
        training, evaluation = events(estimator.model_dir), events(estimator.eval_dir())
        path = tf.make_ndarray(evaluation.pop("checkpoint_path")[12]).item().decode()
        assert path == estimator.latest_checkpoint()
        found.append((training, evaluation))
    (their_training, their_evaluation), (training, evaluation) = found
    # Not at the same steps: TensorFlow's hook reads the step while it is counted up.
    assert {tag: len(steps) for tag, steps in training.items()} == {
        tag: len(steps) for tag, steps in their_training.items()
    }
    assert sorted(training) == ["loss", "mean_logit"]
    assert evaluation.keys() == their_evaluation.keys()


@pytest.mark.parametrize("make", [make_tpu, make_plain])
def test_exports(make, tmp_path):
    """SavedModels have the same signatures, variables and answers."""
    found = []
    for lib, name in ((THEIRS, "theirs"), (OURS, "ours")):

        def receiver(lib=lib):
            serialized = tf1.placeholder(tf.string, [None], name="serialized")
            parsed = tf.io.parse_example(serialized, {"x": tf.io.FixedLenFeature([5], tf.float32)})
            return lib.ServingInputReceiver(parsed, {"examples": serialized}, {"raw": parsed})

        options = {"export_to_tpu": False} if make is make_tpu else {}
        estimator = make(lib, tmp_path / name, **options)
        losses(estimator, steps=5)
        path = estimator.export_saved_model(str(tmp_path / f"export_{name}"), receiver).decode()
        loaded = tf.saved_model.load(path)
        raw = loaded.signatures["raw:serving_default"](x=tf.constant(X))
        found.append(
            (
                {
                    key: (
                        signature.structured_input_signature,
                        sorted((k, v.dtype) for k, v in signature.structured_outputs.items()),
                    )
                    for key, signature in loaded.signatures.items()
                },
                tf.train.list_variables(path + "/variables/variables"),
                raw,
            )
        )
    theirs, ours = found
    assert ours[:2] == theirs[:2]
    for name in theirs[2]:
        np.testing.assert_allclose(ours[2][name], theirs[2][name], rtol=1e-5)


def test_warm_start(tmp_path):
    """A warm-started training begins with the same numbers."""
    old = make_tpu(THEIRS, tmp_path / "old")
    losses(old, steps=10)
    found = [
        losses(
            make_tpu(
                lib,
                tmp_path / name,
                warm_start_from=lib.WarmStartSettings(
                    old.model_dir, vars_to_warm_start="hidden|bias"
                ),
            ),
            steps=5,
        )
        for lib, name in ((THEIRS, "theirs"), (OURS, "ours"))
    ]
    np.testing.assert_allclose(found[1], found[0], rtol=1e-5)


def test_hooks_in_order(tmp_path):
    """Hooks of every kind are called in the same order."""

    class Tell(tf1.train.SessionRunHook):
        def __init__(self, name, calls):
            self.name = name
            self.calls = calls

        def begin(self):
            self.calls.append((self.name, "begin"))

        def after_create_session(self, session, coord):
            self.calls.append((self.name, "session"))

        def before_run(self, run_context):
            self.calls.append((self.name, "before"))

        def after_run(self, run_context, run_values):
            self.calls.append((self.name, "after"))

        def end(self, session):
            self.calls.append((self.name, "end"))

    class Listen(tf1.train.CheckpointSaverListener):
        def __init__(self, calls):
            self.calls = calls

        def begin(self):
            self.calls.append("listener begins")

        def before_save(self, session, global_step_value):
            self.calls.append(("before save", int(global_step_value)))

        def after_save(self, session, global_step_value):
            self.calls.append(("after save", int(global_step_value)))

        def end(self, session, global_step_value):
            self.calls.append(("listener ends", int(global_step_value)))

    def run(lib, name):
        calls = []
        inner = plain_model_fn(lib)

        def model_fn(features, labels, mode, params):
            spec = inner(features, labels, mode, params)
            return spec._replace(
                training_hooks=[Tell("training", calls)],
                training_chief_hooks=[Tell("chief", calls)],
                evaluation_hooks=[Tell("evaluation", calls)],
            )

        config = lib.RunConfig(model_dir=str(tmp_path / name), save_checkpoints_steps=100)
        estimator = lib.Estimator(model_fn, config=config, params={"batch_size": 16})
        estimator.train(
            input_fn, hooks=[Tell("user", calls)], steps=3, saving_listeners=[Listen(calls)]
        )
        estimator.evaluate(input_fn, hooks=[Tell("user", calls)], steps=2)
        return calls

    assert run(OURS, "ours") == run(THEIRS, "theirs")
