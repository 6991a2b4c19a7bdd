# SPDX-License-Identifier: Apache-2.0
"""Embedding objects of the mid-level API against NumPy in float64: random programs."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from hypothesis import given

import mid_level_replicas
from mid_level_cases import HAS_V2, Program, cases


@given(cases())
def test_random_programs(case):
    """Lookups and updates of TPUEmbedding are the oracle's: all optimizers and kinds of ids."""
    Program(case).train()


@pytest.mark.skipif(not HAS_V2, reason="this TensorFlow has no TPUEmbeddingV2")
@given(cases(v2=True))
def test_random_programs_of_sparse_core(case):
    """Lookups and updates of TPUEmbeddingV2 are the oracle's, in stacked tables."""
    Program(case).train()


@pytest.mark.slow
@pytest.mark.parametrize(
    "replicas", [2, pytest.param(4, marks=pytest.mark.nightly("two are with every change"))]
)
def test_random_programs_of_replicas(replicas):
    """Replicas of a MirroredStrategy train one copy of each table, as the cores of a TPU do."""
    # TensorFlow takes several logical CPUs before its first op only.
    done = subprocess.run(
        [sys.executable, mid_level_replicas.__file__, str(replicas), "4", "1"],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.stdout.splitlines()[-1:] == ["trained 4"], done.stderr[-3000:]
