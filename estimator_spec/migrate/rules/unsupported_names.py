# SPDX-License-Identifier: Apache-2.0
"""Rule: removed names that nothing replaces become stand-ins, and lines of the report.

A stand-in keeps the program's imports working; its use raises an error that says what to do.
"""

from __future__ import annotations

from estimator_spec.migrate.old_names import Fate
from estimator_spec.migrate.rule import Rule

RULE = Rule(
    "unsupported-names",
    "names that aren't restored become stand-ins, and the report says what to use instead",
    "imports-that-arent-supported",
    fates=frozenset({Fate.UNSUPPORTED}),
)
