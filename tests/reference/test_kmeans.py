# SPDX-License-Identifier: Apache-2.0
"""Equality of `KMeans` with TensorFlow 2.15.1's, for the cases of run_kmeans.py."""

from __future__ import annotations

import pytest

import goldens
from goldens import KMEANS

pytestmark = [pytest.mark.reference, pytest.mark.slow]

RESULTS = ("losses", "names", "score", "centers", "clusters", "distances")
RESULTS += ("metrics", "predictions", "variables", "served")

every_case = pytest.mark.parametrize("case", KMEANS.names)


@pytest.fixture
def run(sides, case):
    """Returns both sides' records of a case."""
    return sides(KMEANS, case)


@every_case
def test_same_as_the_reference(run):
    """First centers, losses of each step, centers, clusters, distances and exports are equal."""
    run.assert_same(*RESULTS)


@every_case
def test_a_checkpoint_of_either_side_is_continued(run):
    """20 steps and ten on the other side are 30 in the reference, both ways round if it is live."""
    found, expected = run.ours_continued, run.reference_continued or run.reference["continued"]
    goldens.assert_same(run.name, found, expected, *RESULTS, tolerance=run.tolerance)
    # relative_tolerance stops a run in its second step.
    assert len(found["losses"]) in (2, 10)
