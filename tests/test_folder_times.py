# SPDX-License-Identifier: Apache-2.0
"""The command that compares the times of folders of tests."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

REPORT = """<testsuites><testsuite>
<testcase classname="tests.estimator_spec.core.driver.test_a" name="test_x" time="30.0"/>
<testcase classname="tests.estimator_spec.core.driver.test_a.TestB" name="test_y" time="10.0"/>
<testcase classname="tests.estimator_spec.heads.inner.test_b" name="test_w" time="12.0"/>
<testcase classname="tests.tpu_columns.test_c" name="test_z[1]" time="20.0"><failure/></testcase>
<testcase classname="tests.test_docs" name="test_d" time="11.0"/>
<testcase classname="tests.test_docs" name="test_e" time="90.0"><skipped/></testcase>
</testsuite></testsuites>"""


@pytest.fixture(scope="module")
def folder_times():
    """Returns the command's module."""
    path = Path(__file__).with_name("folder_times.py")
    spec = importlib.util.spec_from_file_location("folder_times", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def report(tmp_path):
    """Returns the path of a report."""
    path = tmp_path / "newest.xml"
    path.write_text(REPORT)
    return path


def test_folders_of_a_report(folder_times, report):
    """Times are added up by folder, without the tests that were skipped; failures are named."""
    folders, failed = folder_times.read_report(report)
    assert folders == {
        "estimator_spec/core/driver": (2, 40.0),
        "estimator_spec/heads": (1, 12.0),
        "tpu_columns": (1, 20.0),
        "(top)": (1, 11.0),
    }
    assert failed == ["tests.tpu_columns.test_c.test_z[1]"]


def test_a_written_table_is_read_again(folder_times, report, tmp_path, monkeypatch):
    """`--write` replaces the table between its marks, and nothing else."""
    page = tmp_path / "page.md"
    page.write_text(f"before\n{folder_times.BEGIN}stale\n{folder_times.END}after\n")
    monkeypatch.setattr(folder_times, "PAGE", page)
    monkeypatch.setattr("sys.argv", ["folder_times.py", str(report), "--write"])
    folder_times.main()
    text = page.read_text()
    assert text.startswith("before\n") and text.endswith("after\n") and "stale" not in text
    expected = {
        "estimator_spec/core/driver": 40.0,
        "estimator_spec/heads": 12.0,
        "tpu_columns": 20.0,
        "(top)": 11.0,
    }
    assert folder_times.read_table(text) == {"newest": expected}


@pytest.mark.parametrize("speed", [1.0, 3.0])
def test_a_folder_that_doubled_is_named(folder_times, report, speed):
    """A folder that takes twice its time is named, on a slower machine, too; no other one is."""
    folders, _ = folder_times.read_report(report)
    before = {name: folder.seconds / speed for name, folder in folders.items()}
    assert list(folder_times.doubled(folders, before)) == []
    before["tpu_columns"] /= 2
    (line,) = folder_times.doubled(folders, before)
    assert "tests/tpu_columns takes 2.0 times" in line
