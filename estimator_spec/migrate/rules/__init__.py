# SPDX-License-Identifier: Apache-2.0
"""The rules of a migration, a module each."""

from __future__ import annotations

from estimator_spec.migrate.rules import (
    adam_epsilon,
    combiner_none,
    drop_remainder,
    id_zero,
    initializer_spread,
    invalid_ids,
    legacy_keras,
    literal_configs,
    old_names,
    out_of_vocabulary,
    restored_names,
    rmsprop_start,
    spec_conversion,
    table_optimizer,
    tf1_api,
    tpu_functions,
    training_loop,
    unsupported_names,
)

# In the order of `--list-rules`: edits of the source, then lines of the report.
RULES = (
    old_names.RULE,
    tpu_functions.RULE,
    restored_names.RULE,
    unsupported_names.RULE,
    tf1_api.RULE,
    legacy_keras.RULE,
    literal_configs.RULE,
    spec_conversion.RULE,
    training_loop.RULE,
    table_optimizer.RULE,
    combiner_none.RULE,
    id_zero.RULE,
    invalid_ids.RULE,
    out_of_vocabulary.RULE,
    initializer_spread.RULE,
    adam_epsilon.RULE,
    rmsprop_start.RULE,
    drop_remainder.RULE,
)
