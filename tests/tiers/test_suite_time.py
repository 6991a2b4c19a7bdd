# SPDX-License-Identifier: Apache-2.0
"""The command that times the tests in a fresh clone."""

from __future__ import annotations

import pytest

import suite_time

pytestmark = pytest.mark.skipif(
    not (suite_time.ROOT / ".git").exists(), reason="the sources aren't a git checkout"
)


@pytest.mark.parametrize(("test", "passed"), [("test -f noxfile.py", True), ("false", False)])
def test_the_commands_run_in_a_clone(capfd, test, passed):
    """The clone has the sources; each round's minutes and outcome are printed, and the median."""
    assert suite_time.measure(2, 1, install="touch installed", test=f"{test} && ls installed") is (
        passed
    )
    printed = capfd.readouterr().out
    assert printed.count("minutes, passed" if passed else "minutes, FAILED") == 2
    assert "minutes (median) beside 1 busy process(es)" in printed


def test_a_failed_installation_is_an_error():
    """An installation that fails isn't timed."""
    with pytest.raises(RuntimeError, match="this failed in a fresh clone: false"):
        suite_time.measure(1, 0, install="false", test="true")
