# SPDX-License-Identifier: Apache-2.0
"""Compares training on parameter servers with TensorFlow 2.15.1's Estimator in the same roles.

    TPU_COLUMNS_REFERENCE_PYTHON=.../python python benchmarks/cluster.py --servers 1,2,4

A chief trains with parameter servers on loopback addresses of this machine. Each table has a shard
on each server (`ours`; `ours-without-kernels`, updated by TensorFlow's ops; `ours-unjoined`, each
tensor sent by itself, too; `plain`, TensorFlow's own partitioned lookups and updates, `plain=True`;
`reference`, which needs a partitioner for that), or
is whole, on one server (`ours-whole`, `embedding_shards=1`; `reference-whole`, its default). Prints
for each side and number of servers, as medians of several rounds in turn: rows of the batch a
second, and the ratio to the reference with the same tables; the processor time of all processes in
a step, which other programs on the machine change little; the bytes on the loopback interface in a
step (of the whole machine, so let nothing else use it); and the resident memory of the largest
server, without what it has when it begins to serve. `--workers N` adds workers: the figures are
then those of all steps of the cluster. `ours-unlocked` lets them update a table at once, as the
reference does (`TPU_COLUMNS_LOCKED_UPDATES=0`).
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
# Name of each side's counterpart of the reference.
SIDES = {
    "ours": "reference",
    "ours-without-kernels": "reference",
    "ours-unjoined": "reference",
    "ours-unlocked": "reference",
    "plain": "reference",
    "reference": "reference",
    "ours-whole": "reference-whole",
    "reference-whole": "reference-whole",
}
WARM_UP = 30
GOAL = 0.8  # of the reference's rows a second


def transferred() -> int:
    """Returns the bytes that the loopback interface has carried."""
    return int(Path("/sys/class/net/lo/statistics/rx_bytes").read_text())


def resident(process: int) -> int:
    """Returns the resident memory of a process in bytes."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmRSS"))


def processor_seconds(process: int) -> float:
    """Returns the processor time that a process has used."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def wait_for_server(address: str, process: subprocess.Popen[str]) -> None:
    """Waits until a process listens at an address.

    Raises:
        RuntimeError: the process has ended.
    """
    host, _, port = address.rpartition(":")
    while True:
        with contextlib.suppress(OSError), socket.create_connection((host, int(port))):
            return
        if process.poll() is not None:
            raise RuntimeError(f"The server at {address} ended with {process.returncode}.")
        time.sleep(0.1)


def run_task(side: str, model_dir: str, options: dict[str, Any]) -> None:
    """Runs the task of TF_CONFIG on one side; the chief prints its measurements as JSON."""
    import tensorflow as tf

    tf1 = tf.compat.v1
    partitioner = None
    if side.startswith("reference"):
        tpu, names, columns = tf1.estimator.tpu, tf1.estimator, tf1.tpu.experimental
        spec_class, adagrad = tpu.experimental.EmbeddingConfigSpec, columns.AdagradParameters
        more: dict[str, Any] = {}
        if side == "reference" and options["shards"] > 1:
            partitioner = tf1.fixed_size_partitioner(options["shards"])
    else:
        import estimator_spec as tpu
        import tpu_columns as columns

        names, spec_class, adagrad = tpu, tpu.EmbeddingConfigSpec, tpu.AdagradParameters
        more = {"plain": side == "plain"}
        if side == "ours-whole":
            more["embedding_shards"] = 1
    batch, tables, rows, width = (options[key] for key in ("batch", "tables", "rows", "width"))
    save_steps = options.get("save_steps")
    processes = [os.getpid(), *options.get("others", ())]
    warm_up = WARM_UP * (1 + options.get("workers", 0))
    marks: list[tuple[float, int, float, int]] = []

    class Measure(tf1.train.SessionRunHook):
        """Takes time and bytes after the warm-up and at the end."""

        def before_run(self, run_context: Any) -> Any:
            """Fetches the step."""
            graph = run_context.session.graph
            return tf1.train.SessionRunArgs(tf1.train.get_global_step(graph))

        def after_run(self, run_context: Any, run_values: Any) -> None:
            """Measures, if the step is reached."""
            del run_context
            step = int(run_values.results)
            if step >= warm_up + len(marks) * options["steps"] and len(marks) < 2:
                used = sum(map(processor_seconds, processes))
                marks.append((time.perf_counter(), transferred(), used, step))

    def input_fn(params: Any) -> Any:
        del params
        generator = np.random.default_rng(1)
        data = {
            f"id{i}": generator.integers(0, rows, (batch * 8, options["ids"]))
            for i in range(tables)
        }
        labels = generator.integers(0, 2, (batch * 8, 1)).astype(np.float32)
        return tf.data.Dataset.from_tensor_slices((data, labels)).batch(batch).repeat()

    def identity(key: str) -> Any:
        return tf1.feature_column.categorical_column_with_identity(key, rows)

    embedded = [columns.embedding_column(identity(f"id{i}"), width) for i in range(tables)]

    def model_fn(features: Any, labels: Any, mode: str, params: Any) -> Any:
        del params
        with tf1.variable_scope("embedded", partitioner=partitioner):
            inputs = tf1.feature_column.input_layer(features, embedded)
        kernel = tf1.get_variable("kernel", [tables * width, 1])
        loss = tf1.losses.sigmoid_cross_entropy(labels, tf.matmul(inputs, kernel))
        train_op = tf1.train.AdagradOptimizer(0.05).minimize(loss, tf1.train.get_global_step())
        return tpu.TPUEstimatorSpec(mode, loss=loss, train_op=train_op)

    estimator = tpu.TPUEstimator(
        model_fn,
        model_dir=model_dir,
        config=tpu.RunConfig(
            save_checkpoints_steps=save_steps,
            save_checkpoints_secs=None,
            experimental_max_worker_delay_secs=0,
        ),
        use_tpu=False,
        train_batch_size=batch,
        eval_batch_size=batch,
        embedding_config_spec=spec_class(
            feature_columns=embedded, optimization_parameters=adagrad(0.05)
        ),
        **more,
    )
    names.train_and_evaluate(
        estimator,
        names.TrainSpec(input_fn, warm_up + options["steps"] + 20, hooks=[Measure()]),
        names.EvalSpec(input_fn),
    )
    if "others" in options:
        *differences, steps = [end - start for start, end in zip(*marks, strict=True)]
        print("MEASURED", json.dumps([each / steps for each in differences]), flush=True)


def run_cluster(python: str, side: str, servers: int, options: dict[str, Any]) -> dict[str, float]:
    """Runs a chief with servers; returns its measurements, those of a step and of a server."""
    from estimator_spec.core.cluster import local_cluster

    options = options | {"shards": servers}
    size = local_cluster.Size(options["workers"], servers, False)
    environments = local_cluster.make_environments(size)
    running: list[subprocess.Popen[str]] = []

    def start(environment: dict[str, str], **more: Any) -> subprocess.Popen[str]:
        path = "" if side.startswith("reference") else str(ROOT)
        environment = environment | {"PYTHONPATH": path, "TF_CPP_MIN_LOG_LEVEL": "3"}
        if side == "ours-unjoined":
            environment["TPU_COLUMNS_FAST_UPDATES"] = "0"
        if side == "ours-without-kernels":
            environment["TPU_COLUMNS_NATIVE_KERNELS"] = "0"
        if side == "ours-unlocked":
            environment["TPU_COLUMNS_LOCKED_UPDATES"] = "0"
        if side.startswith("reference"):
            environment.pop("TF_USE_LEGACY_KERAS", None)
        command = [python, __file__, "--task", side, model_dir, json.dumps(options | more)]
        chief = "others" in more
        running.append(
            subprocess.Popen(
                command,
                env=environment,
                stdout=subprocess.PIPE if chief else subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                text=True,
            )
        )
        return running[-1]

    with tempfile.TemporaryDirectory() as model_dir:
        try:
            started = {
                task.number: start(environment)
                for task, environment in environments.items()
                if task.job == "ps"
            }
            (chief_environment,) = (e for task, e in environments.items() if task.job == "chief")
            addresses = json.loads(chief_environment["TF_CONFIG"])["cluster"]["ps"]
            for number, process in started.items():
                wait_for_server(addresses[number], process)
            empty = {process.pid: resident(process.pid) for process in started.values()}
            workers = [start(each) for task, each in environments.items() if task.job == "worker"]
            others = [*empty, *(worker.pid for worker in workers)]
            chief = start(chief_environment, others=others)
            output, _ = chief.communicate()
            if chief.returncode:
                raise RuntimeError(f"The chief of {side} ended with {chief.returncode}.")
            memory = max(resident(process) - before for process, before in empty.items())
        finally:
            for each in running:
                each.send_signal(signal.SIGKILL)
                each.wait()
    line = next(line for line in output.splitlines() if line.startswith("MEASURED"))
    seconds, carried, used = json.loads(line.removeprefix("MEASURED"))
    rows = options["batch"] / seconds
    return {"rows": rows, "processor": used, "bytes": carried, "memory": memory}


def main() -> None:
    """Parses arguments, runs all sides in turn, and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--servers", default="1,2,4")
    parser.add_argument("--sides", default=",".join(SIDES))
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--tables", type=int, default=26)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--width", type=int, default=16)
    parser.add_argument("--ids", type=int, default=1)
    parser.add_argument("--batch", type=int, default=1024)
    given = parser.parse_args()
    options = {key: getattr(given, key) for key in ("steps", "tables", "rows", "width", "ids")}
    options |= {"batch": given.batch, "workers": given.workers}
    pythons = dict.fromkeys(SIDES, sys.executable)
    for side in set(SIDES.values()):
        pythons[side] = os.environ.get("TPU_COLUMNS_REFERENCE_PYTHON", "")
    sides = [side for side in given.sides.split(",") if pythons[side]]
    print(
        "| servers | side | rows/s | of the reference | CPU ms a step | KiB a step | MiB a server |"
    )
    print("|---|---|---|---|---|---|---|")
    for servers in map(int, given.servers.split(",")):
        runs: dict[str, list[dict[str, float]]] = {side: [] for side in sides}
        for _ in range(given.rounds):
            for side in sides:
                runs[side].append(run_cluster(pythons[side], side, servers, options))
        found = {
            side: {key: statistics.median(run[key] for run in each) for key in each[0]}
            for side, each in runs.items()
        }
        for side, values in found.items():
            base = found.get(SIDES[side], {}).get("rows")
            share = f"{values['rows'] / base:.2f}" if base else ""
            print(
                f"| {servers} | {side} | {values['rows']:,.0f} | {share} | "
                f"{values['processor'] * 1000:,.1f} | "
                f"{values['bytes'] / 1024:,.0f} | {values['memory'] / (1 << 20):,.0f} |",
                flush=True,
            )
    print(f"\nGoal: ours at least {GOAL} of the reference's rows a second.")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--task"]:
        run_task(sys.argv[2], sys.argv[3], json.loads(sys.argv[4]))
    else:
        main()
