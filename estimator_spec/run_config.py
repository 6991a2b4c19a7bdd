# SPDX-License-Identifier: Apache-2.0
"""`RunConfig` without and with a `tpu_config`, and the classes of its arguments."""

from typing import TYPE_CHECKING

from tpu_columns import lazy_names

if TYPE_CHECKING:
    # isort: off
    from estimator_spec.core.run_config import (
        InputPipelineConfig as InputPipelineConfig,
        RunConfig as RunConfig,
        TPUConfig as TPUConfig,
        TPURunConfig as TPURunConfig,
        TaskType as TaskType,
        get_default_session_config as get_default_session_config,
        path_to_str as path_to_str,
    )
else:
    __getattr__, __dir__, __all__ = lazy_names.attach(__name__)
