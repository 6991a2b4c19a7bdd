# SPDX-License-Identifier: Apache-2.0
"""Strategies of several processes: TensorFlow's collectives, and parameter servers."""

from __future__ import annotations

import json

import numpy as np
import pytest

from cluster_results import losses, variables
from tpu_columns.kernels import loading

pytestmark = pytest.mark.slow

PROGRAM = "strategy_program"


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
    options = {"program": PROGRAM, "max_steps": 5, "tpu_columns": has_chief}
    expected = losses(alone(tmp_path / "alone", None, strategy=None, **options))
    made = cluster(tmp_path / "all", workers, 0, strategy=strategy, **options)
    if not has_chief:
        only_workers(made)
    made.run()
    for task in made.environments:
        assert_same(losses(made.output(task)), expected)
    assert_same(variables(tmp_path / "all"), variables(tmp_path / "alone"))
    assert len(list((tmp_path / "all").glob("events.*"))) == 1
    if has_chief and loading.load() is not None:
        graph = (tmp_path / "all" / "model.ckpt-5.meta").read_bytes()
        assert b"TpuColumnsLookUpTables" in graph
        assert b"TpuColumnsResourceUpdate" in graph


@pytest.mark.reference
@pytest.mark.nightly("processes of the reference, for a layer of few such models")
def test_averaged_variables(cluster, reference_python, tmp_path, tolerance):
    """Batch normalization's moments in a checkpoint are the means over processes; either side."""
    options = {"program": PROGRAM, "normalize": True, "max_steps": 5}
    for side, python in (("ours", None), ("reference", reference_python)):
        made = cluster(tmp_path / side, 1, 0, python=python, **options)
        made.start()
        made.finish(*made.environments)
    assert_same(variables(tmp_path / "ours"), variables(tmp_path / "reference"))


@pytest.mark.reference
@pytest.mark.nightly("processes of the reference, for what a test of ours shows in part")
def test_checkpoints_continue_on_either_side(cluster, reference_python, tmp_path):
    """Both sides have the same losses and names, and each continues the other's checkpoint."""
    sides = {"ours": None, "reference": reference_python}
    found = {}
    for steps, pythons in ((3, sides.values()), (5, reversed(sides.values()))):
        for side, python in zip(sides, pythons, strict=True):
            made = cluster(tmp_path / side, 1, 0, python=python, program=PROGRAM, max_steps=steps)
            made.start()
            made.finish(*made.environments)
            found[side, steps] = losses(made.output("worker 0"))
    for steps in (3, 5):
        assert_same(found["ours", steps], found["reference", steps])
    assert_same(variables(tmp_path / "ours"), variables(tmp_path / "reference"))


@pytest.mark.nightly("two processes, started twice")
@pytest.mark.parametrize("victim", ["chief 0", "worker 0"])
def test_a_killed_process_ends_the_other_one(cluster, tmp_path, victim):
    """The other process ends with an error that says so; started again, both go on."""
    options = {"program": PROGRAM, "repeat": True, "seconds_of_a_step": 0.05}
    made = cluster(tmp_path / "model", 1, 0, max_steps=10**6, **options)
    made.start()
    made.wait_for("worker 0", r"step \d+ loss", times=9)
    (other,) = set(made.environments) - {victim}
    made.kill(victim)
    made.finish(other, status=1)
    assert "lost the connection to another process of its strategy" in made.output(other)
    saved = int(variables(tmp_path / "model")["global_step"])
    again = cluster(tmp_path / "model", 1, 0, max_steps=saved + 3, **options)
    again.run()
    assert list(losses(again.output("worker 0"))) == [saved + 1, saved + 2, saved + 3]


@pytest.mark.nightly("a cluster without the strategy is with every change")
def test_a_parameter_server_strategy_is_the_cluster(cluster, alone, tmp_path):
    """TF1's ParameterServerStrategy trains as the cluster without it."""
    options = {"program": PROGRAM, "strategy": "servers", "max_steps": 5}
    expected = losses(alone(tmp_path / "alone", None, PROGRAM, strategy=None, max_steps=5))
    made = cluster(tmp_path / "model", 0, 2, **options)
    made.run()
    assert_same(losses(made.output("chief 0")), expected)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"call": "train"}, "Call `train_and_evaluate`"),
        pytest.param(
            *({"eager": True}, "disable_eager_execution"),
            marks=pytest.mark.nightly("the strategy's own server needs seconds"),
        ),
        ({"strategy": "mirrored"}, "Give a MultiWorkerMirroredStrategy"),
        ({"normalize": True, "save_steps": None, "save_secs": 60}, "save_checkpoints_steps"),
    ],
)
def test_what_a_strategy_cant_do(cluster, tmp_path, options, words):
    """Errors name what to do, before our code waits for another process."""
    made = cluster(tmp_path / "model", 1, 0, program=PROGRAM, **options)
    # TensorFlow waits in the constructor of an eager strategy.
    tasks = list(made.environments) if "eager" in options else ["chief 0"]
    made.start(*tasks)
    made.finish(*tasks, status=1)
    assert words in made.output("chief 0").splitlines()[-1]
