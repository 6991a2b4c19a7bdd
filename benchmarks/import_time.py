# SPDX-License-Identifier: Apache-2.0
"""Measures the time that both packages, with all their names, add to `import tensorflow`.

    python benchmarks/import_time.py --rounds=11

Both are measured in fresh processes, in turn, so that a busy machine disturbs both alike. Each
process times its own imports, so the packages' share is measured by itself, after TensorFlow.
Prints medians in seconds. The goal is at most 0.15 s.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
GOAL = 0.15
# With *: the package imports its names at their first use.
IMPORT = "import tpu_columns\nfrom estimator_spec import *"
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
    alone, with_ours, added = [], [], []
    measure(IMPORT)  # compiles to bytecode
    for _ in range(rounds):
        tensorflow, nothing = measure("pass")
        alone.append(tensorflow + nothing)
        tensorflow, packages = measure(IMPORT)
        with_ours.append(tensorflow + packages)
        added.append(packages)
    print(f"median of {rounds} processes each, seconds")
    print(f"import tensorflow                                {statistics.median(alone):7.3f}")
    print(f"import tensorflow, tpu_columns, estimator_spec   {statistics.median(with_ours):7.3f}")
    print(f"the packages' own share                          {statistics.median(added):7.3f}")
    print(f"goal                                          <= {GOAL:7.3f}")


if __name__ == "__main__":
    main()
