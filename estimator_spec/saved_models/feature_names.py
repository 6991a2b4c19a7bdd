# SPDX-License-Identifier: Apache-2.0
"""Finds the keys that a model's columns had, where inputs of its SavedModel have other names.

A receiver may name its placeholders as it likes, and give the model features that it computes. The
scopes of columns still have the columns' names: variables, and the order of a deep model's input,
depend on them.
"""

from __future__ import annotations

import collections
import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from estimator_spec.heads.feature_columns import scope_name
from estimator_spec.saved_models.columns import RecoveredColumn

WEIGHTS = re.compile(r"linear/linear_model/(?:.+/)?([^/]+)/weights")
"""Variables of a linear part's columns; the group is the column's scope."""

_TABLE = "embedding_weights"
_SHARED = "_shared_embedding"
_INPUT_LAYER = re.compile(r".*/input_layer(?:_\d+)?/([^/]+)/[^/]+(?:/[^/]+)*")
_NESTED = ("categorical_column", "source_column")
_KEYS = ("key", "weight_feature_key")


def rename(column: Any, keys: Mapping[str, str]) -> Any:
    """Returns a column, or the key of a cross, with other keys of features.

    Args:
        column: the column.
        keys: new keys by old ones; others stay.
    """
    if isinstance(column, str):
        return keys.get(column, column)
    names = [name for name in (*_KEYS, *_NESTED) if hasattr(column, name)]
    changed: dict[str, Any] = {name: rename(getattr(column, name), keys) for name in names}
    if hasattr(column, "keys"):
        changed["keys"] = tuple(rename(each, keys) for each in column.keys)
    return column._replace(**changed)


def own_keys(found: Sequence[RecoveredColumn], generation: int) -> list[dict[str, str]]:
    """Returns the keys that columns had, by those of the graph's inputs; none where they are equal.

    Args:
        found: all columns of a model, before some share a table.
        generation: of the model.
    """
    tables = collections.Counter(each.variable for each in found)
    scopes = [_scopes(each, tables, generation) for each in found]
    columns = [each.column for each in found]
    known: dict[str, dict[str, None]] = collections.defaultdict(dict)
    plain = [_by_pattern(*each) for each in zip(columns, scopes, strict=True)]
    for keys in plain:
        for old, new in keys.items():
            known[old][new] = None
    return [
        keys or _by_candidates(column, names, known)
        for keys, column, names in zip(plain, columns, scopes, strict=True)
    ]


def misfits(linear: Sequence[RecoveredColumn], deep: Sequence[RecoveredColumn]) -> Iterator[str]:
    """Yields what shows that the model called its features otherwise.

    Args:
        linear: columns of the linear part, with their own keys.
        deep: columns of the deep part, in the order of its input.
    """
    for each in linear:
        match = WEIGHTS.fullmatch(each.variable or "")
        if match is not None and match[1] != scope_name(each.column):
            yield (
                f"{each.variable}: the graph's inputs make the column {each.column.name!r}; what "
                f"the features of {match[1]!r} are called isn't found"
            )
    for one, other in itertools.pairwise(deep):
        if one.column.name > other.column.name:
            yield (
                f"{other.tensor}: the input layer has {other.column.name!r} after "
                f"{one.column.name!r}: what the model called their features isn't found"
            )


def _scopes(
    found: RecoveredColumn, tables: Mapping[str | None, int], generation: int
) -> tuple[str, ...]:
    """Returns the names that a column may have had, the likeliest one first.

    Args:
        found: the column.
        tables: number of columns by their variable.
        generation: of the model.
    """
    match = WEIGHTS.fullmatch(found.variable or "")
    if match is not None:
        return (match[1],)
    path, _, last = (found.variable or "").rpartition("/")
    scope = path.rpartition("/")[2]
    if last == _TABLE:
        # One of a shared table has the name of all its columns.
        is_shared = tables[found.variable] > 1 or scope.endswith(_SHARED)
        return () if is_shared else (scope,)
    match = _INPUT_LAYER.fullmatch(found.tensor)
    if match is None or match[1] == "concat":
        return ()
    # In the second generation, that of the column's variables came before.
    names = list(dict.fromkeys((re.sub(r"_\d+$", "", match[1]), match[1])))
    if found.variable is not None:
        names = [re.sub(f"{_SHARED}$", "_embedding", name) for name in names]
    return tuple(names if generation == 2 else names[::-1])


def _by_pattern(column: Any, scopes: Sequence[str]) -> dict[str, str]:
    """Returns the keys of a column that isn't crossed."""
    keys = sorted(column.parse_example_spec)
    if scope_name(column) in scopes or _crossed(column) is not None:
        return {}
    marks = {key: f"-{place}-" for place, key in enumerate(keys)}
    pattern = re.escape(scope_name(rename(column, marks)))
    for mark in marks.values():
        pattern = pattern.replace(re.escape(mark), "(.+)", 1)
    order = sorted(keys, key=lambda key: scope_name(rename(column, marks)).index(marks[key]))
    for scope in scopes:
        match = re.fullmatch(pattern, scope)
        if match is not None:
            pairs = zip(order, match.groups(), strict=True)
            return {old: new for old, new in pairs if new != old}
    return {}


def _by_candidates(
    column: Any, scopes: Sequence[str], known: Mapping[str, Iterable[str]]
) -> dict[str, str]:
    """Returns the keys of a cross: those of other columns, and a single one that none has."""
    if _crossed(column) is None or not scopes or scope_name(column) in scopes:
        return {}
    keys = sorted(column.parse_example_spec)
    parts = dict.fromkeys(_parts(scopes))
    for chosen in itertools.product(*(dict.fromkeys([key, *known.get(key, ())]) for key in keys)):
        start = dict(zip(keys, chosen, strict=True))
        more = ({**start, key: part} for key in keys for part in parts)
        for renamed in (start, *more):
            if scope_name(rename(column, renamed)) in scopes:
                return {old: new for old, new in renamed.items() if new != old}
    return {}


def _parts(scopes: Sequence[str]) -> Iterator[str]:
    """Yields the keys that the name of a cross may be made of."""
    for scope in scopes:
        for part in re.sub("_(embedding|indicator)$", "", scope).split("_X_"):
            yield part
            yield part.removesuffix("_bucketized")


def _crossed(column: Any) -> Any:
    """Returns the cross that a column is, or is made of; else None."""
    while column is not None and not hasattr(column, "hash_key"):
        column = getattr(column, "categorical_column", None)
    return column
