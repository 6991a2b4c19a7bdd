# SPDX-License-Identifier: Apache-2.0
"""Which tables the host core stacks."""

from __future__ import annotations

import pytest

from estimator_spec.core.cores import table_groups
from estimator_spec.core.cores.table_groups import Candidate, stacks


def tables(count, kind="kind", width=16, num_rows=1000):
    """Returns equal tables."""
    return [Candidate(f"{kind}{i}", kind, width, num_rows) for i in range(count)]


@pytest.fixture
def stack_few(monkeypatch):
    """Lets two tables make a stack."""
    monkeypatch.setattr(table_groups, "MIN_TABLES", 2)


@pytest.mark.parametrize(("count", "expected"), [(0, []), (1, []), (15, []), (16, [16])])
def test_from_16_tables_on_there_is_a_stack(count, expected):
    """Few tables stay alone; many share a stack, in their order."""
    found = stacks(tables(count))
    assert [len(keys) for keys in found] == expected
    assert not found or found[0] == [f"kind{i}" for i in range(count)]


@pytest.mark.usefixtures("stack_few")
def test_tables_of_other_kinds_are_in_other_stacks():
    """Tables of two kinds, or two widths, share no stack."""
    found = stacks([*tables(3, "a"), *tables(2, "b"), *tables(1, "a", width=8)])
    assert found == [["a0", "a1", "a2"], ["b0", "b1"]]


@pytest.mark.usefixtures("stack_few")
def test_large_tables_stay_alone():
    """The limit of bytes applies to each table."""
    large = tables(2, "large", num_rows=table_groups.MAX_TABLE_BYTES // 64 + 1)
    assert stacks([*large, *tables(2, "small")]) == [["small0", "small1"]]


@pytest.mark.usefixtures("stack_few")
def test_the_bytes_of_a_stack_are_limited():
    """A stack takes as many large tables as fit."""
    found = stacks(tables(6, num_rows=table_groups.MAX_TABLE_BYTES // 64))
    assert [len(keys) for keys in found] == [4, 2]
