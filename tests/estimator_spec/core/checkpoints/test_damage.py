# SPDX-License-Identifier: Apache-2.0
"""Tests damaged input, which is refused, and killed conversions, which leave no checkpoint."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from estimator_spec import checkpoints
from estimator_spec.core.checkpoints import records

TABLE = "input_layer/word_embedding/embedding_weights"
SLOT = TABLE + "/Adagrad"


@pytest.fixture
def source(files):
    """A table in three mod shards, its slot, a string and a step."""
    table = np.random.default_rng(0).normal(size=(50_000, 8)).astype(np.float32)
    return files.write(
        {TABLE: table, SLOT: table**2, "words": np.array([b"one", b"two"], object), "step": 3},
        {TABLE: ("mod", 3), SLOT: ("mod", 3)},
    )


def places(prefix):
    """Returns (offset, name) of a byte in each variable."""
    from estimator_spec.core.checkpoints.bundle import Checkpoint

    with Checkpoint(prefix) as checkpoint:
        return [
            (piece.offset + place, name)
            for name, variable in checkpoint.variables.items()
            for piece in variable.pieces
            for place in {0, piece.size // 2, piece.size - 1}
        ]


def test_a_flipped_bit_is_named_and_refused(files, source):
    """`verify` finds a flipped bit of any variable, and conversions refuse it."""
    data = Path(source + ".data-00000-of-00001")
    good = data.read_bytes()
    found = places(source)
    assert {name for _, name in found} == {TABLE, SLOT, "words", "step"}
    conversions = [{}, {"strategy": "div"}, {"shards": 2}, {"vocabulary": {TABLE: [4, 2, 7]}}]
    for number, (place, name) in enumerate(found):
        bad = bytearray(good)
        bad[place] ^= 1 << number % 8
        data.write_bytes(bad)
        result = checkpoints.verify(source)
        assert not result.ok
        (fault,) = result.faults
        assert str(data) in fault
        assert repr(name) in fault
        target = files.new()
        with pytest.raises(checkpoints.DamagedCheckpointError, match="checksum") as caught:
            checkpoints.convert(source, target, **conversions[number % len(conversions)])
        assert repr(name) in str(caught.value)
        assert caught.value.path == str(data)
        assert os.listdir(os.path.dirname(target)) == []
        assert data.read_bytes() == bad  # the input isn't touched, damaged or not


def test_reading_a_damaged_table(source):
    """`read_table` and `diff` refuse a table with a flipped bit."""
    data = Path(source + ".data-00000-of-00001")
    bad = bytearray(data.read_bytes())
    bad[next(place for place, name in places(source) if name == TABLE)] ^= 1
    data.write_bytes(bad)
    with pytest.raises(checkpoints.DamagedCheckpointError, match="checksum"):
        checkpoints.read_table(source, TABLE)
    with pytest.raises(checkpoints.DamagedCheckpointError, match="checksum"):
        checkpoints.diff(source, source)


@pytest.mark.parametrize("missing", [1, 1000, 10**9])
def test_a_truncated_file_is_named_and_refused(files, source, missing):
    """A truncated data file is refused before anything is written."""
    data = Path(source + ".data-00000-of-00001")
    data.write_bytes(data.read_bytes()[:-missing])
    result = checkpoints.verify(source)
    assert not result.ok
    assert "is cut short" in str(result)
    target = files.new()
    with pytest.raises(checkpoints.DamagedCheckpointError, match="is cut short") as caught:
        checkpoints.convert(source, target)
    assert caught.value.path == str(data)
    assert not os.path.exists(os.path.dirname(target))


def test_missing_files_are_named(files, source):
    """A missing data or index file is an error that names the file."""
    data = source + ".data-00000-of-00001"
    os.rename(data, data + ".away")
    with pytest.raises(checkpoints.DamagedCheckpointError, match="data-00000-of-00001' is missing"):
        checkpoints.convert(source, files.new())
    assert not checkpoints.verify(source).ok
    os.rename(source + ".index", source + ".index.away")
    with pytest.raises(checkpoints.CheckpointError, match="There is no checkpoint"):
        checkpoints.inspect(source)
    with pytest.raises(checkpoints.CheckpointError, match="is a directory without a checkpoint"):
        checkpoints.inspect(os.path.dirname(source))


def test_what_is_no_checkpoint(files, source):
    """A data file, a meta graph and a checkpoint of TensorFlow 1.0 are refused with a reason."""
    with pytest.raises(checkpoints.CheckpointError, match="without '.index'"):
        checkpoints.inspect(source + ".data-00000-of-00001")
    old = files.new("old.ckpt")
    os.makedirs(os.path.dirname(old))
    tf.raw_ops.Save(filename=old, tensor_names=["v"], data=[tf.constant([1.0])])
    with pytest.raises(checkpoints.CheckpointError, match="format of TensorFlow 1.0"):
        checkpoints.inspect(old)


def test_a_damaged_record(files, source):
    """An unreadable record is an error that names it; no layout is assumed."""
    path = Path(source + ".tables.json")
    for text in ("{", "[]", '{"format": 2, "tables": {}}', '{"format": 1, "tables": {"a": {}}}'):
        path.write_text(text)
        with pytest.raises(checkpoints.CheckpointError, match=r"tables.json' should say"):
            checkpoints.convert(source, files.new())
        assert "tables.json" in str(checkpoints.verify(source))


def test_a_flipped_bit_in_a_record(source):
    """Any flipped bit of a record is found; a record without a checksum may be edited."""
    path = Path(source + ".tables.json")
    good, wanted = path.read_bytes(), records.read(source)
    refused = 0
    for place in range(len(good)):
        bad = bytearray(good)
        bad[place] ^= 1
        path.write_bytes(bad)
        try:
            found = records.read(source)
        except checkpoints.CheckpointError:
            refused += 1
        else:
            assert found == wanted  # a blank became another one
    assert refused > len(good) / 2
    lines = good.decode().replace('"shards": 3', '"shards": 1').splitlines()
    path.write_text(
        "\n".join(line for line in lines if "checksum" not in line).replace("},\n}", "}\n}")
    )
    assert records.read(source).tables[TABLE].layout.num_shards == 1


def test_two_at_once(files, source):
    """A second conversion to the same target is refused while the first one runs."""
    target = files.new()
    refused = []

    def second(done, total):
        if not refused:
            with pytest.raises(RuntimeError, match="Another process is writing this checkpoint"):
                checkpoints.convert(source, target)
            refused.append(True)

    checkpoints.convert(source, target, progress=second)
    assert refused
    assert checkpoints.verify(target).ok


def test_finished_by_another(files, source, monkeypatch):
    """A target that another process completed meanwhile isn't overwritten."""
    from estimator_spec.core.checkpoints import writing

    target = files.new()
    create = writing._create

    def late(directory):
        monkeypatch.setattr(writing, "_create", create)
        checkpoints.convert(source, target, shards=2)
        return create(directory)

    monkeypatch.setattr(writing, "_create", late)
    with pytest.raises(ValueError, match="There is a checkpoint .* already"):
        checkpoints.convert(source, target, shards=1)
    assert checkpoints.inspect(target).tables[0].shards == 2
    assert not os.path.exists(target + ".unfinished")


def test_a_file_that_shrinks_while_it_is_read(source):
    """A data file that is truncated while it is read is an error, not a crash."""
    from estimator_spec.core.checkpoints.bundle import Checkpoint

    with Checkpoint(source) as checkpoint:
        os.truncate(source + ".data-00000-of-00001", 100)
        with pytest.raises(checkpoints.DamagedCheckpointError, match="is cut short: it ends at"):
            checkpoint.value(SLOT)
