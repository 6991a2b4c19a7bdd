# SPDX-License-Identifier: Apache-2.0
"""Trains, evaluates, predicts with and exports models in TensorFlow sessions."""

from __future__ import annotations

from estimator_spec.driver.errors import CheckpointError, ModelDirError
from estimator_spec.driver.estimator import Estimator
from estimator_spec.driver.in_memory_evaluation import InMemoryEvaluatorHook
from estimator_spec.driver.tpu_estimator import ExportSavedModelApiVersion, TPUEstimator

__all__ = [
    "CheckpointError",
    "Estimator",
    "ExportSavedModelApiVersion",
    "InMemoryEvaluatorHook",
    "ModelDirError",
    "TPUEstimator",
]
