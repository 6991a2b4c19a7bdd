# SPDX-License-Identifier: Apache-2.0
"""The "never" rules of docs/architecture.md, read off the source by its imports."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("tpu_columns", "estimator_spec")
SOURCES = {
    path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
    for package in PACKAGES
    for path in sorted((ROOT / package).rglob("*.py"))
}
ADAPTERS = ("tpu_columns/_tensorflow.py", "estimator_spec/_tensorflow/private.py")
OPTIONAL = ("keras", "tf_keras", "keras_rs", "tensorflow_recommenders", "pandas", "jax", "rich")
# Rooms that work on specs and files alone: they must run where no model can.
WITHOUT_DRIVER = ("convert", "checkpoints", "plan", "migrate")


def imported(node: ast.AST, package: str) -> list[str]:
    """The modules that one node imports, relative ones made absolute."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        base = node.module or ""
        if node.level:
            above = package.split(".")[: len(package.split(".")) - node.level + 1]
            base = ".".join([*above, base]).rstrip(".")
        return [base, *(f"{base}.{alias.name}" for alias in node.names)]
    if isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
        name = getattr(node.func, "attr", getattr(node.func, "id", None))
        value = node.args[0].value
        if name in ("import_module", "__import__") and isinstance(value, str):
            return [value]
    return []


def at_import(tree: ast.AST) -> Iterator[ast.AST]:
    """The nodes that run when the module is imported: function bodies and TYPE_CHECKING don't."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            continue
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        yield node
        yield from at_import(node)


def imports(path: str, source: str, everywhere: bool = True) -> set[str]:
    """All modules that a file imports, or only those of its import time."""
    tree = ast.parse(source)
    nodes = ast.walk(tree) if everywhere else at_import(tree)
    package = path.rsplit("/", 1)[0].replace("/", ".")
    return {name for node in nodes for name in imported(node, package)}


def within(name: str, *roots: str) -> bool:
    """Whether a module is one of `roots` or inside one."""
    return any(name == root or name.startswith(root + ".") for root in roots)


def broken_rules(path: str, source: str) -> list[str]:
    """The "never" rules that a file breaks."""
    everywhere = imports(path, source)
    broken = []
    if path.startswith("tpu_columns/") and any(within(n, "estimator_spec") for n in everywhere):
        broken.append("tpu_columns never imports estimator_spec")
    if path not in ADAPTERS and any(within(n, "tensorflow.python") for n in everywhere):
        broken.append("tensorflow.python only in the adapters")
    if any(within(n, *OPTIONAL) for n in imports(path, source, everywhere=False)):
        broken.append("no optional dependency at package import")
    room = path.split("/")[1].removesuffix(".py")
    driver = "estimator_spec.driver"
    if room in WITHOUT_DRIVER and any(within(n, driver) for n in everywhere):
        broken.append("convert, checkpoints, plan and migrate never import driver")
    return broken


@pytest.mark.parametrize("path", SOURCES)
def test_no_rule_is_broken(path):
    """Each file of both packages keeps every import rule."""
    assert broken_rules(path, SOURCES[path]) == []


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("tpu_columns/lookup.py", "import estimator_spec"),
        ("tpu_columns/lookup.py", "def f():\n    from estimator_spec import spec"),
        ("estimator_spec/embedding/spec.py", "from tensorflow.python.ops import array_ops"),
        ("estimator_spec/embedding/spec.py", "from tensorflow import python"),
        ("estimator_spec/embedding/spec.py", "importlib.import_module('tensorflow.python.tpu')"),
        ("tpu_columns/lookup.py", "try:\n    import keras_rs\nexcept ImportError:\n    pass"),
        ("estimator_spec/embedding/spec.py", "class A:\n    import pandas"),
        ("estimator_spec/plan.py", "from estimator_spec.driver import training"),
        ("estimator_spec/convert/keras_rs.py", "from ..driver import training"),
        ("estimator_spec/convert/keras_rs.py", "from estimator_spec import driver"),
    ],
)
def test_a_broken_rule_is_found(path, source):
    """The check sees each kind of forbidden import, also inside functions and relative ones."""
    assert len(broken_rules(path, source)) == 1


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("estimator_spec/embedding/spec.py", "import tpu_columns"),
        ("tpu_columns/_tensorflow.py", "from tensorflow.python.ops import array_ops"),
        ("estimator_spec/embedding/spec.py", "def f():\n    import pandas"),
        ("estimator_spec/embedding/spec.py", "if TYPE_CHECKING:\n    import keras_rs"),
        ("estimator_spec/driver/training.py", "from estimator_spec.driver import hooks"),
    ],
)
def test_an_allowed_import_is_left_alone(path, source):
    """The check has nothing against the imports that the map allows."""
    assert broken_rules(path, source) == []


@pytest.mark.parametrize("path", ADAPTERS)
def test_private_imports_say_why(path):
    """In the adapter files, every import of a private module comes with its reason in a comment."""
    lines = [line.strip() for line in SOURCES[path].splitlines()]
    private = [n for n, line in enumerate(lines) if line.startswith("from tensorflow.python")]
    assert private
    for number in private:
        above = number - 1
        # The sorter of imports puts names of one module into blocks of their own.
        while above > 0 and lines[above] and not lines[above].startswith("#"):
            above -= 1
        assert lines[above].startswith("#"), lines[number]
