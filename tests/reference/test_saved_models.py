# SPDX-License-Identifier: Apache-2.0
"""Equality of `SavedModelEstimator` with TensorFlow 2.15.1's, on SavedModels of either side."""

from __future__ import annotations

import pytest

import goldens
from goldens import SAVED_MODELS

pytestmark = [pytest.mark.reference, pytest.mark.slow]

RESULTS = ("losses", "names", "metrics before", "predictions before")
RESULTS += ("metrics", "predictions", "variables", "served")

every_case = pytest.mark.parametrize("case", SAVED_MODELS.names)


@pytest.fixture
def run(sides, case):
    """Returns both sides' records of a case."""
    return sides(SAVED_MODELS, case)


@every_case
def test_an_export_of_the_reference(run):
    """Both sides evaluate, predict with, train and export a SavedModel of the reference alike."""
    found = run.ours_continued
    goldens.assert_same(run.name, found, run.reference, *RESULTS, tolerance=run.tolerance)
    assert len(found["losses"]) == 10


@every_case
@pytest.mark.nightly("needs the reference on a SavedModel of this run")
def test_an_export_of_ours(run):
    """Both sides do so with a SavedModel of ours."""
    found = run.live.reference_continued
    goldens.assert_same(run.name, run.ours, found, *RESULTS, tolerance=run.tolerance)
