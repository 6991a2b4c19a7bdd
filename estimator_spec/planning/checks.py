# SPDX-License-Identifier: Apache-2.0
"""Finds the problems of a plan: what doesn't fit, can't be looked up, or is badly balanced."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from estimator_spec.core.common.terminal import format_size
from estimator_spec.planning.balance import imbalance, total_lookups
from estimator_spec.planning.fixes import propose_fixes
from estimator_spec.planning.memory import Estimate, MemoryUse, Place
from estimator_spec.planning.problems import MEMORY_KINDS, Fix, Problem, ProblemKind
from estimator_spec.planning.results import Plan
from estimator_spec.planning.tables import INT32_IDS, Table
from estimator_spec.planning.text import count, name_tables
from tpu_columns.partition import STRATEGIES
from tpu_columns.placement import Hardware, LookupDevice
from tpu_columns.storage import table_bytes

# Lookups of the busiest shard over the mean, from which on another strategy is proposed.
_UNEVEN = 1.25
# The other strategy's imbalance must be smaller by this factor. Samples vary.
_BETTER = 0.9

_DIV_ONLY = (
    " TensorFlow's TPUEmbedding, which use_tpu=True trains with, has div only: for it, permute the "
    "ids in the input_fn."
)


# Finds the problems of one kind in a plan without problems so far.
Check = Callable[[Plan], Iterable[Problem]]


def check_memory(plan: Plan) -> Iterator[Problem]:
    """Finds places whose fullest device has no room for its tables."""
    estimate = plan.estimate
    for use in estimate.uses:
        if not use.fits:
            largest = _largest_tables(estimate, use.place)
            yield Problem(
                MEMORY_KINDS[use.place],
                _memory_text(estimate, use, largest),
                tuple(largest),
                propose_fixes(estimate, use.place),
            )


def check_lookup_devices(plan: Plan) -> Iterator[Problem]:
    """Finds tables whose columns request a forbidden device."""
    for table in plan.estimate.tables:
        if table.training.device is None:
            fix = Fix(
                f"Leave embedding_lookup_device of the columns of {table.key} unset: a training "
                "on a TPU then looks them up on the embedding core, a serving model on the CPU."
            )
            text = f"Table {table.key} can't be trained. {table.training.reason}"
            yield Problem(ProblemKind.LOOKUP_DEVICE, text, (table.key,), (fix,))


def check_optimizers(plan: Plan) -> Iterator[Problem]:
    """Finds tables of the embedding core without an optimizer."""
    tables = [t for t in plan.estimate.tables if t.is_on(LookupDevice.TPU_EMBEDDING_CORE)]
    missing = tuple(table.key for table in tables if not table.optimizer)
    if missing:
        fix = Fix("Give the spec (or their TableConfig) optimization_parameters.")
        text = f"Tables without an optimizer: {name_tables(missing)}."
        yield Problem(ProblemKind.OPTIMIZER, text, missing, (fix,))


def check_int32_ids(plan: Plan) -> Iterator[Problem]:
    """Finds tables with more rows than a TPU's ids, which are int32, can number."""
    if plan.estimate.system.hardware is not Hardware.TPU:
        return
    for table in plan.estimate.tables:
        if table.ids_beyond_int32:
            parts = -(-table.rows // INT32_IDS)
            folded = format_size(table_bytes(INT32_IDS, table.width))
            fixes = (
                Fix(
                    f"Split it into {parts} tables of {-(-table.rows // parts):,} rows, and its "
                    f"features into {parts}, by id mod {parts} in the input_fn."
                ),
                Fix(
                    f"Fold its ids in the input_fn, by id mod {INT32_IDS:,}: the table then has "
                    f"{folded} instead of {format_size(table.num_bytes)}, and "
                    f"{table.ids_beyond_int32:,} ids share a row with another."
                ),
            )
            yield Problem(
                ProblemKind.INT32_IDS,
                f"Table {table.key} has {table.rows:,} rows. A TPU takes ids as int32, which "
                f"can't hold the last {table.ids_beyond_int32:,} of its ids.",
                (table.key,),
                fixes,
            )


def check_sampled_ids(plan: Plan) -> Iterator[Problem]:
    """Finds features whose ids in the sample have no row."""
    if plan.sample is None:
        return
    for table in plan.estimate.tables:
        for feature in table.features:
            ids = plan.sample.ids_of([feature])
            beyond = ids[ids >= table.rows]
            if beyond.size:
                yield _out_of_range(table, feature, len(beyond), len(ids), int(beyond.max()))


def check_balance(plan: Plan) -> Iterator[Problem]:
    """Finds tables that leave shards empty, and lookups that are uneven under the strategy."""
    estimate = plan.estimate
    shards = estimate.system.num_shards
    small = [table for table in estimate.sharded_tables if table.rows < shards]
    if small and estimate.system.hardware is Hardware.TPU:
        yield _small_tables(small, shards)
    found = {strategy: total_lookups(plan.balances, strategy) for strategy in STRATEGIES}
    own = estimate.strategy
    if not any(found[own]):
        return
    ratios = {strategy: imbalance(lookups) for strategy, lookups in found.items()}
    (other,) = (strategy for strategy in STRATEGIES if strategy != own)
    if ratios[own] >= _UNEVEN and ratios[other] <= _BETTER * ratios[own]:
        keys = tuple(table.key for table in estimate.sharded_tables)
        note = _DIV_ONLY if other == "mod" and estimate.system.hardware is Hardware.TPU else ""
        fix = Fix(
            f"EmbeddingConfigSpec(partition_strategy={other!r}): the busiest shard then looks up "
            f"{ratios[other]:.2f} times the mean.{note}"
        )
        yield Problem(
            ProblemKind.IMBALANCE,
            f"The busiest of {count(shards, 'shard')} looks up {ratios[own]:.2f} times the mean, "
            f"under {own}.",
            keys,
            (fix,),
        )


CHECKS: tuple[Check, ...] = (
    check_memory,
    check_lookup_devices,
    check_optimizers,
    check_int32_ids,
    check_sampled_ids,
    check_balance,
)


def _largest_tables(estimate: Estimate, place: Place) -> dict[str, int]:
    """Returns the bytes of the three tables that need most in a place, on one device."""
    sizes = {table.key: estimate.on_fullest_device(table, place) for table in estimate.tables}
    largest = sorted(sizes, key=lambda key: -sizes[key])[:3]
    return {key: sizes[key] for key in largest if sizes[key]}


def _memory_text(estimate: Estimate, use: MemoryUse, largest: dict[str, int]) -> str:
    device, system = use.place.device, estimate.system
    many = use.num_devices > 1
    which = f"The fullest of {use.num_devices:,} {device}s" if many else f"The {device}"
    memory = format_size(system.hbm if use.place is Place.CORES else system.host_memory)
    tables = ", ".join(f"{key} {format_size(size)}" for key, size in largest.items())
    return (
        f"{which} needs {format_size(use.largest)} for tables, and {format_size(use.capacity)} of "
        f"its {memory} are usable. It needs most for {tables}."
    )


def _out_of_range(table: Table, feature: str, beyond: int, ids: int, highest: int) -> Problem:
    size = format_size((highest + 1 - table.rows) * table.trained_row_bytes)
    fixes = (
        Fix(f"Map them in the input_fn to ids below {table.rows:,}."),
        Fix(
            f"Give table {table.key} {highest + 1:,} rows instead of {table.rows:,}: {size} more "
            "in training."
        ),
    )
    return Problem(
        ProblemKind.IDS_OUT_OF_RANGE,
        f"Feature {feature}: {beyond:,} of {ids:,} ids in the sample have no row in table "
        f"{table.key}. It has {table.rows:,}, and the highest id is {highest:,}.",
        (table.key,),
        fixes,
    )


def _small_tables(small: list[Table], shards: int) -> Problem:
    keys = tuple(table.key for table in small)
    below = max(table.rows for table in small) + 1
    size = format_size(sum(table.num_bytes + table.slot_bytes for table in small))
    fix = Fix(
        f"Look them up on the tensor core (columns only): tensor_core_below={below}, and a "
        f"tensor_core_shape for each of their columns. Each core then holds all of them, {size} "
        "with as many slots."
    )
    return Problem(
        ProblemKind.IMBALANCE,
        f"{count(len(keys), 'table')} with fewer rows than the {shards:,} cores: "
        f"{name_tables(keys)}. All their lookups are on the first cores.",
        keys,
        (fix,),
    )
