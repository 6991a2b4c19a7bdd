# SPDX-License-Identifier: Apache-2.0
"""The files of a program are those that Python would import, found without running it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from estimator_spec.legacy.program_source import program_files
from estimator_spec.legacy.program_source.program_files import StartedProgram, find_files

FILES = {
    "trainer/__init__.py": "",
    "trainer/task.py": "import tensorflow.contrib.tpu\nimport os.path\nfrom trainer import model\n",
    "trainer/model.py": "from . import layers\nfrom .inner.deep import f\nimport numpy.linalg\n",
    "trainer/layers.py": "import importlib\nimportlib.import_module('.late', __package__)\nx = 3\n",
    "trainer/late.py": "import importlib\nimportlib.import_module('js' + 'on')\n",
    "trainer/inner/__init__.py": "from ..layers import x\n",
    "trainer/inner/deep.py": "f = 3\n",
    "trainer/unused.py": "import nonsense\n",
    "trainer/__main__.py": "import trainer.task\n",
    "space/wide/main.py": "from space.wide import data\nfrom space import other as o, more\n",
    "space/wide/data.py": "",
    "space/other/__init__.py": "",
    "plain.py": "import trainer.inner.deep as deep, sibling\n",
    "sibling.py": "",
}


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    """Returns a directory with a package, a namespace package and scripts."""
    root = tmp_path_factory.mktemp("tree")
    for name, text in FILES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def read(program, root, **options):
    """Returns the names of the files that are read, and what isn't: place, module, stops."""
    found = find_files(program, **options)
    files = {Path(source.path).relative_to(root).as_posix() for source in found.read}
    return files, {(each.place, each.name, each.stops) for each in found.unread}


PACKAGE = {"__init__", "model", "layers", "late", "inner/__init__", "inner/deep"}
PACKAGE = {f"trainer/{name}.py" for name in PACKAGE}
COMPUTED = ("trainer/late.py:2", "", False)


@pytest.mark.parametrize(
    ("name", "files", "unread"),
    [
        ("trainer.task", PACKAGE | {"trainer/task.py"}, {COMPUTED}),
        ("trainer", PACKAGE | {"trainer/__main__.py", "trainer/task.py"}, {COMPUTED}),
        (
            "space.wide.main",
            {"space/wide/main.py", "space/wide/data.py", "space/other/__init__.py"},
            set(),
        ),
    ],
)
def test_modules(tree, name, files, unread):
    """`-m` follows packages, namespace packages and relative imports."""
    assert read(StartedProgram(name, True, str(tree)), tree) == (files, unread)


def test_scripts(tree):
    """A script's own directory comes first on the path, and that of PYTHONPATH after it."""
    inner = {f"trainer/{name}.py" for name in ("__init__", "layers", "inner/__init__")}
    files = {"plain.py", "sibling.py", "trainer/inner/deep.py", "trainer/late.py", *inner}
    assert read(StartedProgram(str(tree / "plain.py")), tree) == (files, {COMPUTED})
    task = StartedProgram(str(tree / "trainer" / "task.py"))
    assert read(task, tree) == ({"trainer/task.py"}, {("task.py:3", "trainer", True)})
    files, unread = read(task, tree, python_path=str(tree))
    assert (files, unread) == (PACKAGE | {"trainer/task.py"}, {("late.py:2", "", False)})
    (missing,) = find_files(StartedProgram(str(tree / "gone.py"))).unread
    assert missing.stops


MISSING = [
    ("import nothing", True),
    ("class A:\n    with open('x'):\n        from nothing import b", True),
    ("def f():\n    import nothing", False),
    ("try:\n    import nothing\nexcept ImportError:\n    pass", False),
    ("if x:\n    import nothing", False),
    ("import contextlib\nwith contextlib.suppress(ImportError):\n    import nothing", False),
    ("import sys\nsys.path.insert(0, 'x')\nimport nothing", False),
    ("import sys\nsys.path += ['x']\nimport nothing", False),
    ("try:\n    import helper\nexcept ImportError:\n    pass", False),
    ("import helper", True),
    ("from . import nothing", True),
    ("from __future__ import division\nprint 'Python 2'", True),
    ("import numpy.nothing, tensorflow.nothing, tensorflow_estimator.nothing", None),
    ("import helper_package\nfrom helper_package import name", None),
]


@pytest.mark.parametrize(("text", "stops"), MISSING)
def test_what_a_program_needs_to_start(tmp_path, text, stops):
    """A module that isn't found stops the program where it is imported unconditionally."""
    (tmp_path / "program.py").write_text(text)
    (tmp_path / "helper.py").write_text("import nothing")
    (tmp_path / "helper_package").mkdir()
    (tmp_path / "helper_package" / "__init__.py").write_text("name = 3")
    found = find_files(StartedProgram(str(tmp_path / "program.py")))
    assert [each.stops for each in found.unread] == ([] if stops is None else [stops])


def test_it_agrees_with_python(tree):
    """The files are those that Python has loaded when it has run the program."""
    code = (
        "import runpy, sys; sys.path[0] = sys.argv[1]; runpy.run_module('trainer.model')\n"
        "print(*[m.__file__ for m in list(sys.modules.values()) if 'trainer' in m.__name__])"
    )
    command = [sys.executable, "-c", code, str(tree)]
    loaded = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    found = find_files(StartedProgram("trainer.model", True, str(tree))).read
    main = str(tree / "trainer" / "model.py")
    assert {*loaded, main} == {source.path for source in found}


def test_libraries_are_not_own(tmp_path):
    """Files of Python's library and of installed packages aren't the program's."""
    assert not program_files.is_own(subprocess.__file__)
    assert not program_files.is_own(pytest.__file__)
    assert program_files.is_own(str(tmp_path / "a.py"))


def test_packages_of_a_target_directory_are_installed(tmp_path):
    """What `pip install --target` has put on the path isn't read as the program's own."""
    info = tmp_path / "library-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Name: library\nVersion: 1.0\n")
    (info / "RECORD").write_text("library/__init__.py,,\nlibrary/inner.py,,\nsingle.py,,\n")
    (tmp_path / "library").mkdir()
    for name in ("library/__init__.py", "library/inner.py", "single.py", "own.py"):
        (tmp_path / name).write_text("import not_there\n")
    (tmp_path / "main.py").write_text("import library.inner, single, own\n")
    files = find_files(StartedProgram(str(tmp_path / "main.py")))
    assert [os.path.basename(source.path) for source in files.read] == ["main.py", "own.py"]
    assert not program_files.is_own(str(tmp_path / "library" / "inner.py"))
