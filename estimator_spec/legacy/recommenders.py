# SPDX-License-Identifier: Apache-2.0
"""Puts the layer of `estimator_spec.mid_level.recommenders` in its place in TF Recommenders.

The library isn't imported for it: if the program imports it later, the layer is put in its place
then, before the library's other modules take it.
"""

from __future__ import annotations

import functools
import sys
import types

from estimator_spec.legacy import import_hooks
from estimator_spec.legacy.undo import ReversibleChanges

_HOME = "tensorflow_recommenders.layers.embedding.tpu_embedding_layer"
_NAME = "TPUEmbedding"
# Modules that have taken the layer from its home.
_USERS = (
    "tensorflow_recommenders.layers.embedding",
    "tensorflow_recommenders.layers.feature_multiplexing.unified_embedding",
    "tensorflow_recommenders.experimental.layers.embedding.partial_tpu_embedding",
)


def replace_layer(changes: ReversibleChanges) -> None:
    """Replaces the layer, now or when its module is imported.

    Args:
        changes: undoes it.
    """
    import_hooks.when_imported(_HOME, functools.partial(_replace, changes), changes)


def _replace(changes: ReversibleChanges, home: types.ModuleType) -> None:
    from estimator_spec.mid_level import recommenders

    own = getattr(home, _NAME)
    layer = recommenders.embedding_layer(own)
    for module in (home, *(sys.modules.get(name) for name in _USERS)):
        if module is not None and vars(module).get(_NAME) is own:
            changes.set_attribute(module, _NAME, layer)
