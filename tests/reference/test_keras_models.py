# SPDX-License-Identifier: Apache-2.0
"""Equality of `model_to_estimator` with TensorFlow 2.15.1's, for the models of run_keras_models.py.

Compared are the names and values of variables, losses, metrics, predictions and signatures; and a
second run that goes on with the other side's checkpoint.
"""

from __future__ import annotations

import pytest

import goldens
from goldens import KERAS_MODELS

pytestmark = [pytest.mark.reference, pytest.mark.slow]

every_case = pytest.mark.parametrize("case", KERAS_MODELS.names)


@pytest.fixture
def run(sides, case):
    """Returns both sides' records of a case."""
    return sides(KERAS_MODELS, case)


@every_case
def test_same_as_the_reference(run):
    """Losses are equal in every step; variables, metrics and predictions follow."""
    run.assert_same("losses", "metrics", "predictions", "variables")


@every_case
def test_a_checkpoint_of_either_side_is_continued(run):
    """20 steps and 20 on the other side give the same losses, both ways round if it runs live.

    A golden has 20 and 20 in the reference.
    """
    found, expected = run.ours_continued, run.reference_continued or run.reference["continued"]
    parts = [
        {"continued": {key: side[key] for key in ("losses", "metrics")}}
        for side in (found, expected)
    ]
    goldens.assert_same(run.name, *parts, "continued", tolerance=run.tolerance)
    assert found["losses"][0] != run.ours["losses"][0]


@every_case
def test_same_signatures(run):
    """Exported models have the same signatures, with the same dtypes and shapes."""
    assert run.ours.get("signatures") == run.reference.get("signatures")
