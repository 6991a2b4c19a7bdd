# SPDX-License-Identifier: Apache-2.0
"""Random models train and evaluate to the same numbers with all optimizations and with none.

`TPU_COLUMNS_RANDOM_MODELS` names the seeds: `17`, or `0-9,30-199`. By default there are
twenty.
"""

from __future__ import annotations

import os

import numpy as np
import pytest

import random_model
from estimator_spec.updates import gathers, kernel_choice
from tpu_columns.optimizations import Optimization

SEEDS = "TPU_COLUMNS_RANDOM_MODELS"


def _seeds() -> list[int]:
    seeds: list[int] = []
    for part in os.environ.get(SEEDS, "0-19").split(","):
        first, _, last = part.partition("-")
        seeds += range(int(first), int(last or first) + 1)
    return seeds


@pytest.fixture(autouse=True)
def all_rewrites(monkeypatch):
    """Uses every rewrite, also where it gains nothing: the tables are small."""
    monkeypatch.setattr(kernel_choice, "minimum_rows", lambda version, kind, width: 0)
    monkeypatch.setattr(gathers, "_MIN_TABLE_BYTES", 0)


@pytest.mark.parametrize("native", ["0", "1"])
@pytest.mark.parametrize("seed", _seeds())
def test_fast_equals_plain(monkeypatch, seed, native):
    """Losses, tables, slots and evaluations are equal up to rounding, with native kernels, too."""
    monkeypatch.setenv(Optimization.NATIVE_KERNELS.value, native)
    model = random_model.draw(seed)
    print(model)
    again = f"{model}\nTo run it alone: {SEEDS}={seed} pytest tests/random_models"
    limits = {"rtol": model.tolerance, "atol": model.tolerance}
    plain, plain_losses = random_model.train(model, fast=False)
    fast, fast_losses = random_model.train(model, fast=True)
    assert plain.keys() == fast.keys(), again
    np.testing.assert_allclose(fast_losses, plain_losses, **limits, err_msg=again)
    for name, value in plain.items():
        message = f"{name} of {again}"
        found, wanted = (each.astype(np.float64) for each in (fast[name], value))
        np.testing.assert_allclose(found, wanted, **limits, err_msg=message)
    assert len(set(plain_losses)) > 1, again
    evaluated = [random_model.evaluate(model, fast) for fast in (False, True)]
    np.testing.assert_allclose(evaluated[1], evaluated[0], **limits, err_msg=again)
