# SPDX-License-Identifier: Apache-2.0
"""The runner of the reference's suites, on small files of tests of our own."""

from __future__ import annotations

import re
import sys

import pytest

import expected
import suites
from suites import Outcome

FILE = """
import os, unittest

class Some(unittest.TestCase):
    def test_1_passes(self):
        pass
    def test_2_fails(self):
        self.assertEqual(1, 2)
    def test_3_ends_the_process(self):
        os._exit(7)
    def test_4_has_a_subtest(self):
        with self.subTest("a"):
            self.fail("inner")
    def test_5_skips(self):
        self.skipTest("TensorFlow 2")

unittest.main()
"""


@pytest.fixture
def checkout(tmp_path):
    """A checkout with two test files, one that tests share and one of the library."""
    folder = tmp_path / suites.FOLDER / "canned"
    folder.mkdir(parents=True)
    for name in ("dnn.py", "dnn_test.py", "dnn_testing_utils.py"):
        (folder / name).write_text("pass\n")
    (folder / "dnn_test_fc_v1_v1.py").write_text("")
    return tmp_path


def test_test_files_are_found_by_name(checkout):
    """Files of tests come smallest first; the library's and shared ones aren't run."""
    assert [path.name for path in suites.find(checkout)] == ["dnn_test_fc_v1_v1.py", "dnn_test.py"]
    assert [path.name for path in suites.find(checkout, ["dnn_test.py"])] == ["dnn_test.py"]


def test_list_runs_nothing(checkout, capsys):
    """`--list` prints the files that would run."""
    assert suites.main([str(checkout), "--list"]) == 0
    assert capsys.readouterr().out.split() == ["canned/dnn_test_fc_v1_v1.py", "canned/dnn_test.py"]


def test_the_checkout_may_be_a_relative_path(checkout, monkeypatch, capsys):
    """Files run in a directory of their own, and are found from there."""
    test = checkout / suites.FOLDER / "canned" / "dnn_test.py"
    test.write_text(
        FILE.replace("os._exit(7)", "pass").replace('self.skipTest("TensorFlow 2")', "pass")
    )
    monkeypatch.chdir(checkout)
    suites.main([".", "canned/dnn_test.py", "--reference", sys.executable])
    assert "canned/dnn_test.py: 3 passed, 2 failed" in capsys.readouterr().out


def test_each_test_has_an_outcome(tmp_path, monkeypatch):
    """A test that ends the process loses no other test, and a subtest fails its test."""
    file = tmp_path / "some_test.py"
    file.write_text(FILE)
    # Plain unittest, and no second run for what skips: no TensorFlow.
    outcomes = suites._run_tests(sys.executable, file, [], ["--reference"])
    assert {name: each.outcome for name, each in outcomes.items()} == {
        "Some.test_1_passes": "passed",
        "Some.test_2_fails": "failed",
        "Some.test_3_ends_the_process": "failed",
        "Some.test_4_has_a_subtest": "failed",
        "Some.test_5_skips": "skipped",
    }
    assert "status 7" in outcomes["Some.test_3_ends_the_process"].error
    assert "inner" in outcomes["Some.test_4_has_a_subtest"].error


def test_a_file_that_cannot_be_imported_fails_each_of_its_tests(tmp_path):
    """Tests are counted by the source of a file that doesn't get as far as running them."""
    file = tmp_path / "some_test.py"
    file.write_text("import nothing_of_this_name\n" + FILE)
    outcomes = suites._run_tests(sys.executable, file, [], ["--reference"])
    assert len(outcomes) == 5
    assert {each.outcome for each in outcomes.values()} == {"failed"}


def test_a_time_limit_loses_one_test(tmp_path, monkeypatch):
    """A test that doesn't end fails alone."""
    file = tmp_path / "some_test.py"
    file.write_text(FILE.replace("os._exit(7)", "import time; time.sleep(600)"))
    monkeypatch.setattr(suites, "SECONDS", 3)
    outcomes = suites._run_tests(sys.executable, file, [], ["--reference"])
    assert "not done within 3 seconds" in outcomes["Some.test_3_ends_the_process"].error
    assert outcomes["Some.test_1_passes"].outcome == "passed"
    assert outcomes["Some.test_5_skips"].outcome == "skipped"


def test_an_endless_test_has_a_limit_of_its_own(tmp_path, monkeypatch):
    """A test that is listed as endless ends soon, and no other one does."""
    file = tmp_path / "some_test.py"
    sleeping = FILE.replace("os._exit(7)", "import time; time.sleep(600)")
    file.write_text(sleeping.replace("        pass\n", "        import time; time.sleep(3)\n"))
    (tmp_path / "tpu.txt").write_text("some_test.py Some.test_3_ends_the_process  # endless\n")
    monkeypatch.setattr(expected, "LISTS", tmp_path)
    monkeypatch.setattr(suites, "ENDLESS_SECONDS", 1)
    outcomes = suites._run_tests(sys.executable, file, [], ["--reference"])
    assert "not done within 1 seconds" in outcomes["Some.test_3_ends_the_process"].error
    assert outcomes["Some.test_1_passes"].outcome == "passed"


@pytest.mark.parametrize(
    ("outcome", "listed", "problem"),
    [
        ("passed", "", None),
        ("failed", "a_test.py A.test", None),
        ("skipped", "", None),
        ("failed", "", "fails and isn't listed: a_test.py A.test: it broke"),
        ("passed", "a_test.py A.test  # why", "passed, and is in message.txt: a_test.py A.test"),
        ("passed", "a_test.py A.gone", "doesn't exist, and is in message.txt: a_test.py A.gone"),
        ("passed", "other_test.py A.test", None),
    ],
)
def test_lists_and_outcomes_must_agree(tmp_path, monkeypatch, outcome, listed, problem):
    """A failure that isn't listed is a problem, and so is a listed test that doesn't fail."""
    monkeypatch.setattr(expected, "LISTS", tmp_path)
    (tmp_path / "message.txt").write_text(listed + "\n")
    outcomes = {"a_test.py": {"A.test": Outcome(outcome, "Traceback\nit broke\n")}}
    assert expected.problems(outcomes) == ([problem] if problem else [])


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("luck", "a_test.py A.test", "isn't one of private_name, message, tpu, works_here, ours"),
        ("tpu", "a_test.py A.test\na_test.py A.test", "is listed in tpu.txt and in tpu.txt"),
    ],
)
def test_a_list_has_one_of_the_reasons(tmp_path, monkeypatch, name, text, words):
    """A file of another name, and a test listed twice, are refused."""
    monkeypatch.setattr(expected, "LISTS", tmp_path)
    (tmp_path / f"{name}.txt").write_text(text)
    with pytest.raises(ValueError, match=re.escape(words)):
        expected.read()


def test_shares_leave_reasons_out(tmp_path, monkeypatch):
    """The page counts all tests, those without private names, and each file's by reason."""
    monkeypatch.setattr(expected, "LISTS", tmp_path)
    (tmp_path / "private_name.txt").write_text("a_test.py A.one")
    tests = {"A.one": Outcome("failed"), "A.two": Outcome("passed"), "A.three": Outcome("skipped")}
    page = expected.page({"a_test.py": tests})
    assert "| all | 2 | 1 | 50.0 % |" in page
    assert "| without private names | 1 | 1 | 100.0 % |" in page
    assert "| `a_test.py` | 1 | 1 | 0 | 0 | 0 | 0 |" in page


def test_the_pages_have_the_same_numbers():
    """The percentages of docs/status.md and README are the page's, made of today's lists."""
    page = expected.PAGE.read_text("utf-8")
    status = (expected.ROOT / "docs" / "status.md").read_text("utf-8")
    for name in [*expected.ROWS][1:]:
        (share,) = re.findall(rf"\| {name} \|.*\| ([\d.]+ %) \|", page)
        assert f"{share} " in status
    readme = (expected.ROOT / "README.md").read_text("utf-8")
    (share,) = re.findall(r"\| without private names \|.*\| ([\d.]+ %) \|", page)
    assert f"[{share} of its tests without private names]" in readme
    listed = [*expected.read().values()]
    for reason, text in expected.REASONS.items():
        assert f"| {text} | {listed.count(reason)} |" in page


def test_no_failure_is_a_fault():
    """No test fails for a fault of ours; of those that expect an error the list says what works."""
    assert "ours" not in expected.read().values()
    lines = (expected.LISTS / "works_here.txt").read_text("utf-8").splitlines()
    assert [line for line in lines if " # " not in line] == []
