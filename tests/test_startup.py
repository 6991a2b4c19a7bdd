# SPDX-License-Identifier: Apache-2.0
"""Modules that importing the packages loads."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
HEAVY = ("keras", "tf_keras", "keras_rs", "tensorflow_recommenders", "pandas", "jax", "torch")


def modules_after(statement: str, **variables: str) -> set[str]:
    """Returns the modules of a fresh process with environment variables after a statement."""
    code = f"{statement}\nimport json, sys\nprint(json.dumps(sorted(sys.modules)))"
    env = {**os.environ, "PYTHONPATH": str(ROOT), "TF_CPP_MIN_LOG_LEVEL": "3", **variables}
    env.pop("TF_USE_LEGACY_KERAS", None)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout.splitlines()[-1]))


@pytest.fixture(scope="module")
def tensorflow_alone() -> set[str]:
    """Returns the modules of a bare `import tensorflow`."""
    return modules_after("import tensorflow")


@pytest.mark.slow
@pytest.mark.parametrize("package", ["tpu_columns", "estimator_spec"])
def test_import_loads_no_keras_and_no_option(package, tensorflow_alone):
    """Importing a package loads no Keras, whose version the program selects, and no extra.

    An access to `tf.keras` would show as well: it loads keras or tf_keras.
    """
    added = modules_after(f"import tensorflow, {package}") - tensorflow_alone
    assert any(name.split(".")[0] == package for name in added)
    assert not [name for name in sorted(added) if name.split(".")[0] in HEAVY]


@pytest.mark.slow
@pytest.mark.parametrize("package", ["tpu_columns", "estimator_spec", "estimator_spec.convert"])
def test_a_star_import_loads_no_keras(package):
    """`from package import *` loads no Keras, and works with a backend that isn't TensorFlow."""
    before = modules_after("import tensorflow", KERAS_BACKEND="jax")
    added = modules_after(f"import tensorflow\nfrom {package} import *", KERAS_BACKEND="jax")
    added -= before
    assert package in added
    assert not [name for name in sorted(added) if name.split(".")[0] in HEAVY]


@pytest.mark.slow
def test_import_adds_few_modules(tensorflow_alone):
    """Both packages load their own modules and few others beyond `import tensorflow`."""
    statement = "import tensorflow, tpu_columns\nfrom estimator_spec import *"
    added = modules_after(statement) - tensorflow_alone
    others = [name for name in added if name.split(".")[0] not in ("tpu_columns", "estimator_spec")]
    assert len(others) < 30, sorted(others)


@pytest.mark.slow
def test_import_of_the_package_loads_no_tensorflow():
    """`import estimator_spec` loads no TensorFlow: tools on the command line do without."""
    assert "tensorflow" not in modules_after("import estimator_spec")


@pytest.mark.slow
def test_columns_do_not_need_the_estimator():
    """`import tpu_columns` doesn't load estimator_spec."""
    loaded = modules_after("import tpu_columns")
    assert not [name for name in loaded if name.split(".")[0] == "estimator_spec"]
