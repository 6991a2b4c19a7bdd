# SPDX-License-Identifier: Apache-2.0
"""Defines `Plan`, the result of `plan`, and the error of a plan that doesn't work."""

from __future__ import annotations

import dataclasses

from estimator_spec.planning import text
from estimator_spec.planning.balance import Balance
from estimator_spec.planning.memory import Estimate
from estimator_spec.planning.problems import Problem
from estimator_spec.planning.samples import IdSample
from estimator_spec.planning.sparse_core import SparseCoreLimits


@dataclasses.dataclass(frozen=True)
class Plan:
    """Memory, shards and lookup devices of a spec's tables; `str()` formats it as text.

    Attributes:
        estimate: the tables on their system, with the memory that they need.
        balances: distribution of each sharded table's rows and lookups, by div and by mod.
        limits: SparseCore's limits of each table, if there is a sample and a TPU.
        problems: reasons why a training or an export fails or is slow, errors first.
        sample: the sample of ids, or None.
    """

    estimate: Estimate
    balances: tuple[Balance, ...]
    limits: tuple[SparseCoreLimits, ...]
    problems: tuple[Problem, ...] = ()
    sample: IdSample | None = dataclasses.field(default=None, repr=False, compare=False)

    @property
    def errors(self) -> tuple[Problem, ...]:
        """The problems with which a training or an export fails."""
        return tuple(problem for problem in self.problems if problem.is_error)

    @property
    def fits(self) -> bool:
        """Whether training and export work, as far as the plan can tell."""
        return not self.errors

    def check(self) -> None:
        """Checks that training and export work.

        Raises:
            PlanError: they don't; the message has the problems and their fixes.
        """
        if not self.fits:
            raise PlanError(self)

    def __str__(self) -> str:
        return text.format_plan(self.estimate, self.balances, self.limits, self.problems)


class PlanError(ValueError):
    """A plan doesn't work; `plan` has it, with its typed problems.

    Args:
        plan: the plan.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        super().__init__("\n".join(str(problem) for problem in plan.errors))
