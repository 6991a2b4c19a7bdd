# SPDX-License-Identifier: Apache-2.0
"""Requests huge pages from Linux for the memory of large tables.

A step reads random rows of tables that exceed the caches. With pages of 4 KiB each row causes a
miss of the translation lookaside buffer, which takes about as long as the read. TensorFlow
allocates with malloc, and glibc requests huge pages only if the environment had
GLIBC_TUNABLES=glibc.malloc.hugetlb=1 when the process started. So a thread finds the memory that is
mapped while a session initializes or restores its variables, and calls madvise(2) with
MADV_HUGEPAGE for it.

Nothing is done where the kernel setting is "never" or "always", or the system isn't Linux.
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


# Total size of variables that exceeds the caches.
_MIN_BYTES = 64 << 20
_HUGE_PAGE = 2 << 20
_SECONDS = 0.1  # between two reads, of some milliseconds; filling 64 MiB takes 0.1 s
_ENABLED = "/sys/kernel/mm/transparent_hugepage/enabled"
_MAPS = "/proc/self/maps"
_PRIVATE_MEMORY = re.compile(rb"^([0-9a-f]+)-([0-9a-f]+) rw-p 00000000 00:00 0 *$", re.MULTILINE)

AddressRange = tuple[int, int]  # begin and end


@contextlib.contextmanager
def advise(graph: tf.Graph) -> Iterator[None]:
    """Requests huge pages for memory mapped in the block, if the graph's variables are large.

    Args:
        graph: the graph whose session the block creates.

    Raises:
        ValueError: the environment variable is neither 0 nor 1.
    """
    if (
        not environment.is_on(environment.HUGE_PAGES)
        or not _is_advice_needed()
        or _bytes_of_variables(graph) < _MIN_BYTES
    ):
        yield
        return
    done = threading.Event()
    thread = threading.Thread(target=_advise_until, args=(done, private_ranges()), daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def _is_advice_needed() -> bool:
    """Returns whether the kernel gives huge pages only to processes that request them."""
    try:
        with open(_ENABLED, encoding="ascii") as file:
            return "[madvise]" in file.read() and os.access(_MAPS, os.R_OK)
    except OSError:
        return False


def _bytes_of_variables(graph: tf.Graph) -> int:
    """Returns the total size of the variables of known shape."""
    total = 0
    for variable in graph.get_collection(tf1.GraphKeys.GLOBAL_VARIABLES):
        shape = variable.shape
        if shape.is_fully_defined() and variable.dtype.base_dtype != tf.string:
            total += shape.num_elements() * variable.dtype.base_dtype.size
    return total


def private_ranges() -> list[AddressRange]:
    """Returns the private anonymous memory of this process, sorted by address."""
    with open(_MAPS, "rb") as file:
        found = _PRIVATE_MEMORY.findall(file.read())
    return [(int(begin, 16), int(end, 16)) for begin, end in found]


def new_ranges(before: list[AddressRange], now: list[AddressRange]) -> list[AddressRange]:
    """Returns the addresses in `now` that aren't in `before`; both are sorted.

    >>> new_ranges([(2, 4), (6, 7)], [(1, 5), (6, 7), (8, 9)])
    [(1, 2), (4, 5), (8, 9)]
    """
    ranges: list[AddressRange] = []
    for begin, end in now:
        for old_begin, old_end in before:
            if old_end <= begin:
                continue
            if old_begin >= end:
                break
            if begin < old_begin:
                ranges.append((begin, old_begin))
            begin = old_end
        if begin < end:
            ranges.append((begin, end))
    return ranges


def _advise_until(done: threading.Event, before: list[AddressRange]) -> None:
    """Requests huge pages for newly mapped memory until `done` is set, and then once more."""
    import resource  # only Unix has it

    madvise = ctypes.CDLL(None, use_errno=True).madvise
    madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    stack, _ = resource.getrlimit(resource.RLIMIT_STACK)
    advised: set[AddressRange] = set()
    last = False
    while not last:
        last = done.wait(_SECONDS)
        for begin, end in new_ranges(before, private_ranges()):
            # A thread's stack is mapped at its full size, but little of it is used.
            if end - begin < _HUGE_PAGE or end - begin == stack or (begin, end) in advised:
                continue
            advised.add((begin, end))
            # The call fails, without effect, if the memory has been unmapped meanwhile.
            madvise(begin, end - begin, mmap.MADV_HUGEPAGE)
