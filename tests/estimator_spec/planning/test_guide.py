# SPDX-License-Identifier: Apache-2.0
"""docs/plan.md and docs/cluster_size.md: commands of `plan` print what the pages show."""

from __future__ import annotations

import re
import runpy
import shlex
from pathlib import Path

import pytest

from estimator_spec import __main__ as command_line
from estimator_spec import planning

ROOT = Path(__file__).resolve().parents[3]
TEXT = (ROOT / "docs" / "plan.md").read_text(encoding="utf-8")
CLUSTER = (ROOT / "docs" / "cluster_size.md").read_text(encoding="utf-8")
SHOWN = re.findall(
    r"^```bash\n([^`]* plan [^`]*)\n```\n\n```text\n(.*?)\n```",
    TEXT + CLUSTER,
    re.DOTALL | re.MULTILINE,
)


def test_there_are_commands():
    """The test below has something to run, and no block is without its output."""
    assert len(SHOWN) == TEXT.count("```bash") + 1 == 4


@pytest.mark.parametrize(("command", "shown"), SHOWN, ids=range(len(SHOWN)))
def test_output_is_current(command, shown, monkeypatch, capsys):
    """A command prints the lines below it, in order; … stands for lines that are left out."""
    monkeypatch.chdir(ROOT)
    words = shlex.split(command)
    assert words[:4] == ["python", "-m", "estimator_spec", "plan"]
    assert command_line.main(words[3:]) in (0, 1)
    lines = capsys.readouterr().out.splitlines()
    for part in re.split(r"^…$", shown, flags=re.MULTILINE):
        wanted = part.strip("\n").splitlines()
        places = [n for n in range(len(lines)) if lines[n : n + len(wanted)] == wanted]
        assert places, f"not printed after what is above it:\n{part}"
        lines = lines[places[0] + len(wanted) :]


def test_the_python_block_runs():
    """The block in Python plans the example's spec, and refuses it."""
    (block,) = re.findall(r"^```python\n(.*?)^```", TEXT, re.DOTALL | re.MULTILINE)
    names = {"spec": runpy.run_path(str(ROOT / "examples" / "plan_dlrm.py"))["spec"]}
    with pytest.raises(planning.PlanError, match="serving memory"):
        exec(compile(block, "plan.md", "exec"), names)
    exec(compile(block.replace("plan.check()", ""), "plan.md", "exec"), names)
    assert names["plan"].estimate.use(planning.Place.CORES).fits
