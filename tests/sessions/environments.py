# SPDX-License-Identifier: Apache-2.0
"""Environments of nox' sessions: the versions of TensorFlow, and how each is installed."""

from __future__ import annotations

import configparser
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # the tests' environments don't have it
    import nox

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENTS = ROOT / ".nox"

NEWEST = "2.21.0"
# The oldest TensorFlow in our range with wheels for each Python.
OLDEST = {(3, 10): "2.15.1", (3, 11): "2.15.1", (3, 12): "2.16.2", (3, 13): "2.20.0"}
# The newest patch of each TensorFlow between those two, and the Pythons that it has wheels for.
BETWEEN = {"2.17": "2.17.1", "2.18": "2.18.1", "2.19": "2.19.1", "2.20": "2.20.0"}
WITH_PYTHON_3_13 = ("2.20",)
# The last TensorFlow that has a TPUEstimator of its own; tests/reference compares with it.
REFERENCE = "2.15.1"
REFERENCE_PYTHON = "TPU_COLUMNS_REFERENCE_PYTHON"

QUIET = {"TF_CPP_MIN_LOG_LEVEL": "2"}


def install(session: nox.Session, tensorflow: str, extras: str = "test", *more: str) -> None:
    """Installs a version of TensorFlow, and the package with extras, or with none if it is ''."""
    package = f".[{extras}]" if extras else "."
    session.install("-q", "-e", package, *tensorflow_requirements(tensorflow), *more)


def tensorflow_requirements(version: str) -> list[str]:
    """Returns what pip has to install for a version of TensorFlow."""
    # 2.20's write_graph passes float_format, which protobuf 7 dropped; it doesn't ask for less.
    return [f"tensorflow=={version}", *(["protobuf<7"] if version.startswith("2.20.") else [])]


def install_for_tests(session: nox.Session, tensorflow: str) -> None:
    """Installs a TensorFlow by its name in these sessions, and what the tests need."""
    if tensorflow == "tf-nightly":
        _install_nightly_builds(session)
    elif tensorflow == "newest" and sys.version_info >= (3, 11):
        # The optional packages need a new TensorFlow and Python; jax is for Keras' other backend.
        install(session, NEWEST, "test,keras-rs,tfrs,without-tensorflow,ydf", "jax")
    else:
        oldest = OLDEST[sys.version_info[:2]]
        install(session, {"newest": NEWEST, "oldest": oldest, **BETWEEN}[tensorflow])


def _install_nightly_builds(session: nox.Session) -> None:
    """Installs the newest nightly builds of TensorFlow, tf_keras and Keras.

    Their distributions have names of their own, which don't satisfy a requirement of `tensorflow`:
    packages that have one, ours included, are installed without their dependencies.
    """
    nightlies = ["tf-nightly", "tf_keras-nightly", "keras-nightly"]
    dependents, others = [], ["jax"]
    for requirement in requirements("test", "keras-rs", "tfrs", "without-tensorflow", "ydf"):
        name = requirement.split()[0]
        if name in ("keras-rs", "tensorflow-recommenders"):
            dependents.append(requirement)
        elif name not in ("tensorflow", "tf_keras", "keras"):
            others.append(requirement)
    # No --pre: pip finds nightlies without it, and takes releases of everything else.
    session.install("-q", "--upgrade", *nightlies, *others)
    session.install("-q", "--upgrade", "--no-deps", "-e", ".", *dependents)


def build_kernels(session: nox.Session) -> None:
    """Builds the C++ ops for a session's TensorFlow; fails if they don't compile.

    Without a compiler, which is status 3, there are none, and their tests skip.
    """
    command = ("python", "-m", "estimator_spec", "kernels", "build")
    session.run(*command, env=QUIET, success_codes=[0, 3])


def requirements(*extras: str, package: bool = True) -> list[str]:
    """Returns the requirements in setup.cfg: the package's own and those of the extras."""
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg", encoding="utf-8")
    lists = [config["options"]["install_requires"]] if package else []
    lists += [config["options.extras_require"][extra] for extra in extras]
    return [line for requirements in lists for line in requirements.split("\n") if line]


def reference_python(session: nox.Session) -> str | None:
    """A python with TensorFlow 2.15.1, made when there is none; None where it can't be made."""
    for python in (
        os.environ.get(REFERENCE_PYTHON, ""),
        str(ENVIRONMENTS / "tests-oldest" / "bin" / "python"),
        str(ENVIRONMENTS / "reference" / "bin" / "python"),
    ):
        if python and output_of(python, "-c", _HAS_REFERENCE) == REFERENCE:
            return python
    base = _python_for_reference()
    if base is None:
        session.warn(f"TensorFlow {REFERENCE} needs Python 3.10 or 3.11, and neither is on PATH.")
        return None
    home = ENVIRONMENTS / "reference"
    session.run(base, "-m", "venv", "--clear", str(home), external=True)
    python = str(home / "bin" / "python")
    # What the package needs, too: tests run its source there.
    wanted = [f"tensorflow=={REFERENCE}", "numpy<2", *requirements()]
    session.run(python, "-m", "pip", "install", "-q", *wanted, external=True)
    return python


def newest_python(session: nox.Session) -> str:
    """A python with the newest TensorFlow and this package: that of the tests, or one made here."""
    for name in ("tests-newest", "newest"):
        python = ENVIRONMENTS / name / "bin" / "python"
        if python.exists():
            return str(python)
    session.run(sys.executable, "-m", "venv", str(python.parents[1]), external=True)
    package = (".[test,keras-rs,without-tensorflow]", *tensorflow_requirements(NEWEST))
    session.run(str(python), "-m", "pip", "install", "-q", "-e", *package, external=True)
    return str(python)


_HAS_REFERENCE = (
    "from importlib.metadata import version;"
    "version('tensorflow-estimator'); print(version('tensorflow'))"
)


def _python_for_reference() -> str | None:
    """An interpreter that TensorFlow 2.15.1 has wheels for."""
    if sys.version_info[:2] in ((3, 10), (3, 11)):
        return sys.executable
    for name in ("python3.11", "python3.10"):
        found = shutil.which(name)
        # Asked, not trusted: a shim of a version manager may be on PATH and refuse to run.
        if found and output_of(found, "-c", "import ensurepip; print('ok')") == "ok":
            return found
    return None


def output_of(*command: str) -> str:
    """Returns what a command prints; '' if it fails or isn't there."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()
