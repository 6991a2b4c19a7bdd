# SPDX-License-Identifier: Apache-2.0
"""Plans the memory, shards and lookup devices of a spec's tables before anything is allocated."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from estimator_spec.planning.balance import Balance
    from estimator_spec.planning.memory import DeviceGroup, Estimate, MemoryUse, Place
    from estimator_spec.planning.planner import plan
    from estimator_spec.planning.problems import Fix, Problem, ProblemKind
    from estimator_spec.planning.results import Plan, PlanError
    from estimator_spec.planning.samples import FeatureIds, IdSample, SampledBatch
    from estimator_spec.planning.sampling import sample_ids
    from estimator_spec.planning.sparse_core import SparseCoreLimits
    from estimator_spec.planning.system import System
    from estimator_spec.planning.tables import Lookup, Table

_MODULES = {
    "Balance": "balance",
    "DeviceGroup": "memory",
    "Estimate": "memory",
    "FeatureIds": "samples",
    "Fix": "problems",
    "IdSample": "samples",
    "Lookup": "tables",
    "MemoryUse": "memory",
    "Place": "memory",
    "Plan": "results",
    "PlanError": "results",
    "Problem": "problems",
    "ProblemKind": "problems",
    "SampledBatch": "samples",
    "SparseCoreLimits": "sparse_core",
    "System": "system",
    "Table": "tables",
    "plan": "planner",
    "sample_ids": "sampling",
}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """Imports a name at its first use: the command reads its line without TensorFlow."""
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)


__all__ = [
    "Balance",
    "DeviceGroup",
    "Estimate",
    "FeatureIds",
    "Fix",
    "IdSample",
    "Lookup",
    "MemoryUse",
    "Place",
    "Plan",
    "PlanError",
    "Problem",
    "ProblemKind",
    "SampledBatch",
    "SparseCoreLimits",
    "System",
    "Table",
    "plan",
    "sample_ids",
]
