# SPDX-License-Identifier: Apache-2.0
"""Measures speed and peak memory of converting a large table to other layouts.

    python benchmarks/checkpoint_reshard.py --gib=4 --rounds=3

Writes a checkpoint with one table, then converts it from layout to layout, alternating with copies
of the same bytes, so that other load affects both alike. Each runs in a new process with the same
imports, as memory that was just freed is faster. Prints the median speed of each conversion in
GiB/s (until the data is on the disk), that of copying, and the peak of additional resident memory.
Goals: at least half the speed of copying, at most 64 MiB.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TABLE = "input_layer/word_embedding/embedding_weights"
WIDTH = 32
STEPS = [("div", 8), ("mod", 8), ("mod", 3), ("div", 1), ("mod", 64)]
SPEED_GOAL, MEMORY_GOAL = 0.5, 64

CHILD = """
import json, os, shutil, sys, time
import tensorflow as tf
from estimator_spec import checkpoints
source, target, strategy, shards = sys.argv[1:]
checkpoints.inspect(source)
with open("/proc/self/clear_refs", "w") as file:
    file.write("5")  # the peak is now what is resident

def peak():
    lines = open("/proc/self/status").read().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))

before, start = peak(), time.perf_counter()
if strategy == "copy":
    os.makedirs(os.path.dirname(target))
    for end in (".index", ".data-00000-of-00001"):
        shutil.copyfile(source + end, target + end)
        with open(target + end, "rb") as file:
            os.fsync(file.fileno())
else:
    checkpoints.convert(source, target, strategy=strategy, shards=int(shards))
print(json.dumps({"seconds": time.perf_counter() - start, "mib": peak() - before}))
"""


def write_table(prefix: str, gib: float) -> None:
    """Writes a checkpoint with one table in one piece, in blocks."""
    import numpy as np
    import tensorflow as tf

    from estimator_spec.core.checkpoints.writing import CheckpointWriter

    rows = int(gib * 2**30) // (4 * WIDTH)
    size = rows * 4 * WIDTH
    block = np.random.default_rng(0).normal(size=(1 << 16, WIDTH)).astype(np.float32)
    with CheckpointWriter(prefix, size) as writer:
        (piece,) = writer.add(TABLE, tf.float32, (rows, WIDTH), [((), (rows, WIDTH), size)])
        for first in range(0, rows, len(block)):
            piece.write(block[: rows - first] + np.float32(first % 1009))
        writer.finish()


def run(source: str, target: str, strategy: str, shards: int = 0) -> tuple[float, float]:
    """Runs a conversion (or 'copy') in a new process; returns seconds and MiB."""
    shutil.rmtree(os.path.dirname(target), ignore_errors=True)
    env = {**os.environ, "PYTHONPATH": str(ROOT), "TF_CPP_MIN_LOG_LEVEL": "3"}
    command = [sys.executable, "-c", CHILD, source, target, strategy, str(shards)]
    done = subprocess.run(command, capture_output=True, text=True, env=env, check=True)
    found = json.loads(done.stdout.splitlines()[-1])
    return found["seconds"], found["mib"]


def main() -> None:
    """Runs the measurements and prints them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gib", type=float, default=4, help="size of the table")
    parser.add_argument("--rounds", type=int, default=3, help="of copying and converting")
    parser.add_argument(
        "--only",
        type=int,
        nargs="+",
        default=list(range(1, len(STEPS) + 1)),
        help="numbers of the conversions to measure; the others are made once, as its input",
    )
    parser.add_argument("--dir", help="where to work; needs three times the table's size")
    options = parser.parse_args()
    sys.path.insert(0, str(ROOT))
    with tempfile.TemporaryDirectory(dir=options.dir) as directory:
        source = os.path.join(directory, "0", "model.ckpt")
        write_table(source, options.gib)
        print(f"a table of {options.gib:g} GiB, rows of {WIDTH} float32")
        print(f"{'conversion':<20}{'GiB/s':>7}{'copy':>7}{'ratio':>7}{'MiB':>7}")
        before, fast, small = "div × 1", True, True
        for number, (strategy, shards) in enumerate(STEPS, 1):
            copied = os.path.join(directory, "copy", "model.ckpt")
            target = os.path.join(directory, str(number), "model.ckpt")
            after = f"{strategy} × {shards}"
            if number > max(options.only):
                break
            if number not in options.only:
                run(source, target, strategy, shards)
                shutil.rmtree(os.path.dirname(source))
                source, before = target, after
                continue
            copies, conversions = [], []
            for _ in range(options.rounds):
                copies.append(run(source, copied, "copy"))
                shutil.rmtree(os.path.dirname(copied))
                conversions.append(run(source, target, strategy, shards))
            slow = statistics.median(seconds for seconds, _ in conversions)
            plain = statistics.median(seconds for seconds, _ in copies)
            mib = max(mib for _, mib in conversions)
            print(
                f"{before + ' → ' + after:<20}{options.gib / slow:>7.2f}"
                f"{options.gib / plain:>7.2f}{plain / slow:>7.2f}{mib:>7.0f}",
                flush=True,
            )
            fast, small = fast and plain / slow >= SPEED_GOAL, small and mib <= MEMORY_GOAL
            shutil.rmtree(os.path.dirname(source))
            source, before = target, after
    print(f"goals: ratio >= {SPEED_GOAL} {fast}, <= {MEMORY_GOAL} MiB {small}")


if __name__ == "__main__":
    main()
