# SPDX-License-Identifier: Apache-2.0
"""Trains `clicks.py`, or another program, on Spark: a barrier stage's tasks are TF_CONFIG's.

    spark-submit examples/engines/spark_barrier.py --workers=1 --servers=1 \
        examples/engines/clicks.py --model_dir=/shared/clicks

Spark starts all tasks of a barrier stage at once, and again if one fails: then training goes on
from the latest checkpoint. The program is a process of its own in each task, as TensorFlow's
servers can't be ended within one. All executors need it at the same path.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

from pyspark import BarrierTaskContext
from pyspark.sql import SparkSession


def die_with_parent() -> None:
    """Lets the kernel (Linux) kill this process when the one that started it ends."""
    set_signal = 1  # PR_SET_PDEATHSIG of <sys/prctl.h>
    ctypes.CDLL(None).prctl(set_signal, signal.SIGKILL)


def run_task(names: list[str], command: list[str]) -> Iterator[str]:
    """Runs the program as the task of this partition; yields the chief's last line.

    Args:
        names: the job of each partition, such as 'worker'.
        command: the program and its arguments.
    """
    context = BarrierTaskContext.get()
    here = context.partitionId()
    host = context.getTaskInfos()[here].address.rpartition(":")[0]
    with socket.socket() as free:
        free.bind(("", 0))
        addresses = context.allGather(f"{host}:{free.getsockname()[1]}")
    cluster: dict[str, list[str]] = {}
    for job, address in zip(names, addresses, strict=True):
        cluster.setdefault(job, []).append(address)
    job = names[here]
    task = {"type": job, "index": here - names.index(job)}
    environment = {**os.environ, "TF_CONFIG": json.dumps({"cluster": cluster, "task": task})}
    process = subprocess.Popen(
        [sys.executable, *command],
        env=environment,
        stdout=subprocess.PIPE,
        preexec_fn=die_with_parent,  # Spark kills this process when another task fails
    )
    try:
        if job == "ps":
            context.barrier()  # until all others have trained
            process.terminate()
        output, _ = process.communicate()
        if process.returncode:
            raise RuntimeError(f"{job} {task['index']} ended with status {process.returncode}")
        if job != "ps":
            context.barrier()
        if job == "chief":
            yield output.decode().splitlines()[-1]
    finally:
        process.kill()


def train(spark: Any, command: list[str], workers: int, servers: int) -> str:
    """Trains on a Spark session's executors, which need a core for each task.

    Args:
        spark: the session.
        command: the program and its arguments.
        workers: number of workers, besides the chief.
        servers: number of parameter servers.
    """
    names = ["chief", *["worker"] * workers, *["ps"] * servers]
    stage = spark.sparkContext.parallelize(names, len(names)).barrier()
    lines = stage.mapPartitions(lambda _: run_task(names, command))
    # The shuffle is for the retries: a barrier stage whose result the driver takes has none.
    (last_line,) = lines.coalesce(1, shuffle=True).collect()
    return last_line


def main() -> None:
    """Runs the command."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--servers", type=int, default=1)
    parser.add_argument("command", nargs=argparse.REMAINDER, help="program and arguments")
    parsed = parser.parse_args()
    spark = SparkSession.builder.appName("train").getOrCreate()
    try:
        print(train(spark, parsed.command, parsed.workers, parsed.servers))
    finally:
        spark.stop()


if __name__ == "__main__":
    main()
