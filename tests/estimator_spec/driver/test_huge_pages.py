# SPDX-License-Identifier: Apache-2.0
"""Huge pages: asked for where large tables come to be, and nowhere else."""

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
    not huge_pages._is_advice_needed(), reason="this system's programs don't ask for huge pages"
)


def mapped():
    """Private memory of this process, as malloc maps it; its address."""
    memory = mmap.mmap(-1, SIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    return memory, np.frombuffer(memory, np.uint8).ctypes.data


def asked(address):
    """Whether the kernel was asked for huge pages at an address."""
    with open("/proc/self/smaps", encoding="ascii") as file:
        text = file.read()
    for begin, end, rest in re.findall(r"(?m)^(\w+)-(\w+) .*\n((?:[A-Z].*\n)*)", text):
        if int(begin, 16) <= address < int(end, 16):
            return "hg" in re.search(r"VmFlags: (.*)", rest).group(1).split()
    raise AssertionError("this address is mapped nowhere")


@needs_linux
def test_new_memory_is_asked_for():
    """What is mapped while a session with large tables is made gets huge pages, and no other."""
    old, old_address = mapped()
    with huge_pages.advise(LARGE):
        new, new_address = mapped()
    later, later_address = mapped()
    assert asked(new_address + SIZE // 2)
    assert not asked(old_address + SIZE // 2)
    assert len(old) == len(new) == len(later)
    assert later_address not in (old_address, new_address)


@needs_linux
@pytest.mark.parametrize("graph, switch", [(SMALL, "1"), (LARGE, "0")])
def test_not_for_small_tables_nor_where_it_is_switched_off(monkeypatch, graph, switch):
    """Small variables, or the environment's switch, leave memory as it is."""
    monkeypatch.setenv(environment.HUGE_PAGES, switch)
    with huge_pages.advise(graph):
        memory, address = mapped()
    assert not asked(address + SIZE // 2)
    assert len(memory) == SIZE


@needs_linux
def test_the_thread_ends_with_an_error_of_the_block():
    """An error while the session is made comes through."""
    with pytest.raises(KeyError), huge_pages.advise(LARGE):
        raise KeyError


def test_other_systems(monkeypatch):
    """Where the kernel has no such file nothing is done."""
    monkeypatch.setattr(huge_pages, "_ENABLED", "/nowhere")
    monkeypatch.setattr(huge_pages, "_MAPS", "/nowhere")
    with huge_pages.advise(LARGE):
        pass


def test_a_wrong_switch(monkeypatch):
    """A switch that says neither yes nor no is refused by name."""
    monkeypatch.setenv(environment.HUGE_PAGES, "perhaps")
    with pytest.raises(ValueError, match=r"TPU_COLUMNS_HUGE_PAGES='perhaps' must be 0 or 1"):
        environment.is_on(environment.HUGE_PAGES)


def parts_of(places):
    """Places, set by set side by side, as parts."""
    parts = []
    for place in sorted(places):
        if parts and parts[-1][1] == place:
            parts[-1] = (parts[-1][0], place + 1)
        else:
            parts.append((place, place + 1))
    return parts


@given(st.sets(st.integers(0, 30)), st.sets(st.integers(0, 30)))
def test_new_parts_are_the_difference(before, now):
    """New parts hold each place that is mapped now and wasn't before, and no other."""
    found = huge_pages.new_ranges(parts_of(before), parts_of(now))
    assert [p for begin, end in found for p in range(begin, end)] == sorted(now - before)
