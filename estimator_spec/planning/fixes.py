# SPDX-License-Identifier: Apache-2.0
"""Proposes changes for tables that don't fit, and computes what each would achieve."""

from __future__ import annotations

import bisect
import dataclasses
from collections.abc import Callable, Iterable, Iterator

from estimator_spec.core.common.terminal import format_size
from estimator_spec.planning.memory import Estimate, Place
from estimator_spec.planning.problems import Fix
from estimator_spec.planning.tables import BY_DEFAULT, Lookup, Table
from tpu_columns.partition import MAX_SHARDS
from tpu_columns.placement import Hardware, LookupDevice
from tpu_columns.storage import DTYPES

# Optimizers to propose, with their numbers of slot variables.
_LIGHTER_OPTIMIZERS = (("Adagrad", 1), ("StochasticGradientDescent", 0))


# Proposes fixes for a place whose tables don't fit.
Proposer = Callable[[Estimate, Place], Iterable[Fix]]


def take_more_hosts(estimate: Estimate, place: Place) -> Iterator[Fix]:
    """Proposes the smallest number of hosts that is enough."""
    if place is Place.SERVING:
        return  # one machine holds all tables
    hosts = _least_hosts(estimate, place)
    if hosts is not None:
        changed = _with_hosts(estimate, hosts)
        cores = f" ({changed.system.num_shards} cores)" if place is Place.CORES else ""
        now = estimate.system.hosts
        yield _fix(f"Take {hosts} hosts{cores} instead of {now}", changed, place)


def leave_tensor_core(estimate: Estimate, place: Place) -> Iterator[Fix]:
    """Proposes the embedding core for tables of which each core holds a copy."""
    if place is not Place.CORES or not estimate.tensor_core_tables:
        return
    lookup = Lookup(LookupDevice.TPU_EMBEDDING_CORE, BY_DEFAULT)
    moved = {t.key: dataclasses.replace(t, training=lookup) for t in estimate.tensor_core_tables}
    changed = _with_tables(estimate, moved)
    largest = max(moved.values(), key=lambda table: table.num_bytes).key
    yield _fix(
        f"Look up the tables of the tensor core (the largest is {largest}) on the embedding core: "
        "leave embedding_lookup_device and tensor_core_below unset",
        changed,
        place,
    )


def train_with_fewer_slots(estimate: Estimate, place: Place) -> Iterator[Fix]:
    """Proposes optimizers with fewer slot variables, up to the first that is enough."""
    if place is Place.SERVING or estimate.system.hardware is not Hardware.TPU:
        return  # no slots, or those of the model's optimizer
    for name, num_slots in _LIGHTER_OPTIMIZERS:
        heavy = [t for t in estimate.sharded_tables if t.num_slots > num_slots]
        if not heavy:
            continue
        lighter = {
            table.key: dataclasses.replace(table, optimizer=name, num_slots=num_slots)
            for table in heavy
        }
        now = ", ".join(sorted({f"{table.optimizer} ({table.num_slots})" for table in heavy}))
        text = f"Train by {name}Parameters ({num_slots} slot variables) instead of {now}"
        fix = _fix(text, _with_tables(estimate, lighter), place)
        yield fix
        if fix.solves:
            return


def export_narrower(estimate: Estimate, place: Place) -> Iterator[Fix]:
    """Proposes smaller dtypes for exported tables, up to the first that is enough."""
    if place is not Place.SERVING:
        return
    for dtype in DTYPES[DTYPES.index(estimate.serving_dtype) + 1 :]:
        changed = dataclasses.replace(estimate, serving_dtype=dtype)
        fix = _fix(f"Export by export_saved_model(…, tables={dtype!r})", changed, place)
        yield fix
        if fix.solves:
            return


def take_more_memory(estimate: Estimate, place: Place) -> Iterator[Fix]:
    """Proposes devices with enough memory."""
    system = estimate.system
    needed = format_size(system.needed(estimate.use(place).largest))
    has = format_size(system.hbm if place is Place.CORES else system.host_memory)
    yield Fix(f"Take {place.device}s of at least {needed} of memory instead of {has}.")


# In order of preference.
PROPOSERS: tuple[Proposer, ...] = (
    take_more_hosts,
    leave_tensor_core,
    train_with_fewer_slots,
    export_narrower,
    take_more_memory,
)


def propose_fixes(estimate: Estimate, place: Place) -> tuple[Fix, ...]:
    """Returns the fixes of a place whose tables don't fit, those that solve it first."""
    found = [fix for propose in PROPOSERS for fix in propose(estimate, place)]
    return tuple(sorted(found, key=lambda fix: not fix.solves))


def _fix(text: str, changed: Estimate, place: Place) -> Fix:
    """Returns a fix whose text ends with its result."""
    use = changed.use(place)
    needed, usable = format_size(use.largest), format_size(use.capacity)
    which = f"the fullest {place.device}" if use.num_devices > 1 else f"the {place.device}"
    return Fix(f"{text}: {which} then needs {needed} of {usable}.", use.fits)


def _with_hosts(estimate: Estimate, hosts: int) -> Estimate:
    return dataclasses.replace(estimate, system=dataclasses.replace(estimate.system, hosts=hosts))


def _with_tables(estimate: Estimate, changed: dict[str, Table]) -> Estimate:
    tables = tuple(changed.get(table.key, table) for table in estimate.tables)
    return dataclasses.replace(estimate, tables=tables)


def _least_hosts(estimate: Estimate, place: Place) -> int | None:
    """Returns the smallest number of hosts whose memory is enough; None if no number is."""
    shards_of_host = estimate.system.num_shards // estimate.system.hosts
    numbers = range(estimate.system.hosts, MAX_SHARDS // shards_of_host + 1)
    # The use of the fullest device falls as hosts are added.
    least = bisect.bisect_left(
        numbers, True, key=lambda hosts: _with_hosts(estimate, hosts).use(place).fits
    )
    return numbers[least] if least < len(numbers) else None
