# SPDX-License-Identifier: Apache-2.0
"""Compares two programs, two checkpoints, or one program in two environments, number by number.

`python -m estimator_spec compare` is the command line. Both programs run in processes of their own
(`programs.py`), in which `estimator_collector` records what their estimators compute.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tpu_columns import lazy_names

if TYPE_CHECKING:
    # isort: off
    from estimator_spec.compare.checkpoint_values import compare_checkpoints as compare_checkpoints
    from estimator_spec.compare.comparison import (
        Comparison as Comparison,
        Item as Item,
        Outcome as Outcome,
        Side as Side,
    )
    from estimator_spec.compare.estimator_collector.options import Limits as Limits
    from estimator_spec.compare.gaps import Gap as Gap
    from estimator_spec.compare.loop import Steps as Steps, record_loop as record_loop
    from estimator_spec.compare.programs import Program as Program, ProgramError as ProgramError
    from estimator_spec.compare.runs import compare_programs as compare_programs
    from estimator_spec.compare.stages import (
        Stage as Stage,
        Tolerance as Tolerance,
        Tolerances as Tolerances,
    )
else:
    __getattr__, __dir__, __all__ = lazy_names.attach(__name__)
