# SPDX-License-Identifier: Apache-2.0
"""Equality of `model_to_estimator` with TensorFlow 2.15.1's, for the models of run_keras_models.py.

Compared are the names and values of variables, losses, metrics, predictions and signatures; and a
second run that goes on with the other side's checkpoint.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

pytestmark = [pytest.mark.reference, pytest.mark.slow]

SCRIPT = "run_keras_models.py"
CASES = (
    "functional_v2",
    "functional_v1",
    "sequential_v2",
    "sequential_v1",
    "subclassed_v1",
    "trained_v2",
    "trained_v1",
    "tf1_optimizer_v1",
    "new_optimizer_v2",
    "named_optimizer_v2",
)

every_case = pytest.mark.parametrize("case", CASES)

Records = dict[str, Any]


class Sides(NamedTuple):
    """Records of both sides by case, also of runs that continued the other side's checkpoint."""

    reference: Records
    ours: Records


def read(directory: Path) -> Records:
    """Returns the records in a directory by case."""
    return {path.stem: json.loads(path.read_text()) for path in directory.glob("*.json")}


@pytest.fixture(scope="module")
def sides(
    run_side: Callable[..., None],
    run_once: Callable[..., Path],
    reference_python: str,
) -> Sides:
    """Returns the records of all cases; each side runs in two processes."""

    def start_all(out: Path) -> None:
        theirs, ours = out / "reference", out / "ours"
        theirs.mkdir()
        ours.mkdir()
        run_side("reference", reference_python, str(theirs), script=SCRIPT)
        run_side("ours", sys.executable, str(ours), script=SCRIPT)
        run_side("ours", sys.executable, str(ours), "--donor", str(theirs), script=SCRIPT)
        run_side("reference", reference_python, str(theirs), "--donor", str(ours), script=SCRIPT)

    out = run_once("keras_models", start_all)
    return Sides(read(out / "reference"), read(out / "ours"))


def assert_same(actual: Any, expected: Any, rtol: float, where: str) -> None:
    """Asserts that two records have the same keys, and numbers equal up to rounding."""
    if isinstance(expected, dict):
        assert sorted(actual) == sorted(expected), where
        for name, value in expected.items():
            assert_same(actual[name], value, rtol, f"{where}[{name!r}]")
    elif isinstance(expected, list) and expected and isinstance(expected[0], (dict, str)):
        assert len(actual) == len(expected), where
        for number, value in enumerate(expected):
            assert_same(actual[number], value, rtol, f"{where}[{number}]")
    elif isinstance(expected, str):
        assert actual == expected, where
    else:
        found, wanted = np.array(actual, np.float64), np.array(expected, np.float64)
        atol = rtol * max(1e-2, float(np.abs(wanted).max(initial=0.0)))
        np.testing.assert_allclose(found, wanted, rtol=rtol, atol=atol, err_msg=where)


@every_case
def test_same_as_the_reference(sides, tolerance, case):
    """Losses are equal in every step; variables, metrics and predictions follow."""
    found, expected = sides.ours[case], sides.reference[case]
    assert_same(found["losses"], expected["losses"], tolerance, "losses")
    for part in ("metrics", "predictions", "variables"):
        assert_same(found[part], expected[part], 10 * tolerance, part)


@every_case
def test_a_checkpoint_of_either_side_is_continued(sides, tolerance, case):
    """20 steps on one side and 20 on the other give the same losses, both ways round."""
    found, expected = (side[f"{case}-continued"] for side in sides)
    assert_same(found["losses"], expected["losses"], 10 * tolerance, "losses")
    assert_same(found["metrics"], expected["metrics"], 10 * tolerance, "metrics")
    assert found["losses"][0] != sides.ours[case]["losses"][0]


@every_case
def test_same_signatures(sides, case):
    """Exported models have the same signatures, with the same dtypes and shapes."""
    found = sides.ours[case]
    assert found.get("signatures") == sides.reference[case].get("signatures")
