# SPDX-License-Identifier: Apache-2.0
"""Inspects, verifies, compares and converts checkpoints on disk, of any size.

>>> from estimator_spec import checkpoints
>>> print(checkpoints.inspect("/models/census"))                            # doctest: +SKIP
>>> checkpoints.convert("/models/census", "/models/serving/model.ckpt-200",  # doctest: +SKIP
...                     strategy="div", shards=1)

No function builds a model or writes to an existing checkpoint. `python -m estimator_spec
checkpoint` is the command line.
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
    from estimator_spec.checkpoints.state_repair import Repair, repair
    from estimator_spec.checkpoints.table_reading import iterate_table, read_table, tables_of
    from estimator_spec.checkpoints.verification import Verification, verify

_MODULES = {
    "Checkpoint": "bundle",
    "CheckpointError": "errors",
    "ConversionReport": "change_report",
    "DamagedCheckpointError": "errors",
    "Differences": "differences",
    "Inspection": "inspection",
    "Repair": "state_repair",
    "Verification": "verification",
    "convert": "conversion",
    "diff": "differences",
    "inspect": "inspection",
    "iterate_table": "table_reading",
    "read_table": "table_reading",
    "record": "record_creation",
    "repair": "state_repair",
    "tables_of": "table_reading",
    "verify": "verification",
}


def __getattr__(name: str) -> Any:
    """Imports a tool at its first use, as training needs few of them."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)


__all__ = [
    "Checkpoint",
    "CheckpointError",
    "ConversionReport",
    "DamagedCheckpointError",
    "Differences",
    "Inspection",
    "Repair",
    "Verification",
    "convert",
    "diff",
    "inspect",
    "iterate_table",
    "read_table",
    "record",
    "repair",
    "tables_of",
    "verify",
]
