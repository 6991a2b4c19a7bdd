# SPDX-License-Identifier: Apache-2.0
"""Runs the test files of tensorflow/estimator v2.15.0, unedited, on our packages.

    python tests/reference_suites/suites.py CHECKOUT                 all files
    python tests/reference_suites/suites.py CHECKOUT head/ gc_test   those with such a path
    python tests/reference_suites/suites.py CHECKOUT --list          runs nothing
    python tests/reference_suites/suites.py CHECKOUT --results DIR   keeps outcomes in a directory
    python tests/reference_suites/suites.py CHECKOUT --write         makes the page of docs anew

A file runs as by `python -m estimator_spec run --cpu replicas FILE`, in a process of its own. The
command fails if a test fails that `expected_failures/` doesn't list, or if one passes that it does.
With `--results DIR` a file whose outcomes are there isn't run again.
"""

from __future__ import annotations

import argparse
import ast
import concurrent.futures
import contextlib
import functools
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple, TextIO

import expected

ROOT = Path(__file__).resolve().parents[2]
FOLDER = Path("tensorflow_estimator", "python", "estimator")
ONE_FILE = Path(__file__).resolve().with_name("one_file.py")
SECONDS = 90  # of one test; also until the first one begins
ENDLESS_SECONDS = 10  # of a test whose input has no end, as `expected_failures/` says
_IS_TEST = re.compile(r"_test(_\w+)?\.py$")


class Outcome(NamedTuple):
    """What became of a test.

    Attributes:
        outcome: 'passed', 'failed' or 'skipped'.
        error: of a failure.
    """

    outcome: str
    error: str = ""


Outcomes = dict[str, Outcome]  # by CLASS.TEST


def find(checkout: Path, wanted: Sequence[str] = ()) -> list[Path]:
    """Returns the test files of a checkout, the smallest first, as paths in `FOLDER`.

    Args:
        checkout: directory of the checkout.
        wanted: parts of the paths to return; empty: all of them.
    """
    folder = checkout / FOLDER
    paths = (path for path in folder.rglob("*.py") if _IS_TEST.search(path.name))
    sizes = {path.relative_to(folder): path.stat().st_size for path in paths}
    chosen = [path for path in sizes if not wanted or any(part in str(path) for part in wanted)]
    return sorted(chosen, key=lambda path: (sizes[path], path))


def run(file: Path, reference: str | None = None) -> Outcomes:
    """Runs a test file; the tests that TensorFlow 2's behaviour skips once more, without it.

    Args:
        file: path of the file.
        reference: a Python with TensorFlow 2.15, to run the file on its Estimator; None: ours.
    """
    options = ["--reference"] if reference else []
    python = reference or sys.executable
    outcomes = _run_tests(python, file, [], options)
    skipped = [
        name
        for name, each in outcomes.items()
        if each.outcome == "skipped" and not name.endswith(".test_session")  # of each class
    ]
    if skipped:
        outcomes |= _run_tests(python, file, skipped, [*options, "--v1"])
    return outcomes


def _run_tests(python: str, file: Path, names: Sequence[str], options: Sequence[str]) -> Outcomes:
    """Runs some tests of a file, none: all; again without those that ended the process."""
    outcomes: Outcomes = {}
    remaining = [*names]
    while True:
        listed, events, ended = _run_process(python, file, remaining, options)
        before = len(outcomes)
        for event in events:
            name, outcome = event["test"], event["outcome"]
            if outcome == "begun":
                outcomes[name] = Outcome("failed", ended)
            elif name not in outcomes or outcomes[name].error in (
                "",
                ended,
            ):  # a subtest may have failed before
                outcomes[name] = Outcome(outcome, event["error"])
        if not outcomes and not listed:  # it can't be imported
            names = names or _names_in_source(file)
            return dict.fromkeys(names, Outcome("failed", ended))
        remaining = [name for name in listed if name not in outcomes]
        if not remaining or len(outcomes) == before:
            return outcomes | dict.fromkeys(remaining, Outcome("failed", ended))


def _run_process(
    python: str, file: Path, names: Sequence[str], options: Sequence[str]
) -> tuple[list[str], list[dict[str, str]], str]:
    """Runs tests of a file in a process; returns their names, the events and how it ended."""
    with tempfile.TemporaryDirectory(prefix="reference_suites_", ignore_cleanup_errors=True) as at:
        report = Path(at, "report")
        environment = {**os.environ, "TMPDIR": at, "TF_CPP_MIN_LOG_LEVEL": "3"}
        environment["NPY_PROMOTION_STATE"] = "legacy"  # the tests are of NumPy 1
        for name in ("TF_USE_LEGACY_KERAS", "TF_CONFIG", "PYTHONPATH"):
            environment.pop(name, None)
        command = [python, str(ONE_FILE), str(report), *options, str(file), *names]
        with open(Path(at, "log"), "w+", encoding="utf-8", errors="replace") as log:
            ended = _call(command, at, environment, log, report)
            log.seek(0)
            ended += ":\n" + log.read()[-2000:]
        lines = report.read_text("utf-8").splitlines() if report.exists() else []
    # The last line may be torn.
    events = [json.loads(line) for line in lines if line.endswith("}")]
    listed = [event["tests"] for event in events if "tests" in event]
    return (listed[0] if listed else []), [each for each in events if "test" in each], ended


def _call(
    command: Sequence[str], folder: str, environment: dict[str, str], log: TextIO, report: Path
) -> str:
    """Runs a command while its report grows, ends all it has started, and says how it ended."""
    process = subprocess.Popen(
        command, cwd=folder, env=environment, stdout=log, stderr=log, start_new_session=True
    )
    endless = expected.endless()
    size, since, limit = -1, time.monotonic(), SECONDS
    try:
        while True:
            with contextlib.suppress(subprocess.TimeoutExpired):
                return f"the process ended with status {process.wait(1)}"
            now = report.stat().st_size if report.exists() else 0
            if now != size:
                size, since = now, time.monotonic()
                is_endless = now and _begun_last(report) in endless
                limit = ENDLESS_SECONDS if is_endless else SECONDS
            elif time.monotonic() > since + limit:
                return f"not done within {limit} seconds"
    finally:
        # The group: a test may have started servers.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _begun_last(report: Path) -> str:
    """Returns the test that a report's last line begins; '' for another line, or a torn one."""
    line = report.read_text("utf-8").rpartition("\n")[0].rpartition("\n")[2]
    event = json.loads(line) if line else {}
    return event["test"] if event.get("outcome") == "begun" else ""


def _names_in_source(file: Path) -> list[str]:
    """Returns the tests that a file defines, for one that can't be imported."""
    classes = [
        node for node in ast.parse(file.read_text("utf-8")).body if isinstance(node, ast.ClassDef)
    ]
    return [
        f"{each.name}.{node.name}"
        for each in classes
        for node in each.body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test")
    ]


def run_all(
    checkout: Path, files: Iterable[Path], results: Path, jobs: int, reference: str | None
) -> dict[str, Outcomes]:
    """Runs files side by side, but for those whose outcomes are in `results`; prints each."""
    done: dict[str, Outcomes] = {}
    started = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        futures = {}
        for file in files:
            kept = results / (str(file).replace(os.sep, ".") + ".json")
            work = functools.partial(_run_or_read, checkout / FOLDER / file, kept, reference)
            futures[pool.submit(work)] = file.as_posix()
        for future in concurrent.futures.as_completed(futures):
            name = futures[future]
            done[name] = future.result()
            passed = sum(each.outcome == "passed" for each in done[name].values())
            failed = sum(each.outcome == "failed" for each in done[name].values())
            seconds = time.monotonic() - started
            count = f"{len(done)} of {len(futures)}"
            print(
                f"{seconds:5.0f} s, {count}: {name}: {passed} passed, {failed} failed", flush=True
            )
    return dict(sorted(done.items()))


def _run_or_read(file: Path, kept: Path, reference: str | None) -> Outcomes:
    if kept.exists():
        read = json.loads(kept.read_text("utf-8"))
        return {name: Outcome(*outcome) for name, outcome in read.items()}
    outcomes = run(file, reference)
    unfinished = kept.with_suffix(".unfinished")
    unfinished.write_text(json.dumps(outcomes, indent=1), "utf-8")
    unfinished.rename(kept)
    return outcomes


def main(arguments: Sequence[str]) -> int:
    """Runs the command; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("checkout", metavar="CHECKOUT", type=Path)
    parser.add_argument("files", nargs="*", metavar="FILE", help="part of a test file's path")
    parser.add_argument("--list", action="store_true", help="list the files and run nothing")
    parser.add_argument("--results", type=Path, metavar="DIR", help="keep outcomes here")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--write", action="store_true", help=f"write {expected.PAGE.name}")
    parser.add_argument("--reference", metavar="PYTHON", help="run on TensorFlow 2.15's Estimator")
    parsed = parser.parse_args(arguments)
    checkout = parsed.checkout.resolve()  # a file runs in a directory of its own
    files = find(checkout, parsed.files)
    if not files:
        parser.error(
            f"no test file of {parsed.files or 'tensorflow/estimator'} is in {parsed.checkout}"
        )
    if parsed.write and parsed.files:
        parser.error("--write is for all files: the page counts them")
    if parsed.list:
        print(*(file.as_posix() for file in files), sep="\n")
        return 0
    with tempfile.TemporaryDirectory() as temporary:
        results = parsed.results or Path(temporary)
        results.mkdir(parents=True, exist_ok=True)
        outcomes = run_all(checkout, files, results, parsed.jobs, parsed.reference)
    if parsed.reference:
        return 0
    if parsed.write:
        expected.write_page(outcomes)
    problems = expected.problems(outcomes)
    print(*problems, expected.summary(outcomes), sep="\n")
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
