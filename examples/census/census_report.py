# SPDX-License-Identifier: Apache-2.0
"""Formats the example's final report: two numbers, and the lookup devices of columns."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

import estimator_spec as tpu_estimator
import tpu_columns
from estimator_spec.core.common.terminal import format_table

tf1 = tf.compat.v1


class StepsPerSecondHook(tf.compat.v1.train.SessionRunHook):
    """Hook that measures the speed of training, from the end of the first step to the last."""

    def __init__(self) -> None:
        self._first: tuple[int, float] | None = None
        self._last: tuple[int, float] | None = None

    def before_run(self, run_context: Any) -> Any:
        """Requests the global step."""
        return tf1.train.SessionRunArgs(tf1.train.get_global_step(run_context.session.graph))

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Stores the step and its time."""
        self._last = (int(run_values.results), time.perf_counter())
        self._first = self._first or self._last

    @property
    def steps_per_second(self) -> float:
        """Steps per second; 0 if fewer than two steps ran."""
        if self._first is None or self._last is None or self._first == self._last:
            return 0.0
        return (self._last[0] - self._first[0]) / (self._last[1] - self._first[1])


def column_rows(columns: Sequence[Any], has_core: bool) -> list[tuple[str, str, str, str, str]]:
    """Returns a row per column: feature, table, shape, lookup devices in training and serving."""
    tables, features = tpu_estimator.tables_and_features(
        tpu_estimator.EmbeddingConfigSpec(
            feature_columns=columns,
            optimization_parameters=tpu_estimator.AdagradParameters(0.1),
        )
    )
    hardware = tpu_columns.Hardware.TPU if has_core else tpu_columns.Hardware.CPU
    rows = []
    for column in columns:
        key = column.get_feature_key_name()
        name = features[key].table_id
        table = tables[name]
        train = tpu_columns.route(column, tpu_columns.Mode.TRAIN, hardware)
        serve = tpu_columns.route(column, tpu_columns.Mode.SERVE, tpu_columns.Hardware.CPU)
        shape = f"{table.vocabulary_size} x {table.dimension}"
        rows.append((key, name, shape, train.name.lower(), serve.name.lower()))
    return rows


def summary(auc: float, steps_per_second: float, rows: Sequence[Sequence[str]]) -> str:
    """Returns the report."""
    numbers = format_table(
        ("test AUC", "steps per second"), [(f"{auc:.4f}", f"{steps_per_second:.1f}")]
    )
    return (
        numbers + "\n\n" + format_table(("column", "table", "shape", "training", "serving"), rows)
    )
