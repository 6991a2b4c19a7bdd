# SPDX-License-Identifier: Apache-2.0
"""Strategies of several processes: TensorFlow's collectives, and parameter servers."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
import tensorflow as tf

pytestmark = pytest.mark.slow

PROGRAM = "strategy_program"


def losses(output):
    """Returns the printed losses by step."""
    return {int(step): float(loss) for step, loss in re.findall(r"step (\d+) loss (\S+)", output)}


def variables(model_dir):
    """Returns the variables of the latest checkpoint by name."""
    prefix = tf.train.latest_checkpoint(str(model_dir))
    reader = tf.train.load_checkpoint(prefix)
    return {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}


def assert_same(actual, expected):
    """Asserts that two records of numbers are alike."""
    assert set(actual) == set(expected)
    for name, value in expected.items():
        np.testing.assert_allclose(actual[name], value, rtol=1e-4, atol=1e-6, err_msg=name)


def only_workers(made):
    """Makes a chief and one worker two workers, without a chief."""
    for task, number in (("chief 0", 0), ("worker 0", 1)):
        config = json.loads(made.environments[task]["TF_CONFIG"])
        addresses = config["cluster"]["chief"] + config["cluster"]["worker"]
        made.environments[task]["TF_CONFIG"] = json.dumps(
            {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": number}}
        )


@pytest.mark.parametrize(
    ("workers", "strategy", "has_chief"),
    [
        (1, "v2", True),
        pytest.param(2, "v1", True, marks=pytest.mark.nightly("three processes")),
        pytest.param(1, "v1", False, marks=pytest.mark.nightly("two more processes")),
    ],
)
def test_processes_train_as_one(cluster, alone, tmp_path, workers, strategy, has_chief):
    """Two or three processes have the losses and variables of one with the same global batch."""
    expected = losses(alone(tmp_path / "alone", None, PROGRAM, strategy=None, max_steps=5))
    made = cluster(tmp_path / "all", workers, 0, program=PROGRAM, strategy=strategy, max_steps=5)
    if not has_chief:
        only_workers(made)
    made.run()
    for task in made.environments:
        assert_same(losses(made.output(task)), expected)
    assert_same(variables(tmp_path / "all"), variables(tmp_path / "alone"))
    assert len(list((tmp_path / "all").glob("events.*"))) == 1


def test_averaged_variables(cluster, reference_python, tmp_path, tolerance):
    """Batch normalization's moments in a checkpoint are the means over processes; either side."""
    options = {"program": PROGRAM, "normalize": True, "max_steps": 5}
    for side, python in (("ours", None), ("reference", reference_python)):
        made = cluster(tmp_path / side, 1, 0, python=python, **options)
        made.start()
        made.finish(*made.environments)
    assert_same(variables(tmp_path / "ours"), variables(tmp_path / "reference"))
