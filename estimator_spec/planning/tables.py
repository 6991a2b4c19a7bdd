# SPDX-License-Identifier: Apache-2.0
"""Reads the tables of a spec: sizes, slots, features, and the devices of their lookups."""

from __future__ import annotations

import dataclasses

from estimator_spec.core.checkpoints import spec_tables
from estimator_spec.core.embedding.optimizer_base import slot_names
from estimator_spec.core.embedding.spec import EmbeddingConfigSpec, table_name, tensor_core_tables
from tpu_columns import placement
from tpu_columns.column_types import TPUEmbeddingColumn
from tpu_columns.placement import Hardware, LookupDevice, Mode, route
from tpu_columns.storage import table_bytes

# A TPU takes ids as int32.
INT32_IDS = 2**31

ON_HOST = "without a TPU, every lookup of a training runs on the hosts"
BY_DEFAULT = "default of a training on a TPU"
REQUESTED = "its columns request it"
EXPORT = "an export is a graph for a CPU"


@dataclasses.dataclass(frozen=True)
class Lookup:
    """Device of a table's lookups in one mode.

    Attributes:
        device: the device; None if the spec requests a forbidden one.
        reason: the rule that selects it, or the error.
    """

    device: LookupDevice | None
    reason: str


@dataclasses.dataclass(frozen=True)
class Table:
    """A table of a plan.

    Attributes:
        key: key of the table in the spec.
        rows: vocabulary size.
        width: dimension.
        variable: last part of its variable's name in a checkpoint, without '/embedding_weights'.
        features: keys of the features that are looked up in it.
        optimizer: name of its optimizer, such as 'Adagrad'; '' if the model's optimizer trains it,
            or none is given.
        num_slots: number of its slot variables, each of the table's shape.
        training: device of its lookups in training.
        serving: device of its lookups in an exported model.
    """

    key: str
    rows: int
    width: int
    variable: str
    features: tuple[str, ...]
    optimizer: str
    num_slots: int
    training: Lookup
    serving: Lookup

    @property
    def num_bytes(self) -> int:
        """Bytes of the table, in float32."""
        return table_bytes(self.rows, self.width)

    @property
    def slot_bytes(self) -> int:
        """Bytes of its slot variables."""
        return self.num_slots * self.num_bytes

    @property
    def trained_row_bytes(self) -> int:
        """Bytes of one row with its slots."""
        return (1 + self.num_slots) * table_bytes(1, self.width)

    @property
    def ids_beyond_int32(self) -> int:
        """Number of its ids that int32 can't hold."""
        return max(0, self.rows - INT32_IDS)

    def is_on(self, device: LookupDevice) -> bool:
        """Returns whether a device looks the table up in training."""
        return self.training.device is device


def read_tables(
    spec: EmbeddingConfigSpec, hardware: Hardware, model_slots: int
) -> tuple[Table, ...]:
    """Returns the tables of a spec, by key.

    Args:
        spec: columns or dictionaries. Columns of other kinds have no table and are left out.
        hardware: hardware of the training.
        model_slots: number of slot variables of a table that the model's optimizer trains.

    Raises:
        TypeError: it is no `EmbeddingConfigSpec`.
    """
    listed = spec_tables.list_tables(spec)
    columns = _columns_by_table(spec)
    return tuple(
        _read_table(spec, table, columns.get(table.key, []), hardware, model_slots)
        for table in listed
    )


def _read_table(
    spec: EmbeddingConfigSpec,
    table: spec_tables.SpecTable,
    columns: list[TPUEmbeddingColumn],
    hardware: Hardware,
    model_slots: int,
) -> Table:
    training = _training_lookup(spec, columns, hardware)
    by_core = training.device is LookupDevice.TPU_EMBEDDING_CORE
    optimizer = table.optimizer if by_core else None
    if optimizer is not None:
        num_slots = len(slot_names(optimizer, table.key))
    else:
        num_slots = 0 if by_core or training.device is None else model_slots
    return Table(
        key=table.key,
        rows=table.rows,
        width=table.width,
        variable=table.names.short_variable,
        features=table.features,
        optimizer=type(optimizer).__name__.removesuffix("Parameters") if optimizer else "",
        num_slots=num_slots,
        training=training,
        serving=Lookup(route(None, Mode.SERVE, Hardware.CPU), EXPORT),
    )


def _columns_by_table(spec: EmbeddingConfigSpec) -> dict[str, list[TPUEmbeddingColumn]]:
    """Returns the TPU embedding columns of each table; none in dict mode."""
    found: dict[str, list[TPUEmbeddingColumn]] = {}
    for column in spec_tables.embedding_columns(spec):
        found.setdefault(table_name(column.get_embedding_var_name()), []).append(column)
    return found


def _training_lookup(
    spec: EmbeddingConfigSpec, columns: list[TPUEmbeddingColumn], hardware: Hardware
) -> Lookup:
    """Returns the device that all columns of one table are looked up on."""
    if not columns:
        device = route(None, Mode.TRAIN, hardware)
        return Lookup(device, BY_DEFAULT if hardware is Hardware.TPU else ON_HOST)
    found = {column.name: _column_lookup(spec, column, hardware) for column in columns}
    if len({lookup.device for lookup in found.values()}) > 1:
        devices = ", ".join(
            f"{name}: {lookup.device.value if lookup.device else 'forbidden'}"
            for name, lookup in sorted(found.items())
        )
        return Lookup(
            None,
            f"Its columns are looked up on different devices ({devices}), and a table can be in "
            "one place only. Give them the same embedding_lookup_device.",
        )
    return found[columns[0].name]


def _column_lookup(
    spec: EmbeddingConfigSpec, column: TPUEmbeddingColumn, hardware: Hardware
) -> Lookup:
    try:
        with placement.running(Mode.TRAIN, hardware, tensor_core_tables(spec)):
            device = placement.current_device(column)
    except ValueError as error:
        return Lookup(None, str(error))
    if hardware is Hardware.CPU:
        return Lookup(device, ON_HOST)
    if column.embedding_lookup_device is not None:
        return Lookup(device, REQUESTED)
    if device is LookupDevice.TPU_TENSOR_CORE:
        return Lookup(device, f"fewer rows than tensor_core_below={spec.tensor_core_below}")
    return Lookup(device, BY_DEFAULT)
