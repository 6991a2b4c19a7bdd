# SPDX-License-Identifier: Apache-2.0
"""`migrate` decides for each module what `run` decides for the programs that it belongs to."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from estimator_spec.legacy import program_api
from estimator_spec.legacy.migrate import cli, runner
from estimator_spec.legacy.migrate.migration import MigrationOptions
from estimator_spec.legacy.migrate.program import ModuleApi
from estimator_spec.legacy.migrate.programs import Programs
from estimator_spec.legacy.migrate.results import Changed, Failed, Skipped, Subject
from estimator_spec.legacy.program_source import program_files
from estimator_spec.legacy.program_source.program_files import Sources, StartedProgram

TF2 = "import tensorflow as tf\n"
TF1 = "import tensorflow.compat.v1 as tf\n"
DROP = "def drop(x):\n    return tf.nn.dropout(x, 0.9)\n"
CANNED = "def build():\n    return tf.estimator.DNNLinearCombinedClassifier()\n"
GUARD = "if __name__ == '__main__':\n    main()\n"


def write(folder: Path, **files: str) -> list[str]:
    """Writes modules, with dots in their names as `__` in `files`; returns their paths."""
    paths = []
    for name, text in files.items():
        path = folder / f"{name.replace('__', '/')}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        paths.append(str(path))
    return paths


def migrated(paths: list[str]) -> dict[str, str]:
    """Returns the new sources of files by the names of their modules, and checks for failures."""
    results = list(runner.migrate_files(paths, MigrationOptions()))
    assert not any(isinstance(result, Failed | Skipped) for result in results)
    return {
        Path(result.path).stem: (
            result.new if isinstance(result, Changed) else Path(result.path).read_text()
        )
        for result in results
    }


def findings(paths: list[str]) -> list[str]:
    """Returns what the report says is left to do."""
    return [
        f"{Path(result.path).stem}:{finding.line}: {finding.reason}"
        for result in runner.migrate_files(paths, MigrationOptions())
        if not isinstance(result, Failed | Skipped)
        for finding in result.findings
        if finding.kind is Subject.NOT_REWRITTEN
    ]


def test_a_module_of_a_program_of_tensorflow_1(tmp_path: Path) -> None:
    """A module without names of TensorFlow 1 alone gets its API, and its generation of models."""
    task = TF2 + "import layers, model\ntf.Session().run(layers.drop(1))\n"
    paths = write(tmp_path, task=task, layers=TF2 + DROP, model=TF2 + CANNED)
    new = migrated(paths)
    assert new["layers"] == f"{TF1}\ntf.disable_v2_behavior()\n{DROP}"
    assert "estimator_spec.canned.v1" in new["model"] or "from estimator_spec" in new["model"]
    assert "v1" in new["model"].replace(TF1, "").replace("disable_v2", "")
    assert new["task"].startswith(TF1)


def test_a_module_of_a_program_of_tensorflow_2(tmp_path: Path) -> None:
    """The same modules of a program of TensorFlow 2 keep its API."""
    paths = write(tmp_path, task=TF2 + "import layers\nlayers.drop(1)\n", layers=TF2 + DROP)
    assert migrated(paths)["layers"] == TF2 + DROP


def test_modules_of_a_package(tmp_path: Path) -> None:
    """A package's main file is read as the module that it is started as."""
    paths = write(
        tmp_path,
        trainer____init__="",
        trainer__task=f"from trainer import model\n{TF2}\ndef main():\n    tf.app.run()\n{GUARD}",
        trainer__model=f"{TF2}from . import layers\n{CANNED}",
        trainer__layers=TF2 + DROP,
    )
    new = migrated(paths)
    assert new["layers"].startswith(TF1)
    assert new["model"].startswith(("import", TF1))
    assert "disable_v2_behavior" in new["model"]


def test_a_module_alone(tmp_path: Path) -> None:
    """A module that is given without its program is read as the program beside it says."""
    task = f"{TF2}from trainer import layers\ntf.Session()\n{GUARD}"
    paths = write(tmp_path, trainer____init__="", trainer__task=task, trainer__layers=TF2 + DROP)
    assert migrated(paths[2:])["layers"].startswith(TF1)
    write(tmp_path, trainer__task=task.replace("tf.Session()", ""))
    assert migrated(paths[2:])["layers"] == TF2 + DROP


def test_a_notebook_is_a_main_file(tmp_path: Path) -> None:
    """A module that a notebook imports has the API of the notebook, broken cells or not."""
    sources = [
        "print 'old'",
        f"%matplotlib inline\n{TF2}import layers",
        "tf.Session()\nlayers.drop",
    ]
    cells = [
        {
            "cell_type": "code",
            "source": text,
            "metadata": {},
            "outputs": [],
            "execution_count": None,
        }
        for text in sources
    ]
    notebook = tmp_path / "train.ipynb"
    notebook.write_text(
        json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 4})
    )
    paths = write(tmp_path, layers=TF2 + DROP)
    assert migrated(paths)["layers"] == TF2 + DROP
    assert migrated([str(notebook), *paths])["layers"].startswith(TF1)


def test_two_programs_in_a_directory(tmp_path: Path) -> None:
    """Each module has the API of its own program; one of both is named, with both readings."""
    old = f"{TF2}import mine, shared\ntf.Session()\n{GUARD}"
    new = f"{TF2}import other, shared\nprint(tf.nn)\n{GUARD}"
    paths = write(tmp_path, old=old, new=new, mine=TF2 + DROP, other=TF2 + DROP, shared=TF2 + DROP)
    programs = Programs(paths, {}, Sources())
    apis = {Path(path).stem: programs.place(path).api for path in paths}
    either = {"shared": ModuleApi.EITHER}
    assert apis == {
        "old": ModuleApi.TF1,
        "mine": ModuleApi.TF1,
        "new": ModuleApi.TF2,
        "other": ModuleApi.TF2,
        **either,
    }
    (line,) = findings(paths)
    assert line.startswith("shared:3: This module can be read as TensorFlow 1's by ")
    assert "old.py; as TensorFlow 2's by " in line
    assert "new.py, and tensorflow.nn.dropout is another thing in each" in line
    assert cli.main(paths) == 1


def test_a_shared_module_without_differences(tmp_path: Path) -> None:
    """A module of both programs that reads alike in them needs no line."""
    old = f"{TF2}import shared\ntf.Session()\n{GUARD}"
    new = f"{TF2}import shared\nprint(tf.nn)\n{GUARD}"
    same = f"{TF2}def f(x):\n    return tf.nn.relu(tf.cast(x, tf.float32))\n"
    assert findings(write(tmp_path, old=old, new=new, shared=same)) == []


def test_a_directory_without_a_main_file(tmp_path: Path) -> None:
    """Modules that nothing starts are one program."""
    paths = write(tmp_path, ops=TF2 + "def f():\n    tf.get_variable\n", layers=TF2 + DROP)
    assert migrated(paths)["layers"].startswith(TF1)
    assert migrated(write(tmp_path, layers=TF2 + DROP))["layers"] == TF2 + DROP


def test_a_module_that_no_main_file_reaches(tmp_path: Path) -> None:
    """A module has the API of the main files in its directory, unless its own names decide."""
    main = f"{TF2}tf.Session()\n{GUARD}"
    alone = {"a__loaded": TF2 + DROP, "b__loaded2": TF2 + DROP, "b__old": TF2 + "tf.flags\n"}
    paths = write(tmp_path, a__task=main, b__task2=main.replace("tf.Session()", ""), **alone)
    new = migrated(paths)
    assert new["loaded"].startswith(TF1)
    assert new["loaded2"] == alone["b__loaded2"]
    assert new["old"].startswith(TF1)


SHIMS = {
    "compat": "import tensorflow.compat.v1 as tf\n",
    "compat_alias": "import tensorflow as tf\ntf = tf.compat.v1\n",
    "compat_tested": "import tensorflow as tf\nif tf.__version__ >= '2':\n    tf = tf.compat.v1\n",
    "compat_try": "try:\n    import tensorflow.compat.v1 as tf\nexcept ImportError:\n"
    "    import tensorflow as tf\n",
    "compat_has": "import tensorflow as tf\nif hasattr(tf, 'compat'):\n    tf = tf.compat.v1\n",
}


@pytest.mark.parametrize("shim", SHIMS)
@pytest.mark.parametrize(
    "use",
    [
        "from SHIM import tf\ntf.placeholder, tf.estimator.DNNClassifier\n",
        "from SHIM import *\ntf.placeholder, tf.estimator.DNNClassifier\n",
        "import SHIM\nSHIM.tf.placeholder, SHIM.tf.estimator.DNNClassifier\n",
        "import SHIM as s\nx = s.tf\nx.placeholder, x.estimator.DNNClassifier\n",
        "from SHIM import tf as t\ne = t.estimator\nt.placeholder, e.DNNClassifier\n",
    ],
)
def test_tensorflow_from_a_module_of_the_program(tmp_path: Path, shim: str, use: str) -> None:
    """Names are followed through a module that chooses the API for the others."""
    paths = write(tmp_path, **{shim: SHIMS[shim]}, task=use.replace("SHIM", shim))
    new = migrated(paths)
    assert new[shim] == SHIMS[shim]
    assert "placeholder" in new["task"]
    assert "estimator.DNNClassifier" not in new["task"].replace("v1.DNNClassifier", "")
    assert "v1" in new["task"]
    assert findings(paths) == []
    assert not program_api.uses_tf1_names(StartedProgram(paths[-1]))


@pytest.mark.parametrize(
    "use",
    [
        "from lib import *\nx = tf.placeholder(tf.float32)\n",
        "import lib\nx = lib.tf.placeholder(lib.tf.float32)\n",
        "from lib import tf as t\nx = t.placeholder(t.float32)\n",
        "import lib as l\ny = l.tf\nx = y.placeholder(y.float32)\n",
    ],
)
def test_names_of_tensorflow_1_through_a_module(tmp_path: Path, use: str) -> None:
    """`run` and `migrate` see that a program is of TensorFlow 1 through a module of it."""
    paths = write(tmp_path, lib=TF2 + "def f(x):\n    return tf.nn.dropout(x, 0.9)\n", task=use)
    assert program_api.uses_tf1_names(StartedProgram(paths[-1]))
    assert migrated(paths) == {
        "lib": f"{TF1}\ntf.disable_v2_behavior()\n" + DROP.replace("drop(x)", "f(x)", 1),
        "task": use,
    }
    assert findings(paths) == []
    (line,) = findings(paths[1:])
    assert "lib" in line
    assert "isn't among the files" in line


def test_a_program_that_switches_to_eager_execution(tmp_path: Path) -> None:
    """Its modules don't switch back when they are imported later."""
    task = f"{TF2}tf.enable_eager_execution()\nimport layers\nlayers.drop(1)\ntf.Session\n"
    new = migrated(write(tmp_path, task=task, layers=TF2 + DROP))
    assert new["layers"] == TF1 + DROP
    assert "disable_v2_behavior" in new["task"]


def test_names_of_tensorflow_2_alone(tmp_path: Path) -> None:
    """In a program of TensorFlow 1 they are read of TensorFlow 2's API, as under `run`."""
    text = f"{TF2}tf.Session()\ntf.optimizers.SGD(0.1)\nopt = tf.optimizers\nopt.Adam\n"
    (new,) = migrated(write(tmp_path, task=text)).values()
    assert "tf.compat.v2.optimizers.SGD(0.1)\nopt = tf.compat.v2.optimizers\nopt.Adam" in new


@pytest.mark.parametrize(
    "text",
    [
        "def g():\n    from mylib import estimator as tf\n    return tf.contrib.x\n",
        "import tensorflow as tf\ndef g(tf):\n    return tf.Session\n",
        "import tensorflow as tf\nest = tf.train\nest = object()\nest.AdamOptimizer\n",
        "import tensorflow as tf\nclass C:\n    tf = None\n    x = tf.Session\n",
        "import tensorflow as tf\n[tf.Session for tf in x]\n",
        "import tensorflow as tf\nif tf.__version__ < '2':\n    tf.Session\n",
    ],
)
def test_names_that_are_not_tensorflows(tmp_path: Path, text: str) -> None:
    """A name that something else binds in its scope makes no program one of TensorFlow 1."""
    (path,) = write(tmp_path, program=text)
    assert not program_api.uses_tf1_names(StartedProgram(path))
    assert migrated([path])["program"] == text


def test_several_processes_read_the_same(tmp_path: Path) -> None:
    """With `--jobs` modules get the API of their program, too."""
    task = TF2 + "import layers\nfrom layers import tf as t\nt.Session().run(layers.drop(1))\n"
    paths = write(tmp_path, task=task, layers=TF2 + DROP)
    one = list(runner.migrate_files(paths, MigrationOptions()))
    assert list(runner.migrate_files(paths, MigrationOptions(), jobs=2)) == one
    assert all(isinstance(result, Changed) for result in one)


def test_files_are_read_once(tmp_path, monkeypatch):
    """What files import from each other, and their programs, come from one parse of each."""
    (tmp_path / "main.py").write_text("from own import tf\ntf.nn.relu(1)\n")
    (tmp_path / "own.py").write_text(TF2)
    paths = [str(tmp_path / name) for name in ("main.py", "own.py")]
    parsed, parse = [], program_files.parse
    monkeypatch.setattr(program_files, "parse", lambda path: parsed.append(path) or parse(path))
    list(runner.migrate_files(paths, MigrationOptions()))
    assert sorted(parsed) == paths
