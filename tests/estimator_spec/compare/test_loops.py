# SPDX-License-Identifier: Apache-2.0
"""Training loops of the program's own, compared with an estimator's training."""

from __future__ import annotations

import re
from pathlib import Path

import keras
import pytest

import forking_python
from estimator_spec import compare

PROGRAM = Path(__file__).with_name("loop_program.py")
EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "census"

pytestmark = pytest.mark.slow


def compared(old, new, *options):
    """Runs the command; returns its exit status and what it printed."""
    command = ["-m", "estimator_spec", "compare", str(old), str(new), *map(str, options)]
    done = forking_python.run(command, timeout=500)
    assert done.returncode in (0, 1), done.stderr[-3000:]
    return done.returncode, done.stdout


@pytest.mark.parametrize(
    ("rate", "words"),
    [(0.1, "The two agree in all"), (0.11, "first in first update: train 1: output/kernel: ")],
)
def test_a_loop_is_compared_step_by_step(rate, words):
    """A loop of the same rule agrees in values, losses and tables; another rate shows at once."""
    status, printed = compared(
        *(PROGRAM, PROGRAM, "--only=train", "--steps=6"),
        *("--old-args=--model_dir={run}/model", f"--new-args=--loop --rate={rate}"),
    )
    assert (status == 0) == (rate == 0.1), printed
    assert words in printed
    for stage, items in (("initial values", 2), ("losses", 1), ("trained values", 2)):
        assert re.search(rf"^{stage} +{items} ", printed, re.MULTILINE), printed


def test_a_call_that_only_one_side_makes_is_named():
    """Without --only an evaluation that the loop's program lacks is a difference."""
    old_args = "--old-args=--model_dir={run}/model"
    status, printed = compared(PROGRAM, PROGRAM, old_args, "--new-args=--loop")
    assert status == 1
    assert re.search(r"metrics +evaluate 1 +only in the old", printed)


def test_without_a_comparison_a_loop_reads_nothing():
    """Outside of `compare` a loop runs to its end, and its values aren't read."""

    def fail():
        raise AssertionError("read")

    with compare.record_loop(fail) as steps:
        assert not any(steps.add(0.5) for _ in range(100))


@pytest.mark.nightly("the example, and twenty steps of both of its programs")
@pytest.mark.skipif(keras.__version__.startswith("2."), reason="the program is written in Keras 3")
def test_the_census_estimator_and_its_mid_level_program(tmp_path):
    """Losses and tables of 20 steps of the estimator are those of the mid-level program."""
    model = f"--model_dir={tmp_path / 'model'}"
    forking_python.run(
        [EXAMPLE / "census.py", model, "--embedding_core=host", "--train_steps=1"],
        check=True,
        timeout=500,
    )
    start = f"--checkpoint={tmp_path / 'model' / 'model.ckpt-0'}"
    status, printed = compared(
        *(EXAMPLE / "census.py", EXAMPLE / "train_mid_level.py", "--only=train", start),
        *("--old-args=--embedding_core=host --model_dir={run}/model", f"--new-args={start}"),
        *("--", "--dropout=0"),
    )
    assert status == 0, printed
    assert "dollars" not in printed and re.search(r"^trained values +39 +39 ", printed, re.M)
