# SPDX-License-Identifier: Apache-2.0
"""Canned estimators: models made of feature columns and a head, without a model_fn.

Here are those of `tf.estimator`, the second generation; `estimator_spec.canned.v1` has those of
`tf.compat.v1.estimator`. Variables have the same names as in TensorFlow, so that checkpoints of
either can be continued in the other.
"""

from estimator_spec.canned import v1 as v1
from estimator_spec.canned.baseline import (
    BaselineClassifier,
    BaselineEstimator,
    BaselineRegressor,
)
from estimator_spec.canned.boosted_trees import (
    BoostedTreesClassifier,
    BoostedTreesEstimator,
    BoostedTreesRegressor,
)
from estimator_spec.canned.dnn import (
    DNNClassifier,
    DNNEstimator,
    DNNRegressor,
    dnn_logit_fn_builder,
)
from estimator_spec.canned.dnn_linear_combined import (
    DNNLinearCombinedClassifier,
    DNNLinearCombinedEstimator,
    DNNLinearCombinedRegressor,
)
from estimator_spec.canned.linear import (
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
    "BoostedTreesClassifier",
    "BoostedTreesEstimator",
    "BoostedTreesRegressor",
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
