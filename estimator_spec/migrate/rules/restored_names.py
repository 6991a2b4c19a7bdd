# SPDX-License-Identifier: Apache-2.0
"""Rule: removed modules and names without a public replacement come from `restored`.

`from tensorflow.contrib import crf` becomes
`crf = estimator_spec.restored("tensorflow.contrib.crf")`.

Does not: touch a name whose absence the program handles by `try`.
"""

from __future__ import annotations

from estimator_spec.migrate.old_names import Fate
from estimator_spec.migrate.rule import Rule

RULE = Rule(
    "restored-names",
    "other names of tf.contrib and private names come from estimator_spec.restored",
    "imports-old-spelling-to-new",
    fates=frozenset({Fate.RESTORED, Fate.LIBRARY, Fate.MODULE}),
)
