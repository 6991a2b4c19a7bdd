# SPDX-License-Identifier: Apache-2.0
"""Tests that arguments for TPUs are accepted and checked, and have no effect on a CPU."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

import estimator_spec as es
import host_runs

TPUConfig = es.TPUConfig
InputPipelineConfig = es.InputPipelineConfig


def losses_of(estimator, input_fn):
    """Returns the losses of four steps."""
    hook = host_runs.Losses()
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
    "kwargs",
    [
        {"export_to_tpu": False},
        {"export_to_tpu": True, "export_to_cpu": True, "export_saved_model_api_version": 2},
    ],
)
def test_exports_are_for_the_cpu(make, trained, tmp_path, kwargs):
    """The SavedModel serves on a CPU, whatever the export options for TPUs."""
    estimator = make(**kwargs)
    receiver_fn = es.build_raw_serving_input_receiver_fn({"x": tf.zeros([1, 1])})
    path = estimator.export_saved_model(str(tmp_path), receiver_fn, as_text=True).decode()
    with open(f"{path}/saved_model.pbtxt", encoding="utf-8") as file:
        tags = [text.strip() for text in file if text.strip().startswith("tags:")]
    assert tags == ['tags: "serve"']


@pytest.mark.parametrize("eval_on_tpu", [True, False])
def test_eval_on_tpu_is_for_use_tpu(make, line, eval_on_tpu):
    """eval_on_tpu has no effect without use_tpu."""
    estimator = make(eval_on_tpu=eval_on_tpu)
    assert estimator.evaluate(line.input_fn)["global_step"] == 0


def test_train_and_evaluate(make, line):
    """train_and_evaluate works with a subclass of TPUEstimator and an exporter."""
    calls = []

    class Mine(es.TPUEstimator):
        def _train_model(self, input_fn, hooks, saving_listeners):
            calls.append([type(listener).__name__ for listener in saving_listeners])
            return super()._train_model(input_fn, hooks, saving_listeners)

        def evaluate(self, *args, **kwargs):
            calls.append(kwargs["checkpoint_path"][-1])
            return super().evaluate(*args, **kwargs)

    receiver_fn = es.build_raw_serving_input_receiver_fn({"x": tf.zeros([1, 1])})
    estimator = make(kind=Mine, config={"save_checkpoints_steps": 2})
    metrics, (path,) = es.train_and_evaluate(
        estimator,
        es.TrainSpec(line.input_fn, max_steps=4),
        es.EvalSpec(
            line.input_fn, exporters=es.FinalExporter("final", receiver_fn), throttle_secs=0
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
    hook = es.stop_if_higher_hook(estimator, "mae", 0.0, run_every_secs=None, run_every_steps=1)
    estimator.train(line.input_fn, hooks=[hook], steps=50)
    assert estimator.get_variable_value("global_step") < 5


def test_input_from_arrays_needs_params(make, line):
    """numpy_input_fn takes no params, so a TPUEstimator requires a wrapper, as in tf.estimator."""
    estimator = make()
    plain = es.numpy_input_fn({"x": line.x}, line.y, 8, None, shuffle=False)
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
