# SPDX-License-Identifier: Apache-2.0
"""Computes the memory that tables need on each kind of device.

    place    devices                  tables
    cores    all TPU cores            embedding core: its shard of each table and slot variable;
                                      tensor core: each core holds the whole table and its slots
    hosts    hosts of a training      on a TPU, the embedding core's tables and slots, from which
                                      cores are loaded and checkpoints written; otherwise all tables
    serving  one machine that serves  all tables, without slots, in the dtype of the export

Rows are distributed by `RowPartition`; under div and mod the sizes of shards are the same.
"""

from __future__ import annotations

import dataclasses
import enum
import itertools
from collections.abc import Sequence

import numpy as np

from estimator_spec.planning.system import System
from estimator_spec.planning.tables import Table
from tpu_columns.partition import RowPartition
from tpu_columns.placement import Hardware, LookupDevice
from tpu_columns.storage import table_bytes


class Place(enum.Enum):
    """Kind of device whose memory holds tables."""

    CORES = "cores"
    HOSTS = "hosts"
    SERVING = "serving"

    @property
    def device(self) -> str:
        """Name of one device."""
        return {"cores": "core", "hosts": "host", "serving": "serving machine"}[self.value]


@dataclasses.dataclass(frozen=True)
class DeviceGroup:
    """Devices that need equal amounts of memory.

    Attributes:
        devices: number of devices.
        num_bytes: bytes of tables and slots on each.
    """

    devices: int
    num_bytes: int


@dataclasses.dataclass(frozen=True)
class MemoryUse:
    """Memory that tables need on the devices of one place.

    Attributes:
        place: the kind of device.
        capacity: bytes of each device that tables can have.
        groups: the devices, fullest first.
    """

    place: Place
    capacity: int
    groups: tuple[DeviceGroup, ...]

    @property
    def num_devices(self) -> int:
        """Number of devices."""
        return sum(group.devices for group in self.groups)

    @property
    def largest(self) -> int:
        """Bytes on the fullest device."""
        return self.groups[0].num_bytes

    @property
    def total(self) -> int:
        """Bytes on all devices."""
        return sum(group.devices * group.num_bytes for group in self.groups)

    @property
    def fits(self) -> bool:
        """Whether the fullest device has room for its tables."""
        return self.largest <= self.capacity


@dataclasses.dataclass(frozen=True)
class Estimate:
    """Tables on a system, with the memory that they need.

    Attributes:
        tables: the tables.
        system: the hardware.
        strategy: partition strategy of the spec.
        serving_dtype: dtype of the exported tables: 'float32', 'float16' or 'int8'.
    """

    tables: tuple[Table, ...]
    system: System
    strategy: str
    serving_dtype: str = "float32"

    @property
    def places(self) -> tuple[Place, ...]:
        """The kinds of devices that hold tables."""
        on_tpu = self.system.hardware is Hardware.TPU
        return tuple(Place) if on_tpu else (Place.HOSTS, Place.SERVING)

    @property
    def sharded_tables(self) -> tuple[Table, ...]:
        """The tables that training distributes over shards."""
        on_tpu = self.system.hardware is Hardware.TPU
        device = LookupDevice.TPU_EMBEDDING_CORE if on_tpu else LookupDevice.CPU
        return tuple(table for table in self.tables if table.is_on(device))

    @property
    def tensor_core_tables(self) -> tuple[Table, ...]:
        """The tables that each core holds as a whole."""
        return tuple(t for t in self.tables if t.is_on(LookupDevice.TPU_TENSOR_CORE))

    def partition(self, table: Table, strategy: str | None = None) -> RowPartition:
        """Returns the distribution of a table's rows over the shards of a training.

        Args:
            table: one of `sharded_tables`.
            strategy: None for the spec's.
        """
        return RowPartition(strategy or self.strategy, table.rows, self.system.num_shards)

    def use(self, place: Place) -> MemoryUse:
        """Returns the memory that tables need in a place."""
        system = self.system
        if place is Place.SERVING:
            size = sum(table_bytes(t.rows, t.width, self.serving_dtype) for t in self.tables)
            return MemoryUse(place, system.usable_host_memory, (DeviceGroup(1, size),))
        on_cores = place is Place.CORES
        devices = system.num_shards if on_cores else system.hosts
        use = np.zeros(devices, np.int64)
        for table in self.sharded_tables:
            sizes = RowPartition(self.strategy, table.rows, devices).shard_sizes
            use += np.asarray(sizes, np.int64) * table.trained_row_bytes
        if on_cores:
            use += sum(table.num_bytes + table.slot_bytes for table in self.tensor_core_tables)
        capacity = system.usable_hbm if on_cores else system.usable_host_memory
        return MemoryUse(place, capacity, _group(use.tolist()))

    def on_fullest_device(self, table: Table, place: Place) -> int:
        """Returns the bytes that one table needs on the fullest device of a place."""
        return dataclasses.replace(self, tables=(table,)).use(place).largest

    @property
    def uses(self) -> tuple[MemoryUse, ...]:
        """The memory of each place."""
        return tuple(self.use(place) for place in self.places)


def _group(use: Sequence[int]) -> tuple[DeviceGroup, ...]:
    """Returns groups of devices by their use, the greatest first."""
    ordered = sorted(use, reverse=True)
    return tuple(DeviceGroup(len(list(same)), size) for size, same in itertools.groupby(ordered))
