# SPDX-License-Identifier: Apache-2.0
"""Configuration of runs: `RunConfig`, `TPUConfig` and TF_CONFIG."""

from __future__ import annotations

from estimator_spec.core.common.task_type import TaskType
from estimator_spec.core.run_config.run_config import (
    RunConfig,
    get_default_session_config,
    path_to_str,
)
from estimator_spec.core.run_config.tpu_config import InputPipelineConfig, TPUConfig
from estimator_spec.core.run_config.tpu_run_config import RunConfig as TPURunConfig

__all__ = [
    "InputPipelineConfig",
    "RunConfig",
    "TPUConfig",
    "TPURunConfig",
    "TaskType",
    "get_default_session_config",
    "path_to_str",
]
