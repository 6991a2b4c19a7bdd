# SPDX-License-Identifier: Apache-2.0
"""From an embedding specification to a running, saved and served model.

The names that programs written for `TPUEstimator` use, sorted by the room they live in.
"""

from __future__ import annotations

from estimator_spec.export_outputs import (
    ClassificationOutput,
    EvalOutput,
    ExportOutput,
    PredictOutput,
    RegressionOutput,
)
from estimator_spec.model_spec import EstimatorSpec, ModeKeys, TPUEstimatorSpec
from estimator_spec.run_config import InputPipelineConfig, TaskType, TPUConfig
from estimator_spec.run_config import TPURunConfig as RunConfig
from estimator_spec.warm_start import VocabInfo, WarmStartSettings

__all__ = [
    # run_config
    "InputPipelineConfig",
    "RunConfig",
    "TPUConfig",
    "TaskType",
    # model_spec
    "EstimatorSpec",
    "ModeKeys",
    "TPUEstimatorSpec",
    # warm_start
    "VocabInfo",
    "WarmStartSettings",
    # export_outputs
    "ClassificationOutput",
    "EvalOutput",
    "ExportOutput",
    "PredictOutput",
    "RegressionOutput",
]
