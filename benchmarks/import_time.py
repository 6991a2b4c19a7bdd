# SPDX-License-Identifier: Apache-2.0
"""Measures the time that both packages add to `import tensorflow`.

    python benchmarks/import_time.py --rounds=11

`estimator_spec` imports its names at their first use, so three imports are measured: of the two
packages, of the names that a program of TPU columns uses, and of every name. All are measured in
fresh processes, in turn, so that a busy machine disturbs all alike. Each process times its own
imports, so the packages' share is measured by itself, after TensorFlow. Prints medians in seconds.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# Statement by name, with the goal for its seconds, if there is one.
IMPORTS: dict[str, tuple[str, float | None]] = {
    "import tpu_columns, estimator_spec": ("import tpu_columns, estimator_spec", 0.1),
    "... and names of a TPU program": (
        "import tpu_columns\n"
        "from estimator_spec import EmbeddingConfigSpec, RunConfig, TPUConfig, TPUEstimator, "
        "TPUEstimatorSpec",
        None,
    ),
    "... and every name": ("import tpu_columns\nfrom estimator_spec import *", None),
}
PROGRAM = """
import time
start = time.perf_counter()
import tensorflow
loaded = time.perf_counter()
{statement}
print(loaded - start, time.perf_counter() - loaded)
"""


def measure(statement: str) -> tuple[float, float]:
    """Returns seconds of `import tensorflow`, and of `statement` after it, in a fresh process."""
    env = {**os.environ, "PYTHONPATH": str(ROOT), "TF_CPP_MIN_LOG_LEVEL": "3"}
    command = [sys.executable, "-c", PROGRAM.format(statement=statement)]
    output = subprocess.run(command, capture_output=True, text=True, env=env, check=True).stdout
    tensorflow, packages = output.split()[-2:]
    return float(tensorflow), float(packages)


def main() -> None:
    """Runs the measurements and prints them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7, help="fresh processes of each kind")
    rounds = parser.parse_args().rounds
    tensorflow: list[float] = []
    added: dict[str, list[float]] = {name: [] for name in IMPORTS}
    measure("from estimator_spec import *")  # compiles to bytecode
    for _ in range(rounds):
        for name, (statement, _) in IMPORTS.items():
            alone, ours = measure(statement)
            tensorflow.append(alone)
            added[name].append(ours)
    print(f"medians of {rounds} processes each, seconds")
    print(f"{'import tensorflow':40} {statistics.median(tensorflow):7.3f}")
    for name, (_, goal) in IMPORTS.items():
        note = "" if goal is None else f"   goal <= {goal}"
        print(f"{name:40} {statistics.median(added[name]):7.3f}{note}")


if __name__ == "__main__":
    main()
