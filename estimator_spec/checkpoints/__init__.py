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
    # isort: off
    from estimator_spec.core.checkpoints.bundle import Checkpoint as Checkpoint
    from estimator_spec.checkpoints.change_report import ConversionReport as ConversionReport
    from estimator_spec.checkpoints.conversion import convert as convert
    from estimator_spec.checkpoints.differences import (
        Differences as Differences,
        diff as diff,
    )
    from estimator_spec.core.checkpoints.errors import (
        CheckpointError as CheckpointError,
        DamagedCheckpointError as DamagedCheckpointError,
    )
    from estimator_spec.checkpoints.inspection import (
        Inspection as Inspection,
        inspect as inspect,
    )
    from estimator_spec.checkpoints.record_creation import record as record
    from estimator_spec.checkpoints.state_repair import (
        Repair as Repair,
        repair as repair,
    )
    from estimator_spec.checkpoints.table_reading import (
        iterate_table as iterate_table,
        read_table as read_table,
        tables_of as tables_of,
    )
    from estimator_spec.core.checkpoints.verification import (
        Verification as Verification,
        verify as verify,
    )
else:
    __getattr__, __dir__, __all__ = lazy_names.attach(__name__)
