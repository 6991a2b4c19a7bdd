# SPDX-License-Identifier: Apache-2.0
"""Modules whose public names users import."""

MODULES = [
    "tpu_columns",
    "estimator_spec",
    "estimator_spec.canned",
    "estimator_spec.canned.v1",
    "estimator_spec.checkpoints",
    "estimator_spec.compare",
    "estimator_spec.convert",
    "estimator_spec.experimental",
    "estimator_spec.export",
    "estimator_spec.heads",
    "estimator_spec.heads.first_generation",
    "estimator_spec.mid_level",
    "estimator_spec.planning",
    "estimator_spec.run_config",
    "estimator_spec.saved_models",
]
