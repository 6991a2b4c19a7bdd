# SPDX-License-Identifier: Apache-2.0
"""`compare` of one program under TensorFlow 2.15.1's own estimators and under ours."""

from __future__ import annotations

from pathlib import Path

import pytest

from estimator_spec import compare

PROGRAM = str(Path(__file__).parents[1] / "estimator_spec" / "compare" / "word_program.py")

pytestmark = [pytest.mark.reference, pytest.mark.slow]


def test_one_program_agrees_in_two_environments(reference_python):
    """Variables, initial values, losses, metrics, predictions and signatures are the same."""
    result = compare.compare_programs(
        compare.Program(PROGRAM, python=reference_python),
        compare.Program(PROGRAM),
        limits=compare.Limits(steps=10),
    )
    assert result.agrees, result.headline
    assert {item.stage for item in result.items} == set(compare.Stage)
    assert "TensorFlow 2.15.1, tensorflow_estimator, " in result.old.environment
    assert ", estimator_spec, " in result.new.environment


def test_a_fault_is_named_across_environments(reference_python, tmp_path):
    """A changed epsilon is found in the first update, though versions and estimators differ."""
    folder = tmp_path / "kept"
    result = compare.compare_programs(
        compare.Program(PROGRAM, python=reference_python),
        compare.Program(PROGRAM, ("--fault=epsilon",)),
        limits=compare.Limits(steps=4),
        folder=str(folder),
    )
    assert result.first_difference.stage is compare.Stage.FIRST_UPDATE
    assert (folder / "old" / "log.txt").exists()
    with pytest.raises(FileExistsError):
        program = compare.Program(PROGRAM)
        compare.compare_programs(program, program, folder=str(folder))
