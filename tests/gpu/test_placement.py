# SPDX-License-Identifier: Apache-2.0
"""Devices of tables, updates and networks beside a GPU: the table of `docs/gpu.md`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf
from tensorflow.python.framework import kernels  # lists kernels; has no public counterpart

import placing
import train_tables
from tpu_columns.kernels import devices

TABLE = "input_layer/a_embedding/embedding_weights"
PAGE = Path(__file__).resolve().parents[2] / "docs" / "gpu.md"


@pytest.fixture
def _a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Has the packages find a GPU."""
    visible = tf.config.get_visible_devices

    def with_gpu(device_type: str | None = None) -> list[Any]:
        return ["a GPU"] if device_type == "GPU" else visible(device_type)

    monkeypatch.setattr(tf.config, "get_visible_devices", with_gpu)


def trained_graph(tmp_path: Path, **settings: Any) -> tf.Graph:
    """Returns the graph of a training."""
    chosen = train_tables.Settings(steps=1, rows=50, **settings)
    estimator, input_fn, traces = train_tables.make(chosen, str(tmp_path))
    estimator.train(input_fn, max_steps=1)
    return traces[-1].graph


CASES: dict[str, tuple[dict[str, Any], str, bool]] = {
    "no device": ({}, "GPU", False),
    "an optimizer without a kernel for GPUs": ({"optimizer": "MomentumOptimizer"}, "CPU", True),
    '`with tf.device("/cpu:0")`': ({"tables": "/cpu:0"}, "CPU", True),
    '`with tf.device("/cpu:0")`, `plain=True`': ({"tables": "/cpu:0", "plain": True}, "CPU", False),
    '`embedding_core="host"`': ({"core": "host"}, "CPU", True),
    '`embedding_core="host"`, `plain=True`': ({"core": "host", "plain": True}, "CPU", False),
    "`device_fn` that says CPU": ({"device_fn": "/cpu:0"}, "CPU", True),
}


@pytest.mark.usefixtures("_a_gpu")
@pytest.mark.parametrize("settings, table, native", CASES.values(), ids=CASES)
def test_tables_and_their_updates_share_a_device(
    settings: dict[str, Any],
    table: str,
    native: bool,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> None:
    """Beside a GPU a table, its slots and its update are where the page says."""
    if native:
        request.getfixturevalue("built_kernels")
    graph = trained_graph(tmp_path, **settings)
    placed = placing.place(graph)
    assert placed[TABLE] == table
    slots = [op for op in placed if re.fullmatch(f"{TABLE}/(Adagrad|Momentum|accumulator)", op)]
    assert all(placed[slot] == table for slot in slots)
    updates = [op for op in graph.get_operations() if "Update" in op.type and "Tpu" in op.type]
    assert bool(updates) == native
    assert all(placed[op.name] == "CPU" for op in updates)
    network = [op for op in graph.get_operations() if op.type == "MatMul"]
    expected = "CPU" if "device_fn" in settings else "GPU"
    assert {placed[op.name] for op in network} == {expected}


@pytest.mark.usefixtures("_a_gpu", "built_kernels")
def test_a_session_without_gpus_has_tables_on_the_cpu(tmp_path: Path) -> None:
    """With `device_count={"GPU": 0}` a training has kernels for all tables."""
    graph = trained_graph(tmp_path, hidden=True)
    updates = [op for op in graph.get_operations() if op.type == "TpuColumnsResourceUpdate"]
    assert len(updates) == len(train_tables.FEATURES)


@pytest.mark.usefixtures("_a_gpu", "built_kernels")
def test_a_training_says_that_tables_without_a_device_have_no_kernels(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The log names the way to faster tables."""
    with caplog.at_level("INFO", logger="tensorflow"):
        trained_graph(tmp_path)
    (line,) = [line for line in caplog.messages if "docs/gpu.md" in line]
    assert 'tf.device("/cpu:0")' in line


def test_ops_without_a_kernel_for_gpus_are_known() -> None:
    """This TensorFlow has no GPU kernel for the listed updates of rows, and for no others."""
    updates = [name for name in dir(tf.raw_ops) if re.fullmatch("(Resource)?SparseApply.*", name)]
    without = {
        name
        for name in updates
        if not any(
            k.device_type == "GPU" for k in kernels.get_registered_kernels_for_op(name).kernel
        )
    }
    if without == set(updates):
        pytest.skip("this TensorFlow is built without GPUs")
    assert without == devices.CPU_ONLY_UPDATES


def test_the_page_has_every_case() -> None:
    """The table of the page has each case, with its device."""
    text = PAGE.read_text(encoding="utf-8")
    for case, (_, table, native) in CASES.items():
        kernels_word = "kernels" if native else "TensorFlow's ops"
        assert f"| {case} | {table} | {kernels_word} |" in text
