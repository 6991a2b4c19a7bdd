# SPDX-License-Identifier: Apache-2.0
"""Names of `tf.estimator.experimental`."""

from __future__ import annotations

from estimator_spec.canned.kmeans import KMeansClustering as KMeans
from estimator_spec.canned.saved_model_estimator import SavedModelEstimator
from estimator_spec.core.driver.early_stopping import (
    make_early_stopping_hook,
    make_stop_at_checkpoint_step_hook,
    stop_if_higher_hook,
    stop_if_lower_hook,
    stop_if_no_decrease_hook,
    stop_if_no_increase_hook,
)
from estimator_spec.core.driver.in_memory_evaluation import InMemoryEvaluatorHook
from estimator_spec.core.export.receivers import build_raw_supervised_input_receiver_fn
from estimator_spec.core.user_functions.logit_fn import call_logit_fn
from tpu_columns.lazy_names import public_dir

__all__ = [
    "InMemoryEvaluatorHook",
    "KMeans",
    "SavedModelEstimator",
    "build_raw_supervised_input_receiver_fn",
    "call_logit_fn",
    "make_early_stopping_hook",
    "make_stop_at_checkpoint_step_hook",
    "stop_if_higher_hook",
    "stop_if_lower_hook",
    "stop_if_no_decrease_hook",
    "stop_if_no_increase_hook",
]

__dir__ = public_dir(__name__)
