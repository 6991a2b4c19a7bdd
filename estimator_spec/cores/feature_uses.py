# SPDX-License-Identifier: Apache-2.0
"""Features of the tables that native ops look up together, and the marks of their bad ids."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from estimator_spec.cores import enqueue
from tpu_columns import lookup_errors
from tpu_columns.partition import RowPartition


class Use(NamedTuple):
    """A feature of a table that a native op looks up.

    Attributes:
        feature: its key.
        enqueued: its ids.
        activation: the tensor of the model that gets the result.
        layout: layout of the feature's table.
        offset: first row of the table in its variable.
        place: number of earlier features that are looked up by the same op.
    """

    feature: str
    enqueued: enqueue.Enqueued
    activation: Any
    layout: RowPartition
    offset: int
    place: int


MARK_LIMIT = 1 << 46
"""Ids out of range are clipped to ± this limit, and moved to a range of their feature."""


def mark(use: Use) -> lookup_errors.Marked:
    """Returns how ids out of range are marked: by negative numbers that tell id and feature."""
    return lookup_errors.Marked(-4 * MARK_LIMIT * (use.place + 1), MARK_LIMIT)


def record_sites(scope: str, uses: Sequence[Use]) -> None:
    """Records features for errors of bad ids.

    Args:
        scope: name scope of ops that may report a bad id.
        uses: the features.
    """
    for use in uses:
        num_rows = use.layout.num_rows
        lookup_errors.record_site(scope, use.feature, use.feature, num_rows, mark(use))
