# SPDX-License-Identifier: Apache-2.0
"""Planted faults, each named where it first shows; programs that can't be compared."""

from __future__ import annotations

import dataclasses
import functools
import os
import sys
from pathlib import Path

import numpy as np
import pytest

import forking_python
from estimator_spec import compare
from estimator_spec.compare import matching, programs
from estimator_spec.compare.estimator_collector.options import RecordingOptions

PROGRAM = str(Path(__file__).with_name("word_program.py"))
STEPS = 6
SIDES = (compare.Side("old"), compare.Side("new"))

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", autouse=True)
def forks():
    """Has the programs started by a `python` that has imported TensorFlow."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "executable", forking_python.stand_in())
        yield


@pytest.fixture(scope="module")
def record(tmp_path_factory):
    """Returns a function that runs the program with a fault, once, and returns its recording."""

    @functools.cache
    def run(fault=None, **options):
        folder = str(tmp_path_factory.mktemp(fault or "sound"))
        arguments = ("--fault", fault) if fault else ()
        program = programs.Program(PROGRAM, arguments)
        return programs.record(
            program, fault or "old", folder, RecordingOptions(steps=STEPS, **options)
        )

    return run


@pytest.fixture(scope="module")
def compared(record):
    """Returns a function that compares the sound program with one that has a fault."""

    def compare_with(fault, **options):
        new = record(fault, **options)
        return matching.compare_recordings(record(), new, SIDES, compare.Tolerances())

    return compare_with


def nightly(*fault):
    """Returns the parameters of a fault that is planted in the nightly tier."""
    return pytest.param(*fault, marks=pytest.mark.nightly("a process for each of many faults"))


@pytest.mark.parametrize(
    ("fault", "stage", "name", "text"),
    [
        ("initializer", "initial-values", "train 1: head/kernel", "4 of 4 rows differ"),
        nightly("zero", "forward-pass", "train 1: loss of the first step", " and "),
        nightly(
            "epsilon",
            "first-update",
            "train 1: input_layer/word_embedding/embedding_weights",
            "12 of 12 rows differ",
        ),
        (
            "rows",
            "initial-values",
            "train 1: input_layer/word_embedding/embedding_weights",
            "the same rows in another order: the new ones are in 2 mod shards",
        ),
        ("metric", "metrics", "evaluate 1: error", " and "),
        nightly("width", "variables", "train 1: number of variables", " and "),
        nightly("signature", "predictions", "predict 1: logit", ""),
        ("calls", "signatures", "export 1", ""),
        nightly(
            "rate", "first-update", "train 1: input_layer/word_embedding/embedding_weights", ""
        ),
        nightly(
            "clipping",
            "first-update",
            "train 1: input_layer/word_embedding/embedding_weights",
            "rows differ",
        ),
        ("schedule", "losses", "train 1", "from step 4 of 6 on: "),
        nightly("optimizer", "variables", "train 1: number of variables", "12 and 4"),
        nightly("reduction", "forward-pass", "train 1: loss of the first step", " and "),
        nightly("weights", "forward-pass", "train 1: loss of the first step", " and "),
        nightly("combiner", "forward-pass", "train 1: loss of the first step", " and "),
        ("row", "metrics", "evaluate 1: auc", " and "),
        nightly("dtype", "predictions", "predict 1: odd", "float32 and float64"),
        nightly("frozen", "variables", "train 1: number of variables", " and "),
        nightly("steps", "losses", "train 1", "6 steps and 4"),
        nightly("name", "variables", "train 1: head/kernel", ""),
        nightly(
            "receiver", "signatures", "export 1: serving_default", "int64 [?, 3] and int64 [?, ?]"
        ),
        nightly("batch", "forward-pass", "train 1: loss of the first step", " and "),
        nightly("labels", "forward-pass", "train 1: loss of the first step", " and "),
        nightly("threshold", "metrics", "evaluate 1: auc", " and "),
    ],
)
def test_a_planted_fault_is_named_at_its_first_place(compared, fault, stage, name, text):
    """The first difference is the stage and the item that the fault changes first."""
    result = compared(fault)
    first = result.first_difference
    assert not result.agrees
    assert (first.stage.value, first.name) == (stage, name)
    assert text in first.text
    assert result.headline.startswith(f"The two differ, first in {first.stage.title}: {name}")


def test_a_metric_averaged_otherwise_is_the_only_difference(compared):
    """With one metric averaged over batches, all else agrees."""
    different = [item for item in compared("metric").items if not item.agrees]
    assert [item.name for item in different] == ["evaluate 1: error"]
    assert 0 < different[0].gap.relative < 0.5


def test_a_dropped_row_is_named(compared):
    """One prediction less is a difference, and so is it if only the first ones are kept."""
    names = {item.name: item.text for item in compared("row").items if not item.agrees}
    assert names["predict 1: number of predictions"] == "50 and 49"


def test_a_program_agrees_with_itself_in_every_stage(record, tmp_path):
    """Two runs agree in each stage, bit by bit, and have as many steps as asked for."""
    program = compare.Program(PROGRAM)
    again = programs.record(program, "again", str(tmp_path), RecordingOptions(steps=STEPS))
    result = matching.compare_recordings(record(), again, SIDES, compare.Tolerances())
    assert result.agrees, result.headline
    assert {item.stage for item in result.items} == set(compare.Stage)
    assert all(item.gap.absolute in (0.0, None) for item in result.items if item.gap)
    (losses,) = result.of(compare.Stage.LOSSES)
    assert len(losses.series[0]) == STEPS
    assert np.ptp(losses.series[0]) > 0


def test_the_model_dir_moves_into_the_run(record):
    """The program's own model_dir isn't made; its files are in the run's directory."""
    record()
    assert not os.path.exists("/nonexistent")


def test_with_the_same_start_only_the_initial_values_differ(compared, record):
    """Started with the old values, a program with another initializer computes the same."""
    start = os.path.dirname(record().calls[0].arrays["initial"]["head/kernel"].files[0])
    result = compared("initializer", initial_values=os.path.dirname(start))
    different = {item.stage for item in result.items if not item.agrees}
    assert different == {compare.Stage.INITIAL_VALUES}
    assert any("started with given values" in note for note in result.notes)


def run(tmp_path, source, **options):
    """Records a program of one file."""
    script = tmp_path / "program.py"
    script.write_text(source)
    program = dataclasses.replace(programs.Program(str(script)), **options)
    return programs.record(program, "new", str(tmp_path / "out"), RecordingOptions())


def test_a_program_that_fails_is_named_with_its_error(tmp_path):
    """The error has the side, the script, and the end of the program's output."""
    with pytest.raises(compare.ProgramError, match=r"(?s)program\.py.*20 steps.*no such flag"):
        run(tmp_path, "raise SystemExit('no such flag')")


def test_a_program_without_estimators_is_refused(tmp_path):
    """A program that calls no estimator can't be compared; arguments may be missing."""
    with pytest.raises(compare.ProgramError, match="called no estimator"):
        run(tmp_path, "print('done')")


def test_a_missing_script_or_interpreter_is_refused(tmp_path):
    """Both are checked before anything runs."""
    folder = tmp_path / "out"
    with pytest.raises(ValueError, match="old program, 'gone.py', isn't a file"):
        programs.record(programs.Program("gone.py"), "old", str(folder), RecordingOptions())
    program = programs.Program(PROGRAM, python="gone/python")
    with pytest.raises(ValueError, match="interpreter, 'gone/python', isn't an executable"):
        programs.record(program, "new", str(folder), RecordingOptions())
    assert not folder.exists()


def test_the_program_sees_its_own_arguments_and_path(tmp_path):
    """A program has its own argv, path and main module, as `python` gives it."""
    (tmp_path / "recording.py").write_text("NAME = 'mine'")
    source = (
        "import sys, recording\n"
        "assert recording.NAME == 'mine' and __name__ == '__main__'\n"
        "assert 'estimator_collector' not in ''.join(sys.path[:1])\n"
        "assert sys.argv[1].endswith('/run/model'), sys.argv\n"
        "sys.exit('as expected')\n"
    )
    with pytest.raises(compare.ProgramError, match="as expected"):
        run(tmp_path, source, arguments=("{run}/model",))


def test_an_interpreter_without_estimators_says_so(tmp_path):
    """Another interpreter runs the program as it is if its TensorFlow has an Estimator."""
    source = (
        "import tensorflow as tf\n"
        "model = lambda features, labels, mode: tf.estimator.EstimatorSpec(\n"
        "    mode, predictions=features, loss=tf.reduce_sum(features['x']))\n"
        "data = lambda: tf.data.Dataset.from_tensors(({'x': [1.0]}, [1.0]))\n"
        "print(tf.estimator.Estimator(model).evaluate(data))\n"
    )
    recording = run(tmp_path, source, python=sys.executable)
    metrics = recording.calls[0].arrays["metrics"]
    assert float(metrics["loss"].load()) == 1.0
