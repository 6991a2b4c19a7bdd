# SPDX-License-Identifier: Apache-2.0
"""Compares the host core's native ops with those of another revision, in one process.

    python benchmarks/native_kernels.py HEAD~1
    python benchmarks/native_kernels.py HEAD~1 --only mixed-300,1id-1e6 --steps 300

Both look up and update the same float32 tables by Adagrad, in turn. Prints the medians of the ops'
times in TensorFlow's trace, in microseconds, and their ratio, ours to the other's. In a training
the ops take longer, as the model's own ops use the caches in between. Both are compiled with this
tree's options.
"""

from __future__ import annotations

import argparse
import collections
import inspect
import itertools
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from training_time import pages, profiling, workloads

from tpu_columns.kernels import building, libraries, loading

tf1 = tf.compat.v1

ROOT = Path(__file__).resolve().parents[1]
BATCHES, WARM_UP = 8, 12
OPS = ("LookUpTables", "UpdateTables")
FORMER_FOLDER = "estimator_spec/core/updates/native/"  # of older revisions
# Our ops' prefix; those of the other revision get another, so that both can be loaded.
PREFIX, OTHER = "TpuColumns", "OtherColumns"
WORKLOADS = {
    "1id-1e4": "grid/1id-dense-1e4",
    "1id-1e5": "grid/1id-dense-1e5",
    "1id-1e6": "grid/1id-dense-1e6",
    "10ids-1e4": "grid/10ids-dense-1e4",
    "10ids-1e5": "grid/10ids-dense-1e5",
    "10ids-1e6": "grid/10ids-dense-1e6",
    "mixed-300": "mixed-300",
    "small-300": "small-300",
}


class Side(NamedTuple):
    """The ops of a revision.

    Attributes:
        prefix: of their types.
        ops: the loaded library.
    """

    prefix: str
    ops: Any

    def make(self, op: str, **arguments: Any) -> Any:
        """Returns what an op without its prefix returns; passes the arguments that it has."""
        name = "".join(f"_{c.lower()}" if c.isupper() else c for c in self.prefix + op)
        function = getattr(self.ops, name.lstrip("_"))
        has = inspect.signature(function).parameters
        return function(**{key: value for key, value in arguments.items() if key in has})


def load_revision(revision: str, directory: Path) -> Side:
    """Compiles and loads the sources of a revision under another prefix.

    Args:
        revision: as git has it.
        directory: for sources and library.
    """
    folders = [f"{libraries.SOURCES.relative_to(ROOT)}/", FORMER_FOLDER]
    for path in _git("ls-tree", "--name-only", revision, *folders).split():
        text = _git("show", f"{revision}:{path}")
        text = text.replace(PREFIX, OTHER).replace("namespace tpu_columns", "namespace other")
        (directory / Path(path).name).write_text(text, encoding="utf-8")
    unit, library = directory / building.UNIT, directory / "other.so"
    if not unit.exists():
        sys.exit(f"error: {revision} has no {folders[0]}{unit.name}.")
    target = building.installed_target()
    building.compile_unit(building.find_compiler(), target, unit, library, building.TIMEOUT_S)
    return Side(OTHER, tf.load_op_library(str(library)))


def _git(*arguments: str) -> str:
    command = ["git", "-C", str(ROOT), *arguments]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def build_steps(workload: workloads.Workload, all_sides: list[Side]) -> tuple[list[Any], Any]:
    """Builds a lookup and an update of all tables for each side.

    Args:
        workload: features and batch size; sparse ids are dense matrices here.
        all_sides: the sides, which share the tables.

    Returns:
        An op for each side, and the placeholder for the number of a batch.
    """
    features = workload.features
    number = tf1.placeholder(tf.int32, [])
    batches = [workloads.batch_of(workload, i, workload.batch_size) for i in range(BATCHES)]
    ids = [
        tf.gather(_variable(np.stack([batch[feature.name] for batch in batches])), number)
        for feature in features
    ]
    widths = [feature.width for feature in features]
    columns = [0, *itertools.accumulate(widths)]
    shapes = [(feature.rows, feature.width) for feature in features]
    tables = [_variable(tf.zeros(shape)).handle for shape in shapes]
    slots = [_variable(tf.fill(shape, 0.1)).handle for shape in shapes]
    none, zeros = [], [0] * len(features)
    names = ["''"] * len(features)
    arguments = {
        "variables": tables,
        "tables": none,
        "ids": ids,
        "indices": none,
        "shapes": none,
        "weights": none,
        "variable": list(range(len(features))),
        "first_row": zeros,
        "num_rows": [feature.rows for feature in features],
        "num_shards": [1] * len(features),
        # Other revisions had marks.
        "mark": zeros,
        "mark_limit": 1,
        "safe": zeros,
        "column_name": names,
        "key": names,
        "weight_key": names,
        "trains": True,
        "combiner": [1] * len(features),  # mean
        "num_steps": [0] * len(features),
        "sparse": zeros,
        "weighted": zeros,
        "column": columns[:-1],
    }
    in_layer = {"num_layers": 1, "widths": columns[-1:], "layer": zeros}
    no_others = dict.fromkeys(("layer_of_other", "column_of_other", "width_of_other"), none)
    constant = _variable(tf.random.normal([workload.batch_size, columns[-1]]))
    updates = []
    for side in all_sides:
        found = side.make("LookUpTables", others=none, **in_layer, **no_others, **arguments)
        # Lookups of some revisions return the rows for the update, too.
        layers, rows = found if isinstance(found, tuple) else (found, None)
        # The gradient is computed after the lookup, as in a training.
        gradient = constant * (1.0 + 0.0 * tf.reduce_mean(layers[0]))
        update = side.make(
            "UpdateTables",
            slots=slots,
            rates=[tf.constant(0.1)] * len(features),
            factor=tf.constant(1.0),
            gradients=[gradient] * len(features),
            rows=rows,
            feature=list(range(len(features))),
            step=0.0,
            constants=[],
            limits=[],
            decay_has_rate=False,
            rule="adagrad_no_nan",
            **arguments,
        )
        updates.append(update)
    return updates, number


def _variable(value: Any) -> Any:
    return tf1.Variable(value, trainable=False, use_resource=True)


def measure(
    workload: workloads.Workload,
    all_sides: list[Side],
    steps: int,
    between: Callable[[int], None] = lambda step: None,
) -> dict[str, float]:
    """Returns the median microseconds of each op of each side, by the op's type.

    Args:
        workload: what is looked up and updated.
        all_sides: the sides.
        steps: measured steps, which follow those that warm up.
        between: called after each step, with its number.
    """
    times: dict[str, list[float]] = collections.defaultdict(list)
    options = tf1.RunOptions(trace_level=tf1.RunOptions.FULL_TRACE)
    with tf.Graph().as_default(), tf1.Session() as session:
        updates, number = build_steps(workload, all_sides)
        session.run(tf1.global_variables_initializer())
        for step in range(WARM_UP + steps):
            for update in updates if step % 2 else updates[::-1]:
                metadata = tf1.RunMetadata()
                session.run(update, {number: step % BATCHES}, options, metadata)
                for device in metadata.step_stats.dev_stats if step >= WARM_UP else ():
                    for node in device.node_stats:
                        kind = profiling.kind_of(node.timeline_label)
                        times[kind].append(node.op_end_rel_micros - node.op_start_rel_micros)
            between(step)
    return {kind: statistics.median(found) for kind, found in times.items()}


def choose(parser: argparse.ArgumentParser, only: str | None, known: Collection[str]) -> list[str]:
    """Returns the workloads of an option, by commas; all without it. Others end the command."""
    names = only.split(",") if only else list(known)
    for name in names:
        if name not in known:
            parser.error(f"no workload {name!r}; there are {', '.join(known)}.")
    return names


def main() -> None:
    """Compares the chosen workloads and prints a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("revision", help="of the other ops, as git has it")
    parser.add_argument("--only", help=f"workloads by commas, of {', '.join(WORKLOADS)}")
    parser.add_argument("--steps", type=int, default=100, help="measured steps of each side")
    options = parser.parse_args()
    ours = loading.load()
    if ours is None:
        sys.exit("error: there are no native ops here; the log says why.")
    names = choose(parser, options.only, WORKLOADS)
    rows = []
    with tempfile.TemporaryDirectory() as directory:
        other = load_revision(options.revision, Path(directory))
        for name in names:
            workload = workloads.by_name(WORKLOADS[name])
            found = measure(workload, [Side(PREFIX, ours), other], options.steps)
            cells = [name]
            for op in OPS:
                mine, its = found[PREFIX + op], found[OTHER + op]
                cells += [f"{its:,.0f}", f"{mine:,.0f} · {mine / its:.2f}"]
            rows.append(cells)
            print(" | ".join(cells), flush=True)
    heads = [cell for op in OPS for cell in (f"{op}, {options.revision}", "this tree")]
    print("\n" + pages.grid(["workload", *heads], rows))


if __name__ == "__main__":
    main()
