# SPDX-License-Identifier: Apache-2.0
"""Examples of the migration guide's "Moving on"."""

from __future__ import annotations

import importlib.util
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

GUIDE = Path(__file__).resolve().parents[3] / "migration_guide.md"


def blocks():
    """Returns (heading, program) of each example in order."""
    text = GUIDE.read_text(encoding="utf-8")
    section = text.split("\n## Moving on\n", 1)[1].split("\n## ", 1)[0]
    found = []
    for part in section.split("\n### ")[1:]:
        heading = part.splitlines()[0]
        found += [(heading, block) for block in re.findall(r"```python\n(.*?)```", part, re.DOTALL)]
    return found


@pytest.mark.slow
def test_the_examples_run_in_order(tools, tmp_path, monkeypatch, capsys):
    """The examples run in order, with a checkpoint of the old program."""
    tables = {"words": np.random.RandomState(0).normal(size=(1000, 16)).astype(np.float32)}
    written = Path(tools.write_checkpoint(str(tmp_path / "model.ckpt-7"), tables))
    (tmp_path / "model_dir").mkdir()
    for file in written.parent.glob("model.ckpt-7*"):
        shutil.move(file, tmp_path / "model_dir" / file.name)
    (tmp_path / "model_dir" / "checkpoint").write_text('model_checkpoint_path: "model.ckpt-7"\n')
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "guide"}
    ran = []
    for heading, program in blocks():
        if "Keras" in heading and importlib.util.find_spec("keras_rs") is None:
            continue
        exec(compile(program, heading, "exec"), names)
        ran.append(heading)
    assert len(ran) >= 3
    assert capsys.readouterr().out
