# SPDX-License-Identifier: Apache-2.0
"""Canned estimators of the first generation, those of `tf.compat.v1.estimator`.

Their optimizers are `tf.compat.v1.train.Optimizer`s, the loss of a batch is a sum, variables are
partitioned, and default learning rates differ from those of the second generation.
"""

from estimator_spec.canned.v1.baseline import (
    BaselineClassifier,
    BaselineEstimator,
    BaselineRegressor,
)
from estimator_spec.canned.v1.dnn import (
    DNNClassifier,
    DNNEstimator,
    DNNRegressor,
    dnn_logit_fn_builder,
)
from estimator_spec.canned.v1.dnn_linear_combined import (
    DNNLinearCombinedClassifier,
    DNNLinearCombinedEstimator,
    DNNLinearCombinedRegressor,
)
from estimator_spec.canned.v1.linear import (
    LinearClassifier,
    LinearEstimator,
    LinearRegressor,
    linear_logit_fn_builder,
)
from tpu_columns.lazy_names import public_dir

__all__ = [
    "BaselineClassifier",
    "BaselineEstimator",
    "BaselineRegressor",
    "DNNClassifier",
    "DNNEstimator",
    "DNNLinearCombinedClassifier",
    "DNNLinearCombinedEstimator",
    "DNNLinearCombinedRegressor",
    "DNNRegressor",
    "LinearClassifier",
    "LinearEstimator",
    "LinearRegressor",
    "dnn_logit_fn_builder",
    "linear_logit_fn_builder",
]

__dir__ = public_dir(__name__)
