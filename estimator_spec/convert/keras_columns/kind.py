# SPDX-License-Identifier: Apache-2.0
"""Describes a kind of feature column, and what the ids of a column are read from."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable
from typing import Any

from tpu_columns.column_types import TPUEmbeddingColumn


@dataclasses.dataclass(frozen=True)
class ColumnKind:
    """A kind of column: a row of the table of what moves to Keras 3.

    Attributes:
        makers: the functions that make such columns.
        reading: how preprocessing reads the features.
        layers: the Keras layers.
        differs: what isn't equal, or ''.
        convert: function that adds a column to a plan.
        in_torch: the modules and functions of PyTorch, or ''.
        differs_in_torch: what isn't equal there, or ''.
    """

    makers: str
    reading: str
    layers: str
    differs: str
    convert: Callable[..., Any]
    in_torch: str = ""
    differs_in_torch: str = ""


@dataclasses.dataclass(frozen=True)
class ColumnIds:
    """Ids of a categorical column, as a Keras model reads them.

    Attributes:
        name: the column's name.
        group: name of the function that reads them.
        expression: of a sparse tensor of ids; negative ones are none.
        size: number of ids.
        weights: expression of the feature with their weights, or None.
        is_sequence: whether they are ids of steps.
        steps: steps of a sequence; 0: those of the longest one.
        positive: whether ids with weights <= 0 are left out.
        safe: whether row 0 is looked up for an example without ids.
    """

    name: str
    group: str
    expression: Any
    size: int
    weights: Any = None
    is_sequence: bool = False
    steps: int = 0
    positive: bool = False
    safe: bool = True

    def for_lookup(self, combiner: str | None, safe: bool = True) -> ColumnIds:
        """Returns the ids as lookups with a combiner read them; steps are always read safely."""
        safe = safe or self.is_sequence
        positive = safe and self.weights is not None and combiner != "sum"
        name = f"{self.name}_positive" if positive else self.name
        return dataclasses.replace(self, name=name, positive=positive, safe=safe)


def class_name(column: Any) -> str:
    """Returns the key of a column's kind: the name of its class, if it is TensorFlow's or ours."""
    kind = type(column)
    if isinstance(column, TPUEmbeddingColumn):
        return f"tpu_columns.{kind.__qualname__}"
    return kind.__name__ if kind.__module__.startswith("tensorflow.") else f"{kind.__module__}.?"


def unknown_column(column: Any) -> ValueError:
    """Returns the error of a column of another library, or of no column."""
    what = f"{getattr(column, 'name', column)!r} (a {type(column).__qualname__})"
    return ValueError(
        f"Column {what} has no counterpart: it isn't one of tf.feature_column's or "
        "tpu_columns' own. Compute its tensor in the input_fn, and use a numeric_column or a "
        "categorical_column_with_identity of it."
    )


def count(shape: Iterable[Any]) -> int:
    """Returns the number of elements of a shape."""
    return math.prod(int(axis) for axis in shape)
