# SPDX-License-Identifier: Apache-2.0
"""Defines the goals and checks the results against them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from training_time.results import Results
from training_time.workloads import WORKLOADS

ONE = [name for name in WORKLOADS if name.startswith("grid/1id")]
TEN = [name for name in WORKLOADS if name.startswith("grid/10ids")]
OPTIMIZERS = [name for name in WORKLOADS if name.startswith(("adam/", "sgd/"))]
CANNED = [name for name in WORKLOADS if name.startswith("canned/")]
OTHERS = ["weighted", "sequences", "mixed-300", "small-300", "huge/1id", "huge/10ids", "census"]


@dataclasses.dataclass(frozen=True)
class Check:
    """One measured number and its limit.

    Attributes:
        where: workload and side.
        value: what was measured; None: it wasn't.
        limit: the most it may be.
    """

    where: str
    value: float | None
    limit: float

    @property
    def met(self) -> bool:
        """Returns whether it was measured and is within the limit."""
        return self.value is not None and self.value <= self.limit


@dataclasses.dataclass(frozen=True)
class Goal:
    """A goal with its checks."""

    text: str
    checks: tuple[Check, ...]

    @property
    def measured(self) -> list[Check]:
        """Returns the checks that were measured."""
        return [check for check in self.checks if check.value is not None]

    @property
    def verdict(self) -> str:
        """Returns the verdict as text."""
        if not self.measured:
            return "not measured"
        missed = sum(not check.met for check in self.measured)
        if missed:
            return f"**no**, {missed} of {len(self.measured)} miss it"
        unknown = len(self.checks) - len(self.measured)
        return "yes" + (f" ({unknown} not measured)" if unknown else "")


def _ratios(
    results: Results, names: Iterable[str], side: str, base: str, limit: float, figure: str = "ms"
) -> tuple[Check, ...]:
    checks = []
    for name in names:
        ratio = results.ratio(name, side, base, figure)
        checks.append(Check(f"{name} {side}", ratio.median if ratio else None, limit))
    return tuple(checks)


def _of_default(results: Results, names: Iterable[str], limit: float) -> tuple[Check, ...]:
    """Returns the checks of the default core with both kinds of variables."""
    names = list(names)
    return tuple(
        check
        for side in ("default-v1", "default")
        for check in _ratios(results, names, side, "reference", limit)
    )


def _memory(results: Results, above_import: bool) -> tuple[Check, ...]:
    """Returns the checks of peak memory relative to the reference, with or without imports."""
    checks = []
    for name in (*ONE, *TEN, *OPTIMIZERS, *OTHERS):
        for side in ("default", "host"):
            sizes = []
            for who in (side, "reference"):
                peak, start = (
                    results.median(name, who, figure) for figure in ("peak_mib", "imported_mib")
                )
                less = start if above_import else 0.0
                sizes.append(None if peak is None or less is None else peak - less)
            value = sizes[0] / sizes[1] if sizes[0] and sizes[1] else None
            checks.append(Check(f"{name} {side}", value, 1.0))
    return tuple(checks)


def _linear(results: Results, side: str) -> tuple[Check, ...]:
    """Returns the checks of seconds a column with 1,000 columns relative to 100 and 300."""
    most = results.median("first-step/1000", side)
    checks = []
    for count in (100, 300):
        fewer = results.median(f"first-step/{count}", side)
        value = (most / 1000) / (fewer / count) if most and fewer else None
        # Tolerance of the measurements.
        checks.append(Check(f"a column's time, 1,000 : {count} columns, {side}", value, 1.1))
    return tuple(checks)


def _verbs(results: Results, verb: str) -> tuple[Check, ...]:
    names = [f"{verb}/{ids}" for ids in ("1id", "10ids")]
    return tuple(
        check
        for side in ("default", "host")
        for check in _ratios(results, names, side, "reference", 0.67)
    )


def goals(results: Results) -> list[Goal]:
    """Returns the goals with the measured numbers."""
    large = [name for name in (*ONE, *TEN, *OPTIMIZERS) if not name.endswith("1e4")]
    large += ["weighted", "huge/1id", "huge/10ids"]
    found = [
        Goal("1a. Default, one id: ≤ 0.55 × reference", _of_default(results, ONE, 0.55)),
        Goal("1b. Default, 10 ids: ≤ 0.4 × reference", _of_default(results, TEN, 0.4)),
        Goal(
            "1c. Default on TensorFlow ≤ 2.19, 10 ids: ≤ 0.67 × reference",
            _ratios(results, TEN, "older", "reference", 0.67),
        ),
        Goal("2a. Peak memory of the process ≤ reference's", _memory(results, False)),
        Goal("2b. The same above what `import tensorflow` takes", _memory(results, True)),
        Goal(
            "3a. Host core, one id: ≤ 0.4 × reference, Adagrad",
            _ratios(results, ONE, "host", "reference", 0.4),
        ),
        Goal(
            "3b. Host core, 10 ids: ≤ 0.35 × reference, Adagrad",
            _ratios(results, TEN, "host", "reference", 0.35),
        ),
        Goal(
            "3c. Host core: ≤ 0.6 × reference, Adam and SGD",
            _ratios(results, OPTIMIZERS, "host", "reference", 0.6),
        ),
        Goal(
            "3d. Embedding part alone, host core: ≤ 0.6 × FBGEMM",
            _ratios(results, ("embedding/1id", "embedding/10ids"), "host", "fbgemm", 0.6),
        ),
        Goal(
            "4. ≤ 0.2 × keras-rs at 10⁵ rows and more",
            _ratios(results, large, "default", "keras_rs", 0.2)
            + _ratios(results, large, "host", "keras_rs", 0.2),
        ),
        Goal(
            "5a. First step with 26 columns: ≤ reference's",
            _of_default(results, ("first-step/26",), 1.0)
            + _ratios(results, ("first-step/26",), "host", "reference", 1.0),
        ),
        Goal(
            "5b. 1,000 columns in time linear in their number",
            _linear(results, "default") + _linear(results, "host"),
        ),
    ]
    found += [
        Goal(f"6{letter}. {verb.capitalize()}: ≤ 0.67 × reference", _verbs(results, verb))
        for letter, verb in zip("abc", ("evaluate", "predict", "serve"), strict=True)
    ]
    found += [
        Goal(
            "7a. Canned estimators whose tables dominate: ≤ 0.67 × reference",
            _of_default(results, ("canned/linear-1e6",), 0.67),
        ),
        Goal("7b. Canned estimators: ≤ reference's", _of_default(results, CANNED, 1.0)),
        Goal(
            "8a. 300 small tables, default: ≤ 0.6 × reference",
            _of_default(results, ("small-300",), 0.6),
        ),
        Goal(
            "8b. 300 small tables, host core: ≤ 0.35 × reference",
            _ratios(results, ("small-300",), "host", "reference", 0.35),
        ),
        Goal(
            "8c. 300 mixed tables, default: ≤ 0.5 × reference",
            _of_default(results, ("mixed-300",), 0.5),
        ),
        Goal(
            "8d. 300 mixed tables, host core: ≤ 0.35 × reference",
            _ratios(results, ("mixed-300",), "host", "reference", 0.35),
        ),
        Goal(
            "8e. First step with 1,000 columns, default: ≤ 0.5 × reference's",
            _of_default(results, ("first-step/1000",), 0.5),
        ),
        Goal(
            "8f. First step with 1,000 columns, host core: ≤ 0.2 × reference's",
            _ratios(results, ("first-step/1000",), "host", "reference", 0.2),
        ),
        Goal("9a. Census, default: ≤ 0.85 × reference", _of_default(results, ("census",), 0.85)),
        Goal(
            "9b. Census, host core: ≤ 0.6 × reference",
            _ratios(results, ("census",), "host", "reference", 0.6),
        ),
    ]
    return found
