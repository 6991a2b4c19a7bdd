# SPDX-License-Identifier: Apache-2.0
"""Runs one workload on one side in a fresh process, and writes the measurements as JSON.

python -m training_time.process '{"workload": "tiny", "side": "default", ...}' out.json
"""

from __future__ import annotations

import contextlib
import itertools
import json
import logging
import os
import statistics
import sys
import tempfile
import time
from typing import Any

from training_time import clocks, workloads
from training_time.workloads import Workload

PREDICTED_BATCHES = 200
WARM_UP_BATCHES = workloads.BATCHES + 5  # batches are made in the first pass
EVALUATED_STEPS = 500
SERVED_SECONDS = 2.0


@contextlib.contextmanager
def listening(handler: logging.Handler) -> Any:
    """Passes TensorFlow's log lines to a handler."""
    logging.getLogger("tensorflow").addHandler(handler)
    yield handler
    logging.getLogger("tensorflow").removeHandler(handler)


def steps_of(workload: Workload) -> int:
    """Returns the steps for this many intervals after the first."""
    return 1 + workload.interval * (1 + workload.intervals)


def train(make: Any, workload: Workload) -> dict[str, Any]:
    """Measures milliseconds a step, and the end of the first step or loop of steps."""
    begin = time.perf_counter()
    estimator, input_fn = make()
    with listening(clocks.SpeedLog()) as log:
        estimator.train(input_fn, steps=steps_of(workload))
    first_interval = workload.interval / log.rates[0]
    return {
        "ms": log.milliseconds(),
        "cpu_ms": log.cpu_milliseconds(workload.interval),
        "first_step_s": log.first_line - first_interval - begin,
        "whole_s": time.perf_counter() - begin,
    }


def profile(make: Any, workload: Workload) -> dict[str, Any]:
    """Measures the ops of a step."""
    from training_time import profiling

    estimator, input_fn = make()
    hook = profiling.TraceHook()
    steps = profiling.FIRST + profiling.COUNT + 1
    run = estimator.evaluate if workload.verb == "evaluate" else estimator.train
    run(input_fn, hooks=[hook], steps=steps)
    found = hook.profile()
    return {"ms": [sum(row[1] for row in found) / 1000], "profile": found}


def first_step(make: Any, workload: Workload) -> dict[str, Any]:
    """Measures seconds of a one-step training: columns, graph, session, initial values, input."""
    begin = time.perf_counter()
    estimator, input_fn = make()
    estimator.train(input_fn, steps=1)
    seconds = time.perf_counter() - begin
    return {"ms": [1000 * seconds], "first_step_s": seconds}


def evaluate(make: Any, workload: Workload) -> dict[str, Any]:
    """Measures milliseconds a batch of evaluation."""
    estimator, input_fn = make()
    begin = time.perf_counter()
    with listening(clocks.EvaluationLog()) as log:
        estimator.evaluate(input_fn, steps=EVALUATED_STEPS)
    whole = time.perf_counter() - begin
    return {"ms": clocks.milliseconds(log.marks, skip=2), "whole_s": whole}


def predict(make: Any, workload: Workload) -> dict[str, Any]:
    """Measures milliseconds for a batch of single predictions."""
    estimator, input_fn = make()
    begin = time.perf_counter()
    predictions = estimator.predict(input_fn)
    marks, batch = [], workloads.BATCH_SIZE
    for number in range(WARM_UP_BATCHES + PREDICTED_BATCHES + 1):
        for _ in itertools.islice(predictions, batch):
            pass
        marks.append((number, time.perf_counter()))
    predictions.close()
    return {
        "ms": clocks.milliseconds(marks, skip=WARM_UP_BATCHES),
        "first_step_s": marks[0][1] - begin,
    }


def serve(make: Any, workload: Workload) -> dict[str, Any]:
    """Measures milliseconds of a SavedModel call by batch size; `ms` is for 1,024."""
    import tensorflow as tf

    from training_time import program

    estimator, input_fn = make()
    estimator.train(input_fn, steps=1)
    with tempfile.TemporaryDirectory() as directory:
        path = estimator.export_saved_model(directory, program.receiver_fn_of(workload))
        loaded = tf.saved_model.load(tf.compat.as_str_any(path))
    signature = loaded.signatures["serving_default"]
    found: dict[str, Any] = {}
    for size in (1, 32, workloads.BATCH_SIZE):
        arrays = workloads.batch_of(workload, 0, size)
        data = {f.name: tf.constant(arrays[f.name]) for f in workload.features}
        times: list[float] = []
        end = time.perf_counter() + SERVED_SECONDS
        while time.perf_counter() < end:
            begin = time.perf_counter()
            signature(**data)["probability"].numpy()
            times.append(1000 * (time.perf_counter() - begin))
        found[f"ms_{size}"] = [statistics.median(times[10:] or times)]
    found["ms"] = found[f"ms_{workloads.BATCH_SIZE}"]
    return found


VERBS = {
    "train": train,
    "embedding": train,
    "first_step": first_step,
    "evaluate": evaluate,
    "predict": predict,
    "serve": serve,
}


def run_estimator(task: dict[str, Any], workload: Workload, directory: str) -> dict[str, Any]:
    """Returns the program of the reference or ours."""
    import tensorflow as tf

    # TF2's loader, as in a server; it isn't available with TF2 behaviour disabled.
    if task["reference_variables"] and workload.verb != "serve":
        tf.compat.v1.disable_v2_behavior()
    if task["constant_layers"]:
        from training_time import constant_layers

        constant_layers.replace_feature_layers(workload.batch_size)
    core = {"embedding_core": task["core"]} if task["core"] else {}
    core |= {"plain": True} if task["plain"] else {}
    if task["tables_on_cpu"]:
        from training_time import placed_layers

        placed_layers.place_feature_layers("/cpu:0")
    if workload.program == "census":
        from training_time import census_program

        steps = steps_of(workload)

        def make() -> tuple[Any, Any]:
            return census_program.make(workload, directory, steps, core)
    elif workload.program == "canned":
        from training_time import canned_program

        def make() -> tuple[Any, Any]:
            return canned_program.make(workload, directory)
    elif workload.program == "transformer":
        from training_time import transformer_program

        def make() -> tuple[Any, Any]:
            return transformer_program.make(workload, directory, core)
    else:
        from training_time import program

        def make() -> tuple[Any, Any]:
            return program.make(workload, directory, core)

    # Progress lines are written, as for users.
    tf.compat.v1.logging.set_verbosity("INFO")
    before = clocks.resident()
    run = profile if task["profile"] else VERBS[workload.verb]
    found = run(make, workload)
    return {**found, "imported_mib": before, "version": f"TensorFlow {tf.__version__}"}


def main() -> None:
    """Runs the request of the first argument, and writes the result to the second."""
    task = json.loads(sys.argv[1])
    workload = workloads.by_name(task["workload"])
    logging.getLogger("tensorflow").propagate = False
    directory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    neighbours = clocks.Neighbours()
    with contextlib.ExitStack() as stack:
        model_dir = stack.enter_context(tempfile.TemporaryDirectory(dir=directory))
        if task["framework"] == "estimator":
            found = run_estimator(task, workload, model_dir)
        elif task["framework"] == "keras_rs":
            from training_time import keras_program

            found = keras_program.run(workload)
        else:
            from training_time import fbgemm_program

            found = fbgemm_program.run(workload)
    found["others"] = neighbours.share()
    found["peak_mib"] = clocks.resident("VmHWM")
    with open(sys.argv[2], "w", encoding="utf-8") as file:
        json.dump(found, file)


if __name__ == "__main__":
    main()
