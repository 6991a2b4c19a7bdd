# SPDX-License-Identifier: Apache-2.0
"""Tests peak memory: a table larger than the bound is converted, verified and compared."""

from __future__ import annotations

import sys

import pytest

import forking_python

LIMIT = 64  # MiB

PROGRAM = """
import os, sys
import numpy as np
import tensorflow as tf
from estimator_spec import checkpoints
from estimator_spec.checkpoints.writing import CheckpointWriter

base, what = sys.argv[1:]
name, rows, width = "word_shared_embedding", 1_500_007, 32

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

a, b, c = (os.path.join(base, letter) for letter in "abc")
write(a, 0)
write(b, 1)
checkpoints.convert(a, os.path.join(base, "warm"), drop=[name])
before = memory("VmRSS")
with open("/proc/self/clear_refs", "w") as file:
    file.write("5")  # the peak is now what is resident
if what == "verify and diff":
    assert checkpoints.verify(a).ok
    assert checkpoints.diff(a, b).changed[0].rows == rows
elif what == "grow and permute":
    order = np.random.default_rng(0).permutation(rows).astype(np.int32)[: rows // 8]
    before += order.nbytes * 5 / 2**20  # what the permutation itself takes, and its checks
    checkpoints.convert(a, c, strategy="mod", shards=7, vocabulary={name: order},
                        grow={name: rows // 2})
else:
    checkpoints.convert(a, b + "2", strategy="mod", shards=7)
    checkpoints.convert(b + "2", c, strategy="div", shards=3)
print(memory("VmHWM") - before)
"""


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
@pytest.mark.parametrize("what", ["cut", "verify and diff", "grow and permute"])
def test_memory_stays_small(tmp_path, what):
    """Work on a table of 183 MiB in one piece takes less than 64 MiB of additional memory."""
    done = forking_python.run(["-c", PROGRAM, str(tmp_path), what])
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) < LIMIT
