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

from typing import TYPE_CHECKING

from tpu_columns import lazy_names

if TYPE_CHECKING:
    from estimator_spec.checkpoints.change_report import ConversionReport
    from estimator_spec.checkpoints.conversion import convert
    from estimator_spec.checkpoints.differences import Differences, diff
    from estimator_spec.checkpoints.inspection import Inspection, inspect
    from estimator_spec.checkpoints.record_creation import record
    from estimator_spec.checkpoints.state_repair import Repair, repair
    from estimator_spec.checkpoints.table_reading import iterate_table, read_table, tables_of
    from estimator_spec.core.checkpoints.bundle import Checkpoint
    from estimator_spec.core.checkpoints.errors import CheckpointError, DamagedCheckpointError
    from estimator_spec.core.checkpoints.verification import Verification, verify

_HOMES = {
    ".bundle": "Checkpoint",
    ".change_report": "ConversionReport",
    ".conversion": "convert",
    ".differences": "Differences diff",
    ".errors": "CheckpointError DamagedCheckpointError",
    ".inspection": "Inspection inspect",
    ".record_creation": "record",
    ".state_repair": "Repair repair",
    ".table_reading": "iterate_table read_table tables_of",
    ".verification": "Verification verify",
}

__getattr__ = lazy_names.make_getattr(__name__, _HOMES)


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
