# SPDX-License-Identifier: Apache-2.0
"""The report of a GPU's tests and benchmark."""

from __future__ import annotations

import json
from pathlib import Path

import report

DOCS = Path(__file__).resolve().parents[2] / "docs"
JUNIT = """<testsuites><testsuite>
<testcase name="test_a"><properties><property name="rows" value="3"/></properties></testcase>
<testcase name="test_b"><skipped message="not run: this machine has no GPU"/></testcase>
<testcase name="test_c"><failure message="no"/></testcase>
</testsuite></testsuites>"""
FACTS = {"gpus": [], "driver": "", "tensorflow": "2", "cuda": "", "python": "3", "cpus": 2}


def test_the_page_is_made_of_the_results() -> None:
    """`docs/gpu.md` has what `docs/gpu.json` says."""
    found = json.loads((DOCS / "gpu.json").read_text(encoding="utf-8"))
    text = (DOCS / "gpu.md").read_text(encoding="utf-8")
    assert report.insert(found, text) == text


def test_what_did_not_run_has_not_passed(tmp_path: Path) -> None:
    """A skipped test is reported as not run, a failed one as failed."""
    path = tmp_path / "tests.xml"
    path.write_text(JUNIT, encoding="utf-8")
    text = report.page(report.collect(FACTS, [path], []))
    assert "No GPU" in text
    assert "1 passed, 1 failed, 1 not run" in text
    assert "| `test_a` | passed | rows: 3 |" in text
    assert "| `test_b` | not run |" in text


def test_a_side_without_a_measurement_is_not_run(tmp_path: Path) -> None:
    """The table has medians of rounds, ratios to the first side, and "not run" for the others."""
    path = tmp_path / "benchmark.json"
    runs = [
        {"workload": "w", "side": side, "round": i, "figures": {"ms": [ms]}, "error": None}
        for i, (side, ms) in enumerate([("gpu-plain", 4.0), ("gpu-cpu", 1.0), ("gpu-cpu", 3.0)])
    ]
    runs.append({"workload": "w", "side": "gpu", "round": 0, "figures": {}, "error": "no memory"})
    path.write_text(json.dumps({"runs": runs}), encoding="utf-8")
    text = report.page(report.collect(FACTS, [], [path]))
    assert "plain=True`) | 4.00 |" in text
    assert "kernels | 2.00 (0.50) |" in text
    assert "| tables on the GPU | not run |" in text
