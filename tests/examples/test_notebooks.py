# SPDX-License-Identifier: Apache-2.0
"""The notebooks of examples/notebooks run to their end, and print what they have."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = sorted((ROOT / "examples" / "notebooks").glob("*.ipynb"))
MACHINES = ("/home/", "/root/", "/tmp/", "site-packages", "WARNING", "Traceback")


def printed(notebook) -> list[str]:
    """Returns what each code cell prints, without what TensorFlow logs."""
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    return ["".join(output.get("text", "") for output in cell.outputs) for cell in cells]


def without_numbers(notebook) -> list[str]:
    """Returns the printed lines; their numbers depend on the processor and on TensorFlow."""
    return re.sub(r"\d[\d.,]*(e-\d+)?", "#", "\n".join(printed(notebook))).splitlines()


def pictures(notebook) -> list[str]:
    """Returns the plots of a notebook: PNGs in base64."""
    outputs = (output for cell in notebook.cells for output in cell.get("outputs", ()))
    return [each.data["image/png"] for each in outputs if "image/png" in each.get("data", {})]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_committed_with_its_outputs(path):
    """It has plots of at most 60 kB, every cell was run in order, and nothing names a machine."""
    nbformat = pytest.importorskip("nbformat")
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    counts = [cell.execution_count for cell in notebook.cells if cell.cell_type == "code"]
    assert counts == list(range(1, len(counts) + 1))
    assert pictures(notebook) and all(len(each) < 60_000 for each in pictures(notebook))
    text = "".join(printed(notebook))
    assert not [word for word in MACHINES if word in text]
    assert "isn't installed" not in text


@pytest.mark.nightly("a process of Jupyter for each notebook")
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(tmp_path, monkeypatch, path):
    """It prints the lines that were committed, but for numbers, and draws as many plots."""
    nbformat = pytest.importorskip("nbformat")
    pytest.importorskip("nbclient", reason="in the extra `test`")
    pytest.importorskip("ipykernel", reason="in the extra `test`")
    if path.stem == "keras_and_torch":
        pytest.importorskip("keras_rs", reason="the extra keras-rs isn't installed")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    spec = importlib.util.spec_from_file_location("make_notebooks", ROOT / "docs/make_notebooks.py")
    make_notebooks = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(make_notebooks)

    committed, executed = nbformat.read(path, as_version=4), make_notebooks.execute(path)
    make_notebooks.strip(executed)
    assert len(pictures(executed)) == len(pictures(committed))
    lines = set(without_numbers(committed))
    if importlib.util.find_spec("torch") is None:
        lines |= {"torch isn't installed: nothing to compare."}
    assert set(without_numbers(executed)) <= lines
