# SPDX-License-Identifier: Apache-2.0
"""Runs programs of `tests/programs` in processes of their own, and reads what they left."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

import tensorflow as tf
from google.protobuf import text_format
from tensorflow.core.protobuf import saved_model_pb2

import forking_python

LOG = "log.txt"


class Run(NamedTuple):
    """Results of a run: report, exported models and log."""

    results: dict[str, Any]
    exports: dict[str, Any]
    log: str


def start(
    command: list[str], out: Path, path: str, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Runs a command in `out` without this process's choices, and with other variables."""
    dropped = ("TF_USE_LEGACY_KERAS", "TPU_COLUMNS_CPU", "TF_CONFIG", "PYTHONPATH")
    environment = {name: value for name, value in os.environ.items() if name not in dropped}
    environment["TF_CPP_MIN_LOG_LEVEL"] = "2"
    if path:
        environment["PYTHONPATH"] = path
    environment.update(variables)
    python, *arguments = command
    return forking_python.run(arguments, executable=python, env=environment, cwd=out, timeout=300)


def run_program(command: list[str], arguments: str, out: Path, path: str, **variables: str) -> Run:
    """Runs a program, with OUT in its arguments replaced; a failure shows the end of its output."""
    command = command + arguments.replace("OUT", str(out)).split()
    done = start(command, out, path, **variables)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stderr[-6000:]}")
    (out / LOG).write_text(done.stderr)
    return read_run(out)


def read_run(out: Path) -> Run:
    """Reads what a program left in its directory."""
    results = json.loads((out / "results.json").read_text())
    return Run(results, exports_in(out), (out / LOG).read_text())


def exports_in(out: Path) -> dict[str, Any]:
    """Returns the signatures of each exported model by its directory."""
    found = {}
    for path in sorted(out.glob("**/saved_model.pb*")):
        model = saved_model_pb2.SavedModel()
        if path.suffix == ".pb":
            model.ParseFromString(path.read_bytes())
        else:
            text_format.Parse(path.read_text(), model)
        (graph,) = [g for g in model.meta_graphs if list(g.meta_info_def.tags) == ["serve"]]
        found[str(path.parent.parent.relative_to(out))] = {
            key: {
                "method": signature.method_name,
                "inputs": {name: described(info) for name, info in signature.inputs.items()},
                "outputs": {name: described(info) for name, info in signature.outputs.items()},
            }
            for key, signature in graph.signature_def.items()
        }
    return found


def described(info: Any) -> list[Any]:
    """Returns dtype and shape of a tensor of a signature."""
    return [tf.as_dtype(info.dtype).name, [size.size for size in info.tensor_shape.dim]]
