# SPDX-License-Identifier: Apache-2.0
"""Checks the old names that a script uses."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping


@dataclasses.dataclass(frozen=True)
class ScriptNames:
    """Old names of a script.

    Attributes:
        counts: number of names by what becomes of them.
        advice: a line for each name that isn't put back: place, name, what to use instead.
        is_supported: whether none is refused.
        error: why the names couldn't be checked, or ''.
    """

    counts: Mapping[str, int]
    advice: tuple[str, ...]
    is_supported: bool
    error: str = ""


def read_names(script: str) -> ScriptNames:
    """Returns what becomes of the old names that a script and the modules beside it use.

    Args:
        script: the program's file; it isn't run.
    """
    try:
        from estimator_spec.legacy import check, tf1
    except Exception as error:  # whatever a broken installation raises
        reason = f"importing TensorFlow fails: {type(error).__name__}: {error}"
        return ScriptNames({}, (), False, reason)
    root = os.path.dirname(os.path.realpath(script))
    found = sorted(
        check.findings(script, root, tf1.uses_tf1_names(script)),
        key=lambda finding: finding.outcome is not check.Outcome.REFUSED,
    )
    counts = {o.value: sum(finding.outcome is o for finding in found) for o in check.Outcome}
    advice = tuple(
        f"{finding.place}: {finding.outcome.value}: {finding.name}. {finding.text}"
        for finding in found
        if finding.outcome is not check.Outcome.RESTORED
    )
    return ScriptNames(counts, advice, not counts[check.Outcome.REFUSED.value])
