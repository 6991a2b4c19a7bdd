# SPDX-License-Identifier: Apache-2.0
"""Equality of canned estimators under TensorFlow 2.15.1's own classes and ours.

Each class of both generations, 50 steps (`programs/canned_models.py`). Unseeded initializers draw
other numbers, so ours begins with the reference's checkpoint of step 0; the reference then
continues at ours of step 24.
"""

from __future__ import annotations

import numpy as np
import pytest

import goldens
from goldens import CANNED

HALF, STEPS = 24, 50

pytestmark = [pytest.mark.reference, pytest.mark.slow]

every_model = pytest.mark.parametrize("model", CANNED.names)


@pytest.fixture
def run(sides, model):
    """Returns both sides' records of a model, whose name begins with its generation."""
    return sides(CANNED, model)


@every_model
def test_variables_and_their_initial_values(run):
    """A new model has the same variables: names, shapes, and values where these are seeded."""
    theirs, ours = (goldens.group(side, "initial") for side in (run.reference, run.ours))
    assert {n: (v.dtype, v.shape) for n, v in ours.items()} == {
        n: (v.dtype, v.shape) for n, v in theirs.items()
    }
    run.assert_same("names")
    # Kernels have Glorot's initializer, unseeded.
    seeded = [{n: v for n, v in side.items() if "kernel" not in n} for side in (ours, theirs)]
    goldens.assert_same(run.name, *seeded, "initial", tolerance=run.tolerance)


@every_model
def test_every_loss_of_50_steps(run):
    """The loss is the same in every step."""
    expected = run.reference["losses"]
    assert expected.shape == (STEPS,)
    assert np.ptp(expected) > 1e-3
    np.testing.assert_allclose(run.ours["losses"], expected, rtol=run.tolerance)


@every_model
def test_metrics_predictions_and_variables(run):
    """All metrics, predictions and trained variables, slots included, are the same."""
    run.assert_same("metrics", "predictions", "variables")


@every_model
def test_export_serves_the_same(run):
    """Signatures, their inputs and methods, and their outputs for tf.Examples are the same."""
    assert "served:predict/method" in run.reference
    run.assert_same("served")


@every_model
def test_summaries_have_the_same_tags(run):
    """Training and evaluation write the same summaries."""
    run.assert_same("tags", "tags of evaluation")


@pytest.mark.parametrize(
    "model",
    [
        pytest.param(
            model,
            marks=()
            if CANNED.prefix + model in goldens.ALWAYS_LIVE
            else pytest.mark.nightly("needs the reference on a checkpoint of this run"),
        )
        for model in CANNED.names
    ],
)
def test_a_checkpoint_of_ours_continues_in_the_reference(run):
    """24 steps in ours and 26 in the reference equal 50 in the reference."""
    losses = run.live.reference_continued["losses"]
    np.testing.assert_allclose(losses, run.reference["losses"][HALF:], rtol=run.tolerance)
