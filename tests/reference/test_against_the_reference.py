# SPDX-License-Identifier: Apache-2.0
"""Equality of programs under TensorFlow 2.15.1's own TPUEstimator and under ours.

Five programs (`programs/`), 200 steps each. What is compared is all that a program can see: losses,
metrics, predictions, checkpoints, and what an exported model serves.
"""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

import goldens
from goldens import SIDE

HALF = 100

pytestmark = [pytest.mark.reference, pytest.mark.slow]

every_program = pytest.mark.parametrize("program", SIDE.names)
every_live_program = pytest.mark.parametrize(
    "program",
    [
        pytest.param(
            name,
            marks=()
            if name in goldens.ALWAYS_LIVE
            else pytest.mark.nightly("needs the reference on a checkpoint or a CPU of this run"),
        )
        for name in SIDE.names
    ],
)


def assert_continues(run, continued):
    """Asserts that a continued run ends as the reference's whole run."""
    losses = run.reference["losses"][HALF:]
    np.testing.assert_allclose(continued["losses"], losses, rtol=run.tolerance)
    goldens.assert_same(run.name, continued, run.reference, "predictions", tolerance=run.tolerance)


def test_the_sides_are_what_they_say(sides):
    """The reference is TensorFlow 2.15's own estimator, and ours is ours."""
    run = sides(SIDE, "pooled_columns")
    assert str(run.reference["tensorflow"]).startswith("2.15.")
    assert str(run.ours["tensorflow"]) == tf.__version__
    assert str(run.reference["estimator"]).startswith("tensorflow_estimator.")
    assert str(run.ours["estimator"]).startswith("estimator_spec.")


@every_program
def test_every_loss_of_200_steps(sides, program):
    """The loss is the same in every step."""
    run = sides(SIDE, program)
    assert run.reference["losses"].shape == (200,)
    assert np.ptp(run.reference["losses"]) > 0.05  # the loss falls
    np.testing.assert_allclose(run.ours["losses"], run.reference["losses"], rtol=run.tolerance)


@every_program
def test_evaluation(sides, program):
    """`evaluate` has the same metrics for all rows, and two batches at an older checkpoint."""
    sides(SIDE, program).assert_same("metrics", "metrics_of_two_batches")


@every_program
def test_predictions(sides, program):
    """`predict` yields exactly the rows of a short last batch, batches, and chosen keys."""
    run = sides(SIDE, program)
    run.assert_same("predictions", "batch", "keys")
    assert len(run.ours["predictions:logit"]) == 50


@every_program
def test_checkpoint_variables(sides, program):
    """The checkpoint has the same variables and slots: names, shapes, dtypes and values."""
    run = sides(SIDE, program)
    run.assert_same("variables")
    assert any("embedding" in name for name in goldens.group(run.ours, "variables"))


@every_program
def test_a_checkpoint_of_the_reference_continues_in_ours(sides, program):
    """100 steps in the reference and 100 in ours equal 200 in the reference."""
    run = sides(SIDE, program)
    assert_continues(run, run.ours_continued)


@every_live_program
def test_a_checkpoint_of_ours_continues_in_the_reference(sides, program):
    """100 steps in ours and 100 in the reference equal 200 in the reference."""
    run = sides(SIDE, program).live
    assert_continues(run, run.reference_continued)


def test_export_serves_the_same(sides):
    """The exported model has the same signatures, inputs and outputs."""
    run = sides(SIDE, "pooled_columns")
    run.assert_same("served")
    assert "served:serving_default/probability" in run.ours


@every_live_program
def test_plain_runs_have_the_same_bits(sides, reference_python, tmp_path, monkeypatch, program):
    """With TPU_COLUMNS_PLAIN=1, on the reference's TensorFlow, no number differs in a bit."""
    expected = sides(SIDE, program).live.reference
    monkeypatch.setenv("TPU_COLUMNS_PLAIN", "1")
    goldens.start("ours", reference_python, SIDE.script, tmp_path, program)
    actual = goldens.load(tmp_path, program)
    assert sorted(actual) == sorted(expected)
    differ = [key for key, value in expected.items() if not np.array_equal(actual[key], value)]
    assert differ == ["estimator"]
