# SPDX-License-Identifier: Apache-2.0
"""Comparison of recordings: variables, partitioned ones, losses, calls, signatures."""

from __future__ import annotations

import dataclasses
import itertools
import json
from pathlib import Path

import numpy as np
import pytest

from estimator_spec import compare
from estimator_spec.compare.comparison import Outcome, Side
from estimator_spec.compare.estimator_collector.recorder import Recorder
from estimator_spec.compare.matching import compare_recordings
from estimator_spec.compare.recording import Recording

ENVIRONMENT = {"python": "3", "tensorflow": "2", "numpy": "1", "estimator": "e", "script": "s"}


@pytest.fixture
def training(tmp_path):
    """Returns a function that writes the recording of one training with given values."""
    numbers = itertools.count()

    def write(values, losses=(1.0, 0.5), max_elements=1000, trained=None, **more):
        folder = str(tmp_path / str(next(numbers)))
        recorder = Recorder(folder, max_elements, ENVIRONMENT)
        call = recorder.begin("train", estimator="TPUEstimator")
        call["variables"] = [
            {"name": name, "dtype": value.dtype.name, "shape": value.shape, "trainable": True}
            for name, value in values.items()
        ]
        for group in ("initial", "first_update"):
            call[group] = recorder.arrays(values)
        call["trained"] = recorder.arrays(trained or values)
        call["losses"] = recorder.array(np.array(losses, np.float32))
        call.update(more)
        recorder.write()
        return Recording(folder)

    return write


def compared(old, new, *rules):
    """Returns the comparison of two recordings."""
    return compare_recordings(old, new, (Side("a"), Side("b")), compare.Tolerances(*rules))


KERNEL = np.arange(12, dtype=np.float32).reshape(6, 2)


def test_parts_of_a_variable_agree_with_the_whole(training):
    """A variable in parts, along either axis, is compared with the whole one by its name."""
    whole = training({"kernel": KERNEL, "kernel/Adam": KERNEL})
    rows = {f"kernel/part_{n}": KERNEL[3 * n : 3 * n + 3] for n in range(2)}
    rows |= {f"kernel/part_{n}/Adam": KERNEL[3 * n : 3 * n + 3] for n in range(2)}
    result = compared(whole, training(rows))
    assert result.agrees, result.headline
    columns = {"kernel/part_0": KERNEL[:, :1], "kernel/part_1": np.ones((6, 2), np.float32)}
    joined = training(columns).calls[0]
    assert joined.variables["kernel"].shape == (6, 3)
    assert joined.arrays["initial"]["kernel"].load().shape == (6, 3)


def test_variables_of_one_side_have_one_item(training):
    """A variable that one side lacks is an item of the first stage, and of no other."""
    result = compared(training({"a": KERNEL, "b": KERNEL}), training({"a": KERNEL, "c": KERNEL}))
    different = [(item.name, item.outcome) for item in result.items if not item.agrees]
    assert different == [("train 1: b", Outcome.ONLY_OLD), ("train 1: c", Outcome.ONLY_NEW)]


def test_shapes_and_dtypes_are_named(training):
    """Another shape, dtype or trainability is a difference of the variable."""
    old = training({"a": KERNEL, "b": KERNEL})
    new = training({"a": KERNEL.T.copy(), "b": KERNEL.astype(np.float64)})
    texts = [item.text for item in compared(old, new).of(compare.Stage.VARIABLES)]
    assert texts == ["shapes [6, 2] and [2, 6]", "float32 and float64"]


def test_losses_part_at_a_step(training):
    """The item of the losses has the first step that differs; the first step is an item itself."""
    values = {"a": KERNEL}
    result = compared(training(values, (3.0, 2.0, 1.0)), training(values, (3.0, 2.5, 1.0)))
    assert result.first_difference.text.startswith("from step 2 of 3 on: 2 and 2.5")
    assert all(item.agrees for item in result.of(compare.Stage.FORWARD_PASS))
    result = compared(training(values, (3.0, 2.0)), training(values, (3.0,)))
    assert result.first_difference.text == "2 steps and 1"


def test_a_tolerance_can_be_given_by_item(training):
    """A rule for one variable lets it differ, and no other."""
    old = training({"a": KERNEL, "b": KERNEL})
    new = training({"a": KERNEL + 0.5, "b": KERNEL + 0.5})
    rule = ("*/train 1: a", compare.Tolerance(0, 1.0))
    names = {item.name for item in compared(old, new, rule).items if not item.agrees}
    assert names == {"train 1: b"}


# What a tiny rate changes, on the old side and on the new one.
CHANGES = {
    "a rate of 10 % more": (1e-7, 1.1e-7, False),
    "a rate of 2 % less": (1e-6, 0.98e-6, False),
    "no training": (1e-7, 0.0, False),
    "training in the new only": (0.0, 1e-7, False),
    "another sign": (1e-7, -1e-7, False),
    "a rate of 0.1 % more": (1e-6, 1.001e-6, True),
    "less than rounding makes": (1e-10, 1.2e-10, True),
    "no training on either side": (0.0, 0.0, True),
}


@pytest.mark.parametrize("case", CHANGES)
def test_tiny_changes_are_compared(training, case):
    """What training changes is compared by its own size, which may be small beside the values."""
    random = np.random.RandomState(0)
    start, gradient = random.normal(size=(2, 30, 4)).astype(np.float32) * 0.1
    old, new, agrees = CHANGES[case]
    sides = [
        training({"kernel": start}, trained={"kernel": start + np.float32(rate) * 100 * gradient})
        for rate in (old, new)
    ]
    result = compared(*sides)
    assert result.agrees == agrees
    if not agrees:
        assert result.first_difference.stage is compare.Stage.TRAINED_VALUES
        assert compared(*sides, ("*", compare.Tolerance(3.0))).agrees


def test_of_a_large_variable_some_rows_are_compared(training):
    """Only some rows are kept, which a note says; a difference in one of them is found."""
    table = np.zeros((100, 2), np.float32)
    other = table.copy()
    other[-1] = 1
    result = compared(
        training({"table": table}, max_elements=20), training({"table": other}, max_elements=20)
    )
    (item,) = result.of(compare.Stage.INITIAL_VALUES)
    assert (item.gap.num_rows, item.gap.rows) == (10, (9,))
    assert any("only some rows were kept: table" in note for note in result.notes)


def test_a_recording_of_another_format_is_refused(tmp_path):
    """The error says that it has to be recorded anew."""
    (tmp_path / "record.json").write_text('{"format": 0}')
    with pytest.raises(ValueError, match="has format 0"):
        Recording(str(tmp_path))


def test_a_training_without_losses_differs(training):
    """Losses, or values after the first step, that only one side has are items."""
    old, new = training({"a": KERNEL}), training({"a": KERNEL})
    path = Path(new.calls[0].arrays["initial"]["a"].files[0]).parents[1]
    record = json.loads((path / "record.json").read_text())
    del record["calls"][0]["losses"], record["calls"][0]["first_update"]
    (path / "record.json").write_text(json.dumps(record))
    result = compared(old, Recording(str(path)))
    different = [(item.name, item.outcome) for item in result.items if not item.agrees]
    names = ["train 1: first update", "train 1"]
    assert different == [(name, Outcome.ONLY_OLD) for name in names]


def test_values_that_come_later_are_compared(training):
    """A value that isn't among the first variables, such as a loop's slot, is compared too."""
    recorder_values = {"a": KERNEL}
    old, new = training(recorder_values), training(recorder_values)
    trained = dict(old.calls[0].arrays["trained"])
    later = {"trained": {**trained, "a/slot": trained["a"]}}
    call = dataclasses.replace(old.calls[0], arrays={**old.calls[0].arrays, **later})
    old.calls = (call,)
    different = [item.name for item in compared(old, new).items if not item.agrees]
    assert different == ["train 1: a/slot"]


@pytest.mark.parametrize("dtype", [np.int64, np.int32])
def test_whole_numbers_must_be_equal(training, dtype):
    """A step, id or count that is off by one in ten million differs; a rule may allow it."""
    steps = np.array(10_000_000, dtype)
    one_more = np.array(10_000_001, dtype)
    old, new = training({"global_step": steps}), training({"global_step": one_more})
    assert len([item for item in compared(old, new).items if not item.agrees]) == 3
    assert compared(old, new, ("*/*global_step", compare.Tolerance(0, 1.0))).agrees


def test_what_is_nan_on_both_sides_is_named(training):
    """NaN agrees with NaN, and a note says that nothing was compared; so for empty arrays."""
    values = {"a": np.full(3, np.nan, np.float32), "b": np.zeros((0, 2), np.float32), "c": KERNEL}
    result = compared(training(values), training(values))
    assert result.agrees
    (note,) = result.remarks
    assert "without a number to compare" in note
    assert "trained values: train 1: a" in note and "train 1: c" not in note


def test_nothing_doesnt_agree(training):
    """Where no call of the wanted kind was made there is nothing that agrees."""
    values = {"a": KERNEL}
    sides = Side("a"), Side("b")
    old, new = training(values), training(values)
    result = compare_recordings(old, new, sides, compare.Tolerances(), ("evaluate",))
    assert not result.agrees
    assert result.headline == "Nothing was compared."
