# SPDX-License-Identifier: Apache-2.0
"""Random models train and evaluate to the same numbers with all optimizations and with none.

`TPU_COLUMNS_RANDOM_MODELS` names the seeds: `17`, or `0-9,30-199`. By default there are
twenty, of which every change runs twelve.
"""

from __future__ import annotations

import os

import numpy as np
import pytest

import random_model
from tpu_columns.kernels import libraries, loading
from tpu_columns.optimizations import Optimization

SEEDS = "TPU_COLUMNS_RANDOM_MODELS"
NATIVE_KERNELS = ["0"] if loading.load() is None else ["0", "1"]


def _seeds() -> list[object]:
    seeds: list[int] = []
    for part in os.environ.get(SEEDS, "0-19").split(","):
        first, _, last = part.partition("-")
        seeds += range(int(first), int(last or first) + 1)
    if SEEDS in os.environ:
        return [*seeds]
    more = pytest.mark.nightly("more random models")
    return [pytest.param(seed, marks=[more] if seed > 11 else []) for seed in seeds]


@pytest.mark.parametrize("seed", _seeds())
def test_fast_equals_plain(monkeypatch, seed, subtests):
    """Losses, tables, slots and evaluations are equal up to rounding, with native kernels, too."""
    model = random_model.draw(seed)
    print(model)
    again = f"{model}\nTo run it alone: {SEEDS}={seed} pytest tests/random_models"
    limits = {"rtol": model.tolerance, "atol": model.tolerance}
    plain = random_model.train(model, fast=False)
    evaluated = random_model.evaluate(model, fast=False)
    assert len(set(plain.losses)) > 1, again
    for native in NATIVE_KERNELS:
        monkeypatch.setenv(Optimization.NATIVE_KERNELS.value, native)
        with subtests.test(f"native kernels: {native}"):
            fast = random_model.train(model, fast=True)
            assert plain.variables.keys() == fast.variables.keys(), again
            np.testing.assert_allclose(fast.losses, plain.losses, **limits, err_msg=again)
            for name, value in plain.variables.items():
                message = f"{name} of {again}"
                found, wanted = (each.astype(np.float64) for each in (fast.variables[name], value))
                np.testing.assert_allclose(found, wanted, **limits, err_msg=message)
            found = random_model.evaluate(model, fast=True)
            np.testing.assert_allclose(found, evaluated, **limits, err_msg=again)


def _supported_by_native_ops(use_resource: bool) -> random_model.Model:
    """Returns the first model whose tables native ops look up and update."""
    models = map(random_model.draw, range(1000))
    return next(
        model
        for model in models
        if model.optimizer in ("Adagrad", "Ftrl", "Ftrl with shrinkage")
        and model.dtype == "float32"
        and model.use_resource == use_resource
        and not model.accumulates
        and any(each.kind in ("sparse", "shared", "sequence") for each in model.lookups)
    )


@pytest.mark.skipif(len(NATIVE_KERNELS) == 1, reason=f"no kernels are built: {libraries.COMMAND}")
@pytest.mark.parametrize("use_resource", [True, False])
def test_native_ops_are_in_the_fast_graph(monkeypatch, use_resource):
    """Native ops look up and update the tables of a model that they support, unless turned off."""
    model = _supported_by_native_ops(use_resource)
    prefix = "TpuColumnsResource" if use_resource else "TpuColumns"
    wanted = {"TpuColumnsLookUpTables", "TpuColumnsRowGradients", f"{prefix}Update"}
    for native in NATIVE_KERNELS:
        monkeypatch.setenv(Optimization.NATIVE_KERNELS.value, native)
        kinds = random_model.train(model, fast=True).kinds
        found = {kind for kind in kinds if kind.startswith("TpuColumns")}
        assert found >= wanted if native == "1" else not found, model
