# SPDX-License-Identifier: Apache-2.0
"""Entries of the lists of tiers name tests."""

from __future__ import annotations

import pytest

import tiers

TESTS = ["a/test_x.py::test_one[b-1]", "a/test_x.py::test_two", "test_y.py::test_one"]


@pytest.mark.parametrize(
    ("entry", "named"),
    [
        ("a", TESTS[:2]),
        ("a/test_x.py", TESTS[:2]),
        ("test_y.py", TESTS[2:]),
        ("a/test_x.py::test_one*", TESTS[:1]),
        ("a/test_x.py::*[[]b-1]", TESTS[:1]),
        ("test_x.py", []),
    ],
)
def test_an_entry_names_folders_files_or_tests(entry, named):
    """An entry names a folder, a file, or tests of a file by a pattern."""
    assert [test for test in TESTS if tiers.matches(test, entry)] == named


def test_entries_without_tests_are_found():
    """An entry that names nothing is found, unless its file has no tests at all."""
    entries = ["a", "b", "a/test_x.py::test_three", "a/test_z.py::test_one"]
    assert tiers.unused(TESTS, entries) == ["b", "a/test_x.py::test_three"]


def test_markers(request):
    """Tests of the lists have the markers, and the reason."""
    nightly = [mark for item in request.session.items for mark in item.iter_markers("nightly")]
    assert all(mark.args for mark in nightly)
    assert not request.node.get_closest_marker("versioned")
