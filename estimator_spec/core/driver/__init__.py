# SPDX-License-Identifier: Apache-2.0
"""Trains, evaluates, predicts with and exports models in TensorFlow sessions."""

from __future__ import annotations

from estimator_spec.core.driver.errors import CheckpointError, ModelDirError
from estimator_spec.core.driver.estimator import Estimator
from estimator_spec.core.driver.in_memory_evaluation import InMemoryEvaluatorHook
from estimator_spec.core.driver.tpu_estimator import ExportSavedModelApiVersion, TPUEstimator

__all__ = [
    "CheckpointError",
    "Estimator",
    "ExportSavedModelApiVersion",
    "InMemoryEvaluatorHook",
    "ModelDirError",
    "TPUEstimator",
]
