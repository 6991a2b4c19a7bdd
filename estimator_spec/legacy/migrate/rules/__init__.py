# SPDX-License-Identifier: Apache-2.0
"""The rules of a migration."""

from __future__ import annotations

from estimator_spec.legacy.migrate.rules import (
    legacy_keras,
    literal_configs,
    numeric,
    old_names,
    spec_conversion,
    tf1_api,
    tf1_arguments,
    training_loop,
)

# In the order of `--list-rules`: edits of the source, then lines of the report.
RULES = (
    *old_names.RULES,
    tf1_api.RULE,
    tf1_arguments.RULE,
    legacy_keras.RULE,
    literal_configs.RULE,
    spec_conversion.RULE,
    training_loop.RULE,
    *numeric.RULES,
)
