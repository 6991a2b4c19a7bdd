# SPDX-License-Identifier: Apache-2.0
"""Reads recorded outputs of an estimator, and compares a model's with them."""

from __future__ import annotations

import itertools
import json
import pathlib
import sys
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
TOLERANCES = {
    "predictions": (1e-6, 1e-6),
    "metrics": (1e-4, 1e-5),
    "losses": (1e-4, 1e-6),
    "trained": (1e-4, 1e-4),
}


class Sparse(NamedTuple):
    """A sparse feature as `preprocess` takes it."""

    indices: np.ndarray
    values: np.ndarray
    dense_shape: np.ndarray


class CheckValues:
    """Recorded inputs of the model, and the estimator's outputs for them.

    Args:
        path: the file.
    """

    def __init__(self, path: pathlib.Path) -> None:
        with np.load(path) as file:
            self._arrays = dict(file)
        self.contents: dict[str, Any] = json.loads(str(self._arrays.pop("contents")))
        self.batches = [
            (self.read(each["features"]), self.read(each["labels"]))
            for each in self.contents["batches"]
        ]

    def read(self, form: Any) -> Any:
        """Returns a value: an array, a `Sparse`, a list of lists, or a dict of them."""
        if form is None or isinstance(form, str):
            return form if form is None else self._arrays[form]
        ((kind, parts),) = form.items()
        if kind == "dict":
            return {key: self.read(part) for key, part in parts.items()}
        first, *rest = (self.read(part) for part in parts)
        if kind == "sparse":
            return Sparse(first, *rest)
        if kind == "text":
            ends = np.cumsum(rest[0]).tolist()
            starts = [0, *ends]
            texts = [first[a:b].tobytes() for a, b in zip(starts, ends, strict=False)]
            return np.array(texts, object).reshape(rest[1])
        rows = first.tolist()
        for splits in reversed(rest):
            rows = [rows[a:b] for a, b in itertools.pairwise(splits)]
        return rows

    def stated(self, stage: str, name: str, found: Any) -> str | None:
        """Returns why a value isn't the estimator's, if it is what it was where this was written.

        None: the report doesn't say that it differs, or it is another value.
        """
        known = self.contents["stated"].get(name)
        if known is None or difference(stage, self.read(known["values"]), found):
            return None
        return str(known["reason"])


def difference(stage: str, expected: Any, found: Any) -> str:
    """Returns in which way values differ; '' if they agree."""
    if found is None:
        return "missing"
    expected, found = np.asarray(expected), np.asarray(found)
    if expected.shape != found.shape:
        return f"shapes {expected.shape} and {found.shape}"
    if expected.dtype.kind != "f":
        wrong = np.count_nonzero(expected != found)
        return f"{wrong} of {expected.size} values aren't equal" if wrong else ""
    relative, absolute = TOLERANCES[stage]
    largest = np.abs(expected).max(initial=0, where=np.isfinite(expected))
    if np.allclose(found, expected, relative, max(absolute, relative * largest), equal_nan=True):
        return ""
    return f"differ by {np.nanmax(np.abs(found - expected)):.2g}, of {largest:.3g}"


def report(
    recorded: CheckValues, stages: Iterable[tuple[str, Iterable[tuple[str, Any, Any]]]], where: str
) -> int:
    """Prints a line for each value, and returns the exit status: 1 if one differs.

    With the option `--json PATH` it writes the lines there as a list, too.

    Args:
        recorded: the recorded values.
        stages: names of `TOLERANCES`, with names, expected and found values.
        where: what the model runs on.
    """
    lines, differ = [], 0
    for stage, values in stages:
        for name, expected, found in values:
            text = difference(stage, expected, found)
            stated = recorded.stated(stage, name, found) if text else None
            differ += bool(text and not stated)
            lines.append([stage, name, text, stated])
            outcome = f"stated: {text} ({stated})" if stated else f"DIFFERS: {text}"
            print(f"{stage}: {name}: {outcome if text else 'equal'}")  # noqa: T201
    for note in recorded.contents["notes"]:
        print(f"note: {note}")  # noqa: T201
    if sys.argv[1:2] == ["--json"]:
        pathlib.Path(sys.argv[2]).write_text(json.dumps(lines), encoding="utf-8")
    loaded = ", with TensorFlow loaded" if "tensorflow" in sys.modules else ""
    print(f"{len(lines)} compared on {where}{loaded}, {differ} differ")  # noqa: T201
    return 1 if differ or not lines else 0
