# SPDX-License-Identifier: Apache-2.0
"""Equality of programs under TensorFlow 2.15.1's own TPUEstimator and under ours.

Five programs (`programs/`), 200 steps each. What is compared is all that a program can see: losses,
metrics, predictions, checkpoints, and what an exported model serves.
"""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

PROGRAMS = (
    "pooled_columns",
    "shared_dense_features",
    "sequences",
    "optimizers",
    "warm_start",
)
HALF = 100

pytestmark = [pytest.mark.reference, pytest.mark.slow]

every_program = pytest.mark.parametrize("program", PROGRAMS)


def group(record, name):
    """Returns the entries of one group, without its prefix."""
    prefix = name + ":"
    return {key[len(prefix) :]: record[key] for key in record if key.startswith(prefix)}


def assert_same(actual, expected, rtol):
    """Asserts equal names, dtypes, shapes, and values up to rounding."""
    assert sorted(actual) == sorted(expected)
    for name, value in expected.items():
        assert actual[name].dtype == value.dtype, name
        assert actual[name].shape == value.shape, name
        if value.dtype.kind == "f":
            # Relative to the largest entry: a small one is a difference of large ones.
            atol = rtol * max(1e-2, float(np.abs(value).max(initial=0.0)))
            np.testing.assert_allclose(actual[name], value, rtol=rtol, atol=atol, err_msg=name)
        else:
            np.testing.assert_array_equal(actual[name], value, err_msg=name)


def test_the_sides_are_what_they_say(runs):
    """The reference is TensorFlow 2.15's own estimator, and ours is ours."""
    run = runs(PROGRAMS[0])
    assert str(run.reference["tensorflow"]).startswith("2.15.")
    assert str(run.ours["tensorflow"]) == tf.__version__
    assert str(run.reference["estimator"]).startswith("tensorflow_estimator.")
    assert str(run.ours["estimator"]).startswith("estimator_spec.")


@every_program
def test_every_loss_of_200_steps(runs, tolerance, program):
    """The loss is the same in every step."""
    run = runs(program)
    assert run.reference["losses"].shape == (200,)
    assert np.ptp(run.reference["losses"]) > 0.05  # the loss falls
    np.testing.assert_allclose(run.ours["losses"], run.reference["losses"], rtol=tolerance)


@every_program
def test_evaluation(runs, tolerance, program):
    """`evaluate` has the same metrics for all rows, and two batches at an older checkpoint."""
    run = runs(program)
    for name in ("metrics", "metrics_of_two_batches"):
        assert_same(group(run.ours, name), group(run.reference, name), tolerance)


@every_program
def test_predictions(runs, tolerance, program):
    """`predict` yields exactly the rows of a short last batch, batches, and chosen keys."""
    run = runs(program)
    for name in ("predictions", "batch", "keys"):
        assert_same(group(run.ours, name), group(run.reference, name), 10 * tolerance)
    assert len(run.ours["predictions:logit"]) == 50


@every_program
def test_checkpoint_variables(runs, tolerance, program):
    """The checkpoint has the same variables and slots: names, shapes, dtypes and values."""
    run = runs(program)
    expected = group(run.reference, "variables")
    assert_same(group(run.ours, "variables"), expected, 10 * tolerance)
    assert any("embedding" in name for name in expected)


@every_program
def test_a_checkpoint_of_the_reference_continues_in_ours(runs, tolerance, program):
    """100 steps in the reference and 100 in ours equal 200 in the reference."""
    run = runs(program)
    losses = run.ours_continued["losses"]
    np.testing.assert_allclose(losses, run.reference["losses"][HALF:], rtol=tolerance)
    name = "predictions"
    assert_same(group(run.ours_continued, name), group(run.reference, name), 10 * tolerance)


@every_program
def test_a_checkpoint_of_ours_continues_in_the_reference(runs, tolerance, program):
    """100 steps in ours and 100 in the reference equal 200 in the reference."""
    run = runs(program)
    losses = run.reference_continued["losses"]
    np.testing.assert_allclose(losses, run.reference["losses"][HALF:], rtol=tolerance)
    name = "predictions"
    assert_same(group(run.reference_continued, name), group(run.reference, name), 10 * tolerance)


def test_export_serves_the_same(runs, tolerance):
    """The exported model has the same signatures, inputs and outputs."""
    run = runs("pooled_columns")
    expected = group(run.reference, "served")
    assert_same(group(run.ours, "served"), expected, 10 * tolerance)
    assert "serving_default/probability" in expected


@every_program
def test_plain_runs_have_the_same_bits(
    run_side, reference_python, runs, tmp_path, monkeypatch, program
):
    """With TPU_COLUMNS_PLAIN=1, on the reference's TensorFlow, no number differs in a bit."""
    expected = runs(program).reference
    monkeypatch.setenv("TPU_COLUMNS_PLAIN", "1")
    run_side("ours", reference_python, program, str(tmp_path), "straight")
    actual = np.load(tmp_path / "straight.npz")
    assert sorted(actual) == sorted(expected)
    differ = [key for key, value in expected.items() if not np.array_equal(actual[key], value)]
    assert differ == ["estimator"]
