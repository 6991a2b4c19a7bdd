# SPDX-License-Identifier: Apache-2.0
"""Plans the tables of a spec on a system, by arithmetic alone.

spec ─▶ tables ─▶ estimate (memory) ─┬─▶ balance ──────────────┐
                                     └─▶ SparseCore's limits ──┼─▶ checks ─▶ fixes ─▶ Plan
        input_fn ─▶ sample of ids ─────────────────────────────┘
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from estimator_spec.core.embedding.spec import EmbeddingConfigSpec
from estimator_spec.planning.balance import measure_balance
from estimator_spec.planning.checks import CHECKS, Check
from estimator_spec.planning.memory import Estimate
from estimator_spec.planning.results import Plan
from estimator_spec.planning.samples import IdSample
from estimator_spec.planning.sparse_core import estimate_limits
from estimator_spec.planning.system import System
from estimator_spec.planning.tables import read_tables
from tpu_columns.checks import is_int
from tpu_columns.placement import Hardware
from tpu_columns.storage import DTYPES


def plan(
    spec: EmbeddingConfigSpec,
    system: System | None = None,
    *,
    sample: IdSample | None = None,
    serving_dtype: str = "float32",
    model_slots: int = 2,
    checks: Iterable[Check] = CHECKS,
) -> Plan:
    """Plans the memory, shards and lookup devices of a spec's tables.

    Creates no variable and no graph. `Plan.check()` raises an error with numbered fixes if the
    tables don't fit.

    >>> import estimator_spec
    >>> from estimator_spec import planning
    >>> spec = estimator_spec.EmbeddingConfigSpec(
    ...     feature_to_config_dict={"word": estimator_spec.FeatureConfig("words")},
    ...     table_to_config_dict={"words": estimator_spec.TableConfig(10**9, 64)},
    ...     optimization_parameters=estimator_spec.AdagradParameters(0.1))
    >>> found = estimator_spec.plan(spec, planning.System(hosts=1))
    >>> [problem.kind.value for problem in found.problems]
    ['core memory', 'host memory', 'serving memory']
    >>> print(found.problems[0].fixes[0])
    Take 5 hosts (40 cores) instead of 1: the fullest core then needs 11.9 GiB of 13.6 GiB.
    >>> estimator_spec.plan(spec, planning.System(hosts=5)).estimate.use(planning.Place.CORES).fits
    True

    Args:
        spec: columns or dictionaries.
        system: the hardware; None for one host with 8 cores of 16 GiB.
        sample: ids of a few batches, as `sample_ids` reads them, for the balance of lookups and
            SparseCore's limits.
        serving_dtype: dtype of the exported tables, as `export_saved_model(tables=…)`.
        model_slots: number of slot variables of tables that the model's optimizer trains: those of
            the tensor core, and without a TPU all. Default 2, as Adam has.
        checks: what finds problems.

    Raises:
        TypeError: an argument has another type.
        ValueError: an argument is out of range.
    """
    system = System() if system is None else system
    if not isinstance(system, System):
        raise TypeError(f"system must be a System, got {system!r}.")
    if sample is not None and not isinstance(sample, IdSample):
        raise TypeError(f"sample must be an IdSample, got {sample!r}.")
    if serving_dtype not in DTYPES:
        raise ValueError(f"serving_dtype must be one of {DTYPES}, got {serving_dtype!r}.")
    if not is_int(model_slots) or model_slots < 0:
        raise ValueError(f"model_slots must be an int of at least 0, got {model_slots!r}.")
    tables = read_tables(spec, system.hardware, model_slots)
    estimate = Estimate(tables, system, spec.partition_strategy, serving_dtype)
    on_tpu = system.hardware is Hardware.TPU
    found = Plan(
        estimate=estimate,
        balances=measure_balance(estimate, sample),
        limits=estimate_limits(
            estimate.sharded_tables, sample if on_tpu else None, system.num_sparse_cores
        ),
        sample=sample,
    )
    problems = [problem for check in checks for problem in check(found)]
    problems.sort(key=lambda problem: not problem.is_error)
    return dataclasses.replace(found, problems=tuple(problems))
