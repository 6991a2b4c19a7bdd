# SPDX-License-Identifier: Apache-2.0
"""Equality of canned estimators under TensorFlow 2.15.1's own classes and ours.

Each class of both generations, 50 steps (`programs/canned_models.py`). Unseeded initializers draw
other numbers, so ours begins with the reference's checkpoint of step 0; the reference then
continues at ours of step 24.
"""

from __future__ import annotations

import sys
from typing import NamedTuple

import numpy as np
import pytest

HALF, STEPS = 24, 50
SIDES = ("reference", "ours", "continued")

MODELS = (
    "dnn_binary",
    "dnn_classes",
    "dnn_regressor",
    "dnn_estimator",
    "linear_binary",
    "linear_classes",
    "linear_regressor",
    "linear_estimator",
    "combined_binary",
    "combined_regressor",
    "combined_estimator",
    "baseline_binary",
    "baseline_regressor",
    "baseline_estimator",
)

pytestmark = [pytest.mark.reference, pytest.mark.slow]

every_model = pytest.mark.parametrize("model", MODELS)
both_generations = pytest.mark.parametrize("generation", [1, 2])


class CannedRuns(NamedTuple):
    """Records of all models of one generation, by name of the model."""

    reference: dict
    ours: dict
    reference_continued: dict


@pytest.fixture(scope="session")
def canned_runs(run_side, run_once, reference_python):
    """Returns a function that returns the records of a generation, whose models it runs once."""
    done = {}

    def load(directory):
        return {name: dict(np.load(directory / f"{name}.npz")) for name in MODELS}

    def start(side, python, generation, *arguments):
        arguments = [str(generation), *map(str, arguments)]
        run_side(side, python, *arguments, script="run_canned.py", timeout=1200)

    def start_all(generation, out):
        theirs, ours, continued = (out / side for side in SIDES)
        for directory in (theirs, ours, continued):
            directory.mkdir()
        start("reference", reference_python, generation, theirs)
        donor = ["--donor", theirs, "--step", 0, "--fresh"]
        start("ours", sys.executable, generation, ours, *donor)
        donor = ["--donor", ours, "--step", HALF, "--train-only"]
        start("reference", reference_python, generation, continued, *donor)

    def run(generation):
        if generation not in done:
            out = run_once(f"canned_{generation}", lambda out: start_all(generation, out))
            done[generation] = CannedRuns(*(load(out / side) for side in SIDES))
        return done[generation]

    return run


def group(record, name):
    """Returns the entries of one group, without its prefix."""
    prefix = name + ":"
    return {key[len(prefix) :]: record[key] for key in record if key.startswith(prefix)}


def assert_same(actual, expected, rtol):
    """Asserts equal names, dtypes, shapes, and values up to rounding."""
    assert sorted(actual) == sorted(expected)
    for name, value in expected.items():
        assert actual[name].dtype.kind == value.dtype.kind, name
        assert actual[name].shape == value.shape, name
        if value.dtype.kind == "f":
            # Relative to the largest entry: a small one is a difference of large ones.
            atol = rtol * max(1e-2, float(np.abs(value).max(initial=0.0)))
            np.testing.assert_allclose(actual[name], value, rtol=rtol, atol=atol, err_msg=name)
        else:
            np.testing.assert_array_equal(actual[name], value, err_msg=name)


@both_generations
@every_model
def test_variables_and_their_initial_values(canned_runs, generation, model):
    """A new model has the same variables: names, shapes, and values where these are seeded."""
    runs = canned_runs(generation)
    theirs, ours = group(runs.reference[model], "initial"), group(runs.ours[model], "initial")
    assert {n: (v.dtype, v.shape) for n, v in ours.items()} == {
        n: (v.dtype, v.shape) for n, v in theirs.items()
    }
    assert list(runs.ours[model]["names"]) == list(runs.reference[model]["names"])
    for name, value in theirs.items():
        if "kernel" not in name:  # Glorot's initializer, unseeded
            np.testing.assert_array_equal(ours[name], value, err_msg=name)


@both_generations
@every_model
def test_every_loss_of_50_steps(canned_runs, tolerance, generation, model):
    """The loss is the same in every step."""
    runs = canned_runs(generation)
    expected = runs.reference[model]["losses"]
    assert expected.shape == (STEPS,)
    assert np.ptp(expected) > 1e-3
    np.testing.assert_allclose(runs.ours[model]["losses"], expected, rtol=tolerance)


@both_generations
@every_model
def test_metrics_predictions_and_variables(canned_runs, tolerance, generation, model):
    """All metrics, predictions and trained variables, slots included, are the same."""
    runs = canned_runs(generation)
    for name in ("metrics", "predictions", "variables"):
        actual, expected = (group(side[model], name) for side in (runs.ours, runs.reference))
        assert expected
        assert_same(actual, expected, 10 * tolerance)


@both_generations
@every_model
def test_export_serves_the_same(canned_runs, tolerance, generation, model):
    """Signatures, their inputs and methods, and their outputs for tf.Examples are the same."""
    runs = canned_runs(generation)
    actual, expected = (group(side[model], "served") for side in (runs.ours, runs.reference))
    assert "predict/method" in expected
    assert_same(actual, expected, 10 * tolerance)


@both_generations
@every_model
def test_summaries_have_the_same_tags(canned_runs, generation, model):
    """Training and evaluation write the same summaries."""
    runs = canned_runs(generation)
    for name in ("tags", "tags of evaluation"):
        assert list(runs.ours[model][name]) == list(runs.reference[model][name])


@both_generations
@every_model
def test_a_checkpoint_of_ours_continues_in_the_reference(canned_runs, tolerance, generation, model):
    """24 steps in ours and 26 in the reference equal 50 in the reference."""
    runs = canned_runs(generation)
    losses = runs.reference_continued[model]["losses"]
    np.testing.assert_allclose(losses, runs.reference[model]["losses"][HALF:], rtol=tolerance)
