# SPDX-License-Identifier: Apache-2.0
"""Reads and allocations that fail: an error that names the file, and nothing lost or begun anew."""

from __future__ import annotations

import pytest

import interruptions

pytestmark = pytest.mark.slow


def test_a_training_that_cannot_read(tmp_path):
    """A training that can't read a file of its checkpoint says which, and never starts over.

    TensorFlow's own sessions take a state file that they can't read for none, and begin at step 0.
    """
    assert interruptions.interrupt("unreadable", "other shards", tmp_path, every=7) >= 6


@pytest.mark.nightly("lets each read fail")
@pytest.mark.parametrize(
    "mode, job, at_least",
    [
        ("unreadable", "other shards", 40),
        ("unreadable-from", "other shards", 40),
        ("unreadable", "evaluation", 20),
        ("unreadable", "convert", 8),
        ("unreadable", "repair", 2),
    ],
)
def test_each_read(tmp_path, mode, job, at_least):
    """Whatever read fails, alone or with all later ones, the error names the file."""
    assert interruptions.interrupt(mode, job, tmp_path) >= at_least


def test_no_memory_in_a_save(tmp_path):
    """If memory runs out in a save, the checkpoint before is whole; training goes on from it."""
    assert interruptions.interrupt("memory", "other shards", tmp_path, every=25) >= 3


@pytest.mark.nightly("lets each large allocation of a save fail")
def test_each_allocation_of_a_save(tmp_path):
    """Whatever large allocation of a save fails, the checkpoint before is whole."""
    assert interruptions.interrupt("memory", "other shards", tmp_path) >= 60
