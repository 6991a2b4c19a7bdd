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

from estimator_spec.checkpoints.bundle import Checkpoint
from estimator_spec.checkpoints.conversion import convert
from estimator_spec.checkpoints.differences import Differences, diff
from estimator_spec.checkpoints.errors import CheckpointError, DamagedCheckpointError
from estimator_spec.checkpoints.inspection import Inspection, inspect
from estimator_spec.checkpoints.recording import record
from estimator_spec.checkpoints.reports import ConversionReport
from estimator_spec.checkpoints.tables import iterate_table, read_table, tables_of
from estimator_spec.checkpoints.verification import Verification, verify

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
