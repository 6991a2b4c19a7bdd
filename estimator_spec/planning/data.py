# SPDX-License-Identifier: Apache-2.0
"""Converts a plan to plain data, for JSON."""

from __future__ import annotations

import dataclasses
from typing import Any

from estimator_spec.planning.balance import imbalance, total_lookups
from estimator_spec.planning.memory import MemoryUse
from estimator_spec.planning.results import Plan
from estimator_spec.planning.sparse_core import LIMITS
from estimator_spec.planning.tables import Lookup, Table
from tpu_columns.partition import STRATEGIES


def to_data(plan: Plan) -> dict[str, Any]:
    """Returns a plan as dicts, lists, strings and numbers. Sizes are in bytes.

    Keys: 'fits', 'system', 'strategy', 'serving_dtype', 'tables', 'memory' (by place), 'balance'
    (by table), 'lookup_imbalance' (by strategy; of all tables in the sample), 'sparse_core' (by
    table) and 'problems'.
    """
    estimate = plan.estimate
    system = dataclasses.asdict(estimate.system)
    return {
        "fits": plan.fits,
        "system": {**system, "hardware": estimate.system.hardware.value},
        "strategy": estimate.strategy,
        "serving_dtype": estimate.serving_dtype,
        "tables": [_table(table) for table in estimate.tables],
        "memory": {use.place.value: _memory(use) for use in estimate.uses},
        "balance": _balances(plan),
        "lookup_imbalance": {
            strategy: imbalance(lookups)
            for strategy in STRATEGIES
            if any(lookups := total_lookups(plan.balances, strategy))
        },
        "sparse_core": {
            found.table: {name: getattr(found, name) for name in LIMITS} for found in plan.limits
        },
        "problems": [
            {
                "kind": problem.kind.value,
                "is_error": problem.is_error,
                "text": problem.text,
                "tables": list(problem.tables),
                "fixes": [{"text": fix.text, "solves": fix.solves} for fix in problem.fixes],
            }
            for problem in plan.problems
        ],
    }


def _table(table: Table) -> dict[str, Any]:
    return {
        "key": table.key,
        "rows": table.rows,
        "width": table.width,
        "bytes": table.num_bytes,
        "slots": table.num_slots,
        "slot_bytes": table.slot_bytes,
        "optimizer": table.optimizer or None,
        "variable": table.variable,
        "features": list(table.features),
        "training": _lookup(table.training),
        "serving": _lookup(table.serving),
        "ids_beyond_int32": table.ids_beyond_int32,
    }


def _lookup(lookup: Lookup) -> dict[str, Any]:
    device = None if lookup.device is None else lookup.device.value
    return {"device": device, "reason": lookup.reason}


def _memory(use: MemoryUse) -> dict[str, Any]:
    return {
        "fits": use.fits,
        "devices": use.num_devices,
        "usable": use.capacity,
        "largest": use.largest,
        "total": use.total,
        "groups": [dataclasses.asdict(group) for group in use.groups],
    }


def _balances(plan: Plan) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for balance in plan.balances:
        found.setdefault(balance.table, {})[balance.strategy] = {
            "shards": len(balance.rows),
            "most_rows": max(balance.rows),
            "empty_shards": balance.empty_shards,
            "row_imbalance": balance.row_imbalance,
            "lookup_imbalance": balance.lookup_imbalance,
        }
    return found
