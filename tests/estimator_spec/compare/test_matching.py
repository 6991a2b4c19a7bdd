# SPDX-License-Identifier: Apache-2.0
"""Comparison of recordings: variables, partitioned ones, losses, calls, signatures."""

from __future__ import annotations

import itertools

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

    def write(values, losses=(1.0, 0.5), max_elements=1000, **more):
        folder = str(tmp_path / str(next(numbers)))
        recorder = Recorder(folder, max_elements, ENVIRONMENT)
        call = recorder.begin("train", estimator="TPUEstimator")
        call["variables"] = [
            {"name": name, "dtype": value.dtype.name, "shape": value.shape, "trainable": True}
            for name, value in values.items()
        ]
        for group in ("initial", "first_update", "trained"):
            call[group] = recorder.arrays(values)
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
