# SPDX-License-Identifier: Apache-2.0
"""Huge pages are requested for the memory of large tables only."""

import mmap
import re

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from estimator_spec import environment
from estimator_spec.driver import huge_pages

tf1 = tf.compat.v1
SIZE = 32 << 20


def _graph_of(rows):
    graph = tf.Graph()
    with graph.as_default():
        tf1.get_variable("table", [rows, 16])
    return graph


LARGE, SMALL = _graph_of(2_000_000), _graph_of(1_000)

needs_linux = pytest.mark.skipif(
    not huge_pages._is_advice_needed(), reason="programs can't request huge pages here"
)


def map_memory():
    """Returns newly mapped private memory and its address."""
    memory = mmap.mmap(-1, SIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    return memory, np.frombuffer(memory, np.uint8).ctypes.data


def is_advised(address):
    """Returns whether huge pages were requested for an address."""
    with open("/proc/self/smaps", encoding="ascii") as file:
        text = file.read()
    for begin, end, rest in re.findall(r"(?m)^(\w+)-(\w+) .*\n((?:[A-Z].*\n)*)", text):
        if int(begin, 16) <= address < int(end, 16):
            return "hg" in re.search(r"VmFlags: (.*)", rest).group(1).split()
    raise AssertionError("this address is not mapped")


@needs_linux
def test_new_memory_is_advised():
    """Only memory mapped in the block gets huge pages."""
    old, old_address = map_memory()
    with huge_pages.advise(LARGE):
        new, new_address = map_memory()
    later, later_address = map_memory()
    assert is_advised(new_address + SIZE // 2)
    assert not is_advised(old_address + SIZE // 2)
    assert not is_advised(later_address + SIZE // 2)
    assert len(old) == len(new) == len(later)
    assert later_address not in (old_address, new_address)


@needs_linux
@pytest.mark.parametrize("graph, switch", [(SMALL, "1"), (LARGE, "0")])
def test_small_tables_and_the_switch(monkeypatch, graph, switch):
    """Memory is unchanged for small variables, or if the environment variable is 0."""
    monkeypatch.setenv(environment.HUGE_PAGES, switch)
    with huge_pages.advise(graph):
        memory, address = map_memory()
    assert not is_advised(address + SIZE // 2)
    assert len(memory) == SIZE


@needs_linux
def test_the_thread_ends_with_an_error_of_the_block():
    """An error in the block is raised, and the thread ends."""
    with pytest.raises(KeyError), huge_pages.advise(LARGE):
        raise KeyError


def test_other_systems(monkeypatch):
    """Nothing is done on a kernel without the setting."""
    monkeypatch.setattr(huge_pages, "_ENABLED", "/nowhere")
    monkeypatch.setattr(huge_pages, "_MAPS", "/nowhere")
    with huge_pages.advise(LARGE):
        pass


def test_a_wrong_switch(monkeypatch):
    """The error for a value other than 0 and 1 names the environment variable."""
    monkeypatch.setenv(environment.HUGE_PAGES, "perhaps")
    with pytest.raises(ValueError, match=r"TPU_COLUMNS_HUGE_PAGES='perhaps' must be 0 or 1"):
        environment.is_on(environment.HUGE_PAGES)


def ranges_of(addresses):
    """Returns the ranges that cover a set of addresses."""
    ranges = []
    for address in sorted(addresses):
        if ranges and ranges[-1][1] == address:
            ranges[-1] = (ranges[-1][0], address + 1)
        else:
            ranges.append((address, address + 1))
    return ranges


@given(st.sets(st.integers(0, 30)), st.sets(st.integers(0, 30)))
def test_new_ranges_are_the_difference(before, now):
    """New ranges are the set difference of the addresses."""
    found = huge_pages.new_ranges(ranges_of(before), ranges_of(now))
    assert [p for begin, end in found for p in range(begin, end)] == sorted(now - before)
