# SPDX-License-Identifier: Apache-2.0
"""Table of restored names: heads of `tf.estimator`, `tf.contrib.estimator` and their modules."""

from __future__ import annotations

from estimator_spec.legacy.name_rows import parse_rows

HEADS = parse_rows(
    """
    [estimator_spec.heads]
    estimator estimator_py.estimator_lib:
      BinaryClassHead Head LogisticRegressionHead MultiClassHead MultiHead MultiLabelHead
      PoissonRegressionHead RegressionHead
    estimator_py.head.base_head: Head
    estimator_py.head.binary_class_head: BinaryClassHead
    estimator_py.head.multi_class_head: MultiClassHead
    estimator_py.head.multi_head: MultiHead
    estimator_py.head.multi_label_head: MultiLabelHead
    estimator_py.head.regression_head: LogisticRegressionHead PoissonRegressionHead RegressionHead
    estimator_py.head.head_utils: binary_or_multi_class_head
    estimator_py.canned.metric_keys: MetricKeys
    estimator_py.canned.prediction_keys: PredictionKeys

    [estimator_spec.heads.inputs]
    estimator_py.head.base_head:
      check_dense_labels_match_logits_and_reshape=dense_labels check_logits_final_dim=check_logits
      get_weights_and_check_match_logits=example_weights
    estimator_py.canned.head:
      _check_dense_labels_match_logits_and_reshape=dense_labels _check_logits_final_dim=check_logits
      _get_weights_and_check_match_logits=example_weights

    [estimator_spec.heads.losses]
    estimator_py.head.base_head:
      validate_loss_fn_args=check_loss_fn validate_loss_reduction=check_reduction

    [estimator_spec.heads.first_generation]
    estimator_py.canned.head:
      LossSpec _Head=HeadV1
      _binary_logistic_head_with_sigmoid_cross_entropy_loss=binary_logistic_head_with_sigmoid_cross_entropy_loss
      _binary_logistic_or_multi_class_head=binary_logistic_or_multi_class_head
      _multi_class_head_with_softmax_cross_entropy_loss=multi_class_head_with_softmax_cross_entropy_loss
      _regression_head=regression_head

    [estimator_spec.heads.first_generation.contrib]
    contrib.estimator contrib.estimator.python.estimator.head:
      binary_classification_head logistic_regression_head multi_class_head multi_label_head
      poisson_regression_head regression_head
    contrib.estimator contrib.estimator.python.estimator.multi_head: multi_head
    """
)
