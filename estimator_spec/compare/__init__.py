# SPDX-License-Identifier: Apache-2.0
"""Compares two programs, two checkpoints, or one program in two environments, number by number.

`python -m estimator_spec compare` is the command line. Both programs run in processes of their own
(`programs.py`), in which `estimator_collector` records what their estimators compute.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from estimator_spec.compare.comparison import Comparison, Item, Outcome, Side
from estimator_spec.compare.estimator_collector.options import Limits
from estimator_spec.compare.gaps import Gap
from estimator_spec.compare.loop import Steps, record_loop
from estimator_spec.compare.programs import Program, ProgramError
from estimator_spec.compare.runs import compare_programs
from estimator_spec.compare.stages import Stage, Tolerance, Tolerances
from tpu_columns.lazy_names import public_dir

if TYPE_CHECKING:
    from estimator_spec.compare.checkpoint_values import compare_checkpoints


def __getattr__(name: str) -> Any:
    """Imports the comparison of checkpoints at its first use: nothing else needs TensorFlow."""
    if name == "compare_checkpoints":
        module = importlib.import_module("estimator_spec.compare.checkpoint_values")
        return module.compare_checkpoints
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "Comparison",
    "Gap",
    "Item",
    "Limits",
    "Outcome",
    "Program",
    "ProgramError",
    "Side",
    "Stage",
    "Steps",
    "Tolerance",
    "Tolerances",
    "compare_checkpoints",
    "compare_programs",
    "record_loop",
]

__dir__ = public_dir(__name__)
