# SPDX-License-Identifier: Apache-2.0
"""Prints how long each folder of tests takes, and compares it with the table in CONTRIBUTING.md.

    python tests/folder_times.py .nox/reports/newest.xml              a folder that doubled is named
    python tests/folder_times.py .nox/reports/{newest,oldest}.xml --write     makes the table anew

The reports are pytest's (`--junitxml`). Another machine is slower or faster in all folders: what
counts is a folder's time against the median of all. On GitHub, failures and folders that doubled
are added to the job's summary. Nothing here fails a run.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import xml.etree.ElementTree as ElementTree
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

PAGE = Path(__file__).resolve().parents[1] / "CONTRIBUTING.md"
BEGIN, END = "<!-- folder times: made by tests/folder_times.py -->\n", "<!-- end -->\n"
# A folder below this many seconds is noise.
LEAST = 10.0


class Folder(NamedTuple):
    """Tests that ran in a folder, and their seconds on one process."""

    tests: int
    seconds: float


def read_report(path: Path) -> tuple[dict[str, Folder], list[str]]:
    """Returns the folders of a JUnit report, and the tests that failed."""
    tests: dict[str, list[float]] = defaultdict(list)
    failed = []
    for case in ElementTree.parse(path).iter("testcase"):
        if case.find("skipped") is not None:
            continue
        module = case.get("classname", "")
        tests[_folder(module)].append(float(case.get("time", 0.0)))
        if case.find("failure") is not None or case.find("error") is not None:
            failed.append(f"{module}.{case.get('name')}")
    return {name: Folder(len(times), sum(times)) for name, times in tests.items()}, failed


def _folder(module: str) -> str:
    """Returns the folder of a module's dotted name: a package, a product, one of the core."""
    parts = [part for part in module.split(".") if not part[:1].isupper()][1:-1]
    levels = 1 if parts[:1] != ["estimator_spec"] else 3 if parts[1:2] == ["core"] else 2
    return "/".join(parts[:levels]) or "(top)"


def table(reports: dict[str, dict[str, Folder]]) -> str:
    """Formats the folders of several reports as a Markdown table, the slowest first."""
    folders = {name for report in reports.values() for name in report}
    total = {name: sum(r[name].seconds for r in reports.values() if name in r) for name in folders}
    rows = [["folder", *(f"{name}: {what}" for name in reports for what in ("tests", "seconds"))]]
    rows.append(["---"] + ["---:"] * 2 * len(reports))
    for name in sorted(folders, key=lambda name: (-total[name], name)):
        found = [report.get(name, Folder(0, 0.0)) for report in reports.values()]
        rows.append([f"`{name}`", *(text for folder in found for text in _cells(folder))])
    sums = [
        (sum(f.tests for f in r.values()), sum(f.seconds for f in r.values()))
        for r in reports.values()
    ]
    rows.append(["all", *(text for each in sums for text in _cells(Folder(*each)))])
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def _cells(folder: Folder) -> list[str]:
    return [str(folder.tests), f"{folder.seconds:.0f}"]


def read_table(text: str) -> dict[str, dict[str, float]]:
    """Returns the seconds of each report's folders in a page."""
    found = re.search(re.escape(BEGIN) + "(.*?)" + re.escape(END), text, re.DOTALL)
    if not found:
        return {}
    head, _, *rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in found[1].splitlines()
        if line
    ]
    names = [cell.removesuffix(": seconds") for cell in head[2::2]]
    return {
        name: {row[0].strip("`"): float(row[2 + 2 * n]) for row in rows if row[0] != "all"}
        for n, name in enumerate(names)
    }


def doubled(now: dict[str, Folder], before: dict[str, float]) -> Iterator[str]:
    """Yields a line for each folder that takes twice its time, the machine's speed aside."""
    ratios = {
        name: folder.seconds / before[name]
        for name, folder in now.items()
        if folder.seconds > LEAST and before.get(name, 0.0) > 0.0
    }
    if not ratios:
        return
    speed = statistics.median(ratios.values())
    for name, ratio in sorted(ratios.items()):
        if ratio >= 2.0 * speed:
            yield (
                f"tests/{name} takes {ratio / speed:.1f} times its time in CONTRIBUTING.md "
                f"({now[name].seconds:.0f} s on this machine; the median folder {speed:.1f} times)"
            )
    for name, folder in sorted(now.items()):
        if name not in before and folder.seconds > LEAST:
            yield f"tests/{name} ({folder.seconds:.0f} s) isn't in CONTRIBUTING.md's table"


def main() -> None:
    """Reads the reports; writes the table, or says what differs from it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("reports", nargs="+", type=Path, help="named by their TensorFlow")
    parser.add_argument("--write", action="store_true", help="write the table into CONTRIBUTING.md")
    options = parser.parse_args()
    read = {path.stem: read_report(path) for path in options.reports}
    folders = {name: found for name, (found, _) in read.items()}
    page = PAGE.read_text(encoding="utf-8")
    if options.write:
        before, _, rest = page.partition(BEGIN)
        PAGE.write_text(
            before + BEGIN + "\n" + table(folders) + "\n" + END + rest.partition(END)[2]
        )
        return
    known = read_table(page)
    lines = [f"FAILED {test}" for _, failed in read.values() for test in failed]
    for name, found in folders.items():
        lines += [f"SLOWER on {name}: {line}" for line in doubled(found, known.get(name, {}))]
    print("\n".join(lines) or "no folder of tests takes twice its time in CONTRIBUTING.md")
    summary = os.environ.get("GITHUB_STEP_SUMMARY")
    if summary:
        with open(summary, "a", encoding="utf-8") as file:
            file.write(f"### {', '.join(read)}\n\n" + "".join(f"- `{line}`\n" for line in lines))
            file.write("\n" + table(folders))


if __name__ == "__main__":
    main()
