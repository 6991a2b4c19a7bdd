# SPDX-License-Identifier: Apache-2.0
"""Modules that importing the packages loads."""

from __future__ import annotations

import importlib
import inspect
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import estimator_spec
import tpu_columns
from estimator_spec import __main__ as command_line
from estimator_spec.__main__ import COMMANDS

ROOT = Path(__file__).resolve().parents[1]
HEAVY = {
    *("keras", "tf_keras", "keras_rs", "tensorflow_recommenders", "pandas", "jax", "torch"),
    *("ydf",),
}


def modules_after(*statements: str, **variables: str) -> list[set[str]]:
    """Returns the modules after each statement of a fresh process with environment variables."""
    lines = ["import json, sys"]
    for statement in statements:
        lines += [statement, "print(json.dumps(sorted(sys.modules)))"]
    env = {**os.environ, "PYTHONPATH": str(ROOT), "TF_CPP_MIN_LOG_LEVEL": "3", **variables}
    env.pop("TF_USE_LEGACY_KERAS", None)
    command = [sys.executable, "-c", "\n".join(lines)]
    done = subprocess.run(command, capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stderr
    return [set(json.loads(line)) for line in done.stdout.splitlines()[-len(statements) :]]


def packages(modules: set[str]) -> set[str]:
    """Returns the top-level packages of modules."""
    return {name.partition(".")[0] for name in modules}


@pytest.fixture(scope="module")
def loaded() -> list[set[str]]:
    """Returns the modules after importing TensorFlow, each package, and all public names."""
    return modules_after(
        "import tensorflow",
        "import tpu_columns",
        "import estimator_spec",
        "from estimator_spec import *",
    )


@pytest.mark.slow
def test_import_loads_no_keras_and_no_option(loaded):
    """Importing a package loads no Keras, whose version the program selects, and no extra.

    An access to `tf.keras` would show as well: it loads keras or tf_keras.
    """
    tensorflow, columns, both, _ = loaded
    assert "tpu_columns" in columns - tensorflow
    assert "estimator_spec" in both - columns
    assert not HEAVY & packages(both - tensorflow)


@pytest.mark.slow
def test_columns_do_not_need_the_estimator(loaded):
    """`import tpu_columns` doesn't load estimator_spec."""
    assert "estimator_spec" not in packages(loaded[1])


@pytest.mark.slow
def test_import_adds_few_modules(loaded):
    """Both packages load their own modules and few others beyond `import tensorflow`."""
    added = loaded[-1] - loaded[0]
    own = ("tpu_columns", "estimator_spec")
    others = [name for name in added if name.partition(".")[0] not in own]
    assert len(others) < 30, sorted(others)


@pytest.mark.slow
def test_a_star_import_loads_no_keras():
    """`from package import *` loads no Keras, and works with a backend that isn't TensorFlow."""
    names = ("tpu_columns", "estimator_spec", "estimator_spec.convert")
    statements = [f"from {name} import *" for name in names]
    before, *after = modules_after("import tensorflow", *statements, KERAS_BACKEND="jax")
    for name, modules in zip(names, after, strict=True):
        assert name in modules
        assert not HEAVY & packages(modules - before), name


@pytest.mark.slow
def test_import_of_the_package_loads_no_tensorflow():
    """Importing the packages loads no TensorFlow: tools on the command line do without."""
    statement = "import estimator_spec, estimator_spec.core.kernels_cli, tpu_columns"
    assert "tensorflow" not in modules_after(statement)[0]


def test_every_public_name_is_there():
    """Names that are imported at their first use are those that the package lists."""
    for package in (estimator_spec, tpu_columns):
        assert {*package.__all__} <= {*dir(package)}
        for name in package.__all__:
            assert getattr(package, name) is not None
        with pytest.raises(AttributeError, match="no_such_name"):
            _ = package.no_such_name


def test_dir_has_public_names_and_no_others():
    """What Tab offers is what users may use: names, public modules and the version."""
    for package in (estimator_spec, tpu_columns):
        assert package.__version__ == tpu_columns.__version__
        offered = {name for name in dir(package) if not name.startswith("__")}
        modules = offered - {*package.__all__}
        assert not {"annotations", "importlib", "lazy_names", "sys"} & offered
        for name in modules:
            assert importlib.import_module(f"{package.__name__}.{name}").__doc__
    assert {"canned", "compare", "convert", "heads", "mid_level", "tpu"} <= {*dir(estimator_spec)}


def test_the_version(capsys):
    """`--version` prints the release."""
    assert command_line.main(["--version"]) == 0
    assert capsys.readouterr().out == f"tpu-columns {tpu_columns.__version__}\n"


def test_help_explains_each_argument():
    """`help(RunConfig)` explains every argument, those of its base class too."""
    for config in (estimator_spec.RunConfig, estimator_spec.run_config.RunConfig):
        for name in inspect.signature(config).parameters:
            assert f"        {name}: " in config.__doc__, name


HELP = """
import contextlib, io
from estimator_spec import __main__ as command_line
for line in {lines}:
    with contextlib.redirect_stdout(io.StringIO()) as printed, contextlib.suppress(SystemExit):
        command_line.main(line.split())
    assert "usage: python -m estimator_spec" in printed.getvalue(), line
    loaded = {{"tensorflow", "absl"}} & set(sys.modules)
    assert not loaded, (line, loaded)
"""


def test_help_starts_no_tensorflow():
    """`--help` of every command and subcommand doesn't wait for TensorFlow."""
    checkpoint = ("inspect", "convert", "diff", "verify", "repair", "record")
    lines = [f"{command} --help" for command in COMMANDS]
    lines += [f"checkpoint {command} --help" for command in checkpoint]
    modules_after(HELP.format(lines=["--help", *lines]))


def test_a_wrong_option_starts_no_tensorflow():
    """A command line that can't be read is refused before TensorFlow starts."""
    lines = ("run --nonsense", "plan", "plan a:b --hbm=x", "checkpoint nonsense", "launch")
    program = """
import contextlib, io
from estimator_spec import __main__ as command_line
for line in {lines}:
    status = 0
    with contextlib.redirect_stderr(io.StringIO()) as printed:
        try:
            status = command_line.main(line.split())
        except SystemExit as error:
            status = error.code
    assert status == 2 and "usage: python -m estimator_spec" in printed.getvalue(), line
    assert "tensorflow" not in sys.modules, line
"""
    modules_after(program.format(lines=lines))
