# SPDX-License-Identifier: Apache-2.0
"""Variables of a checkpoint, as TensorFlow's files hold them."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from estimator_spec import checkpoints
from estimator_spec.core.checkpoints import index_file
from estimator_spec.core.checkpoints.bundle import Checkpoint
from estimator_spec.core.checkpoints.errors import DamagedCheckpointError
from estimator_spec.core.checkpoints.rows import RowReader
from tpu_columns import RowPartition

ROWS = np.arange(30, dtype=np.float32).reshape(10, 3)


@pytest.mark.parametrize("rows", [63, 64, 65, 8191, 8192, 8193])
def test_slices_of_any_start(files, rows):
    """Slices are found whose numbers of rows are at the borders of the key's code."""
    table = np.arange(2 * rows, dtype=np.int32).reshape(-1, 1)
    with Checkpoint(files.write({"table": table}, {"table": ("div", 2)})) as checkpoint:
        assert len(checkpoint.variables["table"].pieces) == 2
        np.testing.assert_array_equal(checkpoint.value("table"), table)


def test_rows_of_several_data_files(files):
    """Rows are gathered from each file that holds some, in any order."""
    prefixes = [files.new() for _ in range(3)]
    halves = (slice(0, 5), slice(5, 10))
    for prefix, half in zip(prefixes, halves, strict=False):
        Path(prefix).parent.mkdir(parents=True)
        tf.raw_ops.SaveV2(
            prefix=prefix,
            tensor_names=["other", "table"] if half.start else ["table"],
            shape_and_slices=["", "10 3 5,5:0,3"] if half.start else ["10 3 0,5:0,3"],
            tensors=[tf.zeros([7]), ROWS[half]] if half.start else [ROWS[half]],
        )
    Path(prefixes[2]).parent.mkdir(parents=True)
    tf.raw_ops.MergeV2Checkpoints(
        checkpoint_prefixes=prefixes[:2], destination_prefix=prefixes[2], delete_old_dirs=False
    )
    with Checkpoint(prefixes[2]) as checkpoint:
        variable = checkpoint.variables["table"]
        assert [piece.shard for piece in variable.pieces] == [0, 1]
        reader = RowReader(checkpoint, variable, RowPartition("div", 10, 2))
        wanted = np.array([9, 4, 5, 0, 4, 6])
        found = reader.gather(wanted).view(np.float32)
        np.testing.assert_array_equal(found, ROWS[wanted])
        np.testing.assert_array_equal(checkpoint.value("table"), ROWS)


def changed(prefix, key, change):
    """Changes an entry of a checkpoint's index."""
    path = Path(prefix + ".index")
    entries = index_file.read(path.read_bytes(), str(path))
    read = index_file.header if key == index_file.HEADER_KEY else index_file.entry
    entry = read(entries[key])
    change(entry)
    path.write_bytes(index_file.write({**entries, key: entry.SerializeToString()}))


def test_a_big_endian_checkpoint_is_refused(files):
    """Its numbers would be read in the wrong order of bytes."""
    prefix = files.write({"table": ROWS})
    changed(prefix, index_file.HEADER_KEY, lambda header: setattr(header, "endianness", 1))
    with pytest.raises(checkpoints.CheckpointError, match="big-endian"):
        Checkpoint(prefix)


def test_a_damaged_number_of_data_files(files):
    """An index of two billion data files names the first that is missing, and takes no memory."""
    prefix = files.write({"table": ROWS})
    changed(prefix, index_file.HEADER_KEY, lambda header: setattr(header, "num_shards", 2**31 - 1))
    tracemalloc.start()
    with pytest.raises(DamagedCheckpointError, match="data-00000-of-2147483647' is missing"):
        Checkpoint(prefix)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 10**7


def test_a_variable_that_is_shorter_than_its_shape(files):
    """An entry of fewer bytes than its shape needs is damage, and isn't read."""
    prefix = files.write({"table": ROWS})
    changed(prefix, b"table", lambda entry: setattr(entry, "size", entry.size - 12))
    with pytest.raises(DamagedCheckpointError, match="'table' of shape .* can't have 108 bytes"):
        Checkpoint(prefix)


def claim_more_rows(entry):
    """Makes a variable's shape larger than its slices."""
    entry.shape.dim[0].size = 11


def claim_endless_rows(entry):
    """Makes a variable's shape larger than any address."""
    entry.shape.dim[0].size = 1 << 62


def forget_a_slice(entry):
    """Takes the last slice away."""
    del entry.slices[-1]


def repeat_a_slice(entry):
    """Replaces the last slice by the first, of the same size."""
    entry.slices[-1].CopyFrom(entry.slices[0])


@pytest.mark.parametrize(
    "change", [claim_more_rows, claim_endless_rows, forget_a_slice, repeat_a_slice]
)
def test_slices_that_are_not_the_variable(files, change):
    """Both commands refuse an index whose slices don't make up a variable: TensorFlow aborts."""
    prefix = files.write({"table": ROWS}, {"table": ("div", 2)})
    changed(prefix, b"table", change)
    assert any("'table'" in fault for fault in checkpoints.verify(prefix).faults)
    with pytest.raises(DamagedCheckpointError, match="'table'"):
        checkpoints.convert(prefix, files.new())


def test_slots_of_partitions(files):
    """Slots of TF1's partitions, each a slice of the whole shape, are no damage, and are kept."""
    names, specs = ["table/t_0/Adagrad", "table/t_1/Adagrad"], ["10 3 0,5:0,3", "10 3 5,5:0,3"]
    prefix = files.new()
    Path(prefix).parent.mkdir(parents=True)
    tf.raw_ops.SaveV2(
        prefix=prefix,
        tensor_names=["table", *names],
        shape_and_slices=["", *specs],
        tensors=[ROWS, ROWS[:5], ROWS[5:]],
    )
    assert not checkpoints.verify(prefix).faults
    converted = files.new()
    checkpoints.convert(prefix, converted)
    for path in (prefix, converted):
        read = tf.raw_ops.RestoreV2(
            prefix=path, tensor_names=names, shape_and_slices=specs, dtypes=[tf.float32] * 2
        )
        np.testing.assert_array_equal(np.concatenate(read), ROWS)


@pytest.mark.parametrize("shape", [[1 << 62, 4], [1 << 40, 1 << 40, 0]])
def test_more_elements_than_an_address(files, shape):
    """An index whose shape has too many elements, or would but for a zero, is refused."""
    prefix = files.write({"table": ROWS})

    def change(entry):
        del entry.shape.dim[:]
        for size in shape:
            entry.shape.dim.add().size = size
        entry.size = 0

    changed(prefix, b"table", change)
    with pytest.raises(DamagedCheckpointError, match="'table' has no valid shape"):
        Checkpoint(prefix)
