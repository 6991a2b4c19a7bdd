# SPDX-License-Identifier: Apache-2.0
"""Plans the memory, shards and lookup devices of a spec's tables before anything is allocated."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tpu_columns import lazy_names

if TYPE_CHECKING:
    # isort: off
    from estimator_spec.planning.balance import Balance as Balance
    from estimator_spec.planning.memory import (
        DeviceGroup as DeviceGroup,
        Estimate as Estimate,
        MemoryUse as MemoryUse,
        Place as Place,
    )
    from estimator_spec.planning.planner import plan as plan
    from estimator_spec.planning.problems import (
        Fix as Fix,
        Problem as Problem,
        ProblemKind as ProblemKind,
    )
    from estimator_spec.planning.results import (
        Plan as Plan,
        PlanError as PlanError,
    )
    from estimator_spec.planning.samples import (
        FeatureIds as FeatureIds,
        IdSample as IdSample,
        SampledBatch as SampledBatch,
    )
    from estimator_spec.planning.sampling import sample_ids as sample_ids
    from estimator_spec.planning.sparse_core import SparseCoreLimits as SparseCoreLimits
    from estimator_spec.planning.system import System as System
    from estimator_spec.planning.tables import (
        Lookup as Lookup,
        Table as Table,
    )
else:
    __getattr__, __dir__, __all__ = lazy_names.attach(__name__)
