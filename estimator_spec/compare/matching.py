# SPDX-License-Identifier: Apache-2.0
"""Compares two recordings, call by call."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from typing import Any

from estimator_spec.compare.comparison import Comparison, Item, Outcome, Side
from estimator_spec.compare.recording import RecordedCall, RecordedVariable, Recording
from estimator_spec.compare.stages import Stage, Tolerances
from estimator_spec.compare.values import (
    compare_changes,
    compare_losses,
    compare_values,
    lone_item,
)

# The kinds of calls, and the stage in which it shows that only one side makes one.
KINDS = {
    "train": Stage.LOSSES,
    "evaluate": Stage.METRICS,
    "predict": Stage.PREDICTIONS,
    "export": Stage.SIGNATURES,
}
# Groups of arrays by the names of variables.
_TRAINED = ("first_update", "trained")
_OF_VARIABLES = ("initial", *_TRAINED)


def compare_recordings(
    old: Recording,
    new: Recording,
    sides: tuple[Side, Side],
    tolerances: Tolerances,
    only: Container[str] = KINDS,
) -> Comparison:
    """Compares two recordings.

    Calls are paired by kind and number: the second evaluation of one side with the second of the
    other.

    Args:
        old: the old side's.
        new: the new side's.
        sides: their names.
        tolerances: bounds of what agrees.
        only: those of `KINDS` that are compared.
    """
    items: list[Item] = []
    training = "train" in only and bool(old.of("train") and new.of("train"))
    for kind, stage in KINDS.items():
        if kind not in only:
            continue
        calls = old.of(kind), new.of(kind)
        for first, second in zip(*calls, strict=False):
            items.extend(_compare_calls(first, second, tolerances, training))
        common = min(map(len, calls))
        for missing, outcome in ((calls[0], Outcome.ONLY_OLD), (calls[1], Outcome.ONLY_NEW)):
            items += [Item(stage, call.title, outcome) for call in missing[common:]]
    order = {stage: number for number, stage in enumerate(Stage)}
    items.sort(key=lambda item: order[item.stage])  # stable: calls stay in their order
    return Comparison(*sides, tuple(items), tuple(_notes(old, new)))


def _compare_calls(
    old: RecordedCall, new: RecordedCall, tolerances: Tolerances, training: bool
) -> Iterator[Item]:
    """Yields the items of two calls of one kind, whose variables and values matter if they train.

    Without a training on both sides those of all calls do.
    """
    title = old.title
    if old.kind == "train" or not training:
        yield from compare_variables(old.variables, new.variables, f"{title}: ")
        yield from _compare_group(Stage.INITIAL_VALUES, "initial", old, new, tolerances)
    if old.kind == "train":
        losses, new_losses = (call.arrays.get("losses", {}).get("") for call in (old, new))
        yield from compare_losses(title, losses, new_losses, tolerances)
        yield from _compare_group(Stage.FIRST_UPDATE, "first_update", old, new, tolerances)
        yield from _compare_group(Stage.TRAINED_VALUES, "trained", old, new, tolerances)
    trained = old.after_training or new.after_training
    metrics = Stage.METRICS if trained else Stage.FORWARD_PASS
    yield from _compare_group(metrics, "metrics", old, new, tolerances)
    predictions = Stage.PREDICTIONS if trained else Stage.FORWARD_PASS
    yield from _compare_group(predictions, "predictions", old, new, tolerances)
    yield from _compare_signatures(title, old.signatures, new.signatures)


def compare_variables(
    old: Mapping[str, RecordedVariable], new: Mapping[str, RecordedVariable], prefix: str = ""
) -> Iterator[Item]:
    """Yields the items of variables by name; the items' names begin with `prefix`."""
    stage = Stage.VARIABLES
    if len(old) != len(new):
        text = f"{len(old)} and {len(new)}"
        yield Item(stage, f"{prefix}number of variables", Outcome.DIFFERS, text)
    for name in _names(old, new):
        item_name = f"{prefix}{name}"
        if (name in old) != (name in new):
            yield lone_item(stage, item_name, name in old)
            continue
        one, other = old[name], new[name]
        texts = []
        if one.shape != other.shape:
            texts.append(f"shapes {list(one.shape)} and {list(other.shape)}")
        if one.dtype != other.dtype:
            texts.append(f"{one.dtype} and {other.dtype}")
        if one.trainable != other.trainable and None not in (one.trainable, other.trainable):
            texts.append(f"trainable only in the {'old' if one.trainable else 'new'}")
        outcome = Outcome.DIFFERS if texts else Outcome.AGREES
        yield Item(stage, item_name, outcome, ", ".join(texts))


def _compare_group(
    stage: Stage, group: str, old: RecordedCall, new: RecordedCall, tolerances: Tolerances
) -> Iterator[Item]:
    """Yields the items of a group of arrays."""
    first, second = old.arrays.get(group), new.arrays.get(group)
    if first is None or second is None:
        if first is not second:
            yield lone_item(stage, f"{old.title}: {group.replace('_', ' ')}", first is not None)
        return
    for name in _names(first, second):
        item_name = f"{old.title}: {name}" if name else old.title
        variables = old.variables.get(name), new.variables.get(name)
        if group in _OF_VARIABLES and not _have_one_shape(*variables):
            continue  # an item of the variables' stage says so
        item = compare_values(stage, item_name, first.get(name), second.get(name), tolerances)
        if group in _TRAINED and tolerances.rule_of(stage, item_name) is None:
            item = _with_changes(item, group, name, old, new)
        yield item


def _with_changes(item: Item, group: str, name: str, old: RecordedCall, new: RecordedCall) -> Item:
    """Returns the item of a variable after steps, which differs if they changed it differently."""
    # The new side may have been started with the old one's values.
    places = ((old, "initial"), (old, group), (new, group))
    arrays = [call.arrays.get(each, {}).get(name) for call, each in places]
    losses = old.arrays.get("losses", {}).get("")
    steps = losses.shape[0] if losses is not None and group == "trained" else 1
    if not item.agrees or None in arrays:
        return item
    start, end, new_end = (array.load() for array in arrays if array is not None)
    return compare_changes(item, start, end, new_end, steps)


def _have_one_shape(old: RecordedVariable | None, new: RecordedVariable | None) -> bool:
    """Returns whether a variable of both sides has one shape, or is one of neither."""
    return getattr(old, "shape", None) == getattr(new, "shape", None)


def _compare_signatures(
    title: str, old: Mapping[str, Any], new: Mapping[str, Any]
) -> Iterator[Item]:
    stage = Stage.SIGNATURES
    for key in _names(old, new):
        name = f"{title}: {key}"
        if (key in old) != (key in new):
            yield lone_item(stage, name, key in old)
            continue
        texts = []
        if old[key]["method"] != new[key]["method"]:
            texts.append(f"methods {old[key]['method']} and {new[key]['method']}")
        for kind in ("inputs", "outputs"):
            one, other = old[key][kind], new[key][kind]
            for tensor in _names(one, other):
                if one.get(tensor) != other.get(tensor):
                    here, there = (side.get(tensor, "missing") for side in (one, other))
                    texts.append(f"{kind[:-1]} {tensor!r}: {here} and {there}")
        outcome = Outcome.DIFFERS if texts else Outcome.AGREES
        yield Item(stage, name, outcome, "; ".join(texts))


def _names(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """Returns the names of both sides, in the order of the old one, then of the new."""
    return list({**old, **new})


def _notes(old: Recording, new: Recording) -> Iterator[str]:
    for label, recording in (("old", old), ("new", new)):
        for call in recording.of("train"):
            if call.assigned is None:
                continue
            left = [name for name in call.variables if name not in call.assigned]
            text = f"{call.title} of the {label} side started with given values"
            yield f"{text}, except for {', '.join(left)}." if left else f"{text}."
        kept = [
            name
            for call in recording.calls
            for name, array in call.arrays.get("initial", {}).items()
            if array.rows_kept is not None
        ]
        if kept:
            names = ", ".join(dict.fromkeys(kept))
            yield f"Of the {label} side's largest variables only some rows were kept: {names}."
