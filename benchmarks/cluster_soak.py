# SPDX-License-Identifier: Apache-2.0
"""Trains on a cluster of this machine for some time, and kills a worker at random every minute.

    python benchmarks/cluster_soak.py --minutes 30 --workers 2 --servers 2

The program is that of `cluster.py`, with checkpoints. Fails if a task other than a killed worker
ends, the step of the latest checkpoint falls or stands still for two periods, or the memory of a
task grows by more than a tenth after the first quarter of the time. Prints a line each period.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import cluster
import tensorflow as tf

from estimator_spec.core.cluster import local_cluster

ROOT = Path(__file__).resolve().parents[1]
GROWTH = 1.1
OPTIONS = {
    "steps": 10**9,
    "tables": 4,
    "rows": 20_000,
    "width": 16,
    "ids": 1,
    "batch": 256,
    "save_steps": 500,
}


class Soak:
    """A cluster that is watched.

    Args:
        model_dir: directory of the checkpoints.
        size: number of processes.
    """

    def __init__(self, model_dir: str, size: local_cluster.Size) -> None:
        self._model_dir = model_dir
        self._environments = local_cluster.make_environments(size)
        self._command = [
            *(sys.executable, str(ROOT / "benchmarks" / "cluster.py"), "--task", "ours"),
            *(model_dir, json.dumps(OPTIONS)),
        ]
        self._processes: dict[local_cluster.Task, subprocess.Popen[bytes]] = {}
        self.workers = [task for task in self._environments if task.job == "worker"]
        for task in self._environments:
            self.start(task)

    def start(self, task: local_cluster.Task) -> None:
        """Starts the process of a task."""
        self._processes[task] = subprocess.Popen(
            self._command,
            env=self._environments[task] | {"PYTHONPATH": str(ROOT), "TF_CPP_MIN_LOG_LEVEL": "3"},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def kill(self, task: local_cluster.Task) -> None:
        """Kills the process of a task."""
        self._processes[task].kill()
        self._processes[task].wait()

    def kill_all(self) -> None:
        """Kills all processes."""
        for process in self._processes.values():
            process.send_signal(signal.SIGKILL)
            process.wait()

    def step(self) -> int:
        """Returns the global step of the latest checkpoint; 0 without one."""
        prefix = tf.train.latest_checkpoint(self._model_dir)
        return int(prefix.rsplit("-", 1)[1]) if prefix else 0

    def memory(self) -> dict[local_cluster.Task, int]:
        """Returns the resident bytes of each task.

        Raises:
            RuntimeError: a task has ended.
        """
        for task, process in self._processes.items():
            if process.poll() is not None:
                raise RuntimeError(f"{task} {local_cluster.describe_status(process.returncode)}.")
        return {task: cluster.resident(each.pid) for task, each in self._processes.items()}


def watch(soak: Soak, seconds: float, period: float, seed: int) -> None:
    """Kills workers and checks the cluster until the time is over.

    Raises:
        RuntimeError: a check failed.
    """
    choose = random.Random(seed)
    start = time.monotonic()
    base: dict[local_cluster.Task, int] = {}
    steps = [0]
    while time.monotonic() - start < seconds:
        time.sleep(period)
        memory, steps = soak.memory(), [*steps, soak.step()]
        minutes = (time.monotonic() - start) / 60
        sizes = " ".join(f"{task}: {size >> 20}" for task, size in memory.items())
        print(f"{minutes:5.1f} min  step {steps[-1]:,}  MiB {sizes}", flush=True)
        if steps[-1] < steps[-2] or (len(steps) > 4 and steps[-1] == steps[-3]):
            raise RuntimeError(f"The steps of the checkpoints were {steps[-3:]}.")
        if time.monotonic() - start > seconds / 4:
            for task, size in memory.items():
                # A worker that was killed is a new process.
                if task not in soak.workers and size > base.setdefault(task, size) * GROWTH:
                    raise RuntimeError(f"{task} grew from {base[task]:,} to {size:,} bytes.")
        victim = choose.choice(soak.workers)
        soak.kill(victim)
        soak.start(victim)
        print(f"           killed {victim}", flush=True)


def main() -> None:
    """Parses arguments, and runs the soak."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--period", type=float, default=60, help="seconds between two kills")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--servers", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1, help="of the choice of workers")
    given = parser.parse_args()
    size = local_cluster.Size(given.workers, given.servers, False)
    with tempfile.TemporaryDirectory() as directory:
        soak = Soak(os.path.join(directory, "model"), size)
        try:
            watch(soak, given.minutes * 60, given.period, given.seed)
        finally:
            soak.kill_all()
    print("passed")


if __name__ == "__main__":
    main()
