# SPDX-License-Identifier: Apache-2.0
"""Configuration of runs: `RunConfig`, `TPUConfig` and TF_CONFIG."""

from typing import TYPE_CHECKING

from tpu_columns import lazy_names

if TYPE_CHECKING:
    # isort: off
    from estimator_spec.core.run_config.run_config import (
        RunConfig as RunConfig,
        get_default_session_config as get_default_session_config,
        path_to_str as path_to_str,
    )
    from estimator_spec.core.run_config.task_type import TaskType as TaskType
    from estimator_spec.core.run_config.tpu_config import (
        InputPipelineConfig as InputPipelineConfig,
        TPUConfig as TPUConfig,
    )
    from estimator_spec.core.run_config.tpu_run_config import TPURunConfig as TPURunConfig
else:
    __getattr__, __dir__, __all__ = lazy_names.attach(__name__)
