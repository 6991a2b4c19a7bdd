# SPDX-License-Identifier: Apache-2.0
"""`migrate --verify`: what the comparison is given, and what it is not."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from estimator_spec.legacy.migrate import verification
from estimator_spec.legacy.migrate.results import Changed


@pytest.mark.parametrize("lost", [False, True])
def test_a_file_outside_of_the_root_is_named(lost, tmp_path, monkeypatch, capsys):
    """A rewritten file that neither run has isn't left out without a word."""
    root = tmp_path / "root"
    root.mkdir()
    (root / "train.py").write_text("new")
    (tmp_path / "other.py").write_text("new")
    changed = [
        Changed(str(path), "old", "new", [])
        for path in (root / "train.py", *([tmp_path / "other.py"] if lost else []))
    ]
    seen = {}

    def run(command, **_):
        programs = [Path(word) for word in command if word.endswith("train.py")]
        seen.update({path.parent.name: path.read_text() for path in programs})
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(verification.subprocess, "run", run)
    assert verification.verify(str(root / "train.py"), changed, str(root)) == 0
    assert seen == {"old": "old", "new": "new"}
    assert ("other.py" in capsys.readouterr().err) == lost
