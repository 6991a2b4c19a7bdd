# SPDX-License-Identifier: Apache-2.0
"""Fixtures that write checkpoints by TensorFlow and read them back."""

from __future__ import annotations

import itertools
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from estimator_spec.core.checkpoints import records
from tpu_columns import RowPartition

TF1_CHECKPOINT = Path(__file__).resolve().parents[3] / "data" / "tf1_15_checkpoint"


class Files:
    """Writes checkpoints by TensorFlow's SaveV2, and reads them by its reader."""

    def __init__(self, directory):
        self._directory = Path(directory)
        self._number = itertools.count()

    def new(self, name="model.ckpt-7"):
        """Returns a checkpoint prefix in a new directory."""
        return str(self._directory / str(next(self._number)) / name)

    def write(self, variables, tables=None, prefix=None, recorded=True):
        """Writes a checkpoint.

        Args:
            variables: arrays by name; rows of tables in their own order.
            tables: (strategy, shards) by name; slots are listed, too. They are cut into slices.
            prefix: where; None for a new place.
            recorded: whether a record beside it tells the layouts of those that are no slots.
        """
        prefix = prefix or self.new()
        os.makedirs(os.path.dirname(prefix), exist_ok=True)
        names, specs, values, layouts = [], [], [], {}
        for name, value in variables.items():
            value = np.asarray(value)
            if name not in (tables or {}):
                names.append(name)
                specs.append("")
                values.append(value)
                continue
            layout = RowPartition(tables[name][0], len(value), tables[name][1])
            layouts[name] = records.TableRecord(layout, value.shape[1])
            for shard in range(layout.num_shards):
                rows = list(layout.rows_of(shard))
                if not rows:
                    continue
                shape = " ".join(map(str, value.shape))
                rest = "".join(f":0,{size}" for size in value.shape[1:])
                names.append(name)
                specs.append(f"{shape} {layout.shard_starts[shard]},{len(rows)}{rest}")
                values.append(value[rows])
        tf.raw_ops.SaveV2(prefix=prefix, tensor_names=names, shape_and_slices=specs, tensors=values)
        if recorded and layouts:
            of_slots = {n for n in layouts for m in layouts if n.startswith(m + "/")}
            kept = {name: table for name, table in layouts.items() if name not in of_slots}
            records.write(prefix, records.CheckpointRecord(kept))
        return prefix

    @staticmethod
    def read(prefix):
        """Returns all arrays of a checkpoint, read by TensorFlow."""
        reader = tf.train.load_checkpoint(prefix)
        return {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}

    @staticmethod
    def bytes_of(prefix):
        """Returns the bytes of a checkpoint's files by suffix."""
        directory, base = os.path.split(prefix)
        return {
            name.removeprefix(base): (Path(directory) / name).read_bytes()
            for name in os.listdir(directory)
            if name.startswith(base + ".") and not os.path.isdir(os.path.join(directory, name))
        }


@pytest.fixture
def files(tmp_path):
    """A directory for checkpoints."""
    return Files(tmp_path)


@pytest.fixture(scope="module")
def module_files(tmp_path_factory):
    """A directory for checkpoints that all examples of a property share."""
    return Files(tmp_path_factory.mktemp("checkpoints"))


@pytest.fixture
def tf1_checkpoint(tmp_path):
    """A copy of the checkpoint that TensorFlow 1.15.5 wrote."""
    target = tmp_path / "tf1"
    target.mkdir()
    for path in TF1_CHECKPOINT.iterdir():
        shutil.copyfile(path, target / path.name)
    return str(target / "model.ckpt-40")


@pytest.fixture
def same():
    """Returns a function that compares two dicts of arrays bit by bit."""

    def same(found, wanted):
        assert sorted(found) == sorted(wanted)
        for name, value in wanted.items():
            value = np.asarray(value)
            assert found[name].dtype == value.dtype, name
            np.testing.assert_array_equal(found[name], value, err_msg=name)

    return same
