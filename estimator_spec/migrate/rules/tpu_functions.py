# SPDX-License-Identifier: Apache-2.0
"""Rule: imports functions that need a TPU from `estimator_spec.tpu`, which has the host's, too.

Does not: choose the host. The environment variable TPU_COLUMNS_CPU does.
"""

from __future__ import annotations

from estimator_spec.migrate.old_names import Fate
from estimator_spec.migrate.rule import Rule

RULE = Rule(
    "tpu-functions",
    "CrossShardOptimizer, TPUClusterResolver and tf.tpu.* come from estimator_spec.tpu",
    "running-before-touching-a-line",
    fates=frozenset({Fate.ON_TPU}),
)
