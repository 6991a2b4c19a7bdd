# SPDX-License-Identifier: Apache-2.0
"""docs/legacy_names.md has a verdict on each name of TensorFlow 2.15's Estimator.

`estimator_api.txt` has the names: of the API files (`_api/v1` and `_api/v2`), as programs import
them, and of what the modules define, but for names with a leading underscore. It is made by

    python tests/estimator_spec/legacy/test_estimator_api.py FOLDER > estimator_api.txt

where FOLDER is that of the package `tensorflow_estimator`.
"""

from __future__ import annotations

import ast
import importlib.metadata
import importlib.util
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
PAGE = HERE.parents[2] / "docs" / "legacy_names.md"
NAMES = (HERE / "estimator_api.txt").read_text().split()
OTHERS = "all others"


_FACES = {"v1": "tensorflow.compat.v1", "v2": "tensorflow"}


def api_names(package: Path) -> Iterator[str]:
    """Yields the names of the API files, by the modules that programs import."""
    for version, face in _FACES.items():
        top = package / "_api" / version
        for path in sorted((top / "estimator").rglob("__init__.py")):
            module = ".".join((face, *path.parent.relative_to(top).parts))
            for node in ast.parse(path.read_text()).body:
                is_name = isinstance(node, ast.ImportFrom) and "_api" not in str(node.module)
                if is_name and node.module not in ("__future__", "tensorflow.python.util"):
                    yield from (f"{module}.{each.asname or each.name}" for each in node.names)


def defined_names(package: Path) -> Iterator[str]:
    """Yields the names that modules define."""
    for path in sorted((package / "python").rglob("*.py")):
        parts = path.relative_to(package.parent).with_suffix("").parts
        if "api" in parts:
            continue
        module = ".".join(parts).removesuffix(".__init__")
        for node in ast.parse(path.read_text()).body:
            found = []
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                found = [node.name]
            elif isinstance(node, ast.Assign):
                found = [target.id for target in node.targets if isinstance(target, ast.Name)]
            yield from (f"{module}.{name}" for name in found if not name.startswith("_"))


def names(package: Path) -> list[str]:
    """Returns all of them, sorted."""
    return sorted({*api_names(package), *defined_names(package)})


def verdicts(page):
    """Returns the full names that a page has a row for; `module.all others` for whole modules."""
    places, found = {}, set()
    for line in page.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if len(cells) == 2:
            places[cells[0].strip("`")] = re.findall(r"`([^`]+)`", cells[1])
        elif len(cells) == 3:
            name = cells[0].strip("`")
            for place in re.findall(r"`([^`]+)`", cells[1]):
                root, _, rest = place.partition(".")
                for module in places.get(root, ()):
                    found.add(".".join(filter(None, (module, rest, name))))
    return found


def without_verdict(wanted, page):
    """Returns the names that a page says nothing about.

    A name of the public API needs a row of its own. A module that no program should import may have
    one row for all of its names.
    """
    known = verdicts(page)

    def has_one(name):
        if name in known:
            return True
        parents = name.split(".")[:-1]
        modules = [".".join(parents[:end]) for end in range(len(parents), 0, -1)]
        is_public = name.startswith("tensorflow.")
        return not is_public and any(f"{module}.{OTHERS}" in known for module in modules)

    return [name for name in wanted if not has_one(name)]


def test_every_name_has_a_verdict():
    """Each name of the API, and each one that a module defines, is restored or has advice."""
    assert len(NAMES) > 450
    assert not without_verdict(NAMES, PAGE.read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    "name",
    [
        "tensorflow.estimator.DNNClassifier",
        "tensorflow.compat.v1.estimator.tpu.TPUEstimator",
        "tensorflow.compat.v1.estimator.experimental.LinearSDCA",
        "tensorflow_estimator.python.estimator.keras_lib.FormattedKeyError",
        "tensorflow_estimator.python.estimator.canned.rnn.RNNClassifier",
    ],
)
def test_a_name_without_a_verdict_is_found(name):
    """A name whose row is missing is named."""
    last = name.rpartition(".")[2]
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    wanted = [name, name.replace(last, "Nothing")]
    kept = [
        line
        for line in lines
        if not line.startswith((f"| `{last}` |", f"| {OTHERS} | `estimator_py.canned"))
    ]
    assert without_verdict(wanted, "\n".join(kept)) == wanted
    assert name in NAMES


def test_the_names_are_those_of_the_package():
    """The list is that of tensorflow_estimator 2.15, where that is installed."""
    spec = importlib.util.find_spec("tensorflow_estimator")
    if spec is None or not importlib.metadata.version("tensorflow_estimator").startswith("2.15"):
        pytest.skip("there is no tensorflow_estimator 2.15")
    assert names(Path(spec.origin).parent) == NAMES


if __name__ == "__main__":
    print(*names(Path(sys.argv[1])), sep="\n")
