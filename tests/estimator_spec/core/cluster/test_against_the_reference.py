# SPDX-License-Identifier: Apache-2.0
"""Clusters of TensorFlow 2.15.1's own TPUEstimator and of ours, with the same program."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from cluster_results import losses

pytestmark = [
    pytest.mark.slow,
    pytest.mark.reference,
    # In the other tier test_cluster_training.py compares our clusters with one process.
    pytest.mark.nightly("clusters of the reference continue from checkpoints of ours"),
]


def contents(model_dir):
    """Returns names and shapes of the variables in the latest checkpoint."""
    return tf.train.list_variables(str(model_dir))


def train(made):
    """Runs a chief with its servers, which never end in the reference."""
    made.start()
    made.finish("chief 0")
    made.kill_all()
    return losses(made.output("chief 0"))


def test_checkpoints_continue_on_either_side(cluster, reference_python, tmp_path, tolerance):
    """Both sides train alike, write the same names, and continue each other's checkpoints."""
    sides = {"ours": None, "reference": reference_python}
    found = {}
    for side, python in sides.items():
        made = cluster(tmp_path / side, servers=2, python=python, max_steps=8)
        found[side] = train(made)
    ours, theirs = (contents(tmp_path / side) for side in sides)
    assert ours == theirs
    for side, python in zip(sides, reversed(sides.values()), strict=True):
        made = cluster(tmp_path / side, servers=2, python=python, max_steps=16)
        found[side] |= train(made)
    assert list(found["ours"]) == list(range(1, 17))
    expected = list(found["reference"].values())
    np.testing.assert_allclose(list(found["ours"].values()), expected, rtol=tolerance)
    assert contents(tmp_path / "ours") == contents(tmp_path / "reference")
