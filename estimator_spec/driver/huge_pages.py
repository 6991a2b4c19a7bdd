# SPDX-License-Identifier: Apache-2.0
"""Asks Linux for huge pages for the memory of large tables.

A step reads rows all over tables that no cache holds. With pages of 4 KiB the processor must first
find out where each row's page is, which takes about as long as the reading. TensorFlow gets its
memory from malloc, and glibc's asks for huge pages only if the environment said so before the
process started (GLIBC_TUNABLES=glibc.malloc.hugetlb=1). So a thread looks at what is newly mapped
while a session makes or restores its variables, and asks for it: madvise(2), MADV_HUGEPAGE.

It is advice: nothing changes where the system has no such pages ("never"), gives them to everybody
("always"), or isn't Linux.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
import re
import threading
from collections.abc import Iterator

import tensorflow as tf

from estimator_spec import environment

tf1 = tf.compat.v1


# Variables of less than this all fit in caches, or nearly so.
_LEAST = 64 << 20
_HUGE_PAGE = 2 << 20
_SECONDS = 0.1  # A look takes some milliseconds; a table of 64 MiB is filled in 0.1 s.
_ENABLED = "/sys/kernel/mm/transparent_hugepage/enabled"
_MAPS = "/proc/self/maps"
_PRIVATE_MEMORY = re.compile(rb"^([0-9a-f]+)-([0-9a-f]+) rw-p 00000000 00:00 0 *$", re.MULTILINE)

Part = tuple[int, int]  # begin and end, addresses


@contextlib.contextmanager
def asked_for(graph: tf.Graph) -> Iterator[None]:
    """Asks for huge pages for what the block maps, if the variables of a graph are large.

    Args:
      graph: whose session the block creates.

    Raises:
      ValueError: the environment's switch is neither 0 nor 1.
    """
    if (
        not environment.is_on(environment.HUGE_PAGES)
        or not _system_asks()
        or _bytes_of_variables(graph) < _LEAST
    ):
        yield
        return
    done = threading.Event()
    thread = threading.Thread(target=_ask_until, args=(done, memory()), daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def _system_asks() -> bool:
    """Whether processes have to ask for huge pages, and may."""
    try:
        with open(_ENABLED, encoding="ascii") as file:
            return "[madvise]" in file.read() and os.access(_MAPS, os.R_OK)
    except OSError:
        return False


def _bytes_of_variables(graph: tf.Graph) -> int:
    total = 0
    for variable in graph.get_collection(tf1.GraphKeys.GLOBAL_VARIABLES):
        shape = variable.shape
        if shape.is_fully_defined() and variable.dtype.base_dtype != tf.string:
            total += shape.num_elements() * variable.dtype.base_dtype.size
    return total


def memory() -> list[Part]:
    """Returns the parts of memory that are the process's own, in the order of their addresses."""
    with open(_MAPS, "rb") as file:
        found = _PRIVATE_MEMORY.findall(file.read())
    return [(int(begin, 16), int(end, 16)) for begin, end in found]


def new_parts(before: list[Part], now: list[Part]) -> list[Part]:
    """Returns what of `now` isn't in `before`; both in the order of their addresses.

    >>> new_parts([(2, 4), (6, 7)], [(1, 5), (6, 7), (8, 9)])
    [(1, 2), (4, 5), (8, 9)]
    """
    parts: list[Part] = []
    for begin, end in now:
        for old_begin, old_end in before:
            if old_end <= begin:
                continue
            if old_begin >= end:
                break
            if begin < old_begin:
                parts.append((begin, old_begin))
            begin = old_end
        if begin < end:
            parts.append((begin, end))
    return parts


def _ask_until(done: threading.Event, before: list[Part]) -> None:
    import resource  # only Unix has it

    madvise = ctypes.CDLL(None, use_errno=True).madvise
    madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    stack, _ = resource.getrlimit(resource.RLIMIT_STACK)
    asked: set[Part] = set()
    last = False
    while not last:
        last = done.wait(_SECONDS)
        for begin, end in new_parts(before, memory()):
            # A thread's stack is mapped whole, and hardly used.
            if end - begin < _HUGE_PAGE or end - begin == stack or (begin, end) in asked:
                continue
            asked.add((begin, end))
            madvise(begin, end - begin, mmap.MADV_HUGEPAGE)  # What was unmapped since, it refuses.
