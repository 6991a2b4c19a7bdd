# SPDX-License-Identifier: Apache-2.0
"""Runs one test file in this process as `estimator_spec run` does, and writes each test's outcome.

    python one_file.py REPORT [--reference] [--v1] TEST.py [CLASS.TEST ...]

REPORT gets a line of JSON for each event, as it happens, so that a crash or a time limit loses one
test and not the file. The first is the list of the file's tests. `--reference` runs the file on the
Estimator that TensorFlow 2.15 has, instead of ours; `--v1` without TensorFlow 2's behaviour, for
tests that skip under it.
"""

from __future__ import annotations

import functools
import json
import resource
import runpy
import sys
import traceback
import unittest
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TextIO

ROOT = Path(__file__).resolve().parents[2]
MEMORY = 6 * 2**30
_OUTCOMES = {
    "addSuccess": "passed",
    "addExpectedFailure": "passed",
    "addSkip": "skipped",
    "addFailure": "failed",
    "addError": "failed",
    "addUnexpectedSuccess": "failed",
}


def main(arguments: list[str]) -> None:
    """Runs the file; the process ends with the status of its `main()`."""
    # A test that asks for more fails alone.
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    path, *rest = arguments
    options = {each for each in rest if each in ("--reference", "--v1")}
    test, *names = rest[len(options) :]
    # Open until the process ends, however it does.
    report(open(path, "w", encoding="utf-8"))  # noqa: SIM115
    if "--v1" in options:
        import tensorflow as tf

        tf.compat.v1.disable_v2_behavior()
    if "--reference" in options:
        sys.argv = [test, *names]
        sys.path[0] = str(Path(test).parent)
        runpy.run_path(test, run_name="__main__")
        return
    sys.path.insert(1, str(ROOT))  # `run` replaces the first one
    import repointing
    from estimator_spec.legacy import run

    repointing.install(Path(test))
    # Its system has as many cores; the default of most files is 8.
    cores = ["--test_num_shards=2"] if "'test_num_shards'" in Path(test).read_text("utf-8") else []
    run.main(["--cpu", "replicas", test, *cores, *names])


def report(file: TextIO) -> None:
    """Makes unittest write its list of tests and their outcomes to a file."""

    def write(**event: object) -> None:
        file.write(json.dumps(event) + "\n")
        file.flush()

    def wrap(owner: type, name: str, before: Callable[..., None]) -> None:
        method = getattr(owner, name)

        @functools.wraps(method)
        def call(self: Any, *args: Any, **kwargs: Any) -> Any:
            before(*args)
            return method(self, *args, **kwargs)

        setattr(owner, name, call)

    def finish(outcome: str, test: unittest.TestCase, detail: Any = None, *_: Any) -> None:
        error = ""
        if isinstance(detail, tuple) and outcome == "failed":
            error = "".join(traceback.format_exception(*detail))
        write(test=name_of(test), outcome=outcome, error=error)

    def add_subtest(test: unittest.TestCase, subtest: unittest.TestCase, error: Any) -> None:
        if error is not None:
            finish("failed", test, error)

    wrap(unittest.TextTestRunner, "run", lambda suite: write(tests=[*map(name_of, flat(suite))]))
    wrap(unittest.TestResult, "startTest", lambda test: write(test=name_of(test), outcome="begun"))
    wrap(unittest.TestResult, "addSubTest", add_subtest)
    for method, outcome in _OUTCOMES.items():
        wrap(unittest.TestResult, method, functools.partial(finish, outcome))


def flat(suite: Any) -> Iterator[unittest.TestCase]:
    """Yields the tests of a suite of suites."""
    for each in suite if isinstance(suite, unittest.TestSuite) else ():
        yield from flat(each)
    if isinstance(suite, unittest.TestCase):
        yield suite


def name_of(test: unittest.TestCase) -> str:
    """Returns `CLASS.TEST`; of a class or module that failed as a whole, its own name."""
    # absl replaces id() by one that may have the parameters, too.
    name = getattr(test, "_testMethodName", None)
    return f"{type(test).__qualname__}.{name}" if name else str(test)


if __name__ == "__main__":
    main(sys.argv[1:])
