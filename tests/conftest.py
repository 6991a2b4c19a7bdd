# SPDX-License-Identifier: Apache-2.0
"""Settings before TensorFlow is imported, and what several folders of tests share."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import sys
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import filelock
import pytest
from hypothesis import settings

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

# No deadline: the first example builds a graph, and the machine may be busy.
settings.register_profile("patient", parent=settings.default, deadline=None)
settings.load_profile("patient")

REFERENCE = "TPU_COLUMNS_REFERENCE_PYTHON"

# Tests of code that calls little or nothing of TensorFlow, and slow ones of what is the same on all
# versions. One run of CI, that with the newest TensorFlow, has them (`any_version`).
_ANY_VERSION = (
    "benchmarks",
    "estimator_spec/cluster/test_faults.py",
    "estimator_spec/cluster/test_launch.py",
    "estimator_spec/cluster/test_models.py",
    "estimator_spec/compare",
    "estimator_spec/driver/test_reproducible.py",
    "estimator_spec/driver/test_tf1_shapes.py",
    "estimator_spec/legacy/doctor",
    "estimator_spec/migrate",
    "estimator_spec/planning",
    "estimator_spec/common/test_html_page.py",
    "examples/test_census_rewritten.py",
    "examples/test_wide_deep.py",
    "goldens",
    "hostile/test_damage.py",
    "hostile/test_full_disk.py",
    "hostile/test_kills.py",
    "reference/test_compare.py",
    "reference/test_heads.py",
    "reference/test_mirrored.py",
    "reference/test_nan_rows.py",
    "test_architecture.py",
    "test_routing_page.py",
    "test_site.py",
    "walkthrough",
)


@pytest.hookimpl(tryfirst=True)  # before the option -m is applied
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Marks the tests of `_ANY_VERSION`; lets those marked `timing` run again after a failure."""
    directories = [Path(__file__).parent / name for name in _ANY_VERSION]
    for item in items:
        if any(item.path.is_relative_to(each) for each in directories):
            item.add_marker("any_version")
    if not config.pluginmanager.hasplugin("rerunfailures"):  # -p no:rerunfailures
        return
    for item in items:
        if item.get_closest_marker("timing"):
            item.add_marker(pytest.mark.flaky(reruns=2))


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
