# SPDX-License-Identifier: Apache-2.0
"""Trainings on a GPU of NVIDIA's: numbers, devices, memory, and what becomes of their checkpoints.

    nox -s gpu

runs these, and writes a page of what ran. Without a GPU most skip, and the page says "not run".
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import train_tables

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
EXAMPLES = ROOT / "examples"
HAS_GPU = bool(tf.config.list_physical_devices("GPU"))
TABLE = "input_layer/a_embedding/embedding_weights"
# Grappler and oneDNN replace it by ops of their own.
NETWORK = ("MatMul", "_FusedMatMul", "_MklMatMul", "_MklFusedMatMul")
# The host core's, tables on the CPU, and where TensorFlow puts them.
PLACES: dict[str, dict[str, Any]] = {
    "default": {},
    "tables_on_cpu": {"tables": "/cpu:0"},
    "host_core": {"core": "host"},
}

# Training processes; the tests of each change have `test_placement.py`.
pytestmark = [pytest.mark.gpu, pytest.mark.slow]
needs_gpu = pytest.mark.skipif(not HAS_GPU, reason="not run: this machine has no GPU")

Report = dict[str, Any]
Record = Callable[[str, object], None]


def variables(gpu: bool) -> dict[str, str]:
    """Returns the environment of a process that sees the GPU, or none."""
    found = {
        "TF_CPP_MIN_LOG_LEVEL": "1",
        "TF_USE_LEGACY_KERAS": "1",
        "TF_FORCE_GPU_ALLOW_GROWTH": "true",
        "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
    }
    return {**os.environ, **found} | ({} if gpu else {"CUDA_VISIBLE_DEVICES": "-1"})


def run(script: Path, *arguments: str, gpu: bool = HAS_GPU, **more: str) -> str:
    """Runs a script in a process; returns its output.

    Args:
        script: its path.
        *arguments: its arguments.
        gpu: whether it sees the GPU.
        **more: environment variables.
    """
    done = subprocess.run(
        [sys.executable, str(script), *arguments],
        env=variables(gpu) | more,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert done.returncode == 0, f"{script.name} {arguments}:\n{done.stderr[-4000:]}"
    return done.stdout


def train(directory: Path, gpu: bool = HAS_GPU, **settings: Any) -> Report:
    """Runs `train_tables.py`; returns its report."""
    run(HERE / "train_tables.py", json.dumps(settings), str(directory), gpu=gpu)
    return dict(json.loads((directory / "report.json").read_text(encoding="utf-8")))


def difference(found: list[float], expected: list[float]) -> float:
    """Returns the largest difference."""
    assert len(found) == len(expected)
    return float(np.max(np.abs(np.asarray(found) - np.asarray(expected))))


@pytest.fixture
def note(record_property: Callable[[str, object], None]) -> Record:
    """Returns a function that adds a figure to the page."""
    return record_property


@needs_gpu
@pytest.mark.parametrize("place", PLACES)
def test_losses_are_those_of_a_cpu(place: str, tmp_path: Path, note: Record) -> None:
    """A model's losses on a GPU are those on a CPU to 1e-4, without TF32."""
    here = train(tmp_path / "gpu", **PLACES[place])
    there = train(tmp_path / "cpu", gpu=False, **PLACES[place])
    worst = difference(here["losses"], there["losses"])
    note("largest difference of 50 losses", f"{worst:.1e}")
    assert worst < 1e-4


@needs_gpu
@pytest.mark.parametrize(
    "settings, table, native",
    [
        ({}, "GPU", False),
        ({"optimizer": "MomentumOptimizer"}, "CPU", True),
        ({"tables": "/cpu:0"}, "CPU", True),
        ({"tables": "/cpu:0", "plain": True}, "CPU", False),
        ({"core": "host"}, "CPU", True),
        ({"hidden": True}, "CPU", True),
        ({"device_fn": "/cpu:0"}, "CPU", True),
    ],
    ids=["default", "momentum", "tables_on_cpu", "plain", "host_core", "no_gpu", "device_fn"],
)
def test_tables_are_where_the_page_says(
    settings: Report, table: str, native: bool, tmp_path: Path, note: Record
) -> None:
    """TensorFlow places tables, slots and network as `docs/gpu.md` says."""
    devices = train(tmp_path, steps=5, **settings)["devices"]
    ours = {op for op in devices if op.startswith("TpuColumns")}
    note("table", devices[TABLE][0])
    note("kernels", "yes" if ours else "no")
    assert devices[TABLE] == [table]
    slots = [where for name, where in devices.items() if name.startswith(TABLE + "/")]
    assert all(where == [table] for where in slots)
    assert bool(ours) == native
    assert all(devices[op] == ["CPU"] for op in ours)
    network = {where for op in NETWORK for where in devices.get(op, ())}
    expected = "CPU" if settings.keys() & {"hidden", "device_fn"} else "GPU"
    assert network == {expected}


@needs_gpu
def test_a_part_of_the_memory_is_all_that_is_used(tmp_path: Path) -> None:
    """`per_process_gpu_memory_fraction` limits what a training takes."""
    report = train(tmp_path, steps=5, fraction=0.05)
    assert 0 < report["memory"]["gpu"] < 0.05 * 2**20


@needs_gpu
def test_a_sum_of_rows_on_a_gpu_is_not_deterministic(tmp_path: Path) -> None:
    """With enable_op_determinism TensorFlow names the op of a lookup on a GPU that it lacks."""
    with pytest.raises(AssertionError, match="deterministic GPU implementation of SparseTensor"):
        train(tmp_path, deterministic=True)


@needs_gpu
@pytest.mark.parametrize("place", ["tables_on_cpu", "host_core"])
def test_two_deterministic_runs_are_equal(place: str, tmp_path: Path) -> None:
    """With enable_op_determinism and tables on the CPU two runs end with the same bytes."""
    runs = [train(tmp_path / str(i), deterministic=True, **PLACES[place]) for i in range(2)]
    assert runs[0]["hash"] == runs[1]["hash"]
    assert runs[0]["losses"] == runs[1]["losses"]


@needs_gpu
def test_one_mirrored_replica_is_the_model(tmp_path: Path, note: Record) -> None:
    """MirroredStrategy on one GPU has the losses of a training without it to 1e-4."""
    mirrored = train(tmp_path / "mirrored", mirrored=True)
    alone = train(tmp_path / "alone")
    worst = difference(mirrored["losses"], alone["losses"])
    note("largest difference of 50 losses", f"{worst:.1e}")
    assert worst < 1e-4
    assert mirrored["devices"][TABLE] == ["GPU"]


@needs_gpu
@pytest.mark.parametrize(
    "settings, near", [({"xla": True}, 1e-3), ({"mixed": True}, 2e-2), ({"tf32": True}, 1e-2)]
)
def test_faster_arithmetic_trains(
    settings: Report, near: float, tmp_path: Path, note: Record
) -> None:
    """XLA, the rewrite to 16 bits and TF32 train, with losses near those without."""
    found = train(tmp_path / "fast", **settings)["losses"]
    worst = difference(found, train(tmp_path / "exact")["losses"])
    note("largest difference of 50 losses", f"{worst:.1e}")
    assert worst < near


@pytest.mark.parametrize("place", PLACES)
def test_a_cpu_serves_what_was_trained(place: str, tmp_path: Path, note: Record) -> None:
    """A process with TensorFlow alone, without a GPU, serves the exported model."""
    report = train(tmp_path, export=True, **PLACES[place])
    random = np.random.RandomState(0)
    shape = [20 * train_tables.BATCH, train_tables.IDS]
    data = {
        name: random.randint(1, 1000, size=shape, dtype=np.int64)[: train_tables.BATCH]
        for name in train_tables.FEATURES
    }
    np.savez(tmp_path / "data.npz", **data)
    output = tmp_path / "served.json"
    script = str(tmp_path / "data.npz")
    run(HERE / "serve.py", report["export"], script, str(output), gpu=False)
    served = json.loads(output.read_text(encoding="utf-8"))
    assert not served["ours"]
    worst = difference(served["predictions"], report["predictions"])
    note("largest difference of a prediction", f"{worst:.1e}")
    assert worst < 1e-5


@pytest.mark.parametrize("place", ["default", "host_core"])
def test_a_killed_training_goes_on(place: str, tmp_path: Path) -> None:
    """A training that is killed goes on from its last checkpoint."""
    settings = {**PLACES[place], "steps": 200}
    whole = train(tmp_path / "whole", **settings)
    killed = tmp_path / "killed"
    command = json.dumps({**settings, "killed_at": 110}), str(killed)
    script = [sys.executable, str(HERE / "train_tables.py"), *command]
    done = subprocess.run(script, env=variables(HAS_GPU), stderr=subprocess.DEVNULL, timeout=280)
    assert done.returncode == -signal.SIGKILL
    again = train(killed, **settings)
    assert len(again["losses"]) == 100
    assert abs(again["losses"][-1] - whole["losses"][-1]) < 0.1  # it reads its input anew


@pytest.mark.parametrize("where", ["tables_on_cpu", pytest.param("default", marks=needs_gpu)])
def test_memory_of_a_large_table(where: str, tmp_path: Path, note: Record) -> None:
    """Three tables of ten million rows of 16 with Adagrad take what they hold, and little more."""
    rows = 10**7 if HAS_GPU else 10**5
    held = 3 * 2 * rows * 16 * 4 / 2**20
    memory = train(tmp_path, rows=rows, steps=5, save_every=10**6, **PLACES[where])["memory"]
    for place, size in memory.items():
        note(f"peak, {place}", f"{size:,.0f} MiB")
    note("rows and slots", f"{held:,.0f} MiB")
    if where == "default":
        assert held < memory["gpu"] < 2 * held + 1000
    else:
        assert memory.get("gpu", 0) < 500


@pytest.mark.parametrize("core", ["default", "host"])
def test_census_learns(core: str, tmp_path: Path, note: Record) -> None:
    """The census example predicts on a GPU what it predicts on a CPU, and a CPU serves it."""
    options = [] if core == "default" else ["--embedding_core=host"]
    found = []
    for gpu in {HAS_GPU, False}:
        model_dir = tmp_path / f"gpu_{gpu}"
        arguments = [f"--model_dir={model_dir}", "--train_steps=100", *options]
        script = EXAMPLES / "census" / "census.py"
        run(script, *arguments, gpu=gpu, NVIDIA_TF32_OVERRIDE="0")
        found.append(json.loads((model_dir / "served.json").read_text())["probability"])
    assert np.ptp(found[0]) > 0.1
    if len(found) == 2:
        worst = difference(*found)
        note("largest difference of 512 probabilities", f"{worst:.1e}")
        assert worst < 1e-3


def test_quickstart_learns() -> None:
    """README's program trains, and separates all odd words from even ones."""
    assert "AUC 1.0" in run(EXAMPLES / "quickstart.py")


@pytest.mark.parametrize("layers", [pytest.param(12, marks=needs_gpu), 1])
def test_a_transformer_learns(layers: int, tmp_path: Path, note: Record) -> None:
    """A model_fn of BERT-base's layers trains: its loss falls."""
    steps, batch, length = (60, 32, 128) if layers == 12 else (40, 4, 16)
    arguments = map(str, (layers, steps, batch, length, tmp_path))
    losses = json.loads(run(HERE / "train_transformer.py", *arguments).splitlines()[-1])
    note("first and last loss", f"{losses[0]:.3f}, {losses[-1]:.3f}")
    assert np.mean(losses[-4:]) < np.mean(losses[:4])
