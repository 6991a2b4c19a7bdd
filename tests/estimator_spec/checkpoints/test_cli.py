# SPDX-License-Identifier: Apache-2.0
"""Tests `python -m estimator_spec checkpoint …`: commands, exit statuses, output."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import forking_python
from estimator_spec import checkpoints
from estimator_spec.checkpoints import cli

TABLE = "input_layer/word_embedding/embedding_weights"
VALUES = np.arange(14, dtype=np.float32).reshape(7, 2)


@pytest.fixture
def source(files):
    """A table and its slot, in three mod shards."""
    layouts = dict.fromkeys((TABLE, TABLE + "/Adagrad"), ("mod", 3))
    return files.write({TABLE: VALUES, TABLE + "/Adagrad": VALUES, "bias": 1.5}, layouts)


def test_inspect(source, capsys):
    """`inspect` prints a table, and JSON with --json."""
    assert cli.main(["inspect", source]) == 0
    text = capsys.readouterr().out
    assert "mod × 3" in text
    assert "Adagrad (tpu and cpu)" in text
    assert cli.main(["inspect", source, "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["entries"][0]["shape"] == [7, 2]


def test_convert(files, source, capsys, tmp_path):
    """`convert` takes every option; --dry-run prints the same table and writes nothing."""
    (tmp_path / "old.txt").write_text("a\nb\n")
    (tmp_path / "new.txt").write_text("b\na\n")
    target = files.new()
    options = ["--strategy=div", "--shards", "2", "--rename-regex", "^input_layer/=words/"]
    options += ["--grow", "word_embedding=9", "--drop", "^bias$", "--seed", "5"]
    options += [
        "--vocabulary",
        f"word_embedding=file://{tmp_path / 'old.txt'}:{tmp_path / 'new.txt'}",
    ]
    assert cli.main(["convert", source, target, *options, "--dry-run"]) == 0
    planned = capsys.readouterr().out
    assert not os.path.exists(os.path.dirname(target))
    assert cli.main(["convert", source, target, *options]) == 0
    done = capsys.readouterr().out
    assert planned.splitlines()[1:] == done.splitlines()[1:]
    assert "mod × 3 → div × 2, rows permuted, 2 new rows" in done
    found = files.read(target)
    assert sorted(found) == [
        "words/word_embedding/embedding_weights",
        "words/word_embedding/embedding_weights/Adagrad",
    ]
    np.testing.assert_array_equal(
        found["words/word_embedding/embedding_weights"][:7], VALUES[[1, 0, 2, 3, 4, 5, 6]]
    )


def test_diff(files, source, capsys):
    """`diff` exits with 0 for the same rows in other shards, with 1 for a difference."""
    other, changed = files.new(), files.new()
    assert cli.main(["convert", source, other, "--shards=1", "--rename", "bias=offset"]) == 0
    assert cli.main(["convert", source, changed, "--strategy=div"]) == 0
    capsys.readouterr()
    assert cli.main(["diff", source, changed]) == 0
    assert "3 variables are the same" in capsys.readouterr().out
    assert cli.main(["diff", source, other]) == 1
    text = capsys.readouterr().out
    assert "bias      only in the first" in text
    assert "offset    only in the second" in text


def test_diff_of_one_without_a_record(files, source, capsys):
    """`diff` takes the layout of a checkpoint without a record as arguments."""
    old, new = files.new(), files.new()
    assert cli.main(["convert", source, old, "--shards=2"]) == 0
    assert cli.main(["convert", source, new, "--strategy=div", "--shards=1"]) == 0
    os.remove(old + ".tables.json")
    assert cli.main(["diff", old, new]) == 1
    assert cli.main(["diff", old, new, "--strategy=mod", "--shards=2"]) == 0
    capsys.readouterr()


def test_diff_of_values(files, capsys):
    """`diff` reports how many rows differ, and by how much."""
    first = files.write({TABLE: VALUES, "a": 1.5, "b": np.zeros(3), "c": np.array([b"x"], object)})
    other = VALUES.copy()
    other[2] += 0.25
    second = files.write(
        {TABLE: other, "a": 2.5, "b": np.zeros(4), "c": np.array([b"y"], object)},
        {TABLE: ("mod", 2)},
    )
    found = checkpoints.diff(first, second)
    assert {change.name: change.what for change in found.changed} == {
        TABLE: "1 of 7 rows differ, by at most 0.25",
        "a": "1.5 and 2.5",
        "b": "shapes [3] and [4]",
        "c": "other contents",
    }
    assert cli.main(["diff", first, second]) == 1


def test_verify_and_record(files, source, capsys):
    """`verify` exits with 1 when a byte is wrong; `record` stores a checkpoint's layout."""
    assert cli.main(["verify", source]) == 0
    assert "all checksums fit" in capsys.readouterr().out
    os.remove(source + ".tables.json")
    assert cli.main(["record", source, "--strategy", "mod"]) == 0
    np.testing.assert_array_equal(checkpoints.read_table(source, TABLE), VALUES)
    data = Path(source + ".data-00000-of-00001")
    data.write_bytes(b"x" + data.read_bytes()[1:])
    assert cli.main(["verify", source]) == 1
    assert "1 damaged" in capsys.readouterr().out


def test_a_spec_by_its_name(source, tmp_path, monkeypatch, capsys):
    """`--spec MODULE:NAME` takes a spec, or a function that returns one, from a user's module."""
    (tmp_path / "my_model_for_the_cli.py").write_text(
        "import tensorflow as tf, tpu_columns, estimator_spec\n"
        "word = tf.feature_column.categorical_column_with_identity('word', 7)\n"
        "def make():\n"
        "    return estimator_spec.EmbeddingConfigSpec(\n"
        "        [tpu_columns.embedding_column(word, 2)], estimator_spec.AdamParameters(0.1))\n"
        "spec = make()\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    for name in ("spec", "make"):
        assert cli.main(["inspect", source, "--spec", f"my_model_for_the_cli:{name}"]) == 0
        assert "a slot of the spec's Adam" in capsys.readouterr().out
    for wrong, words in (
        ("my_model_for_the_cli", "give MODULE:NAME"),
        ("my_model_for_the_cli:word", "no EmbeddingConfigSpec"),
        ("no_such_module_here:x", "No module named"),
    ):
        assert cli.main(["inspect", source, "--spec", wrong]) == 2
        assert words in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["inspect", "/nowhere/model.ckpt-1"], "There is no checkpoint"),
        (["inspect", "nobody://knows/this"], "can't be looked for"),
        (["inspect", "SOURCE", "--table", "bias"], "'bias' of .* is no table: its shape is []"),
        (["convert", "SOURCE", "SOURCE"], "already"),
        (["convert", "SOURCE", "SOURCE", "--dry-run"], "already"),
        (["convert", "SOURCE", "x", "--drop", "["], "drop: '[' is no regular expression"),
        (["convert", "SOURCE", "x", "--rename-regex", "[=x"], "'[' is no regular expression"),
        (["convert", "SOURCE", "x", "--rename-regex", r"bias=\9"], "'bias' finds: invalid group"),
        (["convert", "SOURCE", "x", "--rename", "bias="], "'bias' can't be named ''"),
        (
            ["convert", "SOURCE", "x", "--vocabulary", "word_embedding=/no:/no"],
            "'/no' can't be read",
        ),
        (["diff", "SOURCE", "SOURCE", "--table", "nobody"], "Neither checkpoint has a table"),
        (["convert", "SOURCE", "x", "--grow", "word=many"], "'many' is no number of rows"),
        (["convert", "SOURCE", "x", "--grow", "word"], "--grow word: give two parts"),
        (["convert", "SOURCE", "x", "--vocabulary", "a=b"], "give OLD:NEW"),
        (["convert", "SOURCE", "x", "--vocabulary", "a=b:"], "give OLD:NEW"),
        (["convert", "SOURCE", "x", "--vocabulary", "a=gs://b:c:d"], "give OLD:NEW"),
        (["convert", "SOURCE", "x", "--rename", "a=b", "--rename-regex", "a=b"], "not both"),
    ],
)
def test_what_cannot_be_done(source, capsys, arguments, words):
    """Errors exit with 2, with the reason on standard error."""
    assert cli.main([source if a == "SOURCE" else a for a in arguments]) == 2
    said = capsys.readouterr().err
    assert all(part in said for part in words.split(".*"))
    assert said.startswith("error: ")


def test_interrupted(files, source, capsys, monkeypatch):
    """Ctrl-C exits with 130 and a message, and leaves no files."""

    def interrupt(*args):
        raise KeyboardInterrupt

    target = files.new()
    monkeypatch.setattr(os, "pwrite", interrupt)
    assert cli.main(["convert", source, target, "--shards=1"]) == 130
    assert capsys.readouterr().err.startswith("interrupted: nothing was changed")
    assert os.listdir(os.path.dirname(target)) == []


def test_a_reader_that_goes_away(source):
    """`inspect … | head` exits without an error about the closed pipe."""
    python = forking_python.stand_in()
    command = f"'{python}' -m estimator_spec checkpoint inspect '{source}' | true"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    for words in ("error: ", "Traceback", "Exception ignored"):
        assert words not in done.stderr


def test_from_a_shell(source):
    """The module's command line lists all commands."""
    done = forking_python.run(["-m", "estimator_spec", "checkpoint", "--help"], check=True)
    for name in ("inspect", "convert", "diff", "verify", "record"):
        assert name in done.stdout


@pytest.mark.parametrize(
    "options",
    [
        ["--strategy=mod", "--shards=3"],
        ["--slots=tpu"],
        ["--drop=^no_such_variable$"],
        ["--grow", "word_embedding=7"],
    ],
)
def test_a_conversion_that_changes_nothing(files, source, capsys, options):
    """`convert` with options that change nothing says so, writes nothing, and exits with 2."""
    target = files.new()
    assert cli.main(["convert", source, target, *options]) == 2
    said = capsys.readouterr().err
    assert f"{options[0].partition('=')[0]}" in said
    assert "would change nothing" in said
    assert not os.path.exists(os.path.dirname(target))
    assert cli.main(["convert", source, target]) == 0  # a plain copy was asked for


def test_repair(source, tmp_path, capsys):
    """`repair` writes a missing state file of the checkpoints that are whole, in order of step."""
    directory = tmp_path / "model"
    for step in (10, 9, 100, 20):
        assert cli.main(["convert", source, str(directory / f"model.ckpt-{step}")]) == 0
    with open(directory / "model.ckpt-100.data-00000-of-00001", "r+b") as file:
        file.write(b"wrong")
    os.truncate(directory / "model.ckpt-9.index", 20)
    (directory / "checkpoint").unlink()
    before = sorted(os.listdir(directory))
    capsys.readouterr()
    assert cli.main(["repair", str(directory), "--dry-run"]) == 0
    planned = capsys.readouterr().out
    assert sorted(os.listdir(directory)) == before
    assert cli.main(["repair", str(directory)]) == 0
    done = capsys.readouterr().out
    assert planned.replace("would name", "names") == done
    assert (
        "model.ckpt-20 as the latest checkpoint, and in all: model.ckpt-10, model.ckpt-20" in done
    )
    assert "model.ckpt-100.data-00000-of-00001' is damaged" in done
    assert "model.ckpt-9.index" in done
    assert sorted(os.listdir(directory)) == sorted([*before, "checkpoint"])
    assert "model.ckpt-20" in (directory / "checkpoint").read_text()
    assert cli.main(["repair", str(directory)]) == 0
    assert "nothing to repair" in capsys.readouterr().out
    assert cli.main(["repair", str(tmp_path / "nowhere")]) == 2
    assert "has no complete checkpoint" in capsys.readouterr().err


def test_a_spec_that_is_none(source, tmp_path, monkeypatch, capsys):
    """Whatever the module of `--spec` raises is an error of one line that names the argument."""
    (tmp_path / "my_broken_model.py").write_text(
        "import sys\n"
        "def needs(argument): pass\n"
        "def ends(): sys.exit('usage: …')\n"
        "def breaks(): 1 / 0\n"
        "nothing = None\n"
    )
    (tmp_path / "my_script.py").write_text("raise SystemExit(3)\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    for wrong in (
        *("my_broken_model:" + name for name in ("needs", "ends", "breaks", "nothing", "missing")),
        *("my_script:spec", "my_broken_model:", ":spec", "json:loads", "os:sep"),
    ):
        assert cli.main(["inspect", source, "--spec", wrong]) == 2, wrong
        said = capsys.readouterr().err
        assert said.startswith(f"error: --spec {wrong}: ")
        assert len(said.splitlines()) == 1
    with pytest.raises(TypeError, match="spec must be an EmbeddingConfigSpec, got {}"):
        checkpoints.inspect(source, {})
