# SPDX-License-Identifier: Apache-2.0
"""Gives the reference's tests the helpers that they import, beside what `run` puts back.

Tests share files such as `dnn_testing_utils.py`, which are loaded from the checkout, and functions
of two modules of the library, which `suite_helpers` has. Every other name comes from `install()`,
so a private one that our packages lack fails the tests that use it, and no others.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import sys
import types
from collections.abc import Iterator
from pathlib import Path

import suite_helpers

PACKAGE = "tensorflow_estimator"


def install(test: Path) -> None:
    """Puts the removed names back, as `run --cpu replicas` does, and the helpers of a test file."""
    from estimator_spec.core.common import legacy_keras, quiet_start

    quiet_start.import_tensorflow()
    from estimator_spec import legacy
    from estimator_spec.core.run_config import host_fallback

    # As `run` will do: the same installation again changes nothing.
    host_fallback.choose_host(host_fallback.Host.REPLICAS)
    legacy_keras.select_legacy_keras()
    legacy.install(replace=True)
    from_helpers = types.ModuleType(f"{PACKAGE}.python.estimator.hooks.fake_summary_writer")
    from_helpers.FakeSummaryWriter = suite_helpers.FakeSummaryWriter  # type: ignore[attr-defined]
    _set_module(from_helpers)
    utilities = importlib.import_module(f"{PACKAGE}.python.estimator.head.head_utils")
    for name, value in suite_helpers.HEAD_UTILITIES.items():
        setattr(utilities, name, value)
    checkout = next((each for each in test.resolve().parents if (each / PACKAGE).is_dir()), None)
    if checkout is not None:
        _load_shared(test, checkout)


def _load_shared(file: Path, checkout: Path) -> None:
    """Loads the files that a file of tests shares with others, and those that they share."""
    for name in _imports(file):
        path = checkout.joinpath(*name.split(".")).with_suffix(".py")
        if "_testing_utils" in path.stem and name not in sys.modules and path.exists():
            _load_shared(path, checkout)
            package = name.rpartition(".")[0]
            if package not in sys.modules:
                _set_module(types.ModuleType(package))
            spec = importlib.util.spec_from_file_location(name, path)
            assert spec is not None and spec.loader is not None
            module = importlib.util.module_from_spec(spec)
            _set_module(module)
            spec.loader.exec_module(module)


def _imports(file: Path) -> Iterator[str]:
    """Yields the full names that a file imports from the package."""
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(PACKAGE):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _set_module(module: types.ModuleType) -> None:
    """Makes a module importable by its name."""
    sys.modules[module.__name__] = module
    parent, _, name = module.__name__.rpartition(".")
    setattr(sys.modules[parent], name, module)
