# SPDX-License-Identifier: Apache-2.0
"""Goldens are complete, and neither a wrong number nor another program goes unnoticed."""

from __future__ import annotations

import lzma
import re
import shutil

import head_cases
import numpy as np
import pytest

import goldens
import record

VERSIONS = {"tensorflow": "2.15.1", "tensorflow_estimator": "2.15.0"}
NAME = "warm_start"


@pytest.fixture
def golden():
    """Returns a committed golden."""
    return goldens.read(NAME)


@pytest.fixture
def program(tmp_path):
    """Returns a program with a golden, in a temporary directory."""
    source = tmp_path / "program.py"
    source.write_text("LEARNING_RATE = 0.1\n")
    made = goldens.Program("program.py OUT", (source,), ("losses",))
    goldens.write("made", {"losses": np.ones(3)}, VERSIONS, tmp_path, made)
    return made


def test_every_program_has_a_golden_and_every_golden_a_program():
    """The folder has a readable golden of TensorFlow 2.15.1 for each program, and no other file."""
    files = sorted(path.name for path in goldens.FOLDER.iterdir())
    assert files == sorted(goldens.path_of(name).name for name in goldens.ALL)
    for name in goldens.ALL:
        found = goldens.read(name)
        assert found.about["golden"] == name
        assert found.about["tensorflow"] == VERSIONS["tensorflow"]
        assert found.record
    assert set(goldens.ALWAYS_LIVE) <= set(goldens.ALL)


def test_every_program_that_runs_is_known():
    """Every program in the folders of the reference has a name here, and every head."""
    in_folder = {path.stem for path in (goldens.SCRIPTS / "programs").glob("*.py")}
    apart = {"canned_models", "common", "tf1_columns"}
    assert in_folder - apart == set(goldens.SIDE.names)
    assert set(goldens.UNEDITED) <= {path.stem for path in goldens.PROGRAMS.glob("*.py")}
    drawn = {*head_cases.SECOND_GENERATION, *head_cases.FIRST_GENERATION}
    assert {*drawn, "fixed"} == set(goldens.HEADS.names)


@pytest.mark.parametrize(
    ("entry", "factor"), [("losses", 1 + 3e-4), ("predictions:logit", 1.01), ("losses", np.nan)]
)
def test_a_wrong_number_is_named(golden, entry, factor):
    """One number beyond its tolerance fails with the names of the golden and the entry."""
    wrong = golden.record[entry].copy()
    place = np.unravel_index(np.abs(wrong).argmax(), wrong.shape)
    wrong[place] *= factor
    found = {**golden.record, entry: wrong}
    with pytest.raises(AssertionError, match=f"{NAME}: {entry}: .*1 of {wrong.size} differ"):
        goldens.assert_same(NAME, golden.record, found, entry)


def test_rounding_is_not_a_difference(golden):
    """Numbers within the tolerances are the same."""
    moved = {
        key: np.asarray(value * np.asarray(1 + 5e-5, value.dtype))
        if isinstance(value, np.ndarray) and value.dtype.kind == "f"
        else value
        for key, value in golden.record.items()
    }
    assert not list(goldens.record_differences(NAME, moved, golden.record))


@pytest.mark.parametrize(
    ("actual", "expected", "words"),
    [
        ({"a": 1.0}, {"a": 1.0, "b": 2.0}, "b: is missing"),
        ({"a": 1.0, "b": 2.0}, {"a": 1.0}, "b: isn't in the expected record"),
        ({"a": [1, 2]}, {"a": [1.0, 2.0]}, "a: int64"),
        ({"a": np.float32(1)}, {"a": np.float64(1)}, "a: float32"),
        ({"a": np.zeros(2)}, {"a": np.zeros(3)}, r"a: float64 \(2,\)"),
        ({"a": {"b": ["x", "y"]}}, {"a": {"b": ["x", "z"]}}, r"a\['b'\]\[1\]: 'y', expected 'z'"),
        ({"a": [[1.0], [2.0, 3.0]]}, {"a": [[1.0], [2.0, 4.0]]}, r"a\[1\]: .*3.0.*expected"),
        ({"a": True}, {"a": 1}, "a: bool, expected int"),
        ({"a": np.array(["x"])}, {"a": np.array(["y"])}, "a: .*'x'.*'y'"),
        ({"a": np.array([np.inf])}, {"a": np.array([-np.inf])}, "a: .*inf"),
        ({"a": b"x"}, {"a": b"y"}, "a: b'x'"),
    ],
)
def test_what_is_a_difference(actual, expected, words):
    """Names, types, dtypes, shapes, words and numbers count, wherever they are."""
    (found,) = goldens.differences(actual, expected, lambda entry: 1e-4)
    assert re.match(words, found), found
    assert not list(goldens.differences(expected, expected, lambda entry: 1e-4))


def test_an_empty_group_is_no_agreement(golden):
    """A name that a record doesn't have fails, instead of comparing nothing."""
    with pytest.raises(AssertionError, match=f"{NAME} has no nothing"):
        goldens.assert_same(NAME, golden.record, golden.record, "nothing")


def test_another_program_cannot_be_compared(program, tmp_path):
    """After one byte of the source has changed, the error says how to record it anew."""
    assert goldens.read("made", tmp_path, program).record["losses"].tolist() == [1, 1, 1]
    (source,) = program.sources
    source.write_bytes(source.read_bytes().replace(b"0.1", b"0.2"))
    words = r"made isn't the program of its golden: program.py .*record.py made --python"
    with pytest.raises(goldens.Outdated, match=words):
        goldens.read("made", tmp_path, program)


def test_another_command_cannot_be_compared(program, tmp_path):
    """Other arguments make another program."""
    with pytest.raises(goldens.Outdated, match="made is of another command.*record.py made"):
        goldens.read("made", tmp_path, program._replace(command="program.py OUT --fast"))


def test_a_missing_golden_says_how_to_record_it(tmp_path):
    """The error names the program and the command."""
    with pytest.raises(goldens.Outdated, match=f"no golden of {NAME}.*record.py {NAME} --python"):
        goldens.read(NAME, tmp_path)


def test_what_is_written_is_read(program, tmp_path):
    """Arrays of all dtypes, bytes and nested reports come back; nothing else can be written."""
    written = {
        "f": np.array([1.5, np.nan, -np.inf], np.float32),
        "scalar": np.array(7, np.int64),
        "words": np.array(["ä", "bc"]),
        "bytes": np.array([b"a", b"bc"]),
        "empty": np.zeros((0, 3)),
        "files": {"a/b": b"\x00\xff"},
        "report": {"losses": [0.1, 0.2], "name": None},
    }
    goldens.write("made", written, VERSIONS, tmp_path, program)
    found = goldens.read("made", tmp_path, program)
    assert not list(goldens.differences(found.record, written, lambda entry: 0.0))
    assert {key: found.about[key] for key in VERSIONS} == VERSIONS
    goldens.lay_out(found, tmp_path / "model")
    assert (tmp_path / "model" / "a" / "b").read_bytes() == b"\x00\xff"
    with pytest.raises(TypeError, match="A golden can't have"):
        goldens.write("made", {"x": np.array([None])}, VERSIONS, tmp_path, program)
    assert not list(tmp_path.glob("*.tmp"))


def test_programs_that_are_live(monkeypatch):
    """Three programs run under the reference in every run, all with TPU_COLUMNS_LIVE=1."""
    monkeypatch.delenv(goldens.LIVE, raising=False)
    assert [name for name in goldens.ALL if goldens.is_live(name)] == sorted(
        goldens.ALWAYS_LIVE, key=list(goldens.ALL).index
    )
    monkeypatch.setenv(goldens.LIVE, "1")
    assert all(map(goldens.is_live, goldens.ALL))


@pytest.fixture
def recorded_anew(monkeypatch):
    """Lets `record.py` find a changed record instead of asking a reference."""

    def fake(**changed):
        def recorded(names, python, asked_before):
            for name in sorted(names):
                entries = changed if name == NAME else {}
                yield name, {**goldens.read(name).record, **entries}

        monkeypatch.setattr(record, "record", recorded)

    return fake


def test_check_names_what_differs(recorded_anew, golden, capsys):
    """`--check` exits with 1, and names the golden and the entry of a reference that differs."""
    recorded_anew(losses=golden.record["losses"] * 1.01)
    assert record.main([NAME, "mirrored", "--check", "--python", "reference"]) == 1
    said = capsys.readouterr().out
    assert f"{NAME}: differs" in said and f"{NAME}: losses: " in said
    assert "mirrored: the same" in said and "1 of 2 goldens differ." in said


def test_check_agrees(recorded_anew, capsys):
    """`--check` exits with 0 if all is the same; of files, names and sizes count."""
    recorded_anew()
    assert record.main([NAME, "--check", "--python", "reference"]) == 0
    assert "0 of 1 goldens differ." in capsys.readouterr().out
    recorded_anew(files={})
    assert record.main([NAME, "--check", "--python", "reference"]) == 1
    assert f"{NAME}: files['model.ckpt-100.index']: is missing" in capsys.readouterr().out


def test_check_names_an_outdated_golden(recorded_anew, tmp_path, capsys):
    """`--check` fails for a golden that there isn't."""
    shutil.copy(goldens.path_of("mirrored"), tmp_path)
    recorded_anew()
    assert record.check({NAME, "mirrored"}, "reference", tmp_path) == 1
    assert f"There is no golden of {NAME}." in capsys.readouterr().out


def test_unknown_names_are_refused(capsys):
    """A name that isn't a golden's is an error before anything runs."""
    with pytest.raises(SystemExit):
        record.main(["warm_stat", "--python", "reference"])
    assert "no goldens are called warm_stat" in capsys.readouterr().err


def test_no_golden_names_files_of_a_machine():
    """What is recorded is the same wherever it is recorded."""
    for path in goldens.FOLDER.glob("*.xz"):
        text = lzma.decompress(path.read_bytes()).decode()
        assert "site-packages" not in text and "/tests/" not in text, path.name
