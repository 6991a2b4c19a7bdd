# SPDX-License-Identifier: Apache-2.0
"""Measures the cost of each op of lookups and updates on this TensorFlow.

    python benchmarks/ops.py                      1,024 ids, 16 wide, one thread
    python benchmarks/ops.py --ids 10240 --width 64
    python benchmarks/ops.py --rows 1000000       26 tables of so many rows, read in turn

Without `--rows` each op runs 200 times in a row in one session call, so that what is measured is
the op and not the call; the least of eight rounds counts. The tables fit a cache: in training,
where they don't, `ResourceGather` and the updates cost up to twenty times as much, the other ops
what they cost here.

With `--rows` only what reads tables is measured, by as many different ids as a batch of `--ids` has
or so, medians of calls in turn, other ids in each; what handing on ids costs is taken off.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import tensorflow as tf
from training_time import workloads

tf1 = tf.compat.v1

IN_A_ROW, ROUNDS, TABLE_ROWS = 200, 8, 10_000
TABLES, BATCHES, PASSES, SHARDS = 26, 8, 12, 8


def fed(value: Any) -> Any:
    """Returns a tensor that constant folding doesn't replace."""
    value = np.asarray(value)
    return tf1.placeholder_with_default(value, [None] * value.ndim)


def different(ids: int) -> int:
    """Returns the unique ids of a batch: log-uniform of 10⁵, as in training.py, 665 of 1,024."""
    return max(1, int(ids * 0.65))


def ops(ids: int, width: int) -> dict[str, Callable[[], Any]]:
    """Returns the ops by description."""
    rng = np.random.default_rng(0)
    unique_count = different(ids)
    places = rng.integers(0, unique_count, ids)
    ids_of_table = fed(rng.permutation(TABLE_ROWS)[:unique_count])
    rows = fed(rng.normal(size=(unique_count, width)).astype(np.float32))
    occurrences = fed(rng.normal(size=(ids, width)).astype(np.float32))
    index, segments, ones = fed(places), fed(np.arange(ids)), fed(np.ones(ids, np.float32))
    index32, segments32 = tf.cast(index, tf.int32), tf.cast(segments, tf.int32)
    entries = tf.transpose(tf.stack([segments, index]))
    table, slot = (
        tf1.get_variable(
            name, [TABLE_ROWS, width], initializer=tf1.ones_initializer(), use_resource=True
        )
        for name in ("table", "slot")
    )
    missing = fed(np.zeros(ids, bool))
    shards = fed((places % SHARDS).astype(np.int32))
    raw = tf.raw_ops

    def product(dense: Any, adjoint: bool) -> Any:
        return raw.SparseTensorDenseMatMul(
            a_indices=entries,
            a_values=ones,
            a_shape=[ids, unique_count],
            b=dense,
            adjoint_a=adjoint,
        )

    return {
        "Unique": lambda: tf.unique(index)[1],
        "UniqueWithCounts": lambda: tf.unique_with_counts(index)[1],
        "ResourceGather": lambda: tf.gather(table, ids_of_table),
        "SparseSegmentMean": lambda: tf.sparse.segment_mean(
            rows, index32, segments32, num_segments=ids
        ),
        "SparseTensorDenseMatMul": lambda: product(rows, False),
        "SparseSegmentMeanGrad": lambda: raw.SparseSegmentMeanGrad(
            grad=occurrences, indices=index32, segment_ids=segments32, output_dim0=unique_count
        ),
        "UnsortedSegmentSum": lambda: raw.UnsortedSegmentSum(
            data=occurrences, segment_ids=index32, num_segments=unique_count
        ),
        "SparseTensorDenseMatMul, adjoint": lambda: product(occurrences, True),
        "Select, whole rows": lambda: tf1.where(missing, tf.zeros_like(occurrences), occurrences),
        "SelectV2, broadcast": lambda: tf.where(missing[:, tf.newaxis], 0.0, occurrences),
        "ResourceSparseApplyAdagrad": lambda: raw.ResourceSparseApplyAdagrad(
            var=table.handle, accum=slot.handle, lr=0.1, grad=rows, indices=ids_of_table
        ),
        "ResourceScatterUpdate": lambda: raw.ResourceScatterUpdate(
            resource=table.handle, indices=ids_of_table, updates=rows
        ),
        "ResourceScatterAdd": lambda: raw.ResourceScatterAdd(
            resource=table.handle, indices=ids_of_table, updates=rows
        ),
        f"DynamicPartition of the ids, {SHARDS} shards": lambda: tf.dynamic_partition(
            index, shards, SHARDS
        )[0],
        "Rsqrt": lambda: tf.math.rsqrt(rows),
        "Mul": lambda: rows * rows,
    }


def one_after_the_other(make: Callable[[], Any]) -> Any:
    """Builds a chain of one op, each depending on the last."""
    made: list[Any] = []
    for _ in range(IN_A_ROW):
        with tf.control_dependencies(made[-1:]):
            made.append(make())
    return getattr(made[-1], "op", made[-1])


def different_ids(seed: int, rows: int, count: int) -> np.ndarray:
    """Returns unique ids of a table with the skewed distribution of a batch."""
    drawn = workloads.log_uniform_ids(seed, 20 * count, rows)
    ids, first = np.unique(np.concatenate([drawn, np.arange(count)]), return_index=True)
    return ids[np.argsort(first)][:count]


def reads_in_turn(rows: int, width: int, count: int, session: Any) -> dict[str, float]:
    """Returns microseconds of gathering this many unique rows, by kernel.

    Args:
        rows: of each table.
        width: of a row.
        count: rows that are read of a table.
        session: of the default graph.
    """
    seeds = np.arange(BATCHES * TABLES).reshape(BATCHES, TABLES)
    batches = np.array(
        [[different_ids(seed, rows, count) for seed in row] for row in seeds.tolist()]
    )
    tables = [
        tf1.get_variable(
            f"table_{i}", [rows, width], initializer=tf1.ones_initializer(), use_resource=True
        )
        for i in range(TABLES)
    ]
    given = tf1.placeholder(tf.int64, [TABLES, count])
    pairs = [(table.handle, ids) for table, ids in zip(tables, tf.unstack(given), strict=True)]
    raw = tf.raw_ops
    kernels: dict[str, Callable[[Any, Any], Any]] = {
        "": lambda table, ids: tf.expand_dims(ids, 1),
        "ResourceGather": lambda table, ids: raw.ResourceGather(
            resource=table, indices=ids, dtype=tf.float32
        ),
        "ResourceGatherNd": lambda table, ids: raw.ResourceGatherNd(
            resource=table, indices=tf.expand_dims(ids, 1), dtype=tf.float32
        ),
    }
    calls = {
        name: session.make_callable(tf.group(*[make(*pair) for pair in pairs]), [given])
        for name, make in kernels.items()
    }
    session.run(tf1.global_variables_initializer())
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for number in range(PASSES * BATCHES):
        # Another batch for each kernel, as the rows of the last one are cached.
        for place, (name, call) in enumerate(calls.items()):
            ids = batches[(number + 3 * place) % BATCHES]
            start = time.perf_counter()
            call(ids)
            seconds[name].append(time.perf_counter() - start)
    medians = {
        name: float(np.median(found[BATCHES:])) / TABLES * 1e6 for name, found in seconds.items()
    }
    nothing = medians.pop("")
    return {name: found - nothing for name, found in medians.items()}


def main() -> None:
    """Prints a table of costs."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--ids", type=int, default=1024, help="ids in a batch")
    parser.add_argument("--width", type=int, default=16, help="columns of a table")
    parser.add_argument("--rows", type=int, help="read tables of so many rows, no other op")
    arguments = parser.parse_args()
    config = tf1.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=1)
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    print(
        f"| op, {arguments.ids} ids, {arguments.width} wide | µs, TF {tf.__version__} |\n|---|---|"
    )
    with tf.Graph().as_default(), tf1.Session(config=config) as session:
        if arguments.rows:
            count = min(different(arguments.ids), arguments.rows)
            found = reads_in_turn(arguments.rows, arguments.width, count, session)
            for name, microseconds in found.items():
                print(f"| `{name}`, {arguments.rows:,} rows | {microseconds:.1f} |")
            return
        chains = {
            name: one_after_the_other(make)
            for name, make in ops(arguments.ids, arguments.width).items()
        }
        session.run(tf1.global_variables_initializer())
        for name, chain in chains.items():
            call = session.make_callable(chain)
            call()
            seconds = []
            for _ in range(ROUNDS):
                start = time.perf_counter()
                call()
                seconds.append(time.perf_counter() - start)
            print(f"| `{name}` | {min(seconds) / IN_A_ROW * 1e6:.1f} |")


if __name__ == "__main__":
    main()
