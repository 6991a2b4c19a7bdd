# SPDX-License-Identifier: Apache-2.0
"""Sorts the feature columns of a layer, and names their variable scopes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

_INVALID = re.compile(r"[^A-Za-z0-9_.\-]")


def list_of_columns(
    columns: Any, kinds: tuple[type, ...], argument: str = "feature_columns"
) -> list[Any]:
    """Returns one column or an iterable of columns as a list.

    Args:
        columns: the columns.
        kinds: classes of columns; columns are tuples, too.
        argument: name of the argument, for the message.

    Raises:
        ValueError: it is something else.
    """
    if isinstance(columns, kinds):
        return [columns]
    if isinstance(columns, (Mapping, str)) or not isinstance(columns, Iterable):
        raise ValueError(
            f"Expected {argument} to be iterable, found "
            f"{'dict' if isinstance(columns, Mapping) else repr(columns)}. Pass a list of columns."
        )
    return list(columns)


def sorted_columns(columns: Any, kinds: tuple[type, ...], expected: str) -> list[Any]:
    """Returns columns sorted by name, the order of their sums and concatenation.

    Args:
        columns: one column or an iterable of columns.
        kinds: classes of accepted columns.
        expected: names of these classes, for the message.

    Raises:
        ValueError: there is none, a column is of another class, or two have the same name.
    """
    columns = list_of_columns(columns, kinds)
    wrong = [column for column in columns if not isinstance(column, kinds)]
    if wrong:
        raise ValueError(
            f"Items of feature_columns must be a {expected}. Given (type {type(wrong[0])}): "
            f"{wrong[0]}. You can wrap a categorical column with an embedding_column or "
            "indicator_column, for a deep model."
        )
    found: dict[str, Any] = {}
    for column in columns:
        if column.name in found:
            raise ValueError(
                "Duplicate feature column name found for columns: "
                f"{found[column.name]} and {column}. Both are called {column.name!r}. Leave one "
                "out, or give the feature a second key in input_fn."
            )
        found[column.name] = column
    if not found:
        raise ValueError("feature_columns must not be empty.")
    return [found[name] for name in sorted(found)]


def scope_name(column: Any) -> str:
    """Returns the name of a column's variable scope: its name, with `_` for invalid characters."""
    return _INVALID.sub("_", column.name)
