# SPDX-License-Identifier: Apache-2.0
"""Tests that arguments for TPUs are accepted and checked, and have no effect on a CPU."""

from __future__ import annotations

import functools

import numpy as np
import pytest
import tensorflow as tf

import estimator_spec

tf1 = tf.compat.v1

TPUConfig = estimator_spec.TPUConfig
InputPipelineConfig = estimator_spec.InputPipelineConfig


class Losses(tf1.train.SessionRunHook):
    """Records the loss of each step."""

    def __init__(self):
        self.found = []

    def before_run(self, run_context):
        return tf1.train.SessionRunArgs(tf1.get_collection(tf1.GraphKeys.LOSSES)[-1])

    def after_run(self, run_context, run_values):
        self.found.append(float(run_values.results))


def losses_of(estimator, input_fn):
    """Returns the losses of four steps."""
    hook = Losses()
    estimator.train(input_fn, hooks=[hook], steps=4)
    return hook.found


@pytest.fixture(scope="module")
def usual(make_in, line):
    """Returns the losses without any of these arguments."""
    return losses_of(make_in(model_dir=None), line.input_fn)


@pytest.mark.parametrize(
    ("tpu_config", "batch_axis"),
    [
        (
            TPUConfig(
                100,
                8,
                per_host_input_for_training=False,
                initial_infeed_sleep_secs=600,
                experimental_host_call_every_n_steps=10,
            ),
            (0, 0),
        ),
        (
            TPUConfig(
                "1h",
                per_host_input_for_training=InputPipelineConfig.BROADCAST,
                experimental_feed_hook=object,
            ),
            [3, 0],
        ),
        (
            TPUConfig(
                3,
                num_shards=8,
                num_cores_per_replica=2,
                tpu_job_name="tpu_worker",
                per_host_input_for_training=InputPipelineConfig.PER_HOST_V2,
                experimental_allow_per_host_v2_parallel_get_next=True,
            ),
            (),
        ),
        (
            TPUConfig(
                num_cores_per_replica=4,
                per_host_input_for_training=InputPipelineConfig.PER_HOST_V2,
                input_partition_dims=[{"x": [4, 1]}, None],
            ),
            (np.int64(1),),
        ),
    ],
)
def test_a_tpu_s_configuration_changes_no_number(make, line, usual, tpu_config, batch_axis):
    """Neither TPUConfig nor batch_axis changes the losses on a CPU."""
    config = {"tpu_config": tpu_config}
    estimator = make(model_dir=None, config=config, batch_axis=batch_axis)
    assert losses_of(estimator, line.input_fn) == usual


def test_loops_stop_at_any_step(make, line):
    """The number of steps needn't be a multiple of iterations_per_loop."""
    estimator = make(config={"tpu_config": TPUConfig(100), "save_checkpoints_steps": 2})
    estimator.train(line.input_fn, max_steps=3)
    state = tf.train.get_checkpoint_state(estimator.model_dir)
    assert [path[-1] for path in state.all_model_checkpoint_paths] == ["0", "2", "3"]


@pytest.mark.parametrize(
    ("batch_axis", "error"),
    [(0, TypeError), ("00", TypeError), ((0, "N"), TypeError), ([0, -1], ValueError)],
)
def test_bad_batch_axis(make, batch_axis, error):
    """A batch_axis that isn't a list of non-negative ints raises an error."""
    with pytest.raises(error, match="batch_axis must"):
        make(batch_axis=batch_axis)


@pytest.mark.parametrize(
    "kwargs",
    [
        {"export_to_tpu": False},
        {"export_to_tpu": True, "export_to_cpu": True, "export_saved_model_api_version": 2},
    ],
)
def test_exports_are_for_the_cpu(make, trained, tmp_path, kwargs):
    """The SavedModel serves on a CPU, whatever the export options for TPUs."""
    estimator = make(**kwargs)
    receiver_fn = estimator_spec.build_raw_serving_input_receiver_fn({"x": tf.zeros([1, 1])})
    path = estimator.export_saved_model(str(tmp_path), receiver_fn, as_text=True).decode()
    with open(f"{path}/saved_model.pbtxt", encoding="utf-8") as file:
        tags = [text.strip() for text in file if text.strip().startswith("tags:")]
    assert tags == ['tags: "serve"']


@pytest.mark.parametrize("eval_on_tpu", [True, False])
def test_eval_on_tpu_is_for_use_tpu(make, line, eval_on_tpu):
    """eval_on_tpu has no effect without use_tpu."""
    estimator = make(eval_on_tpu=eval_on_tpu)
    assert estimator.evaluate(line.input_fn)["global_step"] == 0


class Model:
    """A model with two model_fns: the object itself and a method."""

    def __init__(self, line):
        self.line = line

    def __call__(self, features, labels, mode, params):
        return self.line.model_fn(features, labels, mode, params)

    def method(self, features, labels, mode, params, config):
        assert isinstance(config, estimator_spec.RunConfig)
        return self.line.model_fn(features, labels, mode, params)


@pytest.mark.parametrize("kind", ["object", "method", "partial"])
def test_kinds_of_model_fn(make, line, usual, kind):
    """model_fn and input_fn may be any callable."""
    model = Model(line)
    model_fn = {
        "object": model,
        "method": model.method,
        "partial": functools.partial(model.method, config=estimator_spec.RunConfig()),
    }[kind]
    input_fn = functools.partial(line.input_fn, mode="train")
    assert losses_of(make(model_fn, model_dir=None), input_fn) == usual


def test_train_and_evaluate(make, line):
    """train_and_evaluate works with a subclass of TPUEstimator and an exporter."""
    calls = []

    class Mine(estimator_spec.TPUEstimator):
        def _train_model(self, input_fn, hooks, saving_listeners):
            calls.append([type(listener).__name__ for listener in saving_listeners])
            return super()._train_model(input_fn, hooks, saving_listeners)

        def evaluate(self, *args, **kwargs):
            calls.append(kwargs["checkpoint_path"][-1])
            return super().evaluate(*args, **kwargs)

    receiver_fn = estimator_spec.build_raw_serving_input_receiver_fn({"x": tf.zeros([1, 1])})
    estimator = make(kind=Mine, config={"save_checkpoints_steps": 2})
    metrics, (path,) = estimator_spec.train_and_evaluate(
        estimator,
        estimator_spec.TrainSpec(line.input_fn, max_steps=4),
        estimator_spec.EvalSpec(
            line.input_fn,
            exporters=estimator_spec.FinalExporter("final", receiver_fn),
            throttle_secs=0,
        ),
    )
    assert calls[1:] == ["2", "4"]
    assert len(calls[0]) == 1
    assert metrics["global_step"] == 4
    served = tf.saved_model.load(path.decode()).signatures["serving_default"]
    expected = [p["y"] for p in estimator.predict(line.input_fn)]
    np.testing.assert_allclose(served(x=tf.constant(line.x))["y"], expected, rtol=1e-6)


def test_early_stopping(make, line):
    """The hooks of early stopping work with a TPUEstimator."""
    estimator = make()
    estimator.evaluate(line.input_fn)
    hook = estimator_spec.stop_if_higher_hook(
        estimator, "mae", 0.0, run_every_secs=None, run_every_steps=1
    )
    estimator.train(line.input_fn, hooks=[hook], steps=50)
    assert estimator.get_variable_value("global_step") < 5


def test_input_from_arrays_needs_params(make, line):
    """numpy_input_fn takes no params, so a TPUEstimator requires a wrapper, as in tf.estimator."""
    estimator = make()
    plain = estimator_spec.numpy_input_fn({"x": line.x}, line.y, 8, None, shuffle=False)
    with pytest.raises(ValueError, match="does not include params argument"):
        estimator.train(plain, steps=1)
    estimator.train(lambda params: plain(), steps=1)


@pytest.mark.reference
def test_the_reference_takes_the_same(make, line, old_estimator, usual):
    """In TensorFlow 2.15's TPUEstimator these arguments have no effect on a CPU either."""
    tpu = old_estimator.tpu

    def model_fn(features, labels, mode, params):
        return tpu.TPUEstimatorSpec(*line.model_fn(features, labels, mode, params))

    for tpu_config, batch_axis in (
        (tpu.TPUConfig(100, 8), (0, 0)),
        (tpu.TPUConfig("1h", experimental_feed_hook=object), [3, 0]),
        (tpu.TPUConfig(per_host_input_for_training=False), None),
    ):
        estimator = tpu.TPUEstimator(
            model_fn,
            config=tpu.RunConfig(tpu_config=tpu_config, tf_random_seed=1),
            use_tpu=False,
            train_batch_size=8,
            batch_axis=batch_axis,
        )
        assert losses_of(estimator, line.input_fn) == pytest.approx(usual, rel=1e-6)
