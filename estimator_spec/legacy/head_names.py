# SPDX-License-Identifier: Apache-2.0
"""Table of restored names: heads of `tf.estimator`, `tf.contrib.estimator` and their modules."""

from __future__ import annotations

from estimator_spec.legacy.name_rows import Group

HEADS = (
    Group(
        "estimator estimator_py.estimator_lib",
        "estimator_spec.heads",
        "BinaryClassHead Head LogisticRegressionHead MultiClassHead MultiHead MultiLabelHead "
        "PoissonRegressionHead RegressionHead",
    ),
    Group("estimator_py.head.base_head", "estimator_spec.heads", "Head"),
    Group(
        "estimator_py.head.base_head",
        "estimator_spec.heads.inputs",
        "check_dense_labels_match_logits_and_reshape=dense_labels "
        "check_logits_final_dim=check_logits get_weights_and_check_match_logits=example_weights",
    ),
    Group(
        "estimator_py.head.base_head",
        "estimator_spec.heads.losses",
        "validate_loss_fn_args=check_loss_fn validate_loss_reduction=check_reduction",
    ),
    Group("estimator_py.head.binary_class_head", "estimator_spec.heads", "BinaryClassHead"),
    Group("estimator_py.head.multi_class_head", "estimator_spec.heads", "MultiClassHead"),
    Group("estimator_py.head.multi_head", "estimator_spec.heads", "MultiHead"),
    Group("estimator_py.head.multi_label_head", "estimator_spec.heads", "MultiLabelHead"),
    Group(
        "estimator_py.head.regression_head",
        "estimator_spec.heads",
        "LogisticRegressionHead PoissonRegressionHead RegressionHead",
    ),
    Group("estimator_py.head.head_utils", "estimator_spec.heads", "binary_or_multi_class_head"),
    Group("estimator_py.canned.metric_keys", "estimator_spec.heads", "MetricKeys"),
    Group("estimator_py.canned.prediction_keys", "estimator_spec.heads", "PredictionKeys"),
    Group(
        "estimator_py.canned.head",
        "estimator_spec.heads.first_generation",
        "LossSpec _Head=HeadV1 "
        "_binary_logistic_head_with_sigmoid_cross_entropy_loss="
        "binary_logistic_head_with_sigmoid_cross_entropy_loss "
        "_binary_logistic_or_multi_class_head=binary_logistic_or_multi_class_head "
        "_multi_class_head_with_softmax_cross_entropy_loss="
        "multi_class_head_with_softmax_cross_entropy_loss "
        "_regression_head=regression_head ",
    ),
    Group(
        "estimator_py.canned.head",
        "estimator_spec.heads.inputs",
        "_check_dense_labels_match_logits_and_reshape=dense_labels "
        "_check_logits_final_dim=check_logits "
        "_get_weights_and_check_match_logits=example_weights",
    ),
    Group(
        "contrib.estimator contrib.estimator.python.estimator.head",
        "estimator_spec.heads.first_generation.contrib",
        "binary_classification_head logistic_regression_head multi_class_head multi_label_head "
        "poisson_regression_head regression_head",
    ),
    Group(
        "contrib.estimator contrib.estimator.python.estimator.multi_head",
        "estimator_spec.heads.first_generation.contrib",
        "multi_head",
    ),
)
