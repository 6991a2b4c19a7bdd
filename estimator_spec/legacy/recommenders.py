# SPDX-License-Identifier: Apache-2.0
"""Puts the layer of `estimator_spec.mid_level.recommenders` in its place in TF Recommenders.

The library isn't imported for it: if the program imports it later, the layer is put in its place
then, before the library's other modules take it.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
import types
from collections.abc import Sequence
from typing import Any

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
    if _HOME in sys.modules:
        _replace(sys.modules[_HOME], changes)
    else:
        changes.add_finder(_Finder(changes), first=True)


def _replace(home: types.ModuleType, changes: ReversibleChanges) -> None:
    from estimator_spec.mid_level import recommenders

    own = getattr(home, _NAME)
    layer = recommenders.embedding_layer(own)
    for module in (home, *(sys.modules.get(name) for name in _USERS)):
        if module is not None and vars(module).get(_NAME) is own:
            changes.set_attribute(module, _NAME, layer)


class _Finder(importlib.abc.MetaPathFinder):
    """Import finder for the layer's module alone."""

    def __init__(self, changes: ReversibleChanges) -> None:
        self._changes = changes

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: types.ModuleType | None = None,
    ) -> importlib.machinery.ModuleSpec | None:
        """See `importlib.abc.MetaPathFinder`."""
        if fullname != _HOME:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader, self._changes)
        return spec


class _Loader(importlib.abc.Loader):
    """Loader of the layer's module that replaces the layer after the module has run."""

    def __init__(self, loader: Any, changes: ReversibleChanges) -> None:
        self._loader = loader
        self._changes = changes

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType | None:
        """See `importlib.abc.Loader`."""
        return self._loader.create_module(spec)  # type: ignore[no-any-return]

    def exec_module(self, module: types.ModuleType) -> None:
        """Runs the module, and replaces the layer."""
        self._loader.exec_module(module)
        _replace(module, self._changes)
