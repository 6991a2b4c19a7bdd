# SPDX-License-Identifier: Apache-2.0
"""Reports of a migration: differences, text and JSON."""

from __future__ import annotations

import dataclasses
import difflib
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from estimator_spec.legacy.guide_pages import find_page
from estimator_spec.legacy.migrate.results import Changed, Failed, Finding, Result, Skipped, Subject

GUIDE = "migration_guide.md"


def difference(result: Changed) -> str:
    """Returns the unified difference of a file's source."""
    lines = difflib.unified_diff(
        result.old.splitlines(keepends=True),
        result.new.splitlines(keepends=True),
        f"a/{result.path.lstrip('/')}",
        f"b/{result.path.lstrip('/')}",
    )
    return "".join(
        line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines
    )


def findings_of(result: Result) -> tuple[Finding, ...]:
    """Returns the lines of the report on a file."""
    return () if isinstance(result, Skipped | Failed) else result.findings


def lines(results: Sequence[Result]) -> Iterator[str]:
    """Yields the report as text: a line for each finding, skipped and failed file, and a total."""
    for result in results:
        if isinstance(result, Failed):
            yield f"{result.path}: failed: {result.reason}"
        elif isinstance(result, Skipped):
            yield f"{result.path}: skipped: {result.reason}"
        for finding in findings_of(result):
            place = finding.place(result.path)
            yield (
                f"{place}: {finding.kind.value}: {finding.reason} "
                f"[{finding.rule}, {GUIDE}#{finding.guide}]"
            )
    if any(findings_of(result) for result in results):
        yield f"{GUIDE} is {find_page(GUIDE)}"
    yield total(results)


def total(results: Sequence[Result]) -> str:
    """Returns the counts of a report."""
    counts = Counter(type(result).__name__.lower() for result in results)
    kinds = Counter(finding.kind for result in results for finding in findings_of(result))
    of_files = ", ".join(f"{counts[name]} {name}" for name in ("changed", "unchanged"))
    rest = "".join(f", {counts[name]} {name}" for name in ("skipped", "failed") if counts[name])
    of_kinds = ", ".join(f"{kinds[kind]} {kind.value}" for kind in Subject)
    return f"Files: {of_files}{rest}. Places to look at: {of_kinds}."


def as_json(results: Sequence[Result]) -> str:
    """Returns the report as JSON: a list with an object for each file."""
    return json.dumps([_object(result) for result in results], indent=2)


def _object(result: Result) -> dict[str, Any]:
    entry: dict[str, Any] = {"path": result.path, "result": type(result).__name__.lower()}
    if isinstance(result, Failed | Skipped):
        return {**entry, "reason": result.reason}
    if isinstance(result, Changed):
        entry["rewrites"] = [dataclasses.asdict(rewrite) for rewrite in result.rewrites]
    entry["findings"] = [
        {
            **dataclasses.asdict(finding),
            "kind": finding.kind.value,
            "guide": f"{GUIDE}#{finding.guide}",
        }
        for finding in result.findings
    ]
    return entry
