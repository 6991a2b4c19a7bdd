# SPDX-License-Identifier: Apache-2.0
"""Comparison of two checkpoints."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from estimator_spec import checkpoints, compare
from estimator_spec.compare import checkpoint_values

TABLE = "input_layer/word_embedding/embedding_weights"
ROWS = np.random.RandomState(0).normal(size=(11, 3)).astype(np.float32)


@pytest.fixture
def write(tmp_path):
    """Returns a function that writes a checkpoint by TensorFlow and returns its prefix."""

    def save(name, **variables):
        names, values = zip(*variables.items(), strict=True)
        prefix = str(tmp_path / name / "model.ckpt-1")
        (tmp_path / name).mkdir()
        tf.raw_ops.SaveV2(
            prefix=prefix,
            tensor_names=[each.replace("table", TABLE) for each in names],
            shape_and_slices=[""] * len(names),
            tensors=list(values),
        )
        return prefix

    return save


def test_equal_checkpoints_agree(write):
    """Numbers, integers and strings agree with themselves."""
    values = {"table": ROWS, "step": np.int64(7), "names": np.array([b"a", b"b"])}
    result = compare.compare_checkpoints(write("a", **values), write("b", **values))
    assert result.agrees
    assert len(result.items) == 6  # each variable, and its values


def test_permuted_rows_are_named_with_their_shards(write):
    """A checkpoint in mod shards without a record has the same rows in another order."""
    old = write("a", table=ROWS)
    new = write("b", table=np.concatenate([ROWS[0::3], ROWS[1::3], ROWS[2::3]]))
    first = compare.compare_checkpoints(old, new).first_difference
    assert (first.stage, first.name) == (compare.Stage.TRAINED_VALUES, TABLE)
    assert first.text == "the same rows in another order: the new ones are in 3 mod shards"


def test_recorded_layouts_are_compared_by_row(write, tmp_path):
    """The same table in mod shards with a record agrees."""
    old = write("a", table=ROWS)
    new = str(tmp_path / "mod" / "model.ckpt-1")
    checkpoints.convert(old, new, strategy="mod", shards=3)
    assert compare.compare_checkpoints(old, new).agrees


def test_blocks_find_each_difference(write, monkeypatch):
    """A table read in blocks has the number of rows that differ, and the largest difference."""
    monkeypatch.setattr(checkpoint_values, "_CHUNK", 24)
    changed = ROWS.copy()
    changed[[2, 9]] += [[0.5], [2.0]]
    first = compare.compare_checkpoints(write("a", table=ROWS), write("b", table=changed))
    gap = first.first_difference.gap
    assert (gap.num_rows, gap.rows) == (11, (2, 9))
    assert gap.absolute == pytest.approx(2.0, rel=1e-6)


def test_other_variables_are_named(write):
    """Names, shapes and dtypes come first."""
    old = write("a", x=np.zeros(3, np.float32), y=np.zeros(2), only_old=np.zeros(1))
    new = write("b", x=np.zeros(4, np.float32), y=np.zeros(2, np.int32), only_new=np.zeros(1))
    result = compare.compare_checkpoints(old, new)
    found = {item.name: item.text or item.outcome.value for item in result.items}
    assert found == {
        "x": "shapes [3] and [4]",
        "y": "float64 and int32",
        "only_old": "only in the old",
        "only_new": "only in the new",
    }


def test_bfloat16_is_compared_as_numbers(write):
    """Values of a dtype that NumPy doesn't have are numbers, too."""
    old, new = (tf.constant([[1.0], [value]], tf.bfloat16) for value in (2.0, 4.0))
    result = compare.compare_checkpoints(write("a", x=old), write("b", x=new))
    assert result.first_difference.gap.absolute == 2.0


def test_a_missing_checkpoint_is_named(write, tmp_path):
    """The error is the reader's, and names the path."""
    with pytest.raises(checkpoints.CheckpointError, match="gone"):
        compare.compare_checkpoints(write("a", x=ROWS), str(tmp_path / "gone"))


def test_a_step_more_is_a_difference(write):
    """Numbers of steps must be equal, whatever the tolerance of trained values is."""
    old, new = (np.array(step, np.int64) for step in (1_000_000, 1_000_001))
    result = compare.compare_checkpoints(
        write("a", global_step=old, x=ROWS), write("b", global_step=new, x=ROWS)
    )
    assert [item.name for item in result.items if not item.agrees] == ["global_step"]
