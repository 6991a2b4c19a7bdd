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

# What TensorFlow's version can change: how its columns, ops, optimizers, Keras and SavedModels
# behave. With each change, the oldest TensorFlow runs these tests only (marker `versioned`). What
# isn't here is arithmetic, text or files, or calls the same ops as one of these.
_VERSIONED = (
    "tpu_columns",
    "estimator_spec/canned/test_linear_model.py",
    "estimator_spec/checkpoints/test_objects.py",
    "estimator_spec/checkpoints/test_slots.py",
    "estimator_spec/cluster/test_cluster_training.py",
    "estimator_spec/convert/test_config_proto.py",
    "estimator_spec/convert/test_mid_level.py",
    "estimator_spec/convert/test_serving.py",
    "estimator_spec/cores",
    "estimator_spec/driver/test_against_tf_estimator.py",
    "estimator_spec/driver/test_core_dlrm.py",
    "estimator_spec/driver/test_device_loop.py",
    "estimator_spec/driver/test_export.py",
    "estimator_spec/driver/test_hookless_steps.py",
    "estimator_spec/driver/test_input_layers.py",
    "estimator_spec/driver/test_keras.py",
    "estimator_spec/driver/test_on_a_tpu.py",
    "estimator_spec/driver/test_plain_estimator.py",
    "estimator_spec/driver/test_routing.py",
    "estimator_spec/driver/test_serving.py",
    "estimator_spec/driver/test_stacked_tables.py",
    "estimator_spec/driver/test_tpu_estimator.py",
    "estimator_spec/driver/test_warm_start.py",
    "estimator_spec/export",
    "estimator_spec/heads",
    "estimator_spec/keras_models",
    "estimator_spec/legacy/test_installation.py",
    "estimator_spec/legacy/test_tpu_stand_ins.py",
    "estimator_spec/updates/test_dependencies.py",
    "estimator_spec/updates/test_native_ops.py",
    "estimator_spec/updates/test_updates.py",
    "estimator_spec/user_functions/test_arrays.py",
    "estimator_spec/user_functions/test_model_spec.py",
    "random_models",
    "reference/test_against_the_reference.py",
    "reference/test_canned.py",
    "reference/test_checkpoints.py",
    "test_readme.py",
    "test_startup.py",
)


@pytest.hookimpl(tryfirst=True)  # before the option -m is applied
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Marks the tests of `_VERSIONED`; lets those marked `timing` run again after a failure."""
    versioned = [Path(__file__).parent / name for name in _VERSIONED]
    missing = [str(path) for path in versioned if not path.exists()]
    if missing:
        raise pytest.UsageError(f"tests/conftest.py lists tests that aren't there: {missing}")
    for item in items:
        if any(item.path.is_relative_to(each) for each in versioned):
            item.add_marker("versioned")
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
