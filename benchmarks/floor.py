# SPDX-License-Identifier: Apache-2.0
"""Compares the C++ ops of a step with the time that memory alone takes.

    python benchmarks/floor.py
    python benchmarks/floor.py --only 1id-1e5,10ids-1e5 --steps 200

A small C++ program (`memory_floor/touch.cc`) touches the rows and slots that the lookup and the
update of a step touch, in the same order, with prefetch and as many threads, and does nothing else.
It and the ops run in turn in one process. Prints the medians of a step in microseconds, and their
ratio. The ops are Adagrad's, of the host core, timed by TensorFlow's trace.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import native_kernels
import numpy as np
from native_kernels import BATCHES, OPS, PREFIX, WARM_UP, Side
from training_time import pages, workloads

from tpu_columns.kernels import building, loading

SOURCE = Path(__file__).resolve().parent / "memory_floor" / "touch.cc"
# Tables of one width.
WORKLOADS = {n: full for n, full in native_kernels.WORKLOADS.items() if full.startswith("grid/")}


def compile_program(directory: Path) -> Any:
    """Compiles the C++ program; returns its library.

    Args:
        directory: for the library.
    """
    library = directory / "touch.so"
    command = [*building.find_compiler(), "-O3", "-std=c++17", "-shared", "-fPIC", "-pthread"]
    subprocess.run([*command, str(SOURCE), "-o", str(library)], check=True)
    found = ctypes.CDLL(str(library))
    found.TouchReads.restype = ctypes.c_float
    return found


def make_touch(library: Any, workload: workloads.Workload, threads: int) -> Callable[[int], None]:
    """Returns a function that touches the memory of a step, given the number of its batch.

    Args:
        library: the compiled program.
        workload: tables of one width.
        threads: how many touch the memory.
    """
    features = workload.features
    (width,) = {feature.width for feature in features}
    # Not zeros: the kernel maps pages of zeros, which are read only, to one page.
    tables = [np.full((f.rows, f.width), 0.5, np.float32) for f in features]
    slots = [np.full((f.rows, f.width), 0.5, np.float32) for f in features]
    batches = [workloads.batch_of(workload, i, workload.batch_size) for i in range(BATCHES)]
    ids = [[batch[f.name].reshape(-1) for f in features] for batch in batches]
    distinct = [[_in_order(each) for each in batch] for batch in ids]
    addresses = _pointers(tables), _pointers(slots)
    reads = [(_pointers(batch), _counts(batch)) for batch in ids]
    writes = [(_pointers(batch), _counts(batch)) for batch in distinct]
    count, row = ctypes.c_int(len(features)), ctypes.c_int64(width)

    def touch(number: int) -> None:
        places, sizes = reads[number]
        library.TouchReads(count, threads, addresses[0], places, sizes, row)
        places, sizes = writes[number]
        library.TouchWrites(count, threads, *addresses, places, sizes, row)

    # Keeps the arrays, whose addresses the function has.
    touch.arrays = (tables, slots, ids, distinct)  # type: ignore[attr-defined]
    return touch


def _in_order(ids: Any) -> Any:
    """Returns the distinct ids, in the order of their first occurrence."""
    return ids[np.sort(np.unique(ids, return_index=True)[1])]


def _pointers(arrays: list[Any]) -> Any:
    return (ctypes.c_void_p * len(arrays))(*(array.ctypes.data for array in arrays))


def _counts(arrays: list[Any]) -> Any:
    return (ctypes.c_int64 * len(arrays))(*map(len, arrays))


def compare(library: Any, name: str, steps: int, threads: int) -> tuple[float, float]:
    """Returns the median microseconds of a step's ops, and of its memory.

    Args:
        library: the compiled program.
        name: of the workload.
        steps: measured steps.
        threads: of the program; those of the ops are TensorFlow's.
    """
    workload = workloads.by_name(WORKLOADS[name])
    touch = make_touch(library, workload, threads)
    times: list[float] = []

    def timed(step: int) -> None:
        begin = time.perf_counter()
        touch(step % BATCHES)
        if step >= WARM_UP:
            times.append(1e6 * (time.perf_counter() - begin))

    found = native_kernels.measure(workload, [Side(PREFIX, loading.load())], steps, timed)
    return sum(found[PREFIX + op] for op in OPS), statistics.median(times)


def main() -> None:
    """Compares the chosen workloads and prints a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", help=f"workloads by commas, of {', '.join(WORKLOADS)}")
    parser.add_argument("--steps", type=int, default=100, help="measured steps")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="of the floor")
    options = parser.parse_args()
    if loading.load() is None:
        sys.exit("error: there are no native ops here; the log says why.")
    names = native_kernels.choose(parser, options.only, WORKLOADS)
    rows = []
    with tempfile.TemporaryDirectory() as directory:
        library = compile_program(Path(directory))
        for name in names:
            ops, memory = compare(library, name, options.steps, options.threads)
            rows.append([name, f"{memory:,.0f}", f"{ops:,.0f}", f"{ops / memory:.2f}"])
            print(" | ".join(rows[-1]), flush=True)
    heads = ["workload", "memory alone, µs", "ops, µs", "ratio"]
    print("\n" + pages.grid(heads, rows))


if __name__ == "__main__":
    main()
