# SPDX-License-Identifier: Apache-2.0
"""The command `python -m estimator_spec migrate`: files, exit status, reports."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import forks
from estimator_spec.legacy.migrate import cli, verification
from estimator_spec.legacy.migrate.results import Changed
from estimator_spec.legacy.migrate.rules import RULES

ROOT = Path(__file__).resolve().parents[4]
OLD = "import tensorflow as tf\nmode = tf.estimator.ModeKeys.TRAIN\n"
NEW = "import estimator_spec\nimport tensorflow as tf\nmode = estimator_spec.ModeKeys.TRAIN\n"
UNSUPPORTED = "from tensorflow.contrib import legacy_seq2seq\n\nlegacy_seq2seq.BasicDecoder()\n"


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """Returns a directory with a program of three modules."""
    (tmp_path / "package").mkdir()
    (tmp_path / "old.py").write_text(OLD)
    (tmp_path / "new.py").write_text(NEW)
    (tmp_path / "package" / "broken.py").write_text("print 'Python 2'\nimport tensorflow\n")
    return tmp_path


def test_diff_changes_no_file(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By default the difference is printed, and the status says that something would change."""
    assert cli.main([str(program / "old.py"), str(program / "new.py")]) == 1
    printed = capsys.readouterr()
    assert "-mode = tf.estimator.ModeKeys.TRAIN\n+mode = estimator_spec." in printed.out
    assert "Files: 1 changed, 1 unchanged." in printed.err
    assert (program / "old.py").read_text() == OLD


def test_write(program: Path) -> None:
    """`--write` changes the file; after that nothing is left to do."""
    path = program / "old.py"
    assert cli.main(["--write", str(path)]) == 0
    assert path.read_text() == NEW
    assert cli.main([str(path)]) == 0


def test_outtree(program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`--outtree` writes all files elsewhere, at the paths of the differences, or none of them."""
    tree = tmp_path / "tree"
    monkeypatch.chdir(program)
    for options in ([], ["--overwrite"]):
        assert cli.main(["--outtree", "tree", *options, "."]) == 3
        assert sorted(path.name for path in tree.rglob("*")) == ["new.py", "old.py"]
    assert (tree / "old.py").read_text() == NEW
    assert (program / "old.py").read_text() == OLD
    (program / "package" / "old.py").write_text(OLD)
    assert cli.main(["--outtree", "tree", "package/old.py"]) == 0
    assert (tree / "package" / "old.py").read_text() == NEW
    with pytest.raises(SystemExit):
        cli.main(["--outtree", ".", "package"])
    assert (program / "package" / "old.py").read_text() == OLD


@pytest.mark.parametrize("arguments", [["--write"], ["--outtree", "tree"]], ids=["write", "tree"])
def test_a_killed_run(program: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str]) -> None:
    """The next run removes what a killed one left beside the files, and nothing else."""
    monkeypatch.chdir(program)
    place = program if arguments == ["--write"] else program / "tree"
    place.mkdir(exist_ok=True)
    mine = [place / ".old.py.abcdefgh", place / "new.py.unfinished"]
    for path in mine:
        path.write_text("mine = 1\n")
    before = sorted(place.iterdir())

    def run_and_be_killed() -> None:
        os.replace = lambda *_: os._exit(0)  # of this process, a fork
        cli.main([*arguments, "old.py"])

    forks.run_in_a_fork(run_and_be_killed)
    assert len(list(place.iterdir())) == len(before) + 1
    assert cli.main([*arguments, "old.py"]) == 0
    assert sorted(place.iterdir()) == sorted({*before, place / "old.py"})
    assert (place / "old.py").read_text() == NEW
    assert {path.read_text() for path in mine} == {"mine = 1\n"}


@pytest.mark.parametrize("there", ["file", "directory", "link"])
def test_outtree_overwrites_nothing(
    program: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    there: str,
) -> None:
    """A file of the output tree is replaced with `--overwrite` only; without it none is written."""
    monkeypatch.chdir(program)
    place = program / "tree" / "old.py"
    place.parent.mkdir()
    if there == "file":
        place.write_text("mine = 1\n")
    elif there == "directory":
        place.mkdir()
    else:
        place.symlink_to("nothing")
    with pytest.raises(SystemExit) as raised:
        cli.main(["--outtree", "tree", "new.py", "old.py"])
    assert raised.value.code == 2
    assert "tree/old.py' exists: take a new directory, or --overwrite" in capsys.readouterr().err
    assert [path.name for path in place.parent.iterdir()] == ["old.py"]
    status = cli.main(["--outtree", "tree", "--overwrite", "new.py", "old.py"])
    assert status == (3 if there == "directory" else 0)
    assert there == "directory" or place.read_text() == NEW


def test_a_file_that_cannot_be_parsed(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file that isn't Python 3 fails, by name, and is left alone; the others are migrated."""
    broken = program / "package" / "broken.py"
    before = broken.read_bytes()
    assert cli.main(["--write", str(program)]) == 3
    told = capsys.readouterr().err
    assert "broken.py: failed: isn't Python 3, line 1: Missing parentheses" in told
    assert f"`python -m fissix -w {broken}` (pip install fissix)" in told
    assert "<unknown>" not in told
    assert broken.read_bytes() == before
    assert (program / "old.py").read_text() == NEW


def test_tabs_of_python_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file whose tabs only Python 2 understands fails with its line, and what expands them."""
    path = tmp_path / "a.py"
    path.write_text("import tensorflow as tf\nif tf:\n\tx = 1\n        y = tf.estimator\n")
    assert cli.main([str(path)]) == 3
    told = capsys.readouterr().err
    assert "isn't Python 3, line 4: inconsistent use of tabs" in told
    assert f"`expand -i -t 8 {path}`" in told


def test_old_names_that_remain(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A name that isn't restored makes the status 1, and a line with place and guide."""
    path = tmp_path / "a.py"
    path.write_text(UNSUPPORTED)
    assert cli.main(["--write", str(path)]) == 1
    line = capsys.readouterr().err.splitlines()[0]
    assert line.startswith(
        f"{path}:1:1: not rewritten: tensorflow.contrib.legacy_seq2seq isn't restored"
    )
    assert line.endswith("[unsupported-names, migration_guide.md#imports-that-arent-supported]")


def test_a_library_to_install(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Names that come from a library have one line a file, and status 0: they are rewritten."""
    path = tmp_path / "a.py"
    path.write_text(
        "import tensorflow as tf\nslim = tf.contrib.slim\nslim.conv2d(slim.flatten(x))\n"
        "tf.contrib.layers.fully_connected(x)\n"
        "from tensorflow.contrib import layers\nlayers.flatten\n"
    )
    assert cli.main(["--write", str(path)]) == 0
    lines = capsys.readouterr().err.splitlines()
    assert (
        "3:1: to install: tensorflow.contrib.slim.conv2d and 3 more come from tf_slim" in lines[0]
    )
    assert lines[-1].endswith("0 not rewritten, 0 numeric, 1 to install.")
    assert cli.main([str(path)]) == 0


def test_markers(tmp_path: Path) -> None:
    """`--markers` adds a comment above what remains, once."""
    path = tmp_path / "a.py"
    path.write_text(UNSUPPORTED)
    cli.main(["--write", "--markers", str(path)])
    text = path.read_text()
    assert text.count("# TODO(migrate): tensorflow.contrib.legacy_seq2seq isn't restored") == 1
    cli.main(["--write", "--markers", str(path)])
    assert path.read_text() == text


def test_skip(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file with the comment is skipped, and the report says why."""
    path = tmp_path / "a.py"
    path.write_text(f"# migrate: skip-file\n{OLD}")
    assert cli.main([str(path)]) == 0
    assert "skipped: it has the comment" in capsys.readouterr().err


def test_json(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`--json` prints an object for each file, with rewrites and findings."""
    cli.main(["--json", str(program / "old.py"), str(program / "package")])
    old, broken = json.loads(capsys.readouterr().out)
    assert old["result"] == "changed"
    assert {"line": 2, "column": 8, "rule": "old-names"}.items() <= old["rewrites"][1].items()
    assert broken["result"] == "failed"
    assert "Python 3" in broken["reason"]


def test_names_that_other_modules_import(tmp_path: Path) -> None:
    """An import stays, in another form, if a module that is migrated too takes the name from it."""
    common, train = tmp_path / "common.py", tmp_path / "train.py"
    common.write_text("from tensorflow.contrib import tpu\n\nx = tpu.TPUConfig\n")
    train.write_text("from common import tpu\n\nprint(tpu.TPUConfig)\n")
    assert cli.main(["--write", str(tmp_path)]) == 0
    assert 'tpu = estimator_spec.restored("tensorflow.contrib.tpu")\n' in common.read_text()
    assert cli.main(["--write", str(tmp_path)]) == 0


def test_contrib_has_one_spelling(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Names of `tf.contrib` that a program reads through tf.compat.v1 get TensorFlow 1's name."""
    script = tmp_path / "a.py"
    script.write_text(
        "import tensorflow.compat.v1 as tf\n"
        "table = tf.contrib.lookup.index_table_from_file('v.txt')\n"
        "tf.contrib.legacy_seq2seq.dynamic_decode()\n"
    )
    cli.main(["--write", str(script)])
    text = script.read_text() + capsys.readouterr().err
    assert 'restored("tensorflow.contrib.lookup").index_table_from_file' in text
    assert "tensorflow.contrib.legacy_seq2seq isn't restored" in text
    assert "compat.v1.contrib" not in text


def test_names_that_other_modules_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An import stays if another module reads it as an attribute; old names there are rewritten."""
    common, train = tmp_path / "common.py", tmp_path / "train.py"
    common.write_text(
        "from tensorflow.contrib import tpu\nimport tensorflow as tf\n\ntpu.TPUConfig\n"
    )
    train.write_text("import common as c\n\nc.tpu.TPUConfig\nc.tf.estimator.ModeKeys\nc.tf.nn\n")
    assert cli.main(["--write", str(tmp_path)]) == 0
    assert 'tpu = estimator_spec.restored("tensorflow.contrib.tpu")\n' in common.read_text()
    assert train.read_text() == (
        "import estimator_spec\nimport common as c\n\n"
        "estimator_spec.TPUConfig\nestimator_spec.ModeKeys\nc.tf.nn\n"
    )
    assert "0 not rewritten" in capsys.readouterr().err


@pytest.mark.parametrize(
    "text",
    [
        "class A:\n    tf = tf\n    x = tf.estimator.RunConfig",
        "f = lambda tf: tf.estimator.RunConfig",
        "class A:\n    def m(self, tf=tf):\n        return tf.estimator.RunConfig",
        "a, b = tf, 1\na.contrib.tpu",
        "def f(self):\n    return self.tf.estimator",
        "importlib.import_module('tensorflow.contrib.slim')",
        "mock.patch('tensorflow.estimator.RunConfig')",
        "sys.modules['tensorflow'].estimator",
        "exec('tf.estimator.RunConfig')",
        "from tensorflow.compat.v1 import *\nestimator.RunConfig",
        "from helpers import tf as t\nt.estimator.RunConfig",
    ],
)
def test_a_name_that_is_not_followed_has_a_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    """A program that may read an old name otherwise than by a followed name isn't called whole."""
    path = tmp_path / "a.py"
    path.write_text(f"import tensorflow as tf\n{text}\n")
    assert cli.main([str(path)]) == 1
    assert f"{path}:" in capsys.readouterr().err


def test_what_reads_no_old_name_has_no_line(tmp_path: Path) -> None:
    """Tests of a module, and attributes of others that look alike, aren't reported."""
    path = tmp_path / "a.py"
    path.write_text(
        "import django, tensorflow as tf\n"
        "if hasattr(tf, 'contrib') and tf is not None: print(tf)\n"
        "self.estimator.train(tf.nn.relu)\ndjango.contrib.auth\nlosses = tf.losses\ndel tf\n"
    )
    assert cli.main(["--only", "old-names", "--only", "restored-names", str(path)]) == 0


def test_only(program: Path) -> None:
    """`--only` applies one rule; if the others have nothing to do, that is all."""
    old = program / "old.py"
    assert cli.main(["--only", "old-names", "--write", str(old)]) == 0
    assert old.read_text() == NEW


def test_only_leaves_nothing_dead_without_a_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With `--only`, what the other rules would have done has a line, and the status is 1."""
    path = tmp_path / "a.py"
    path.write_text(
        "import tensorflow as tf\ntf.Session()\ntf.nn.dropout(x, 0.9)\ntf.contrib.crf\n"
        "tf.estimator.DNNClassifier([3], [])\n"
    )
    before = path.read_text()
    assert cli.main(["--only", "tf1-arguments", "--write", str(path)]) == 1
    assert path.read_text() == before
    told = capsys.readouterr().err
    for line in (
        ":2:1: not rewritten: tensorflow.Session is TensorFlow 1's",
        ":3:1: not rewritten: This module is of a program of TensorFlow 1, and tensorflow.nn.dropo",
        ":4:1: not rewritten: tensorflow.contrib.crf isn't in TensorFlow 2.21.0. The rule restored",
        ":5:1: not rewritten: tensorflow.estimator.DNNClassifier isn't in TensorFlow 2.21.0. The r",
    ):
        assert line in told
    # Names are those of TensorFlow 1, though its import isn't rewritten.
    assert cli.main(["--only", "old-names", "--write", str(path)]) == 1
    assert "\nestimator_spec.canned.v1.DNNClassifier([3], [])\n" in path.read_text()
    assert "import tensorflow as tf\ntf.Session()" in path.read_text()


@pytest.mark.slow
def test_jobs(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Several processes give the same report as one."""
    cli.main(["--json", str(program)])
    alone = capsys.readouterr().out
    cli.main(["--json", "--jobs", "2", str(program)])
    assert capsys.readouterr().out == alone


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["nothing.py"],
        ["--only", "nothing", "."],
        ["--jobs", "0", "."],
        ["--to", "mid-level", "--verify", "train.py", "."],
    ],
)
def test_usage_errors(arguments: list[str]) -> None:
    """An invalid command line has status 2."""
    with pytest.raises(SystemExit) as raised:
        cli.main(arguments)
    assert raised.value.code == 2


def test_list_rules(capsys: pytest.CaptureFixture[str]) -> None:
    """`--list-rules` prints a line for each rule."""
    assert cli.main(["--list-rules"]) == 0
    names = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert names == [rule.name for rule in RULES]


@pytest.mark.slow
def test_command_starts_without_tensorflow(program: Path) -> None:
    """The command imports neither TensorFlow nor the driver."""
    code = (
        "import sys\nfrom estimator_spec import __main__\n"
        f"status = __main__.main(['migrate', {str(program / 'old.py')!r}])\n"
        "loaded = [n for n in sys.modules if n in ('tensorflow', 'estimator_spec.core.driver')]\n"
        "sys.exit(f'{status} {loaded}')\n"
    )
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env)
    assert done.stderr.splitlines()[-1] == "1 []"


def test_verify_compares_the_program_before_and_after(
    program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`--verify` compares the tree as it was with the tree as it is rewritten."""
    compared = []

    def command(programs: list[str], arguments: list[str], options: list[str]) -> list[str]:
        *before, old, new = programs
        script = "old.py" if before else ""
        texts = [Path(old, script).read_text(), Path(new, script).read_text()]
        compared.append([before, *texts, arguments, options[0]])
        tree = Path(old, script).parent
        assert options[1:3] == ["--never-from", str(program)]
        assert options[4].split(os.pathsep) == ["/elsewhere", str(tree), str(tree / "package")]
        return [sys.executable, "-c", "raise SystemExit(7)"]

    monkeypatch.setattr(verification, "compare_command", command)
    paths = ["/elsewhere", str(program), str(program / "package")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))
    path = program / "old.py"
    arguments = ["--root", str(program), "--verify-options=--run-option=--cpu", str(path)]
    assert cli.main(["--verify", f"{path} --steps 3", *arguments]) == 4
    assert cli.main(["--write", "--verify=-m old --steps 3", *arguments]) == 4
    rest = [OLD, NEW, ["--steps", "3"], "--run-option=--cpu"]
    assert compared == [[[], *rest], [["-m", "old"], *rest]]


MODEL = """
import tensorflow as tf


def model_fn(features, labels, mode):
    weight = tf.get_variable("weight", [], initializer=tf.ones_initializer())
    loss = tf.square(weight * features["x"] - labels)
    step = tf.train.get_or_create_global_step()
    train_op = tf.train.GradientDescentOptimizer(0.1).minimize(loss, step)
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def input_fn():
    return tf.data.Dataset.from_tensors(({"x": 2.0}, 1.0)).repeat()
"""
TASK = """
import sys
import tensorflow as tf
from trainer import model

tf.logging.set_verbosity(tf.logging.WARN)
tf.estimator.Estimator(model.model_fn, sys.argv[1]).train(model.input_fn, steps=2)
"""


@pytest.mark.slow
def test_verify_runs_both_programs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """`--verify` trains a module of TensorFlow 1, found from `--root`, and its rewritten copy."""
    package, elsewhere = tmp_path / "code" / "trainer", tmp_path / "elsewhere"
    package.mkdir(parents=True)
    elsewhere.mkdir()
    for name, text in (("__init__", ""), ("model", MODEL), ("task", TASK)):
        (package / f"{name}.py").write_text(text)
    monkeypatch.chdir(elsewhere)
    arguments = ["--write", "--root", "../code", "--verify", "-m trainer.task model", "../code"]
    assert cli.main(arguments) == 0
    assert "The two agree in all 10 items." in capfd.readouterr().out
    assert "tf.estimator" not in (package / "task.py").read_text()


def test_verify_refuses_a_program_elsewhere(program: Path, tmp_path: Path) -> None:
    """A program outside of the root is refused by name."""
    changed = Changed(str(program / "old.py"), OLD, NEW, ())
    with pytest.raises(ValueError, match="is no program below"):
        verification.verify("/nowhere/train.py", [changed], str(program))
