# SPDX-License-Identifier: Apache-2.0
"""Records of the programs under TensorFlow 2.15.1's own TPUEstimator and under ours.

Ours runs here, in one process for all programs of a kind that tests ask for. The reference's
records are the goldens, for programs that aren't to run live.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

import goldens
from goldens import Kind, Record

NIGHTLY = "the reference must run on a checkpoint or a TensorFlow of this run"


class Sides(NamedTuple):
    """Records of a program; `*_continued` started at a checkpoint of the other side.

    Attributes:
        name: of the golden.
        reference: from the golden, or of this run.
        ours: of this run.
        ours_continued: None for programs that have no such run.
        reference_continued: None, too, unless the program runs live.
        tolerance: of numbers that are alike.
    """

    name: str
    reference: Record
    ours: Record
    ours_continued: Record | None
    reference_continued: Record | None
    tolerance: float

    @property
    def live(self) -> Sides:
        """These records, of a program that runs live; skips the test of another one."""
        if self.reference_continued is None:
            pytest.skip(f"{self.name} runs live with {goldens.LIVE}=1 and a reference only")
        return self

    def assert_same(self, *groups: str) -> None:
        """Asserts that groups of entries are the same on both sides."""
        goldens.assert_same(self.name, self.ours, self.reference, *groups, tolerance=self.tolerance)


def run_all(kind: Kind, names: list[str], live: list[str], python: str | None, out: Path) -> None:
    """Runs programs of a kind on our side, and some of them on the reference's."""
    theirs, ours = out / "reference", out / "ours"
    theirs.mkdir()
    ours.mkdir()
    if live:
        goldens.start("reference", python, kind.script, theirs, *live)
    for name in set(names) - set(live):
        goldens.lay_out(goldens.read(kind.prefix + name), theirs / name)
    donor = ["--donor", theirs] if kind.takes_donor else []
    goldens.start("ours", sys.executable, kind.script, ours, *names, *donor)
    if live and donor:
        donor = ["--donor", ours, "--continue-only"]
        goldens.start("reference", python, kind.script, theirs, *live, *donor)


@pytest.fixture
def continue_training(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Record]:
    """Returns the function that continues TensorFlow 1.15.5's checkpoint in our estimator."""
    monkeypatch.setenv("SIDE", "ours")
    from programs import tf1_columns

    return tf1_columns.continue_training


@pytest.fixture(scope="session")
def sides(
    request: pytest.FixtureRequest,
    found_reference_python: str | None,
    run_once: Callable[..., Path],
    tolerance: float,
) -> Callable[[Kind, str], Sides]:
    """Returns a function of a kind and a name that returns both sides' records."""
    done: dict[str, Sides] = {}
    parameters = {
        value
        for item in request.session.items
        if "sides" in item.fixturenames and hasattr(item, "callspec")
        for value in item.callspec.params.values()
        if isinstance(value, str)
    }

    def records(kind: Kind, name: str, out: Path, is_live: bool) -> Sides:
        def continued(side: str) -> Record | None:
            present = any((out / side).glob(f"{name}-continued.[nj]*"))
            return goldens.load(out / side, f"{name}-continued") if present else None

        theirs = goldens.load(out / "reference", name) if is_live else None
        if theirs is None:
            theirs = goldens.read(kind.prefix + name).record
        return Sides(
            kind.prefix + name,
            theirs,
            goldens.load(out / "ours", name),
            continued("ours"),
            continued("reference"),
            tolerance if is_live else max(tolerance, goldens.TOLERANCE),
        )

    def of(kind: Kind, name: str) -> Sides:
        if kind.prefix + name not in done:
            names = [each for each in kind.names if each in parameters]
            key = f"sides_{kind.script}"
            if name not in names:
                names, key = [name], f"{key}_{name}"
            live = [each for each in names if goldens.is_live(kind.prefix + each)]
            if found_reference_python is None:
                if goldens.all_are_live():  # asked for
                    request.getfixturevalue("reference_python")
                live = []
            out = run_once(key, lambda out: run_all(kind, names, live, found_reference_python, out))
            for each in names:
                found = records(kind, each, out, each in live)
                done[found.name] = found
        return done[kind.prefix + name]

    return of
