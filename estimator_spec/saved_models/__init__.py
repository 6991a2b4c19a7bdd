# SPDX-License-Identifier: Apache-2.0
"""Reads SavedModels of estimators: what their columns, layers and head are; without running them.

>>> from estimator_spec import saved_models
>>> print(saved_models.read("/models/census/export/1589"))                  # doctest: +SKIP

`python -m estimator_spec saved-model` is the command line.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tpu_columns import lazy_names

if TYPE_CHECKING:
    # isort: off
    from estimator_spec.saved_models.columns import RecoveredColumn as RecoveredColumn
    from estimator_spec.saved_models.dead_ops.repair import (
        DeadNode as DeadNode,
        check as check,
        repair as repair,
    )
    from estimator_spec.saved_models.files import (
        GraphFile as GraphFile,
        SavedModelError as SavedModelError,
    )
    from estimator_spec.saved_models.graph import (
        GraphFeature as GraphFeature,
        GraphSignature as GraphSignature,
        GraphVariable as GraphVariable,
        StoredTensor as StoredTensor,
        UnknownPartError as UnknownPartError,
    )
    from estimator_spec.saved_models.head_recovery import RecoveredHead as RecoveredHead
    from estimator_spec.saved_models.layer_recovery import RecoveredLayers as RecoveredLayers
    from estimator_spec.saved_models.recovery import (
        RecoveredModel as RecoveredModel,
        read as read,
    )
else:
    __getattr__, __dir__, __all__ = lazy_names.attach(__name__)
