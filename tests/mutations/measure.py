# SPDX-License-Identifier: Apache-2.0
"""Measures what the tests are worth: changes one expression of the source, and runs its tests.

    measure.py map MAP [pytest's arguments]  runs the tests; records which run which line
    measure.py kill MAP [--count 200]        applies mutants, runs the tests of each, and prints
                                             figures and those that survive

mutmut and cosmic-ray, which have such operators, too, can't draw a sample: the first compiles all
mutants of a file (twenty to fifty times its lines) before it runs one, the second starts a new
process with TensorFlow and runs one command for each mutant, whatever its line.

A mutant is killed if a test fails that passes without it. Its tests are those that ran the changed
line, the fastest first, up to a limit of their recorded seconds. They run in a copy of the tree, in
a fork of a process that has imported TensorFlow. `MAP` is a directory.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import mutants
from mutants import Mutant

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("tpu_columns", "estimator_spec")
# Lines instead of branches: a branch of each test would be tens of millions of rows. The processes
# that a test starts know it by pytest's variable.
COVERAGE = """[run]
source =
    tpu_columns
    estimator_spec
patch = subprocess
parallel = true
context = "${PYTEST_CURRENT_TEST-}"
"""
# Exit codes of pytest.
_PASSED, _NO_TESTS = 0, 5


class Outcome(NamedTuple):
    """What became of a mutant: `killed`, `survived` or `not run`; the test that failed if any."""

    status: str
    test: str = ""


def record_map(directory: Path, arguments: list[str]) -> int:
    """Runs pytest with coverage by test; leaves `coverage` and `times.xml` in a directory."""
    directory.mkdir(parents=True, exist_ok=True)
    # coverage removes files whose names begin with that of its data.
    settings = directory.resolve() / "settings.rc"
    settings.write_text(f"{COVERAGE}data_file = {directory.resolve() / 'coverage'}\n")
    options = ["--cov", f"--cov-config={settings}", "--cov-context=test", "--cov-report="]
    options.append(f"--junitxml={directory.resolve() / 'times.xml'}")
    return subprocess.call([sys.executable, "-m", "pytest", *options, *arguments], cwd=ROOT)


class TestMap:
    """Which tests run which line, and how long each takes.

    Args:
        directory: what `record_map` left.
    """

    def __init__(self, directory: Path) -> None:
        import coverage

        self._data = coverage.CoverageData(str(directory / "coverage"))
        self._data.read()
        self._files = {}
        for file in self._data.measured_files():
            found = re.search(rf"/((?:{'|'.join(PACKAGES)})/.*)", file)
            if found:
                self._files[found[1]] = file
        self.seconds = _seconds(directory / "times.xml")
        self._by_file = defaultdict(list)
        for test in self.seconds:
            self._by_file[test.partition("::")[0]].append(test)

    def tests_of(self, path: str, line: int) -> list[str]:
        """Returns the tests that run a line, those first that are sooner done.

        A fixture runs in the first test that needs it: all tests of that file count then. A line
        that runs on import only has the tests that run any line of its file.
        """
        lines = self._data.contexts_by_lineno(self._files[path]) if path in self._files else {}
        # A line that runs on import has a context, too: one without a test.
        found = {_test_and_phase(context) for context in lines.get(line, ())}
        if not any(phase for _, phase in found):
            found = {_test_and_phase(context) for each in lines.values() for context in each}
        tests = set()
        for test, phase in found:
            if test in self.seconds:
                tests.add(test)
                if phase == "setup":
                    tests.update(self._by_file[test.partition("::")[0]])
        return sorted(tests, key=lambda test: (self.seconds[test], test))


def _test_and_phase(context: str) -> tuple[str, str]:
    """Returns test and phase of a context: `static|test|phase`, or `test (phase)` of a process.

    The phase is empty where no test ran.
    """
    found = re.search(r"(tests/\S.*?)(?:\|| \()(setup|run|call|teardown)\)?$", context)
    return (found[1], found[2]) if found else (context, "")


def _seconds(report: Path) -> dict[str, float]:
    """Returns the seconds of each test that passed in a JUnit report, by its id."""
    found = {}
    for case in ElementTree.parse(report).iter("testcase"):
        if case.find("skipped") is not None or case.find("failure") is not None:
            continue
        parts = case.get("classname", "").split(".")
        classes = [part for part in parts if part[:1].isupper()]
        path = "/".join(parts[: len(parts) - len(classes)]) + ".py"
        test = "::".join([path, *classes, case.get("name", "")])
        found[test] = float(case.get("time", 0.0))
    return found


class Runner:
    """A copy of the tree and a process that has imported TensorFlow, which forks to run tests.

    Args:
        home: a directory for the copy.
    """

    def __init__(self, home: Path) -> None:
        self._tree = home / "tree"
        listed = subprocess.check_output(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT
        )
        for name in filter(None, listed.decode().split("\0")):
            if (ROOT / name).exists():
                (self._tree / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, self._tree / name)
        self._log = home / "log"
        self._process = subprocess.Popen(
            [sys.executable, __file__, "serve", str(self._tree)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": str(self._tree), "PYTHONDONTWRITEBYTECODE": "1"},
        )

    def failing_test(self, mutant: Mutant | None, tests: list[str], limit: float) -> str:
        """Runs tests until one fails, and returns it; empty if none does, `timeout` after a limit.

        Args:
            mutant: applied to the copy meanwhile; None for the source as it is.
            tests: their ids.
            limit: seconds.
        """
        if mutant is None:
            return self._run(tests, limit)
        file = self._tree / mutant.path
        before = file.read_bytes()
        try:
            file.write_bytes(mutant.apply(before))
            return self._run(tests, limit)
        finally:
            file.write_bytes(before)

    def close(self) -> None:
        """Ends the process."""
        self._process.communicate()

    def _run(self, tests: list[str], limit: float) -> str:
        request = json.dumps({"tests": tests, "limit": limit, "log": str(self._log)})
        self._process.stdin.write(request + "\n")
        self._process.stdin.flush()
        status = json.loads(self._process.stdout.readline())
        if status is None:
            return "timeout"
        if status in (_PASSED, _NO_TESTS):
            return ""
        found = re.search(
            r"^(?:FAILED|ERROR) (tests/.*?)(?: - .*)?$", self._log.read_text(), re.MULTILINE
        )
        return found[1] if found else f"pytest ended with {status}"


def serve(tree: Path) -> None:
    """Forks a pytest for each request on standard input; answers its exit status, or null."""
    os.chdir(tree)
    answers = os.fdopen(os.dup(1), "w")
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    import pytest
    import tensorflow  # noqa: F401

    for line in sys.stdin:
        request = json.loads(line)
        child = os.fork()
        if child == 0:
            os.setsid()
            log = os.open(request["log"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            for stream in (1, 2):
                os.dup2(log, stream)
            options = ["-x", "-q", "-p", "no:cacheprovider", "-p", "no:rerunfailures", "-rfE"]
            status = pytest.main([*options, "--no-header", "--tb=no", *request["tests"]])
            sys.stdout.flush()
            os._exit(status)
        answers.write(json.dumps(_wait(child, request["limit"])) + "\n")
        answers.flush()


def _wait(child: int, limit: float) -> int | None:
    """Waits for a child; kills it and what it started after a limit, and returns None then."""
    end, status = time.monotonic() + limit, None
    while status is None and time.monotonic() < end:
        found, state = os.waitpid(child, os.WNOHANG)
        if found:
            status = os.waitstatus_to_exitcode(state)
        time.sleep(0.02)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    if status is None:
        os.waitpid(child, 0)
    return status


def measure(
    test_map: TestMap, chosen: list[Mutant], limit: float, processes: int
) -> dict[Mutant, Outcome]:
    """Runs the tests of each mutant, and prints what became of it.

    Args:
        test_map: which tests to run.
        chosen: the mutants.
        limit: recorded seconds of tests for each mutant.
        processes: how many at once.
    """
    with contextlib.ExitStack() as stack:
        runners = []
        for _ in range(processes):
            home = stack.enter_context(tempfile.TemporaryDirectory(prefix="mutants_"))
            runners.append(Runner(Path(home)))
            stack.callback(runners[-1].close)
        pool = stack.enter_context(concurrent.futures.ThreadPoolExecutor(processes))
        idle = list(runners)
        done = 0

        def run(mutant: Mutant) -> Outcome:
            nonlocal done
            runner = idle.pop()
            try:
                outcome = _outcome(runner, test_map, mutant, limit)
            finally:
                idle.append(runner)
            done += 1
            print(f"{done}/{len(chosen)} {outcome.status} {mutant}  {outcome.test}", flush=True)
            return outcome

        return dict(zip(chosen, pool.map(run, chosen), strict=True))


def _outcome(runner: Runner, test_map: TestMap, mutant: Mutant, limit: float) -> Outcome:
    tests, seconds = [], 0.0
    for test in test_map.tests_of(mutant.path, mutant.line):
        seconds += test_map.seconds[test]
        if tests and seconds > limit:
            break
        tests.append(test)
    if not tests:
        return Outcome("not run")
    while tests:
        failed = runner.failing_test(mutant, tests, 60 + 5 * limit)
        if not failed:
            break
        if failed not in tests or not runner.failing_test(None, [failed], 60 + 5 * limit):
            return Outcome("killed", failed)
        tests.remove(failed)  # it fails without the mutant, too: alone, or in a copy of the tree
    return Outcome("survived")


def show(results: dict[Mutant, Outcome]) -> None:
    """Prints the counts, by folder and altogether, and each mutant that survives."""
    by_folder: dict[str, Counter] = defaultdict(Counter)
    for mutant, outcome in results.items():
        by_folder[str(Path(mutant.path).parent)][outcome.status] += 1
        if outcome.status != "killed":
            print(f"{outcome.status}: {mutant}")
    for folder, counts in sorted(by_folder.items()):
        print(f"{folder:40}", *(f"{count:4} {status}" for status, count in counts.most_common()))
    total = sum(by_folder.values(), Counter())
    print(f"{total['killed']} of {total.total()} mutants are killed ({dict(total)}).")


def parse(arguments: Iterable[str] | None = None) -> Any:
    """Parses the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    map_ = commands.add_parser("map", help="run the tests, record which run which line")
    map_.add_argument("map", type=Path)
    map_.add_argument("pytest", nargs=argparse.REMAINDER)
    kill = commands.add_parser("kill", help="run the tests of each mutant")
    kill.add_argument("map", type=Path)
    kill.add_argument("--count", type=int, default=200)
    kill.add_argument("--seed", type=int, default=0)
    kill.add_argument("--limit", type=float, default=60.0, help="seconds of tests a mutant")
    kill.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    serve_ = commands.add_parser("serve")
    serve_.add_argument("tree", type=Path)
    return parser.parse_args(arguments)


def main() -> int:
    """Runs the command."""
    arguments = parse()
    if arguments.command == "map":
        return record_map(arguments.map, arguments.pytest)
    if arguments.command == "serve":
        serve(arguments.tree)
        return 0
    chosen = mutants.sample(ROOT, PACKAGES, arguments.count, arguments.seed)
    show(measure(TestMap(arguments.map), chosen, arguments.limit, arguments.processes))
    return 0


if __name__ == "__main__":
    sys.exit(main())
