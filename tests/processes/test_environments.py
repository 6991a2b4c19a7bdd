# SPDX-License-Identifier: Apache-2.0
"""The quick start in environments that lack something."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
QUICKSTART = ROOT / "examples" / "quickstart.py"
PRINTED = "AUC 1.0\ntable (100, 8)\n"
# /proc can't be written, not even by root.
ENVIRONMENTS = {
    "no_variables": {},
    "read_only_home": {"HOME": "/proc", "PATH": os.defpath},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_the_quickstart(tmp_path, name):
    """The program trains, and nothing fails on the way."""
    env = {"PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path), **ENVIRONMENTS[name]}
    done = subprocess.run(
        [sys.executable, str(QUICKSTART)], capture_output=True, text=True, env=env, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == PRINTED
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_the_quickstart_without_tf_keras(tmp_path):
    """The program uses no Keras, and runs where tf_keras isn't installed."""
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules['tf_keras'] = None\n")
    path = os.pathsep.join((str(tmp_path), str(ROOT)))
    env = {**os.environ, "PYTHONPATH": path, "TMPDIR": str(tmp_path)}
    env.pop("TF_USE_LEGACY_KERAS", None)
    done = subprocess.run(
        [sys.executable, str(QUICKSTART)], capture_output=True, text=True, env=env, cwd=tmp_path
    )
    assert (done.returncode, done.stdout) == (0, PRINTED), done.stderr


@pytest.mark.slow
def test_the_quickstart_in_a_notebook(tmp_path, monkeypatch):
    """A cell with the program runs twice in Jupyter, as readers of a notebook do."""
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient", reason="in the extra `test`")
    pytest.importorskip("ipykernel", reason="in the extra `test`")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    source = QUICKSTART.read_text(encoding="utf-8")
    cells = [nbformat.v4.new_code_cell(source) for _ in range(2)]
    notebook = nbformat.v4.new_notebook(cells=cells)
    nbclient.NotebookClient(notebook, timeout=600, kernel_name="python3").execute()
    for cell in notebook.cells:
        # Jupyter shows TensorFlow's log among what the program prints.
        text = "".join(output.get("text", "") for output in cell.outputs)
        assert all(line in text for line in PRINTED.splitlines(keepends=True)), text
