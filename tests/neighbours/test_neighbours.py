# SPDX-License-Identifier: Apache-2.0
"""The list of packages that use the Estimator, without installing one."""

from __future__ import annotations

import neighbours
import pytest
from neighbours import Neighbour, Outcome


def test_the_page_has_every_package():
    """The page's table has a row for each package that the command runs, in its order."""
    packages = [f"`{each.package.partition('=')[0]}`" for each in neighbours.ALL]
    assert [row[0] for row in neighbours.verdicts(neighbours.on_page())] == packages


@pytest.mark.parametrize(("imported", "status"), [("works", 0), ("fails: `another way`", 1)])
def test_a_changed_outcome_fails_the_check(monkeypatch, imported, status):
    """`--check` compares outcomes with the page's, not versions and messages."""
    one = Neighbour("deepctr", "deepctr.estimator")
    monkeypatch.setattr(neighbours, "ALL", (one,))
    monkeypatch.setattr(neighbours, "run", lambda *_: Outcome(one, "99", imported, "works"))
    assert neighbours.main(["--check"]) == status


def test_every_program_is_run():
    """Each file of the programs belongs to a package."""
    files = {path.stem for path in neighbours.PROGRAMS.glob("*.py")}
    assert files == {each.program for each in neighbours.ALL if each.program}
