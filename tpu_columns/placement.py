# SPDX-License-Identifier: Apache-2.0
"""Where a lookup runs: devices, modes, and the one rule that maps a column to its device."""

from __future__ import annotations

import contextlib
import contextvars
import dataclasses
import enum
from collections.abc import Iterable, Iterator
from typing import Any


class LookupDevice(enum.Enum):
    """A place that can look up rows. The value is the name that `embedding_column` takes."""

    CPU = "cpu"
    TPU_TENSOR_CORE = "tpu_tensor_core"
    TPU_EMBEDDING_CORE = "tpu_embedding_core"

    @classmethod
    def parse(cls, device: str | LookupDevice | None) -> LookupDevice | None:
        """Returns the device that a user named, or None for "as the mode and hardware ask".

        Args:
          device: 'cpu', 'tpu_tensor_core', 'tpu_embedding_core', a `LookupDevice`, or None.

        Raises:
          ValueError: any other name.

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
    """What a graph is for. The first three have the values of `ModeKeys`; SERVE is an export."""

    TRAIN = "train"
    EVAL = "eval"
    PREDICT = "infer"
    SERVE = "serve"


class Hardware(enum.Enum):
    """What a program runs on: a TPU (or a stand-in with its semantics), or CPUs only."""

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
    """All combinations; a str is the message of a forbidden one."""
    table: dict[tuple[LookupDevice | None, Mode, Hardware], LookupDevice | str] = {}
    for mode in Mode:
        # Off-TPU every lookup is the host's; the tables are plain variables there.
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
    """Returns the device that looks up `column`: a pure function of device, mode and hardware.

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
    serving: cpu and the tensor core), without its slip of calling every use of `cpu` on a CPU
    "training".

    Args:
      column: anything with an `embedding_lookup_device`: a TPU embedding column, or a column of
        another kind (taken as None).
      mode: what the graph is for.
      hardware: what it runs on.

    Returns:
      The device.

    Raises:
      ValueError: a forbidden combination; the message names the column and what to use instead.
      TypeError: `mode` or `hardware` isn't of its enum.
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
class Placement:
    """What a driver builds a graph for.

    Attributes:
      mode: training, evaluation, prediction or serving.
      hardware: what it runs on.
      tensor_core_tables: tables (by `get_embedding_var_name()`) whose columns, unless they request
        a device, request the tensor core.
    """

    mode: Mode
    hardware: Hardware
    tensor_core_tables: frozenset[str] = frozenset()


_current: contextvars.ContextVar[Placement | None] = contextvars.ContextVar(
    "tpu_columns.placement", default=None
)


@contextlib.contextmanager
def running(
    mode: Mode, hardware: Hardware, tensor_core_tables: Iterable[str] = ()
) -> Iterator[None]:
    """Makes columns look up as `route(column, mode, hardware)` says; entered around a `model_fn`.

    Args:
      mode: what the graph is for.
      hardware: what it runs on.
      tensor_core_tables: tables (by `get_embedding_var_name()`) whose columns, unless they request
        a device, request the tensor core.

    Raises:
      TypeError: an argument isn't of its enum.
    """
    if not isinstance(mode, Mode) or not isinstance(hardware, Hardware):
        raise TypeError(f"running() takes a Mode and a Hardware, got {mode!r} and {hardware!r}.")
    token = _current.set(Placement(mode, hardware, frozenset(tensor_core_tables)))
    try:
        yield
    finally:
        _current.reset(token)


def current() -> Placement | None:
    """Returns the placement of the innermost `running()`, or None outside of any."""
    return _current.get()


def updates_tables() -> bool:
    """Returns whether lookups may be trained: in training, and outside of any driver."""
    placement = current()
    return placement is None or placement.mode is Mode.TRAIN


def device_now(column: Any) -> LookupDevice:
    """Returns the device for `column` in the current context; outside of any driver that's the CPU.

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
