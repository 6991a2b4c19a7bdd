# SPDX-License-Identifier: Apache-2.0
"""Reads recordings: the calls of a program's estimators, with variables in one piece."""

from __future__ import annotations

import dataclasses
import functools
import json
import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from estimator_spec.compare.estimator_collector.options import FORMAT, RECORD, VALUES
from tpu_columns.partition import whole_name


@dataclasses.dataclass(frozen=True)
class RecordedVariable:
    """A variable of a graph.

    Attributes:
        name: full name, without the number of a part.
        dtype: dtype, such as 'float32'.
        shape: shape of all parts together.
        trainable: whether an optimizer may move it; None if that isn't known.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    trainable: bool | None


@dataclasses.dataclass(frozen=True)
class Array:
    """An array of a recording, on disk.

    Attributes:
        dtype: dtype in the program, such as 'bfloat16' (the files have NumPy's).
        shape: shape in the program.
        rows_kept: number of the evenly spaced rows that were kept; None if all were.
        files: files of its parts, in their order.
        axis: the axis along which the parts are consecutive.
    """

    dtype: str
    shape: tuple[int, ...]
    rows_kept: int | None
    files: tuple[str, ...]
    axis: int = 0

    def load(self) -> np.ndarray:
        """Returns the array, or the rows of it that were kept."""
        parts = [np.load(file, mmap_mode="r") for file in self.files]
        return parts[0] if len(parts) == 1 else np.concatenate(parts, self.axis)


@dataclasses.dataclass(frozen=True)
class RecordedCall:
    """A call of an estimator's method.

    Attributes:
        kind: 'train', 'evaluate', 'predict' or 'export'.
        number: its number among the calls of its kind, from 1.
        after_training: whether a training came before an evaluation or a prediction.
        variables: variables by name.
        arrays: arrays by group ('initial', 'first_update', 'losses', 'trained', 'metrics',
            'predictions') and name; the losses' name is ''.
        signatures: signatures of an exported model by key.
        assigned: names of the variables that started with given values; None if none were given.
    """

    kind: str
    number: int
    after_training: bool
    variables: Mapping[str, RecordedVariable]
    arrays: Mapping[str, Mapping[str, Array]]
    signatures: Mapping[str, Any]
    assigned: tuple[str, ...] | None

    @property
    def title(self) -> str:
        """Kind and number, such as 'train 1'."""
        return f"{self.kind} {self.number}"


class Recording:
    """A recording on disk.

    Args:
        folder: its directory.

    Attributes:
        calls: the calls in their order.
        error: the error that the program ended with, or None.
        modules: files of the program's own modules by name.

    Raises:
        FileNotFoundError: there is no recording.
        ValueError: it has another format.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder
        with open(os.path.join(folder, RECORD), encoding="utf-8") as file:
            record = json.load(file)
        if record.get("format") != FORMAT:
            raise ValueError(
                f"The recording in {folder!r} has format {record.get('format')!r}, not {FORMAT}: "
                "another version wrote it. Record it anew."
            )
        self._environment: dict[str, str] = record["environment"]
        self.error: str | None = record["error"]
        self.modules: dict[str, str] = record.get("modules", {})
        self.calls = tuple(self._call(entry) for entry in record["calls"])

    @property
    def environment(self) -> str:
        """Versions as text."""
        known = self._environment
        return (
            f"TensorFlow {known['tensorflow']}, {known['estimator']}, Python {known['python']}, "
            f"NumPy {known['numpy']}"
        )

    def of(self, kind: str) -> tuple[RecordedCall, ...]:
        """Returns the calls of a kind."""
        return tuple(call for call in self.calls if call.kind == kind)

    def _call(self, entry: dict[str, Any]) -> RecordedCall:
        groups: dict[str, Mapping[str, Array]] = {
            group: self._whole_arrays(entry[group])
            for group in ("initial", "first_update", "trained")
            if group in entry
        }
        for group in ("metrics", "predictions"):
            if group in entry:
                arrays = {name: self._array(value) for name, value in entry[group].items()}
                groups[group] = arrays
        if "losses" in entry:
            groups["losses"] = {"": self._array(entry["losses"])}
        assigned = entry.get("assigned")
        return RecordedCall(
            kind=entry["kind"],
            number=entry["number"],
            after_training=entry.get("after_training", True),
            variables=_whole_variables(entry.get("variables", [])),
            arrays=groups,
            signatures=entry.get("signatures", {}),
            assigned=None if assigned is None else tuple(map(whole_name, assigned)),
        )

    def _array(self, reference: dict[str, Any]) -> Array:
        return Array(
            reference["dtype"],
            tuple(reference["shape"]),
            reference.get("rows_kept"),
            (os.path.join(self._folder, VALUES, reference["file"]),),
        )

    def _whole_arrays(self, references: dict[str, Any]) -> dict[str, Array]:
        """Returns arrays by the names of whole variables."""
        parts: dict[str, list[Array]] = {}
        for name, reference in references.items():
            parts.setdefault(whole_name(name), []).append(self._array(reference))
        return {name: functools.reduce(_join, arrays) for name, arrays in parts.items()}


def _whole_variables(entries: list[dict[str, Any]]) -> dict[str, RecordedVariable]:
    variables: dict[str, RecordedVariable] = {}
    for entry in entries:
        name, shape = whole_name(entry["name"]), tuple(entry["shape"])
        if name in variables:
            shape = _joined_shape(variables[name].shape, shape)[0]
        variables[name] = RecordedVariable(name, entry["dtype"], shape, entry["trainable"])
    return variables


def _join(first: Array, second: Array) -> Array:
    shape, axis = _joined_shape(first.shape, second.shape)
    kept = None
    if first.rows_kept is not None or second.rows_kept is not None:
        kept = sum(each.rows_kept or each.shape[0] for each in (first, second))
    return Array(first.dtype, shape, kept, first.files + second.files, axis)


def _joined_shape(first: tuple[int, ...], second: tuple[int, ...]) -> tuple[tuple[int, ...], int]:
    """Returns the shape of two consecutive parts, and the axis along which they are."""
    axis = next((n for n in range(1, len(first)) if first[n] != second[n]), 0)
    if not first:  # no parts, but two variables whose names differ in such a number
        return first, 0
    return (*first[:axis], first[axis] + second[axis], *first[axis + 1 :]), axis
