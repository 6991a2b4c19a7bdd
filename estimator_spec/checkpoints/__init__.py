# SPDX-License-Identifier: Apache-2.0
"""Checkpoints on disk: look at them, check them, and turn them into what another run needs.

>>> from estimator_spec import checkpoints
>>> print(checkpoints.inspect("/models/census"))                            # doctest: +SKIP
>>> checkpoints.convert("/models/census", "/models/serving/model.ckpt-200",  # doctest: +SKIP
...                     strategy="div", shards=1)

Nothing here builds a model or writes to a checkpoint that exists. `python -m estimator_spec
checkpoint` is the same for a shell.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from estimator_spec.checkpoints.bundle import Checkpoint
    from estimator_spec.checkpoints.change_report import ConversionReport
    from estimator_spec.checkpoints.conversion import convert
    from estimator_spec.checkpoints.differences import Differences, diff
    from estimator_spec.checkpoints.errors import CheckpointError, DamagedCheckpointError
    from estimator_spec.checkpoints.inspection import Inspection, inspect
    from estimator_spec.checkpoints.record_creation import record
    from estimator_spec.checkpoints.table_reading import iterate_table, read_table, tables_of
    from estimator_spec.checkpoints.verification import Verification, verify

_HOMES = {
    "Checkpoint": "bundle",
    "CheckpointError": "errors",
    "ConversionReport": "change_report",
    "DamagedCheckpointError": "errors",
    "Differences": "differences",
    "Inspection": "inspection",
    "Verification": "verification",
    "convert": "conversion",
    "diff": "differences",
    "inspect": "inspection",
    "iterate_table": "table_reading",
    "read_table": "table_reading",
    "record": "record_creation",
    "tables_of": "table_reading",
    "verify": "verification",
}


def __getattr__(name: str) -> Any:
    """Loads a tool when it is asked for: a training needs few of them, and not at its start."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)


__all__ = [
    "Checkpoint",
    "CheckpointError",
    "ConversionReport",
    "DamagedCheckpointError",
    "Differences",
    "Inspection",
    "Verification",
    "convert",
    "diff",
    "inspect",
    "iterate_table",
    "read_table",
    "record",
    "tables_of",
    "verify",
]
