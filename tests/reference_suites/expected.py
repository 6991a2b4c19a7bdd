# SPDX-License-Identifier: Apache-2.0
"""The lists of tests that are expected to fail, and the page that counts all of them.

A list is a file of `expected_failures/`, whose name is the reason. A line is `FILE CLASS.TEST`, and
may say more after `#`: `endless` if the test waits for an error while its input goes on for ever.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
LISTS = Path(__file__).resolve().with_name("expected_failures")
PAGE = ROOT / "docs" / "reference_suites.md"
BEGIN, END = "<!-- suites: made by tests/reference_suites/suites.py -->\n", "<!-- end -->\n"

# File of `LISTS`, and its reason.
REASONS = {
    "private_name": "uses a private name of the Estimator's or TensorFlow's modules",
    "message": "matches the text of a message",
    "tpu": "needs a TPU",
    "works_here": "expects an error, and works here",
    "ours": "ours",
}
# Rows of the page, and the reasons that each leaves out.
ROWS: dict[str, tuple[str, ...]] = {
    "all": (),
    "without private names": ("private_name",),
    "without private names and TPUs": ("private_name", "tpu"),
}
_Outcomes = Mapping[str, Mapping[str, Any]]


def read() -> dict[str, str]:
    """Returns the reason of each listed test, by `FILE CLASS.TEST`.

    Raises:
        ValueError: a test is listed twice, or a file's name is no reason.
    """
    found: dict[str, str] = {}
    for path in sorted(LISTS.glob("*.txt")):
        if path.stem not in REASONS:
            raise ValueError(f"{path} isn't one of {', '.join(REASONS)}")
        for line in path.read_text("utf-8").splitlines():
            name = line.partition("#")[0].strip()
            if name in found:
                raise ValueError(f"{name} is listed in {found[name]}.txt and in {path.name}")
            if name:
                found[name] = path.stem
    return found


def endless() -> set[str]:
    """Returns the tests, by `CLASS.TEST`, that don't end where they don't find their error."""
    lines = [line for path in LISTS.glob("*.txt") for line in path.read_text("utf-8").splitlines()]
    return {line.split()[1] for line in lines if line.partition("#")[2].strip() == "endless"}


def problems(outcomes: _Outcomes) -> list[str]:
    """Returns a line for each difference between the lists and what became of the tests."""
    listed = read()
    found = []
    for file, tests in outcomes.items():
        for test, (outcome, error) in tests.items():
            name = f"{file} {test}"
            if outcome == "failed" and name not in listed:
                last = error.strip().splitlines()[-1:] or [""]
                found.append(f"fails and isn't listed: {name}: {last[0][:200]}")
            elif outcome != "failed" and name in listed:
                found.append(f"{outcome}, and is in {listed[name]}.txt: {name}")
        gone = {name for name in listed if name.split()[0] == file}
        gone -= {f"{file} {test}" for test in tests}
        found += [f"doesn't exist, and is in {listed[name]}.txt: {name}" for name in sorted(gone)]
    return found


def count(outcomes: _Outcomes) -> tuple[Counter[str], dict[str, Counter[str]]]:
    """Returns how many tests passed, failed for each reason and were skipped: all, and by file."""
    listed = read()
    by_file = {
        file: Counter(
            listed.get(f"{file} {test}", "ours") if outcome == "failed" else outcome
            for test, (outcome, _) in tests.items()
        )
        for file, tests in outcomes.items()
    }
    return sum(by_file.values(), Counter()), by_file


def share(counts: Counter[str], *without: str) -> str:
    """Returns the percentage of tests that pass, of those that don't fail for some reasons."""
    of = counts["passed"] + sum(counts[reason] for reason in REASONS if reason not in without)
    return f"{100 * counts['passed'] / of:.1f} %" if of else "–"


def summary(outcomes: _Outcomes) -> str:
    """Returns a line with the totals."""
    counts, by_file = count(outcomes)
    run = counts.total() - counts["skipped"]
    reasons = ", ".join(f"{reason} {counts[reason]}" for reason in REASONS)
    return (
        f"{len(by_file)} files: {counts['passed']} of {run} tests pass ({share(counts)}); without "
        f"private names {share(counts, 'private_name')}, and without those that need a TPU "
        f"{share(counts, 'private_name', 'tpu')}. Failures: {reasons}"
    )


def page(outcomes: _Outcomes) -> str:
    """Returns the page's tables."""
    counts, by_file = count(outcomes)
    lines = ["| tests | number | pass | share |", "|---|---:|---:|---:|"]
    for name, without in ROWS.items():
        number = counts["passed"] + sum(counts[each] for each in REASONS if each not in without)
        lines.append(f"| {name} | {number} | {counts['passed']} | {share(counts, *without)} |")
    lines += [
        "",
        "| a failing test | number |",
        "|---|---:|",
        *(f"| {text} | {counts[reason]} |" for reason, text in REASONS.items()),
        "",
        "| file | pass | private name | message | TPU | works here | ours |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for file, each in by_file.items():
        cells = [each["passed"], *(each[reason] for reason in REASONS)]
        lines.append(f"| `{file}` | " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines) + "\n"


def write_page(outcomes: _Outcomes) -> None:
    """Replaces the tables of the page."""
    before, _, rest = PAGE.read_text("utf-8").partition(BEGIN)
    after = rest.partition(END)[2]
    PAGE.write_text(f"{before}{BEGIN}\n{page(outcomes)}\n{END}{after}", "utf-8")
