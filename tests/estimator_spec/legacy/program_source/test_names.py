# SPDX-License-Identifier: Apache-2.0
"""The names that are read of a program's source are those that it has when it runs.

Made programs of several modules run with the modules of `named_modules`, and record what their
expressions are. `run`, `run --check` and `migrate` must have read the same.
"""

from __future__ import annotations

import ast
import random
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from estimator_spec.legacy import program_api, program_names
from estimator_spec.legacy.migrate import syntax
from estimator_spec.legacy.migrate.program import ModuleApi
from estimator_spec.legacy.migrate.programs import Programs
from estimator_spec.legacy.program_source import flow, program_files
from estimator_spec.legacy.program_source.modules import Modules
from estimator_spec.legacy.program_source.program_files import Sources, StartedProgram
from named_modules import Named, named_modules

PROGRAMS = sorted((Path(__file__).parents[3] / "programs").glob("*.py"))


class Versioned(Named):
    """Named modules of today's version."""

    __version__ = "2.21.0"
    VERSION = "2.21.0"


class Thing:
    """An object with all attributes."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Thing()


# Modules beside the main one.
LIB = """
import tensorflow as tf
from tensorflow import estimator
import tensorflow.compat.v1.layers as tf_layers
train = tf.train
IS_TF2 = int(tf.__version__.split(".")[0]) >= 2
def is_tf1():
    return tf.__version__.startswith("1.")
"""
SHIMS = [
    "import tensorflow.compat.v1 as tf",
    "import tensorflow as tf\nif tf.__version__ >= '2':\n    tf = tf.compat.v1",
    "import tensorflow as tf\ntf = tf.compat.v1",
    "from lib import *",
    "try:\n    import tensorflow.compat.v1 as tf\nexcept ImportError:\n    import tensorflow as tf",
    "import tensorflow\nif hasattr(tensorflow, 'compat'):\n    tf = tensorflow.compat.v1",
    "import lib\nif lib.is_tf1():\n    tf = lib.tf\nelse:\n    tf = lib.tf.compat.v1",
]
PACKAGE = "from .inner import tf as tf1\nfrom . import inner\n__all__ = ['tf1']\n"
INNER = "from tensorflow.compat import v1 as tf\nfrom lib import train\n"

BINDERS = [
    "import tensorflow as N",
    "import tensorflow",
    "import tensorflow.compat.v1 as N",
    "import tensorflow.contrib.slim as N",
    "from tensorflow import estimator as N",
    "from tensorflow import compat as N, train",
    "from tensorflow.compat import v1 as N",
    "import lib as N",
    "import lib",
    "from lib import tf as N",
    "from lib import estimator as N, train as M",
    "from shim import tf as N",
    "import shim as N",
    "import package.inner as N",
    "import package",
    "from package import tf1 as N",
    "from package import inner as N",
    "import os as N",
    "N = thing",
    "N = M",
    "N = M.train",
    "N = M.compat.v1",
    "N = M.tf",
    "(N, M) = (thing, thing)",
    "N = [M, thing][1]",
    "for N in [thing, thing]:\n    pass",
    "try:\n    raise ValueError\nexcept ValueError as N:\n    pass\nN = thing",
    "with open(__file__) as N:\n    pass\nN = thing",
    "def N():\n    pass\nN = thing",
    "class N:\n    pass\nN = thing",
    "N = M\ndel N\nN = thing",
]
READS = [
    "N.Session",
    "N",
    "N.tf.placeholder",
    "N.estimator.Estimator",
    "N.nn.relu",
    "tensorflow.Session",
    "lib.tf.logging",
    "package.inner.tf.app",
    "package.tf1.flags",
    "train.AdamOptimizer",
]
TESTS = [
    "tensorflow.__version__ < '2'",
    "LooseVersion(tensorflow.__version__) >= LooseVersion('2.0.0')",
    "int(lib.tf.__version__[0]) > 1",
    "lib.IS_TF2",
    "not lib.is_tf1()",
    "lib.is_tf1() or IS_NEW",
    "IS_NEW",
    "tuple(int(part) for part in tensorflow.__version__.split('.')[:2]) < (2, 0)",
    "hasattr(lib.tf, 'compat')",
    "thing",
    "not thing",
]
BLOCKS = [
    "if TEST:\n    ONE\nelse:\n    TWO",
    "if TEST:\n    ONE",
    "for i in range(2):\n    ONE\n    TWO",
    "while True:\n    ONE\n    if TEST:\n        break\n    TWO\n    break",
    "try:\n    ONE\n    raise ValueError\nexcept ValueError:\n    TWO",
    "try:\n    ONE\nfinally:\n    TWO",
    "def f(N=thing):\n    ONE\n    TWO\nf()",
    "def f(d, *N):\n    TWO\nf(thing, thing)",
    "def f():\n    if TEST:\n        ONE\n        return\n    TWO\nf()",
    "def f():\n    ONE\n    def g():\n        TWO\n    g()\n    ONE\nf()",
    "def f():\n    ONE\nTWO\nf()",
    "def f():\n    global N\n    ONE\n    TWO\nf()",
    "class C:\n    ONE\n    def f(self):\n        TWO\n    ONE\nC().f()",
    "class C:\n    N = M\n    TWO\nTWO",
    "(lambda N: record(N.nn, 'LINE'))(thing)",
    "g = lambda: record(N.nn, 'LINE')\nONE\ng()",
    "[record(N.nn, 'LINE') for N in [thing]]",
    "record([N.app for i in [1]][0], 'LINE')",
    "with suppress(ImportError):\n    ONE\nTWO",
    "match thing:\n    case N:\n        TWO",
]
START = """
import tensorflow, lib, package
from tensorflow import train
IS_NEW = tensorflow.__version__ > '2.1'
class LooseVersion(tuple):
    def __new__(cls, text):
        return tuple.__new__(cls, map(int, text.split('.')))
import contextlib
suppress = contextlib.suppress
a = b = c = thing
"""


def made(seed: int) -> dict[str, str]:
    """Returns the files of a program, by path."""
    draw = random.Random(seed)

    def name(text: str) -> str:
        first, second = draw.sample(["a", "b", "c"], 2)
        return "".join({"N": first, "M": second}.get(part, part) for part in split(text))

    def block(depth: int) -> str:
        lines = []
        for _ in range(draw.randint(1, 3)):
            kind = draw.random()
            if kind < 0.4:
                lines.append(name(draw.choice(BINDERS)))
            elif kind < 0.75 or not depth:
                lines.append(f"record({name(draw.choice(READS))}, 'LINE')")
            else:
                text = name(draw.choice(BLOCKS)).replace("TEST", draw.choice(TESTS))
                for place in ("ONE", "TWO"):
                    while place in text:
                        text = put(text, place, block(depth - 1))
                lines.append(text)
        return "\n".join(lines)

    main = ""
    while not is_python(main):
        main = START + "\n".join(block(3) for _ in range(4)) + "\n"
    return {
        "main.py": main,
        "lib.py": LIB,
        "shim.py": draw.choice(SHIMS) + "\n",
        "package/__init__.py": PACKAGE,
        "package/inner.py": INNER,
    }


def is_python(text: str) -> bool:
    """Returns whether a text is a program: a name may be bound before it is declared global."""
    try:
        compile(text, "main.py", "exec")
    except SyntaxError:
        return False
    return bool(text)


def split(text: str) -> list[str]:
    """Returns the words of a text, and what is between them."""
    parts: list[str] = [""]
    for character in text:
        is_word = character.isalnum() or character == "_"
        if parts[-1] and is_word != (parts[-1][-1].isalnum() or parts[-1][-1] == "_"):
            parts.append("")
        parts[-1] += character
    return parts


def put(text: str, place: str, inner: str) -> str:
    """Returns a text with the first line that is a place replaced by lines, indented as it is."""
    lines = text.split("\n")
    at = next(number for number, line in enumerate(lines) if line.strip() == place)
    indent = lines[at][: len(lines[at]) - len(lines[at].lstrip())]
    lines[at] = textwrap.indent(inner, indent)
    return "\n".join(lines)


def write(files: dict[str, str], folder: Path) -> Path:
    """Writes a program; returns its main file."""
    for path, text in files.items():
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).write_text(text)
    return folder / "main.py"


def recorded(main: Path, monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, str]]:
    """Runs a program; returns the lines of its records and the full names, '' for another thing."""
    found: list[tuple[int, str]] = []

    def record(value: object, *_: object) -> object:
        line = sys._getframe(1).f_lineno
        found.append((line, value.__name__ if isinstance(value, Versioned) else ""))
        return value

    monkeypatch.syspath_prepend(str(main.parent))
    own = ("lib", "shim", "package", "package.inner")
    with named_modules(Versioned):
        names = {"record": record, "thing": Thing(), "__name__": "__main__", "__file__": str(main)}
        try:
            exec(compile(main.read_text(), str(main), "exec"), names)
        except (NameError, AttributeError, TypeError, ImportError):
            pass  # What was recorded before counts.
        finally:
            for module in own:
                sys.modules.pop(module, None)
    return found


@pytest.mark.parametrize("start", range(0, 200, 40))
def test_made_programs(start: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What an expression is when a program runs has been read by `run --check` and `migrate`."""
    num_names = 0
    for seed in range(start, start + 40):
        folder = tmp_path / str(seed)
        folder.mkdir()
        files = made(seed)
        main = write(files, folder)
        modules = Modules(program_files.find_files(StartedProgram(str(main))))
        source, names = next(iter(modules.all()))
        read = {
            (chain.nodes[0].lineno, meaning.value.full)
            for chain in names.chains
            for meaning in names.meanings(chain)[0]
        }
        used = {(use.line, use.name) for use in program_names.uses(names) if not use.is_import}
        assert used <= read
        program = syntax.parse(files["main.py"], modules.neighbours(source))
        certain = certain_uses(program)
        for (line, _), found in certain.items():
            assert {(line, name) for name in found} <= read
        for line, name in recorded(main, monkeypatch):
            num_names += bool(name)
            where = f"{files['shim.py']}\n{number(files['main.py'])}\n{line}: {name}"
            if name:
                assert (line, name) in read, where
            for found in (found for (at, text), found in certain.items() if at == line):
                assert name in found, where
    assert num_names > 40


def certain_uses(program: syntax.Program) -> dict[tuple[int, int], set[str]]:
    """Returns the names of the expressions in records that can't be anything else, by place."""
    found = {}
    for use in program.uses:
        before = program.source[: use.start]
        if before.endswith(("record(", "record([")):
            found[before.count("\n") + 1, use.start] = set(use.names)
    return found


def number(text: str) -> str:
    """Returns a text with the numbers of its lines."""
    return "\n".join(f"{at:3} {line}" for at, line in enumerate(text.split("\n"), 1))


@pytest.mark.parametrize("start", range(0, 120, 60))
def test_the_api_of_made_programs(start: int, tmp_path: Path) -> None:
    """`run` and `migrate` decide alike whether a made program is of TensorFlow 1."""
    of_tf1 = []
    for seed in range(start, start + 60):
        folder = tmp_path / str(seed)
        folder.mkdir()
        main = write(made(seed), folder)
        paths = [str(path) for path in sorted(folder.rglob("*.py"))]
        of_tf1.append(program_api.uses_tf1_names(StartedProgram(str(main))))
        assert (Programs(paths, {}, Sources()).place(str(main)).api is ModuleApi.TF1) is of_tf1[-1]
    assert 5 < sum(of_tf1) < 58


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_programs(path: Path) -> None:
    """`run --check` and `migrate` read the same names of a whole program, and the same API."""
    text = path.read_text(encoding="utf-8")
    names = flow.read(ast.parse(text))
    program = syntax.parse(text)
    checked = {
        (use.line, use.name) for use in program_names.uses(names) if use.name != "tensorflow"
    }
    migrated = {
        (text[: use.start].count("\n") + 1, name)
        for use in program.uses
        for name in use.names
        if name.startswith(("tensorflow.", "tensorflow_estimator"))
    }
    assert migrated
    assert migrated <= checked
    assert (program.api is ModuleApi.TF1) is program_api.is_of_tf1(names)


def test_values_of_an_export() -> None:
    """A name that several statements may bind exports their values in the order of the source."""
    modules = [f"tensorflow.part_{number}" for number in range(9)]
    branches = [f"if a == {module!r}:\n    import {module} as chosen\n" for module in modules]
    names = flow.read(ast.parse("el".join(branches)))
    values = [value.full for value in names.exports["chosen"].values if value is not None]
    assert values == modules
