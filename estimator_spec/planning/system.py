# SPDX-License-Identifier: Apache-2.0
"""Describes the hardware that a plan is made for."""

from __future__ import annotations

import dataclasses

from estimator_spec.core.common.checks import check_positive_ints
from tpu_columns.checks import is_number
from tpu_columns.partition import MAX_SHARDS
from tpu_columns.placement import Hardware

GIB = 1 << 30


@dataclasses.dataclass(frozen=True)
class System:
    """Hosts, cores and memory that a plan is made for.

    >>> system = System(hosts=8)
    >>> system.num_shards, round(system.usable_hbm / GIB, 1)
    (64, 13.6)

    Attributes:
        hosts: number of hosts.
        cores: TPU cores of each host. Default 8, as on TPU v2 and v3; 4 on v4 and v5p.
        hbm: bytes of memory of each core. Default 16 GiB, as on TPU v3.
        host_memory: bytes of memory of each host, and of a machine that serves. Default 128 GiB.
        reserved: fraction of both kinds of memory that tables can't have: the model, its
            activations and the runtime need it. Default 0.15.
        sparse_cores: SparseCores of each core. Default 4, as on TPU v5p; 2 on v6e. Affects the
            estimate of SparseCore's limits only.
        hardware: TPU, where cores hold the tables of the embedding core, or CPU, where hosts hold
            all tables and `cores` and `hbm` have no effect.

    Raises:
        ValueError: a value is out of range, or there are more shards than a table can have.
        TypeError: a value has another type.
    """

    hosts: int = 1
    cores: int = 8
    hbm: int = 16 * GIB
    host_memory: int = 128 * GIB
    reserved: float = 0.15
    sparse_cores: int = 4
    hardware: Hardware = Hardware.TPU

    def __post_init__(self) -> None:
        check_positive_ints(
            hosts=self.hosts,
            cores=self.cores,
            hbm=self.hbm,
            host_memory=self.host_memory,
            sparse_cores=self.sparse_cores,
        )
        if not is_number(self.reserved) or not 0 <= self.reserved < 1:
            raise ValueError(f"reserved must be a fraction in [0, 1), got {self.reserved!r}.")
        if not isinstance(self.hardware, Hardware):
            raise TypeError(f"hardware must be a tpu_columns.Hardware, got {self.hardware!r}.")
        if self.num_shards > MAX_SHARDS:
            raise ValueError(
                f"{self.hosts} hosts of {self.cores} cores are {self.num_shards} shards of a "
                f"table; it can have at most {MAX_SHARDS}."
            )

    @property
    def num_shards(self) -> int:
        """Number of shards of a table in training: one for each core, or for each host."""
        return self.hosts * self.cores if self.hardware is Hardware.TPU else self.hosts

    @property
    def num_sparse_cores(self) -> int:
        """Number of SparseCores of all hosts."""
        return self.hosts * self.cores * self.sparse_cores

    @property
    def usable_hbm(self) -> int:
        """Bytes of a core that tables can have."""
        return self.usable(self.hbm)

    @property
    def usable_host_memory(self) -> int:
        """Bytes of a host that tables can have."""
        return self.usable(self.host_memory)

    def usable(self, num_bytes: int) -> int:
        """Returns the part of a memory that isn't reserved."""
        return int(num_bytes * (1 - self.reserved))

    def needed(self, num_bytes: int) -> int:
        """Returns how large a memory must be to hold `num_bytes` beside what is reserved."""
        return int(num_bytes / (1 - self.reserved)) + 1
