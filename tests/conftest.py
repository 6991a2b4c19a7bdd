# SPDX-License-Identifier: Apache-2.0
"""Settings before TensorFlow is imported, and what several folders of tests share."""

from __future__ import annotations

import contextlib
import gc
import importlib.util
import os
import sys
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import filelock
import pytest
from hypothesis import settings

import goldens
import tiers

Fill = Callable[[Path], None]


def _tensorflow_version() -> str:
    """Returns the version of the distribution that provides TensorFlow, without importing it."""
    for name in ("tensorflow", "tensorflow-cpu", "tf-nightly"):
        with contextlib.suppress(PackageNotFoundError):
            return version(name)
    raise PackageNotFoundError("tensorflow")


TENSORFLOW = _tensorflow_version()

# Graph-mode model functions need Keras 2, which TensorFlow includes up to 2.15.
if tuple(map(int, TENSORFLOW.split(".")[:2])) >= (2, 16):
    os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

# No deadline: the first example builds a graph, and the machine may be busy. Properties without a
# number of their own have hypothesis' 100 examples at night, and fewer with each change.
settings.register_profile(
    "patient",
    parent=settings.default,
    deadline=None,
    max_examples=100 if goldens.all_are_live() else 40,
)
settings.load_profile("patient")

REFERENCE = "TPU_COLUMNS_REFERENCE_PYTHON"


@pytest.hookimpl(tryfirst=True)  # before the option -m is applied
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Marks tests by `tiers`; lets those marked `timing` run again after a failure."""
    nightly = [(entry, reason) for reason, entries in tiers.NIGHTLY.items() for entry in entries]
    tests = {item: _id_in_tests(item) for item in items}
    for item, test in tests.items():
        if any(tiers.matches(test, entry) for entry in tiers.VERSIONED):
            item.add_marker("versioned")
        for entry, reason in nightly:
            if tiers.matches(test, entry):
                item.add_marker(pytest.mark.nightly(reason))
    if config.args_source is config.ArgsSource.TESTPATHS:  # of all tests
        entries = [*tiers.VERSIONED, *(entry for entry, _ in nightly)]
        unused = tiers.unused(tests.values(), entries)
        if unused:
            raise pytest.UsageError(f"tests/tiers/tiers.py lists tests that aren't there: {unused}")
    if not config.pluginmanager.hasplugin("rerunfailures"):  # -p no:rerunfailures
        return
    for item in items:
        if item.get_closest_marker("timing"):
            item.add_marker(pytest.mark.flaky(reruns=2))


def pytest_collection_finish() -> None:
    """Keeps the garbage collector from what was imported, a million objects of TensorFlow.

    It takes a tenth of the tests' time otherwise.
    """
    gc.collect()
    gc.freeze()


def _id_in_tests(item: pytest.Item) -> str:
    """Returns the id of a test, relative to this folder."""
    path = item.path.relative_to(Path(__file__).parent).as_posix()
    return "::".join([path, *item.nodeid.split("::")[1:]])


@pytest.fixture(scope="session")
def found_reference_python() -> str | None:
    """Returns the interpreter with TensorFlow 2.15.1 and its Estimator, named or this, or None."""
    named = os.environ.get(REFERENCE)
    if named:
        assert os.access(named, os.X_OK), f"{REFERENCE}={named} isn't an executable file."
        return named
    if importlib.util.find_spec("tensorflow_estimator") and TENSORFLOW.startswith("2.15."):
        return sys.executable
    return None


@pytest.fixture(scope="session")
def reference_python(found_reference_python: str | None) -> str:
    """Returns the interpreter with TensorFlow 2.15.1 and its Estimator; without one, skips."""
    return found_reference_python or pytest.skip(
        f"no reference: set {REFERENCE} to a python with TensorFlow 2.15.1 "
        "(pip install tensorflow==2.15.1 'numpy<2' on Python 3.10 or 3.11)"
    )


@pytest.fixture(scope="session")
def built_kernels() -> Any:
    """Returns the module of the C++ ops; skips if none are built for this TensorFlow."""
    # Imported here, after the settings above.
    from tpu_columns.kernels import libraries, loading

    return loading.load() or pytest.skip(f"no kernels are built: {libraries.COMMAND}")


@pytest.fixture(scope="session")
def run_once(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, Fill], Path]:
    """Returns a function that fills a directory once for all processes of pytest.

    It takes a name and the function that fills the directory, and returns the directory. Where
    that failed, each process gets the failure.
    """
    shared = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent

    def run(name: str, fill: Fill) -> Path:
        directory, failure = shared / name, shared / f"{name}.failed"
        with filelock.FileLock(shared / f"{name}.lock"):
            if not directory.exists():
                directory.mkdir()
                try:
                    fill(directory)
                except BaseException as error:  # pytest.fail raises one
                    failure.write_text(str(error))
                    raise
        if failure.exists():
            pytest.fail(failure.read_text())
        return directory

    return run


@pytest.fixture(scope="session")
def tolerance() -> float:
    """Returns the relative tolerance of two versions' kernels."""
    return 1e-5 if TENSORFLOW.startswith("2.15.") else 1e-4
