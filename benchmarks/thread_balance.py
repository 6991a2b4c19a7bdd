# SPDX-License-Identifier: Apache-2.0
"""Counts the work of each thread of a lookup or update of many tables, by simulation.

    python benchmarks/thread_balance.py

Threads take tables as `SharedWork` in `tpu_columns/kernels/cpp/shared_work.h` gives them: each
begins with a part of its own, then helps with those of the others. A table's work is its ids in a
step times its width, so memory, caches and locks are left out: no machine can be faster than this.
Prints the largest thread's work over the mean of all threads and, in brackets, how many times
faster than one thread that can be. Then what the threads contend for: an op's own thread takes the
locks of all tables before the others begin, and these share atomic counters. Needs NumPy only.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence

from training_time import workloads

THREADS = (1, 2, 4, 8, 16)
# One of 26 tables has half of all ids.
UNEVEN = "26 tables, one with half of the ids"


def balance(work: Sequence[int], num_threads: int) -> tuple[float, float]:
    """Returns the largest thread's work over the mean, and how much faster than one thread.

    Args:
        work: of each table, in the op's order.
        num_threads: of the op.
    """
    num_parts = min(num_threads, len(work))
    begin = [len(work) * part // num_parts for part in range(num_parts + 1)]
    nexts = begin[:-1]
    free = [(0, thread) for thread in range(num_parts)]  # when a thread is free
    done = [0] * num_threads
    while free:
        now, thread = heapq.heappop(free)
        for turn in range(num_parts):
            part = (thread + turn) % num_parts
            place = nexts[part]
            if place < begin[part + 1]:
                nexts[part] += 1
                done[thread] += work[place]
                heapq.heappush(free, (now + work[place], thread))
                break
    return max(done) * num_threads / sum(work), sum(work) / max(done)


def increments(num_tables: int, num_threads: int) -> int:
    """Returns how often the threads of an op increment counters that they share.

    Each table is taken from the counter of its part and counted when it is done; each thread finds
    each part used up once.

    Args:
        num_tables: of the op.
        num_threads: of the op.
    """
    num_parts = min(num_threads, num_tables)
    return 2 * num_tables + num_parts**2 if num_parts > 1 else 0


def work_of(name: str) -> list[int]:
    """Returns the work of each table of a workload."""
    features = workloads.by_name(name).features
    return [feature.ids * feature.width for feature in features]


def main() -> None:
    """Prints the table."""
    cases = {"26 equal tables": work_of("grid/1id-dense-1e5"), "small-300": work_of("small-300")}
    cases |= {"mixed-300": work_of("mixed-300"), UNEVEN: [25, *[1] * 25]}
    print("| threads |", " | ".join(map(str, THREADS)), "|")
    print("|---|" + "---:|" * len(THREADS))
    for name, work in cases.items():
        cells = (balance(work, threads) for threads in THREADS)
        print(f"| {name} |", " | ".join(f"{most:.2f} ({gain:.1f})" for most, gain in cells), "|")
    for count in sorted({len(work) for work in cases.values()}):
        cells = (str(increments(count, threads)) for threads in THREADS)
        print(f"| increments of shared counters, {count} tables |", " | ".join(cells), "|")


if __name__ == "__main__":
    main()
