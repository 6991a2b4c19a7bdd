# SPDX-License-Identifier: Apache-2.0
"""The update rules against numbers that were recorded from Google's SparseCore code."""

from __future__ import annotations

import collections
import os
import secrets
import subprocess
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

import recorded_rules
from estimator_spec.core.cores import update_rules
from tpu_columns.kernels import loading

PYTHON = "TPU_COLUMNS_SPARSE_CORE_PYTHON"
RULES = [name for name in recorded_rules.SETS if not name.startswith("random/")]
RANDOM = [name for name in recorded_rules.SETS if name.startswith("random/")]


def by_python(step):
    """Returns rows and slots after a step by the rules in Python."""
    slots = {name: tf.constant(rows) for name, rows in step.before.items() if name != "w"}
    w, slots = update_rules.apply(
        step.parameters, tf.constant(step.before["w"]), slots, step.gradient, step.rate, 0
    )
    w = update_rules.clip_weights(step.parameters, w)
    return {"w": w.numpy(), **{name: value.numpy() for name, value in slots.items()}}


def by_native_ops(step):
    """Returns rows and slots after a step by the rules in C++."""
    rule = update_rules.native_rule(step.parameters)
    variables = {name: tf.Variable(rows) for name, rows in step.before.items()}
    table, *slots = variables.values()
    loading.load().tpu_columns_resource_update(
        table=table.handle,
        slots=[slot.handle for slot in slots],
        hyperparameters=[tf.constant(x, tf.float32) for x in (step.rate, *rule.constants)],
        ids=np.arange(len(step.gradient)),
        gradients=[step.gradient],
        rule=rule.name,
        sums=False,
        limits=rule.limits,
    )
    return {name: variable.numpy() for name, variable in variables.items()}


@pytest.fixture(params=[by_python, by_native_ops], ids=["python", "native"])
def train(request):
    """The rules in Python, or those in C++."""
    if request.param is by_native_ops:
        request.getfixturevalue("built_kernels")
    return request.param


@pytest.mark.parametrize("name", RULES)
def test_fixed_hyperparameters(train, name):
    """Three steps of each set of hyperparameters are Google's up to rounding."""
    check(train, recorded_rules.fixed(name))


@pytest.mark.parametrize("name", RANDOM)
def test_random_hyperparameters(train, name):
    """Steps with hyperparameters that differ by row are Google's, too."""
    check(train, recorded_rules.random(name))


@pytest.fixture(scope="module")
def computed_now(tmp_path_factory):
    """Steps that Google's code computes now, for another random seed each time."""
    python = os.environ.get(PYTHON)
    if not python:
        pytest.skip(f"{PYTHON} names no Python with jax-tpu-embedding; `nox -s sparse_core`")
    out, seed = tmp_path_factory.mktemp("rules") / "rules.npz", str(secrets.randbelow(10**9))
    print("seed", seed)
    script = Path(recorded_rules.__file__).with_name("sparse_core_rules.py")
    subprocess.run([python, str(script), str(out), seed], check=True)
    return np.load(out)


@pytest.mark.nightly("a JAX of its own")
@pytest.mark.parametrize("name", RANDOM)
def test_rules_computed_now(train, name, computed_now):
    """Steps from other rows and hyperparameters, which Google's code computes now, are ours."""
    check(train, recorded_rules.random(name, computed_now))


def check(train, steps):
    """Checks steps one by one, each from the recorded state before it."""
    worst = collections.Counter()
    for step in steps:
        for name, ulps in recorded_rules.ulps(step, train(step)).items():
            worst[name] = max(worst[name], ulps)
    assert max(worst.values()) <= recorded_rules.limit(steps[0].parameters), worst
