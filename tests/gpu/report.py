# SPDX-License-Identifier: Apache-2.0
"""Collects the results of tests and benchmarks on a GPU, and writes them as JSON and as a page.

    python tests/gpu/report.py docs/gpu.json docs/gpu.md

writes the page's part between its two marks again.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable
from pathlib import Path
from typing import Any

BEGIN, END = "<!-- what ran: made by tests/gpu/report.py -->", "<!-- end of what ran -->"
SIDES = {
    "gpu-plain": "tables on the GPU, TensorFlow's ops (`plain=True`)",
    "gpu": "tables on the GPU",
    "gpu-cpu-plain": "tables on the CPU, TensorFlow's ops (`plain=True`)",
    "gpu-cpu": "tables on the CPU, kernels",
    "gpu-host": "host core",
}

Facts = dict[str, Any]


def machine() -> Facts:
    """Returns the GPUs and versions of this machine."""
    import tensorflow as tf

    gpus = tf.config.list_physical_devices("GPU")
    names = [tf.config.experimental.get_device_details(gpu).get("device_name") for gpu in gpus]
    query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        driver = subprocess.run(query, capture_output=True, text=True).stdout.strip()
    except OSError:
        driver = ""
    return {
        "gpus": names,
        "driver": driver,
        "tensorflow": tf.__version__,
        "cuda": tf.sysconfig.get_build_info().get("cuda_version", ""),
        "python": sys.version.split()[0],
        "cpus": os.cpu_count(),
    }


def collect(facts: Facts, tests: Iterable[Path], benchmarks: Iterable[Path]) -> Facts:
    """Returns the results.

    Args:
        facts: the result of `machine`.
        tests: JUnit files of pytest.
        benchmarks: results of `benchmarks/training.py`.
    """
    found: Facts = {"machine": facts, "tests": [], "benchmark": []}
    for path in tests:
        for case in ElementTree.parse(path).iter("testcase"):
            failure, skipped = case.find("failure"), case.find("skipped")
            outcome = "passed"
            if failure is not None or case.find("error") is not None:
                outcome = "failed"
            elif skipped is not None:
                outcome = "not run"
            figures = {p.get("name"): p.get("value") for p in case.iter("property")}
            found["tests"].append(
                {"name": case.get("name"), "outcome": outcome, "figures": figures}
            )
    for path in benchmarks:
        for run in json.loads(path.read_text(encoding="utf-8"))["runs"]:
            times = run["figures"].get("ms")
            milliseconds = round(statistics.median(times), 2) if times else None
            row = {"workload": run["workload"], "side": run["side"], "round": run["round"]}
            found["benchmark"].append({**row, "ms": milliseconds, "error": run["error"]})
    return found


def page(found: Facts) -> str:
    """Returns the results as Markdown."""
    facts = found["machine"]
    outcomes = [test["outcome"] for test in found["tests"]]
    counts = ", ".join(f"{outcomes.count(o)} {o}" for o in ("passed", "failed", "not run"))
    lines = [
        f"{', '.join(facts['gpus']) or 'No GPU'}; driver {facts['driver'] or 'none'}; TensorFlow "
        f"{facts['tensorflow']} (built for CUDA {facts['cuda'] or 'none'}), Python "
        f"{facts['python']}, {facts['cpus']} CPUs. Tests: {counts}.",
        "",
        "| test | outcome | figures |",
        "| --- | --- | --- |",
    ]
    for test in sorted(found["tests"], key=lambda test: str(test["name"])):
        figures = "; ".join(f"{name}: {value}" for name, value in test["figures"].items())
        lines.append(f"| `{test['name']}` | {test['outcome']} | {figures} |")
    if found["benchmark"]:
        lines += ["", *_benchmark(found["benchmark"])]
    return "\n".join(lines)


def _benchmark(rows: list[Facts]) -> list[str]:
    """Returns the table of milliseconds a step, with the ratio to TensorFlow's ops on the GPU."""
    times: dict[tuple[str, str], list[float]] = {}
    for row in rows:
        if row["ms"] is not None:
            times.setdefault((row["workload"], row["side"]), []).append(row["ms"])
    medians = {key: statistics.median(values) for key, values in times.items()}
    workloads = list(dict.fromkeys(row["workload"] for row in rows))
    lines = [
        "Milliseconds a step; in brackets the part of the first row's.",
        "",
        f"| | {' | '.join(workloads)} |",
        f"| --- |{' ---: |' * len(workloads)}",
    ]
    for side, title in SIDES.items():
        cells = []
        for workload in workloads:
            own, base = medians.get((workload, side)), medians.get((workload, "gpu-plain"))
            ratio = f" ({own / base:.2f})" if own and base and side != "gpu-plain" else ""
            cells.append(f"{own:.2f}{ratio}" if own else "not run")
        lines.append(f"| {title} | {' | '.join(cells)} |")
    return lines


def write(found: Facts, output: Path) -> None:
    """Writes the results to a directory.

    Args:
        found: the result of `collect`.
        output: gets `gpu.json` and `gpu.md`.
    """
    (output / "gpu.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    (output / "gpu.md").write_text(page(found) + "\n", encoding="utf-8")


def insert(found: Facts, text: str) -> str:
    """Returns a page's text with the part between the marks replaced."""
    before, rest = text.split(BEGIN)
    return f"{before}{BEGIN}\n\n{page(found)}\n\n{END}{rest.split(END)[1]}"


def main() -> None:
    """Writes the part of a page again."""
    results, path = map(Path, sys.argv[1:])
    found = json.loads(results.read_text(encoding="utf-8"))
    path.write_text(insert(found, path.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
