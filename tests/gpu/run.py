# SPDX-License-Identifier: Apache-2.0
"""Runs the tests and the benchmark of a GPU, and writes what ran to OUTPUT/gpu.json and gpu.md.

    python tests/gpu/run.py OUTPUT

is what `nox -s gpu` calls. On a machine that can't install packages, run it with any Python that
has TensorFlow and the extra `test`. It takes about eight minutes; without a GPU, what needs one is
reported as not run.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import report

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
# Processes of tests beside each other: each has a context on the GPU.
PROCESSES = min(8, os.cpu_count() or 1)
WORKLOADS = "transformer,grid/10ids-dense-1e5,grid/1id-dense-1e5,census"
SIDES = "gpu-plain,gpu,gpu-cpu-plain,gpu-cpu,gpu-host"
SUITES = {
    "gpu.xml": ["tests/gpu/test_on_a_gpu.py"],
    # Numbers recorded of TensorFlow 2.15.1 on a CPU.
    "programs.xml": [
        "tests/estimator_spec/legacy/test_programs.py",
        "-k=runs_unedited or same_as_the_reference",
        "-m=not nightly",
    ],
}


def main() -> int:
    """Runs everything; returns 1 if a test failed."""
    output = Path(sys.argv[1]).resolve()
    output.mkdir(parents=True, exist_ok=True)
    # Products of matrices in float32, as on a CPU; a test of its own turns TF32 on.
    exact = {**os.environ, "NVIDIA_TF32_OVERRIDE": "0", "TF_FORCE_GPU_ALLOW_GROWTH": "true"}
    failed = False
    for name, arguments in SUITES.items():
        options = ["-q", "-n", str(PROCESSES), f"--junitxml={output / name}"]
        command = [sys.executable, "-m", "pytest", *options, *arguments]
        failed |= subprocess.run(command, cwd=ROOT, env=exact).returncode != 0
    measured = output / "benchmark.json"
    machine = report.machine()
    if machine["gpus"]:
        command = [sys.executable, "benchmarks/training.py", "--rounds=1", "--tries=1"]
        command += [f"--workloads={WORKLOADS}", f"--sides={SIDES}", f"--results={measured}"]
        subprocess.run(command, cwd=ROOT)
    results = [output / name for name in SUITES]
    benchmarks = [measured] if measured.exists() else []
    report.write(report.collect(machine, results, benchmarks), output)
    print(f"wrote {output / 'gpu.json'} and gpu.md")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
