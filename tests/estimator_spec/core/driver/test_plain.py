# SPDX-License-Identifier: Apache-2.0
"""Runs without optimizations: `plain=True`, and the switch of each."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

import estimator_spec as es
import host_runs
import tpu_columns
from estimator_spec.core import updates
from estimator_spec.core.driver import hookless_steps, huge_pages, initial_values, saving
from tpu_columns import environment
from tpu_columns.optimizations import Optimization

tf1 = tf.compat.v1

ROWS, BATCH = 20_000, 16


def _input_fn(params):
    rng = np.random.default_rng(0)
    ids = {key: rng.integers(0, ROWS, (64, 2)) for key in "ab"}
    data = tf.data.Dataset.from_tensor_slices((ids, rng.normal(size=(64, 1)).astype(np.float32)))
    return data.repeat().batch(params["batch_size"], drop_remainder=True)


def _model_fn_of(columns):
    def model_fn(features, labels, mode, params):
        layer = tpu_columns.input_layer(features, columns)
        ones = tf1.ones_initializer()
        output = tf.matmul(layer, tf1.get_variable("weights", [layer.shape[1], 1], None, ones))
        return host_runs.regression(output, labels, mode, tf1.train.AdagradOptimizer, 0.1)

    return model_fn


def _estimator(directory, **arguments):
    columns = [
        tpu_columns.embedding_column(
            tf.feature_column.categorical_column_with_identity(key, ROWS),
            16,
            initializer=tf1.random_normal_initializer(seed=seed),
        )
        for seed, key in enumerate("ab")
    ]
    return host_runs.make_estimator(
        _model_fn_of(columns),
        directory,
        BATCH,
        config={"tf_random_seed": 1},
        embedding_config_spec=es.EmbeddingConfigSpec(
            feature_columns=columns, optimization_parameters=es.AdagradParameters(0.1)
        ),
        **arguments,
    )


def _run(directory, **arguments):
    """Trains, evaluates and predicts; returns the metrics, a prediction and a variable."""
    estimator = _estimator(directory, **arguments)
    estimator.train(_input_fn, steps=20)
    metrics = estimator.evaluate(_input_fn, steps=2)
    predictions = estimator.predict(_input_fn, yield_single_examples=False)
    name = "input_layer/a_embedding/embedding_weights"
    return metrics["loss"], next(predictions)["output"], estimator.get_variable_value(name)


@pytest.fixture
def used(monkeypatch):
    """Records which parts of the optimizations run."""
    found = set()

    def record(module, name):
        original = getattr(module, name)

        def recording(*args, **kwargs):
            found.add(name)
            return original(*args, **kwargs)

        monkeypatch.setattr(module, name, recording)

    record(updates.rewriting.direct_sums, "sum_from_tables")
    record(updates.rewriting.adam, "fuse_adam")
    record(initial_values, "replace_large_constants")
    record(hookless_steps._Runner, "_run_raw_steps")
    record(saving, "disable_copy_on_read")
    record(huge_pages, "build")
    return found


PARTS = {
    Optimization.LOOKUPS: {"sum_from_tables"},
    Optimization.UPDATES: {"fuse_adam"},
    Optimization.MEMORY: {"replace_large_constants", "disable_copy_on_read"},
    Optimization.HUGE_PAGES: {"build"},
    Optimization.SKIPPED_HOOKS: {"_run_raw_steps"},
}


@pytest.mark.parametrize("core", [None, "host"])
def test_plain_runs_have_no_optimization(used, tmp_path, core):
    """With `plain=True` no optimization runs, and the results are equal up to rounding."""
    plain = _run(tmp_path / "plain", embedding_core=core, plain=True)
    assert not used
    fast = _run(tmp_path / "fast", embedding_core=core)
    assert used
    for one, other in zip(plain, fast, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


def test_the_environment_makes_runs_plain(used, tmp_path, monkeypatch):
    """TPU_COLUMNS_PLAIN=1 does the same for a program that can't be edited."""
    monkeypatch.setenv(environment.PLAIN, "1")
    _run(tmp_path)
    assert not used


@pytest.mark.parametrize("optimization", PARTS)
def test_each_switch_turns_off_its_part(used, tmp_path, monkeypatch, optimization):
    """Each variable turns off its part, and no other."""
    # They replace others; tests/estimator_spec/core/updates/test_native_ops.py has their switch.
    monkeypatch.setenv(Optimization.NATIVE_KERNELS.value, "0")
    monkeypatch.setenv(optimization.value, "0")
    _estimator(tmp_path).train(_input_fn, steps=20).evaluate(_input_fn, steps=1)
    assert used == set().union(*PARTS.values()) - PARTS[optimization]
