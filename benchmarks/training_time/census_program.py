# SPDX-License-Identifier: Apache-2.0
"""Runs the census example, unedited, without checkpoints: Adam, a host call, dropout."""

from __future__ import annotations

from typing import Any

import census_data
import census_model

import estimator_spec as tpu_estimator
from training_time.program import LOG_FACTOR, LOOP
from training_time.workloads import STEPS_PER_LOG, Workload


def make(workload: Workload, model_dir: str, steps: int, core: dict[str, Any]) -> tuple[Any, Any]:
    """Returns the estimator and input_fn of `examples/census/census.py`."""
    columns = census_model.embedding_columns(census_data.DATA_DIR)
    has_core = "embedding_core" in core
    estimator = tpu_estimator.TPUEstimator(
        census_model.model_fn_builder(columns, model_dir, 0.001, steps, False),
        config=tpu_estimator.RunConfig(
            model_dir=model_dir,
            tf_random_seed=1,
            save_checkpoints_steps=None,
            save_checkpoints_secs=None,
            log_step_count_steps=STEPS_PER_LOG * LOG_FACTOR,
            tpu_config=tpu_estimator.TPUConfig(iterations_per_loop=LOOP),
        ),
        use_tpu=False,
        train_batch_size=workload.batch_size,
        export_to_tpu=False,
        embedding_config_spec=tpu_estimator.EmbeddingConfigSpec(
            feature_columns=columns,
            optimization_parameters=tpu_estimator.AdagradParameters(0.05),
        ),
        **core,
    )
    return estimator, census_data.input_fn_builder(
        census_data.DATA_DIR, census_data.TRAIN_FILE, True, False, columns if has_core else None
    )
