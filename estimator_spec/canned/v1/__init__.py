# SPDX-License-Identifier: Apache-2.0
"""Canned estimators of the first generation, those of `tf.compat.v1.estimator`.

Their optimizers are `tf.compat.v1.train.Optimizer`s, the loss of a batch is a sum, variables are
partitioned, and default learning rates differ from those of the second generation.
"""

from typing import TYPE_CHECKING

from tpu_columns import lazy_names

if TYPE_CHECKING:
    # isort: off
    from estimator_spec.canned.v1.baseline import (
        BaselineClassifier as BaselineClassifier,
        BaselineEstimator as BaselineEstimator,
        BaselineRegressor as BaselineRegressor,
    )
    from estimator_spec.canned.v1.dnn import (
        DNNClassifier as DNNClassifier,
        DNNEstimator as DNNEstimator,
        DNNRegressor as DNNRegressor,
        dnn_logit_fn_builder as dnn_logit_fn_builder,
    )
    from estimator_spec.canned.v1.dnn_linear_combined import (
        DNNLinearCombinedClassifier as DNNLinearCombinedClassifier,
        DNNLinearCombinedEstimator as DNNLinearCombinedEstimator,
        DNNLinearCombinedRegressor as DNNLinearCombinedRegressor,
    )
    from estimator_spec.canned.v1.linear import (
        LinearClassifier as LinearClassifier,
        LinearEstimator as LinearEstimator,
        LinearRegressor as LinearRegressor,
        linear_logit_fn_builder as linear_logit_fn_builder,
    )
else:
    __getattr__, __dir__, __all__ = lazy_names.attach(__name__)
