# SPDX-License-Identifier: Apache-2.0
"""Selects the device of a lookup from the column's request, the mode and the hardware."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import Any

from tpu_columns import shared_state


class LookupDevice(enum.Enum):
    """Device of a lookup; the values are those of `embedding_column`'s argument."""

    CPU = "cpu"
    TPU_TENSOR_CORE = "tpu_tensor_core"
    TPU_EMBEDDING_CORE = "tpu_embedding_core"

    @classmethod
    def parse(cls, device: str | LookupDevice | None) -> LookupDevice | None:
        """Returns the device of a name; None leaves the choice to mode and hardware.

        Args:
            device: 'cpu', 'tpu_tensor_core', 'tpu_embedding_core', a `LookupDevice`, or None.

        Raises:
            ValueError: the name is unknown.

        >>> LookupDevice.parse("cpu")
        <LookupDevice.CPU: 'cpu'>
        """
        if device is None or isinstance(device, cls):
            return device
        names = [member.value for member in cls]
        if not isinstance(device, str) or device not in names:
            raise ValueError(f"If set, embedding_lookup_device must be in {names}, got {device!r}.")
        return cls(device)


class Mode(enum.Enum):
    """Mode of a graph: the values of `ModeKeys`, and SERVE for exports."""

    TRAIN = "train"
    EVAL = "eval"
    PREDICT = "infer"
    SERVE = "serve"


class Hardware(enum.Enum):
    """Hardware of a run: a TPU (or the host core), or CPUs only."""

    CPU = "cpu"
    TPU = "tpu"


_NO_CPU_TRAINING = (
    'Using TPUEmbeddingColumn with embedding_lookup_device="cpu" during training is not supported. '
    "Train with tpu_embedding_core or tpu_tensor_core (or leave the device unset) and keep cpu "
    "for evaluation, prediction and serving."
)
_NO_EMBEDDING_CORE_SERVING = (
    "Using embedding_lookup_device=tpu_embedding_core during inference is not supported. "
    "Serve with cpu or tpu_tensor_core, or leave the device unset: then training uses the "
    "embedding core and serving the CPU."
)


def _routes() -> dict[tuple[LookupDevice | None, Mode, Hardware], LookupDevice | str]:
    """Returns the device of each combination, or the error message of a forbidden one."""
    table: dict[tuple[LookupDevice | None, Mode, Hardware], LookupDevice | str] = {}
    for mode in Mode:
        # Without a TPU every lookup runs on the host, where tables are plain variables.
        for device in (None, *LookupDevice):
            table[device, mode, Hardware.CPU] = LookupDevice.CPU
        table[LookupDevice.TPU_TENSOR_CORE, mode, Hardware.TPU] = LookupDevice.TPU_TENSOR_CORE
        serving = mode is Mode.SERVE
        table[None, mode, Hardware.TPU] = (
            LookupDevice.CPU if serving else LookupDevice.TPU_EMBEDDING_CORE
        )
        table[LookupDevice.TPU_EMBEDDING_CORE, mode, Hardware.TPU] = (
            _NO_EMBEDDING_CORE_SERVING if serving else LookupDevice.TPU_EMBEDDING_CORE
        )
        table[LookupDevice.CPU, mode, Hardware.TPU] = LookupDevice.CPU
    for hardware in Hardware:
        table[LookupDevice.CPU, Mode.TRAIN, hardware] = _NO_CPU_TRAINING
    return table


_ROUTES = _routes()


def route(column: Any, mode: Mode, hardware: Hardware) -> LookupDevice:
    """Returns the device of a column's lookup: a pure function of request, mode and hardware.

    | requested device   | hardware | TRAIN              | EVAL               | PREDICT            | SERVE           |
    |--------------------|----------|--------------------|--------------------|--------------------|-----------------|
    | None               | CPU      | cpu                | cpu                | cpu                | cpu             |
    | None               | TPU      | tpu_embedding_core | tpu_embedding_core | tpu_embedding_core | cpu             |
    | cpu                | CPU      | error              | cpu                | cpu                | cpu             |
    | cpu                | TPU      | error              | cpu                | cpu                | cpu             |
    | tpu_tensor_core    | CPU      | cpu                | cpu                | cpu                | cpu             |
    | tpu_tensor_core    | TPU      | tpu_tensor_core    | tpu_tensor_core    | tpu_tensor_core    | tpu_tensor_core |
    | tpu_embedding_core | CPU      | cpu                | cpu                | cpu                | cpu             |
    | tpu_embedding_core | TPU      | tpu_embedding_core | tpu_embedding_core | tpu_embedding_core | error           |

    The rules are those that the legacy `embedding_column` documents (training: the two TPU devices;
    serving: cpu and the tensor core). The legacy code also takes every use of `cpu` on a CPU for
    training; this function doesn't.

    Args:
        column: a TPU embedding column, or any other column, which requests no device.
        mode: mode of the graph.
        hardware: hardware of the run.

    Returns:
        The device.

    Raises:
        ValueError: the combination is forbidden; the message names the column and what to use
            instead.
        TypeError: `mode` or `hardware` isn't a member of its enum.
    """  # noqa: E501 - the table
    if not isinstance(mode, Mode):
        raise TypeError(f"mode must be a tpu_columns.Mode, got {mode!r}.")
    if not isinstance(hardware, Hardware):
        raise TypeError(f"hardware must be a tpu_columns.Hardware, got {hardware!r}.")
    requested = LookupDevice.parse(getattr(column, "embedding_lookup_device", None))
    found = _ROUTES[requested, mode, hardware]
    if isinstance(found, LookupDevice):
        return found
    raise ValueError(f"Column {getattr(column, 'name', column)!r}: {found}")


@dataclasses.dataclass(frozen=True)
class RunPlacement:
    """Mode and hardware of the graph that a driver builds.

    Attributes:
        mode: training, evaluation, prediction or serving.
        hardware: hardware of the run.
        tensor_core_tables: tables (by `get_embedding_var_name()`) whose columns use the tensor core
            unless they request a device.
        replaces_tpu: whether CPUs run what is meant for a TPU.
    """

    mode: Mode
    hardware: Hardware
    tensor_core_tables: frozenset[str] = frozenset()
    replaces_tpu: bool = False


def running(
    mode: Mode,
    hardware: Hardware,
    tensor_core_tables: Iterable[str] = (),
    *,
    replaces_tpu: bool = False,
) -> AbstractContextManager[None]:
    """Sets mode and hardware for the columns of a `model_fn`, which runs within this context.

    Args:
        mode: mode of the graph.
        hardware: hardware of the run.
        tensor_core_tables: as in `RunPlacement`.
        replaces_tpu: as in `RunPlacement`.

    Raises:
        TypeError: `mode` or `hardware` isn't a member of its enum.
    """
    if not isinstance(mode, Mode) or not isinstance(hardware, Hardware):
        raise TypeError(f"running() takes a Mode and a Hardware, got {mode!r} and {hardware!r}.")
    placement = RunPlacement(mode, hardware, frozenset(tensor_core_tables), replaces_tpu)
    return shared_state.setting(shared_state.PLACEMENT, placement)


def current() -> RunPlacement | None:
    """Returns the placement of the innermost `running()`, or None outside of a driver."""
    return shared_state.PLACEMENT.get()


def updates_tables() -> bool:
    """Returns whether optimizers may update tables: in training, and outside of a driver."""
    placement = current()
    return placement is None or placement.mode is Mode.TRAIN


def replaces_tpu() -> bool:
    """Returns whether CPUs run what is meant for a TPU."""
    placement = current()
    return placement is not None and placement.replaces_tpu


def current_device(column: Any) -> LookupDevice:
    """Returns the device of a column in the current context; the CPU outside of a driver.

    Args:
        column: a TPU embedding column.

    Raises:
        ValueError: the combination is forbidden (see `route`).
    """
    placement = current()
    if placement is None:
        return LookupDevice.CPU
    if column.embedding_lookup_device is None and (
        column.get_embedding_var_name() in placement.tensor_core_tables
    ):
        column = column._replace(embedding_lookup_device=LookupDevice.TPU_TENSOR_CORE)
    return route(column, placement.mode, placement.hardware)
