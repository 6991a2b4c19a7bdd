# SPDX-License-Identifier: Apache-2.0
"""Table of restored names: functions that make or extend estimators, and parsing specs."""

from __future__ import annotations

from estimator_spec.legacy.name_rows import Group

EXTENDERS = (
    Group(
        "estimator estimator_py.estimator_lib estimator_py.extenders contrib.estimator "
        "contrib.estimator.python.estimator.extenders",
        "estimator_spec",
        "add_metrics",
    ),
    Group(
        "contrib.estimator contrib.estimator.python.estimator.extenders",
        "estimator_spec.legacy.contrib_estimator",
        "clip_gradients_by_norm forward_features",
    ),
    Group(
        "contrib.estimator contrib.estimator.python.estimator.export",
        "estimator_spec.legacy.contrib_estimator",
        "export_all_saved_models export_saved_model_for_mode",
    ),
    Group("contrib.estimator", "estimator_spec", "call_logit_fn"),
    Group(
        "estimator estimator_py.estimator_lib estimator_py.canned.parsing_utils",
        "estimator_spec",
        "classifier_parse_example_spec regressor_parse_example_spec",
    ),
    Group(
        "estimator_py.canned.parsing_utils",
        "estimator_spec",
        "classifier_parse_example_spec_v2=classifier_parse_example_spec "
        "regressor_parse_example_spec_v2=regressor_parse_example_spec",
    ),
    # tf_keras' `tf.keras.estimator.model_to_estimator`, of both versions, calls the second one.
    Group("estimator_py.estimator_lib", "estimator_spec", "model_to_estimator"),
    Group("estimator_py.keras_lib", "estimator_spec.legacy.estimator_parts", "model_to_estimator"),
)
