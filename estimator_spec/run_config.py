# SPDX-License-Identifier: Apache-2.0
"""Public names of `estimator_spec.config.run_config`."""

from __future__ import annotations

from estimator_spec.config.run_config import (
    InputPipelineConfig,
    RunConfig,
    TaskType,
    TPUConfig,
    TPURunConfig,
    get_default_session_config,
    path_to_str,
)

__all__ = [
    "InputPipelineConfig",
    "RunConfig",
    "TPUConfig",
    "TPURunConfig",
    "TaskType",
    "get_default_session_config",
    "path_to_str",
]
