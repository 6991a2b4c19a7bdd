# SPDX-License-Identifier: Apache-2.0
"""Uses a program of plain PyTorch: it trains on, is written and read again, serves, is exported."""

from __future__ import annotations

import importlib
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np


def use(load: Callable[[Path], Any], directory: Path) -> None:
    """Uses the program of a directory; `load` imports its check.py."""
    check = load(directory)
    values = check.recorded.CheckValues(check.recorded.HERE / "check.npz")
    numbers = values.contents["training"]["batches"][:4]
    check_module_names()
    with tempfile.TemporaryDirectory() as folder:
        train_write_and_read(check, values, numbers, Path(folder))
        export(directory, Path(folder) / "model.onnx")


def check_module_names() -> None:
    """No layer has a name that modules have already."""
    from torch import nn

    source = Path(__file__).parents[2] / "estimator_spec/convert/torch_columns/translation.py"
    text = source.read_text("utf-8")
    own = {name for name in dir(nn.Module()) if not name.startswith("_")}
    missing = [name for name in own if f'"{name}"' not in text]
    assert not missing, f"{source.name} lacks {missing}"


def train_write_and_read(check: Any, values: Any, numbers: list[int], folder: Path) -> None:
    """Trains four steps in one go, and two and two with files between them."""
    steps, columns = check.steps, check.columns
    given = [steps.as_tensors(check.reading.training_batch(*values.batches[n])) for n in numbers]
    model = columns.load_model()
    rules = columns.load_optimizers(model)
    whole = [steps.train_step(model.train(), rules, each).item() for each in given]
    model = columns.load_model()
    rules = columns.load_optimizers(model)
    parts = [steps.train_step(model.train(), rules, each).item() for each in given[:2]]
    state = {key: value.numpy() for key, value in model.state_dict().items()}
    columns.tensors.write(folder / "weights.safetensors", state)
    columns.optimizers.save(folder / "optimizer.safetensors", model, rules)
    columns.WEIGHTS, columns.SLOTS = (
        folder / "weights.safetensors",
        folder / "optimizer.safetensors",
    )
    model = columns.load_model()
    rules = columns.load_optimizers(model)
    parts += [steps.train_step(model.train(), rules, each).item() for each in given[2:]]
    np.testing.assert_array_equal(whole, parts)


def export(directory: Path, path: Path) -> None:
    """Exports to ONNX, which serve.py compares in onnxruntime."""
    if importlib.util.find_spec("onnxscript") is None:
        print("onnxscript isn't installed: the export wasn't tried")
        return
    command = [sys.executable, "-B", str(directory / "serve.py"), "--export", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "equal in onnxruntime" in done.stdout, done.stderr[-3000:]
