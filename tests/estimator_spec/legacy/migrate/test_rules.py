# SPDX-License-Identifier: Apache-2.0
"""Each rule on sources before and after it: `cases/RULE.txt`.

The first line has the target, unless a case's name ends with another: `=== name --to keras-rs`.
A case is `=== name`, the source, `--->` and the source after the rule (none: it doesn't change),
then a line `!!! LINE:COLUMN REASON` for each line of the report.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import pytest

from estimator_spec.legacy.migrate.migration import MigrationOptions, migrate
from estimator_spec.legacy.migrate.rule import MigrationTarget
from estimator_spec.legacy.migrate.rules import RULES

CASES = Path(__file__).with_name("cases")


class Case(NamedTuple):
    """A source before and after a rule, and the lines of the report."""

    rule: str
    target: MigrationTarget
    name: str
    before: str
    after: str
    report: str


def cases(rule: str) -> list[Case]:
    """Returns the cases of a rule."""
    found = []
    first, *texts = (CASES / f"{rule}.txt").read_text(encoding="utf-8").split("=== ")
    for text in texts:
        title, _, rest = text.partition("\n")
        name, _, other = title.partition(" --to ")
        target = MigrationTarget(other or first.strip().removeprefix("--to "))
        source, report = re.match(r"(.*?)((?:^!!! .*\n)*)\Z", rest, re.S | re.M).groups()
        before, arrow, after = source.partition("--->\n")
        found.append(Case(rule, target, name, before, after if arrow else before, report))
    return found


def options(case: Case) -> MigrationOptions:
    """Returns options for the rule and the target of a case."""
    return MigrationOptions(case.target, frozenset([case.rule]))


ALL = [case for rule in RULES for case in cases(rule.name)]
every_case = pytest.mark.parametrize(
    "case",
    ALL,
    ids=[f"{case.rule}-{case.name.replace(' ', '_')}-{case.target.value}" for case in ALL],
)


@every_case
def test_rule(case: Case) -> None:
    """A rule makes of each source what its cases show, and its report says what they say."""
    done = migrate(case.before, options(case))
    assert done.source == case.after
    # Of the rules that aren't applied the report says what they leave.
    of_rule = [f for f in done.findings if f.rule == case.rule]
    report = [f"!!! {f.line}:{f.column} {f.reason}\n" for f in of_rule]
    assert "".join(report) == case.report


@every_case
def test_rule_twice(case: Case) -> None:
    """A second migration changes nothing."""
    assert migrate(case.after, options(case)).source == case.after


@pytest.mark.parametrize("rule", [rule.name for rule in RULES])
def test_first_case_changes_nothing(rule: str) -> None:
    """Each rule has a source first that it leaves alone."""
    first = cases(rule)[0]
    assert first.before == first.after
    assert not first.report


def test_every_rule_has_cases() -> None:
    """There are cases for each rule and for no other, and names of rules are unique."""
    names = [rule.name for rule in RULES]
    assert sorted(names) == sorted(path.stem for path in CASES.glob("*.txt"))


def test_guide_has_the_sections() -> None:
    """The section that a rule's report names is in the migration guide."""
    guide = (Path(__file__).parents[4] / "migration_guide.md").read_text(encoding="utf-8")
    titles = re.findall(r"^#+ (.*)$", guide, re.MULTILINE)
    anchors = {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}
    assert {rule.guide for rule in RULES} <= anchors
