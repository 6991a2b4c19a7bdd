# SPDX-License-Identifier: Apache-2.0
"""Nox' session `core`: the core works without products, and the rest without each product."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Collection
from pathlib import Path

import nox

from environments import QUIET, ROOT, build_kernels, install_for_tests
from products import CORE_TESTS, TESTS_WITH_PRODUCTS, TOP, dependents, read_products

SMOKE = """
import importlib, pathlib, runpy, sys
import estimator_spec
assert pathlib.Path(estimator_spec.__file__).is_relative_to(sys.argv[1]), estimator_spec.__file__
for module in sys.argv[2:]:
    importlib.import_module(module)
runpy.run_path(sys.argv[1] + "/examples/quickstart.py", run_name="__main__")
"""


@nox.session(venv_backend="venv")
def core(session: nox.Session) -> None:
    """Train and test with the core's folders alone, then without each product in turn.

    Arguments after -- go to pytest.
    """
    install_for_tests(session, "newest")
    build_kernels(session)
    products = read_products()
    with tempfile.TemporaryDirectory(prefix="tpu_columns_core_") as home:
        tree = _copy(Path(home) / "core", set(products) - set(TOP))
        _smoke(session, tree, ())
        environment = {**QUIET, "PYTHONPATH": str(tree), "TF_USE_LEGACY_KERAS": "1"}
        with session.chdir(tree):
            census = ("examples/census/census.py", f"--model_dir={home}/census")
            session.run("python", *census, env=environment)
            left_out = [f"--ignore={path}" for path in TESTS_WITH_PRODUCTS]
            options = (
                "-q",
                "-n2",
                "--dist=worksteal",
                "-m",
                "not nightly",
                "-p",
                "no:cacheprovider",
            )
            session.run(
                *("python", "-m", "pytest", *options, *left_out, *CORE_TESTS, *session.posargs),
                env=environment,
            )
        for name in sorted(products):
            gone = dependents(name, products) - set(TOP)
            if gone:
                tree = _copy(Path(home) / name.replace("/", "_"), gone)
                rest = sorted(set(products) - gone - {"__main__"})
                session.log(f"without {', '.join(sorted(gone))}")
                _smoke(session, tree, [f"estimator_spec.{each.replace('/', '.')}" for each in rest])


def _smoke(session: nox.Session, tree: Path, modules: Collection[str]) -> None:
    """Imports modules of a tree, and runs its quick start."""
    environment = {**QUIET, "PYTHONPATH": str(tree), "TF_USE_LEGACY_KERAS": "1"}
    with session.chdir(tree):
        session.run("python", "-c", SMOKE, str(tree), *modules, env=environment, silent=True)


def _copy(tree: Path, without: set[str]) -> Path:
    """Copies packages, tests and examples to a new directory, without some products."""
    left_out = {ROOT / "estimator_spec" / name for name in without}
    left_out |= {path.with_suffix(".py") for path in left_out}
    left_out |= {ROOT / "tests" / "estimator_spec" / name for name in without}

    def ignored(folder: str, names: list[str]) -> list[str]:
        return [n for n in names if n == "__pycache__" or Path(folder, n) in left_out]

    for folder in ("tpu_columns", "estimator_spec", "tests", "examples", "docs", "benchmarks"):
        shutil.copytree(ROOT / folder, tree / folder, ignore=ignored)
    for pattern in ("*.md", "*.py", "*.toml", "*.cfg", "*.yml"):
        for path in ROOT.glob(pattern):
            shutil.copy(path, tree)
    return tree
