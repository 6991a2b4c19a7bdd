# SPDX-License-Identifier: Apache-2.0
"""Stages of a comparison, in the order in which a fault shows, and the tolerance of each."""

from __future__ import annotations

import dataclasses
import enum
import fnmatch
import math
from collections.abc import Iterable


class Stage(enum.Enum):
    """A stage of a comparison.

    VARIABLES: number, names, shapes and dtypes of variables.
    INITIAL_VALUES: values before the first step.
    FORWARD_PASS: loss of the first step; metrics and predictions before any training.
    FIRST_UPDATE: variables and slot variables after the first step.
    LOSSES: loss of every step.
    TRAINED_VALUES: variables after the last step, or of two checkpoints.
    METRICS: results of evaluations.
    PREDICTIONS: predictions after training.
    SIGNATURES: signatures of exported models.
    """

    VARIABLES = "variables"
    INITIAL_VALUES = "initial-values"
    FORWARD_PASS = "forward-pass"
    FIRST_UPDATE = "first-update"
    LOSSES = "losses"
    TRAINED_VALUES = "trained-values"
    METRICS = "metrics"
    PREDICTIONS = "predictions"
    SIGNATURES = "signatures"

    @property
    def title(self) -> str:
        """The stage's name in a sentence."""
        return self.value.replace("-", " ")


@dataclasses.dataclass(frozen=True)
class Tolerance:
    """Largest difference of two elements that agree; either bound suffices.

    Attributes:
        relative: bound of the relative difference, as `gaps.measure` defines it.
        absolute: bound of the absolute difference.
    """

    relative: float
    absolute: float = 0.0

    def __post_init__(self) -> None:
        for name in ("relative", "absolute"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value >= 0):
                raise ValueError(f"The {name} tolerance is {value}; it must be 0 or more.")


EXACT = Tolerance(0.0)

# Rounding differs between versions of TensorFlow, and grows with the number of steps.
_DEFAULTS = {
    Stage.VARIABLES: EXACT,
    Stage.INITIAL_VALUES: Tolerance(1e-6),
    Stage.FORWARD_PASS: Tolerance(1e-5, 1e-8),
    Stage.FIRST_UPDATE: Tolerance(1e-5, 1e-8),
    Stage.LOSSES: Tolerance(1e-4, 1e-7),
    Stage.TRAINED_VALUES: Tolerance(1e-3, 1e-7),
    Stage.METRICS: Tolerance(1e-4, 1e-7),
    Stage.PREDICTIONS: Tolerance(1e-3, 1e-7),
    Stage.SIGNATURES: EXACT,
}


class Tolerances:
    """Tolerances by item: those of the stages, and rules for names. Whole numbers must be equal.

    Args:
        rules: (pattern, tolerance) pairs. A pattern is matched with `STAGE/NAME` of an item, as in
            'metrics/*auc'; `*` matches any text. NAME may also be a name of a table: its key, a
            feature, or a part of its variable's name. The last rule that matches decides.

    Raises:
        ValueError: a pattern can match no item.
    """

    def __init__(self, *rules: tuple[str, Tolerance]) -> None:
        for pattern, _ in rules:
            head = pattern.partition("/")[0]
            if not any(fnmatch.fnmatchcase(stage.value, head) for stage in Stage):
                raise ValueError(
                    f"The pattern {pattern!r} matches no stage. It is STAGE/NAME, such as "
                    f"'metrics/*auc'; the stages are {', '.join(s.value for s in Stage)}."
                )
        self._rules = rules

    def of(self, stage: Stage, name: str, kind: str = "f") -> Tolerance:
        """Returns the tolerance of an item.

        Args:
            stage: its stage.
            name: its name.
            kind: NumPy's kind of its elements. Those of whole numbers and booleans are steps, ids
                and counts: without a rule they must be equal.

        >>> rules = Tolerances(("metrics/*", Tolerance(0.01)), ("metrics/*auc", Tolerance(0.1)))
        >>> rules.of(Stage.METRICS, "evaluate 1: auc").relative
        0.1
        >>> rules.of(Stage.METRICS, "evaluate 1: loss").relative
        0.01
        """
        default = EXACT if kind in "iub" else _DEFAULTS[stage]
        return self.rule_of(stage, name) or default

    def rule_of(self, stage: Stage, name: str) -> Tolerance | None:
        """Returns the tolerance that a rule gives an item, or None without one."""
        for pattern, tolerance in reversed(self._rules):
            if _matches(pattern, stage, name):
                return tolerance
        return None

    def check_names(self, items: Iterable[tuple[Stage, str]]) -> None:
        """Checks that each rule with a name is about one of the items of a comparison.

        Args:
            items: stage and name of each item.

        Raises:
            ValueError: a rule is about none; the error lists the names of its stages.
        """
        known = list(items)
        for pattern, _ in self._rules:
            head, _, wanted = pattern.partition("/")
            of_stage = [each for each in known if fnmatch.fnmatchcase(each[0].value, head)]
            if wanted == "*" or any(_matches(pattern, *each) for each in of_stage):
                continue
            names = ", ".join(f"'{stage.value}/{name}'" for stage, name in of_stage)
            raise ValueError(
                f"The tolerance of {pattern!r} is about nothing that was compared. What was, at "
                f"{head!r}: {names or 'nothing'}."
            )


def _matches(pattern: str, stage: Stage, name: str) -> bool:
    """Returns whether a rule's pattern is about an item."""
    if fnmatch.fnmatchcase(f"{stage.value}/{name}", pattern):
        return True
    from estimator_spec.core.checkpoints.spec_tables import names_of_variable

    head, _, wanted = pattern.partition("/")
    variable = name.rpartition(": ")[2]  # after the call that the item is from
    return fnmatch.fnmatchcase(stage.value, head) and names_of_variable(variable).include(wanted)


def parse_rule(text: str) -> tuple[str, Tolerance]:
    """Parses a rule, `PATTERN=RELATIVE[,ABSOLUTE]`.

    >>> parse_rule("losses/*=1e-3,1e-6")
    ('losses/*', Tolerance(relative=0.001, absolute=1e-06))

    Raises:
        ValueError: the text is no rule.
    """
    pattern, _, bounds = text.rpartition("=")
    try:
        numbers = [float(bound) for bound in bounds.split(",")]
    except ValueError:
        numbers = []
    if not pattern or not 1 <= len(numbers) <= 2:
        raise ValueError(f"{text!r} is no tolerance. It is PATTERN=RELATIVE[,ABSOLUTE].")
    return pattern, Tolerance(*numbers)
