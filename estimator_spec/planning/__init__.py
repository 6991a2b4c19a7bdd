# SPDX-License-Identifier: Apache-2.0
"""Plans the memory, shards and lookup devices of a spec's tables before anything is allocated."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tpu_columns import lazy_names

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

_HOMES = {
    ".balance": "Balance",
    ".memory": "DeviceGroup Estimate MemoryUse Place",
    ".planner": "plan",
    ".problems": "Fix Problem ProblemKind",
    ".results": "Plan PlanError",
    ".samples": "FeatureIds IdSample SampledBatch",
    ".sampling": "sample_ids",
    ".sparse_core": "SparseCoreLimits",
    ".system": "System",
    ".tables": "Lookup Table",
}

if not TYPE_CHECKING:
    __getattr__ = lazy_names.make_getattr(__name__, _HOMES)


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
