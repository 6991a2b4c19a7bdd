# SPDX-License-Identifier: Apache-2.0
"""Defines workloads: tables, features and ids, the same on every side.

Imports NumPy and the standard library only, so that it runs beside any framework. The ids come from
SplitMix64 (Steele, Lea and Flood, OOPSLA 2014), not from NumPy's generators, which change.
"""

from __future__ import annotations

import dataclasses
import math
import os
from typing import Any

import numpy as np

QUICK = bool(os.environ.get("TRAINING_TIME_QUICK"))
# Different batches, repeated. All are made in the first interval, which isn't timed.
BATCHES = 8 if QUICK else 32
BATCH_SIZE = 1024
STEPS_PER_LOG = 10 if QUICK else 100  # RunConfig's default; the interval of step times

_GAMMA = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)


def splitmix64(seed: int, count: int, start: int = 0) -> np.ndarray:
    """Returns `count` numbers of a seed's stream, starting at index `start`.

    >>> [hex(number) for number in splitmix64(0, 2).tolist()]
    ['0xe220a8397b1dcdaf', '0x6e789e6aa1b965f4']
    """
    counter = np.arange(start + 1, start + count + 1, dtype=np.uint64)
    state = np.uint64(seed % 2**64) + counter * _GAMMA
    state = (state ^ (state >> np.uint64(30))) * _FIRST
    state = (state ^ (state >> np.uint64(27))) * _SECOND
    return state ^ (state >> np.uint64(31))


def uniform(seed: int, count: int, start: int = 0) -> np.ndarray:
    """Returns numbers in [0, 1) with 53 bits."""
    return (splitmix64(seed, count, start) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def log_uniform_ids(seed: int, count: int, rows: int, start: int = 0) -> np.ndarray:
    """Returns log-uniform ids in [0, rows): as many in [1, 2) as in [2, 4), [4, 8) and so on.

    Within an octave they are uniform, so that only exact arithmetic is needed: no library's exp.
    """
    place = uniform(seed, count, start) * math.log2(rows + 1)
    octave = np.floor(place)
    ids = np.ldexp(1.0 + (place - octave), octave.astype(np.int32)) - 1.0
    return np.minimum(ids.astype(np.int64), rows - 1)


@dataclasses.dataclass(frozen=True)
class Feature:
    """One feature and its column.

    Attributes:
        name: its key.
        rows: ids of its table.
        width: numbers in a row of its table.
        ids: ids in each example; of a sequence, the most.
        kind: `dense`, an int64 tensor `[B, ids]`; or `sparse`, a SparseTensor.
        weighted: a weight with each id, under `<name>_weight`; the combiner is then sum, else mean.
        sequence: looked up by step; from 1 to `ids` of them.
        table: name of a table that others have too; None: one of its own.
    """

    name: str
    rows: int
    width: int = 16
    ids: int = 1
    kind: str = "dense"
    weighted: bool = False
    sequence: bool = False
    table: str | None = None

    @property
    def combiner(self) -> str:
        """Returns the combiner."""
        return "sum" if self.weighted else "mean"


@dataclasses.dataclass(frozen=True)
class Workload:
    """Workload of one process.

    Attributes:
        name: what the command calls it.
        features: what is looked up.
        optimizer: of the model_fn and of the specification: adagrad, adam or sgd.
        verb: train, first_step, evaluate, predict, serve, or embedding (no network behind it).
        intervals: how many are timed, after a first one.
        interval: steps of each.
        program: `tables`, `census`, `canned` (estimators without a model_fn) or `transformer`.
        batch_size: examples of a step; not of program `canned`.
    """

    name: str
    features: tuple[Feature, ...] = ()
    optimizer: str = "adagrad"
    verb: str = "train"
    intervals: int = 8
    interval: int = STEPS_PER_LOG
    program: str = "tables"
    batch_size: int = BATCH_SIZE

    @property
    def table_bytes(self) -> int:
        """Returns the bytes of all tables, without slot variables."""
        sizes = {f.table or f.name: 4 * f.rows * f.width for f in self.features}
        return sum(sizes.values())


def of_table(count: int = 26, **fields: Any) -> tuple[Feature, ...]:
    """Returns features of equal tables."""
    return tuple(Feature(f"f{i}", **fields) for i in range(count))


def _mixed(count: int) -> tuple[Feature, ...]:
    """Returns features of many table sizes; every fourth has up to ten ids, sparse."""
    return tuple(
        Feature(
            f"f{i}",
            rows=(100, 1_000, 10_000, 50_000, 100_000)[i % 5],
            width=(4, 8, 12, 16, 24, 32)[i % 6],
            ids=10 if i % 4 == 3 else 1,
            kind="sparse" if i % 4 == 3 else "dense",
        )
        for i in range(count)
    )


def _all() -> list[Workload]:
    found = [
        Workload(
            f"grid/{ids}id{'s' * (ids > 1)}-{kind}-1e{power}",
            of_table(rows=10**power, ids=ids, kind=kind),
            intervals=4 if ids > 1 else 8,
        )
        for ids in (1, 10)
        for kind in ("dense", "sparse")
        for power in (4, 5, 6)
    ]
    for optimizer in ("adam", "sgd"):
        for ids, power in ((1, 5), (10, 5), (1, 6)):
            name = f"{optimizer}/{ids}id{'s' * (ids > 1)}-dense-1e{power}"
            features = of_table(rows=10**power, ids=ids)
            # TF1's Adam updates whole tables: fewer steps.
            interval = 20 if optimizer == "adam" and power == 6 else STEPS_PER_LOG
            found.append(Workload(name, features, optimizer, intervals=2, interval=interval))
    weighted = of_table(rows=100_000, ids=10, kind="sparse", weighted=True)
    pair = {"width": 32, "ids": 50, "kind": "sparse", "sequence": True, "table": "items"}
    sequences = tuple(Feature(name, rows=10**6, **pair) for name in ("seen", "bought"))
    found += [
        Workload("weighted", weighted, intervals=2),
        Workload("sequences", sequences, intervals=2),
        Workload("mixed-300", _mixed(300), intervals=2),
        Workload("small-300", of_table(300, rows=2_000), intervals=2, batch_size=512),
        Workload("huge/1id", (Feature("item", rows=10**7, width=32),)),
        Workload("huge/10ids", (Feature("item", rows=10**7, width=32, ids=10),)),
        Workload("census", program="census", intervals=4, batch_size=512),
    ]
    for kind, power in (("linear-1e6", 6), ("deep", 5), ("wide-deep", 5)):
        features = of_table(rows=10**power)
        found.append(Workload(f"canned/{kind}", features, program="canned", intervals=4))
    for ids in (1, 10):
        features = of_table(rows=100_000, ids=ids)
        ending = f"{ids}id{'s' * (ids > 1)}"
        found += [
            Workload(f"{verb}/{ending}", features, verb=verb, intervals=4 if ids > 1 else 8)
            for verb in ("evaluate", "predict", "serve", "embedding")
        ]
    found += [
        Workload("first-step/26", of_table(rows=100_000), verb="first_step"),
        *(
            Workload(f"first-step/{count}", of_table(count, rows=1_000), verb="first_step")
            for count in (100, 300, 1000)
        ),
    ]
    return found


WORKLOADS = {workload.name: workload for workload in _all()}
# Selected by their own names only: for trying the command, and for a GPU.
BY_NAME = {
    workload.name: workload
    for workload in (
        Workload("tiny", of_table(2, rows=100, width=4), intervals=1),
        Workload("transformer", program="transformer", intervals=1, batch_size=32),
    )
}


def select(pattern: str) -> list[Workload]:
    """Parses comma-separated names of workloads or groups (up to a slash), or `all`.

    Raises:
        ValueError: no workload is called so.
    """
    found: dict[str, Workload] = {}
    for part in filter(None, (word.strip() for word in pattern.split(","))):
        names = [n for n in WORKLOADS if part in ("all", n) or n.startswith(part.rstrip("/") + "/")]
        if part in BY_NAME:
            found[part] = BY_NAME[part]
        elif not names:
            raise ValueError(f"No workload {part!r}; there are {', '.join(WORKLOADS)}.")
        found.update((name, WORKLOADS[name]) for name in names)
    return list(found.values())


def by_name(name: str) -> Workload:
    """Returns the workload of a name."""
    return select(name)[0]


def batch_of(workload: Workload, number: int, size: int = BATCH_SIZE) -> dict[str, np.ndarray]:
    """Returns the arrays of one batch.

    Returns:
        For a feature its ids `[B, ids]`; for a weighted one also `<name>_weight`, float32
        `[B, ids]`; for a sequence also `<name>_length`, int64 `[B]`, the first so many of the ids
        count. And `label`, float32 `[B, 1]`.
    """
    arrays: dict[str, np.ndarray] = {}
    for place, feature in enumerate(workload.features):
        seed, count = 1000 * (place + 1), size * feature.ids
        ids = log_uniform_ids(seed, count, feature.rows, number * count)
        arrays[feature.name] = ids.reshape(size, feature.ids)
        if feature.weighted:
            weights = 0.5 + uniform(seed + 1, count, number * count)
            arrays[f"{feature.name}_weight"] = weights.astype(np.float32).reshape(size, feature.ids)
        if feature.sequence:
            lengths = 1 + np.floor(uniform(seed + 2, size, number * size) * feature.ids)
            arrays[f"{feature.name}_length"] = lengths.astype(np.int64)
    odd = splitmix64(7, size, number * size) % np.uint64(2)
    arrays["label"] = odd.astype(np.float32).reshape(size, 1)
    return arrays
