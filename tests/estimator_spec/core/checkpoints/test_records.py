# SPDX-License-Identifier: Apache-2.0
"""Tests records, while their checkpoint is overwritten and after."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from estimator_spec.core.checkpoints import records
from tpu_columns import RowPartition

TABLE = "input_layer/word_embedding/embedding_weights"
VALUES = np.arange(14, dtype=np.float32).reshape(7, 2)


def record(strategy, shards, spec=None):
    """Returns a record of the table."""
    layout = RowPartition(strategy, 7, shards)
    return records.CheckpointRecord({TABLE: records.TableRecord(layout, 2)}, spec)


@pytest.mark.parametrize("recorded", [True, False])
def test_until_the_new_one_is_whole_it_tells_of_the_old_one(files, recorded):
    """Until the new checkpoint is complete, its record returns the old one's layout."""
    prefix = files.write({TABLE: VALUES}, {TABLE: ("mod", 3)}, recorded=recorded)
    old = records.read(prefix)
    records.write_ahead(prefix, record("div", 1))
    assert records.read(prefix) == old
    records.write_ahead(prefix, record("div", 2))  # the next run is killed too
    assert records.read(prefix) == old
    files.write({TABLE: VALUES}, {TABLE: ("div", 2)}, prefix=prefix, recorded=False)
    assert records.read(prefix) == record("div", 2)
    records.finalize(prefix)
    assert records.read(prefix) == record("div", 2)
    assert "replaces" not in Path(records.path_of(prefix)).read_text()


@pytest.mark.parametrize("recorded", [True, False])
def test_a_checkpoint_that_never_came(files, recorded):
    """If the new checkpoint was saved elsewhere, the old record is restored."""
    prefix = files.write({TABLE: VALUES}, {TABLE: ("mod", 3)}, recorded=recorded)
    before = files.bytes_of(prefix)
    records.write_ahead(prefix, record("div", 1))
    records.finalize(prefix)
    assert files.bytes_of(prefix) == before


def test_an_index_that_cannot_be_read(files, monkeypatch):
    """If the new checkpoint's index can't be read, the record keeps its tables."""
    prefix = files.write({TABLE: VALUES}, {TABLE: ("mod", 3)})
    records.write_ahead(prefix, record("mod", 3))
    read = os.preadv

    def preadv(descriptor, *args):
        if os.readlink(f"/proc/self/fd/{descriptor}").endswith(".index"):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return read(descriptor, *args)

    with monkeypatch.context() as patched:
        patched.setattr(os, "preadv", preadv)
        with pytest.raises(OSError, match=r"Input/output error.*\.index"):
            records.finalize(prefix)
    assert records.read(prefix) == record("mod", 3)


def test_the_same_layout_and_another_spec(files):
    """With an unchanged layout, the new run's record is valid at once."""
    prefix = files.write({TABLE: VALUES}, {TABLE: ("mod", 3)})
    records.write_ahead(prefix, record("mod", 3, {"optimizer": None}))
    assert records.read(prefix) == record("mod", 3, {"optimizer": None})
    assert "replaces" not in Path(records.path_of(prefix)).read_text()


def test_records_of_checkpoints_that_are_gone(files):
    """A deleted checkpoint's record is removed, but not one whose index is yet to be written."""
    kept = files.write({TABLE: VALUES}, {TABLE: ("mod", 3)})
    coming, gone = kept + "0", kept + "1"
    for prefix in (coming, gone):
        records.write(prefix, record("div", 1))
    Path(coming + ".data-00000-of-00001").write_bytes(b"")
    for prefix in (kept, coming, gone):
        records.remove_orphan(prefix)
    assert [tf.io.gfile.exists(records.path_of(p)) for p in (kept, coming, gone)] == [
        True,
        True,
        False,
    ]


@pytest.mark.parametrize("spec", [{"tables": 3}, {"tables": {"": {"features": 3}}}, "spec"])
def test_a_spec_that_is_none(files, spec):
    """A record whose spec has another form is an error that names the file."""
    prefix = files.write({TABLE: VALUES})
    records.write(prefix, record("div", 1, spec))
    with pytest.raises(records.CheckpointError, match=r"\.tables\.json' should say .*can't be re"):
        records.read(prefix)
