# SPDX-License-Identifier: Apache-2.0
"""Models other than the tests' own on clusters of real processes: a DLRM, canned estimators."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from cluster_results import losses, variables
from estimator_spec import checkpoints

pytestmark = pytest.mark.slow


def auc(output):
    """Returns the AUC that the program printed."""
    return float(re.search(r"^AUC (\S+)$", output, re.MULTILINE)[1])


@pytest.mark.nightly("six processes, 600 steps")
@pytest.mark.skipif(tf.__version__.startswith("2.15."), reason="on the newest TensorFlow only")
def test_a_dlrm_learns_as_in_one_process(cluster, alone, tmp_path):
    """A DLRM trained by 6 processes reaches the AUC of one."""
    options = {"program": "dlrm_program", "max_steps": 600}
    expected = auc(alone(tmp_path / "alone", **options))
    made = cluster(tmp_path / "cluster", workers=2, servers=2, evaluator=True, **options)
    made.run()
    assert expected > 0.8
    # Workers don't wait for each other: how old their gradients are depends on the machine's load.
    assert abs(auc(made.output("evaluator 0")) - expected) < 0.01
    assert checkpoints.inspect(str(tmp_path / "cluster")).global_step >= 600


@pytest.mark.parametrize("core", [None, "host"])
def test_joined_transfers_change_no_number(cluster, tmp_path, core):
    """A trainer of four tables has the same variables if all tensors are sent one by one."""
    found = {}
    for switch in ("0", "1"):
        model_dir = tmp_path / switch
        options = {"program": "dlrm_program", "max_steps": 30, "core": core}
        made = cluster(model_dir, servers=2, **options)
        for environment in made.environments.values():
            environment["TPU_COLUMNS_FAST_UPDATES"] = switch
            # Native updates, which that switch turns off, too, differ in the last digit.
            environment["TPU_COLUMNS_NATIVE_KERNELS"] = "0"
        made.run()
        assert ("Joined the tensors" in made.output("chief 0")) == (switch == "1")
        found[switch] = variables(model_dir)
    assert set(found["0"]) == set(found["1"])
    for name, value in found["0"].items():
        np.testing.assert_array_equal(found["1"][name], value, err_msg=name)


@pytest.mark.usefixtures("built_kernels")
@pytest.mark.parametrize(
    "core", [None, pytest.param("host", marks=pytest.mark.nightly("nine more processes"))]
)
def test_kernels_on_servers(cluster, tmp_path, core):
    """Native ops update tables on the servers if each has loaded them; numbers are TensorFlow's."""
    found = {}
    for name, without in {"all": [], "some": ["ps 1"], "none": ["ps 0", "ps 1", "chief 0"]}.items():
        made = cluster(tmp_path / name, servers=2, core=core)
        for task in without:
            made.environments[task]["TPU_COLUMNS_NATIVE_KERNELS"] = "0"
        made.run()
        assert ("which a server hasn't loaded" in made.output("chief 0")) == (name == "some")
        prefix = tf.train.latest_checkpoint(str(tmp_path / name))
        engine = json.loads(Path(f"{prefix}.tables.json").read_text())["engine"]
        assert engine == ("kernels" if name == "all" else "TensorFlow")
        found[name] = variables(tmp_path / name)
    for name, value in found["none"].items():
        np.testing.assert_array_equal(found["some"][name], value, err_msg=name)
        np.testing.assert_allclose(found["all"][name], value, rtol=1e-6, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("generation", [1, 2])
def test_canned_estimators(cluster, alone, tmp_path, generation):
    """A single trainer has the losses of one process; with a worker, it goes on from there."""
    options = {"program": "canned_program", "generation": generation}
    expected = losses(alone(tmp_path / "alone", max_steps=20, **options))
    made = cluster(tmp_path / "cluster", servers=1, max_steps=20, **options)
    made.run()
    found = losses(made.output("chief 0"))
    assert list(found) == list(expected) == list(range(1, 21))
    np.testing.assert_allclose(list(found.values()), list(expected.values()), rtol=1e-5)
    made = cluster(tmp_path / "cluster", workers=1, servers=1, max_steps=40, **options)
    made.run()
    assert "done chief 0" in made.output("chief 0")
    assert "done worker 0" in made.output("worker 0")
    assert tf.train.load_variable(str(tmp_path / "cluster"), "global_step") >= 40
