# SPDX-License-Identifier: Apache-2.0
"""Which tables the host core stacks."""

from __future__ import annotations

import pytest

from estimator_spec.cores import table_groups
from estimator_spec.cores.table_groups import Candidate, stacks


def tables(count, kind="kind", width=16, num_rows=1000, num_ids=512):
    """Returns equal tables."""
    return [Candidate(f"{kind}{i}", kind, width, num_rows, num_ids) for i in range(count)]


@pytest.fixture
def stack_few(monkeypatch):
    """Lets two tables make a stack."""
    monkeypatch.setattr(table_groups, "MIN_TABLES", 2)
    monkeypatch.setattr(table_groups, "MIN_STACKS", 1)


@pytest.mark.parametrize(
    ("count", "expected"), [(0, []), (1, []), (63, []), (64, [8] * 8), (70, [8, 9, 9, 9] * 2)]
)
def test_from_64_tables_on_there_are_eight_stacks(count, expected):
    """Few tables stay alone; others are distributed evenly, so that stacks run at the same time."""
    assert [len(keys) for keys in stacks(tables(count))] == expected


def test_many_tables_make_stacks_of_limited_length():
    """Hundreds of tables are in stacks of at most 32, each table in one."""
    found = stacks(tables(1000))
    assert len(found) == 32 and max(map(len, found)) <= table_groups.MAX_TABLES
    keys = [key for keys in found for key in keys]
    assert keys == [f"kind{i}" for i in range(1000)]


@pytest.mark.usefixtures("stack_few")
def test_tables_of_other_kinds_are_in_other_stacks():
    """Tables of two kinds, or two widths, share no stack."""
    found = stacks([*tables(3, "a"), *tables(2, "b"), *tables(1, "a", width=8)])
    assert found == [["a0", "a1", "a2"], ["b0", "b1"]]


@pytest.mark.usefixtures("stack_few")
@pytest.mark.parametrize(("width", "expected"), [(4, 0), (8, 1), (12, 0), (24, 1), (33, 0)])
def test_widths_of_whole_vectors_are_stacked(width, expected):
    """Other widths would be rounded otherwise than in single tables."""
    assert len(stacks(tables(2, width=width))) == expected


@pytest.mark.usefixtures("stack_few")
def test_large_tables_and_tables_with_many_ids_stay_alone():
    """The limits of ids and bytes apply to each table; an unknown number of ids is no reason."""
    many = tables(2, "many", num_ids=table_groups.MAX_IDS + 1)
    large = tables(2, "large", num_rows=table_groups.MAX_TABLE_BYTES // 64 + 1)
    unknown = tables(2, "unknown", num_ids=None)
    assert stacks([*many, *large, *unknown]) == [["unknown0", "unknown1"]]


@pytest.mark.usefixtures("stack_few")
def test_the_bytes_of_a_stack_are_limited():
    """A stack takes as many large tables as fit."""
    found = stacks(tables(6, num_rows=table_groups.MAX_TABLE_BYTES // 64))
    assert [len(keys) for keys in found] == [4, 2]
