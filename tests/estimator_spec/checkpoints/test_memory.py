# SPDX-License-Identifier: Apache-2.0
"""Tests peak memory: a table larger than the bound is converted, verified and compared."""

from __future__ import annotations

import subprocess
import sys

import pytest

LIMIT = 64  # MiB

PROGRAM = """
import os, sys
import numpy as np
import tensorflow as tf
from estimator_spec import checkpoints
from estimator_spec.core.checkpoints.writing import CheckpointWriter

base = sys.argv[1]
name, rows, width = "word_shared_embedding", 875_007, 32

def write(prefix, add):
    block = np.random.default_rng(0).normal(size=(1 << 13, width)).astype(np.float32) + add
    size = rows * width * 4
    with CheckpointWriter(prefix, size) as writer:
        (piece,) = writer.add(name, tf.float32, (rows, width), [((), (rows, width), size)])
        for first in range(0, rows, len(block)):
            piece.write(block[: rows - first])
        writer.finish()

def memory(kind):
    lines = open("/proc/self/status").read().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(kind))

def print_peak(more=0.0):
    print(memory("VmHWM") - before - more)

a, b, c, d, e = (os.path.join(base, letter) for letter in "abcde")
write(a, 0)
write(b, 1)
checkpoints.convert(a, os.path.join(base, "warm"), drop=[name])
before = memory("VmRSS")
with open("/proc/self/clear_refs", "w") as file:
    file.write("5")  # the peak is now what is resident
assert checkpoints.verify(a).ok
assert checkpoints.diff(a, b).changed[0].rows == rows
checkpoints.convert(a, c, strategy="mod", shards=7)
checkpoints.convert(c, d, strategy="div", shards=3)
print_peak()
order = np.random.default_rng(0).permutation(rows).astype(np.int32)[: rows // 8]
checkpoints.convert(a, e, strategy="mod", shards=7, vocabulary={name: order},
                    grow={name: rows // 2})
print_peak(order.nbytes * 5 / 2**20)  # what the permutation itself takes, and its checks
"""


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_memory_stays_small(tmp_path):
    """Cutting, growing and comparing a table of 107 MiB takes less than 64 MiB of memory more."""
    command = [sys.executable, "-c", PROGRAM, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    peaks = [float(line) for line in done.stdout.splitlines()]
    assert len(peaks) == 2
    assert max(peaks) < LIMIT
