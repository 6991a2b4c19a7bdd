# SPDX-License-Identifier: Apache-2.0
"""Rule: names of `tf.estimator`, `tf.contrib.tpu` and others that have a public name now.

Does not: follow names through other modules of the program, or through attributes of objects
(`self.tpu = tf.contrib.tpu`); expand `from module import *`; keep an import for a module that isn't
migrated with this one, unless `__all__` lists the name.
"""

from __future__ import annotations

from estimator_spec.migrate.old_names import Fate
from estimator_spec.migrate.rule import Rule

RULE = Rule(
    "old-names",
    "tf.estimator, tf.contrib.tpu, TPU columns and their other spellings get their present names",
    "imports-old-spelling-to-new",
    fates=frozenset({Fate.PUBLIC}),
)
