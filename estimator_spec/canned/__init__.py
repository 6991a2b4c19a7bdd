# SPDX-License-Identifier: Apache-2.0
"""Canned estimators: models made of feature columns and a head, without a model_fn.

Here are those of `tf.estimator`, the second generation; `estimator_spec.canned.v1` has those of
`tf.compat.v1.estimator`. Variables have the same names as in TensorFlow, so that checkpoints of
either can be continued in the other.
"""

from typing import TYPE_CHECKING

from tpu_columns import lazy_names

if TYPE_CHECKING:
    # isort: off
    from estimator_spec.canned.baseline import (
        BaselineClassifier as BaselineClassifier,
        BaselineEstimator as BaselineEstimator,
        BaselineRegressor as BaselineRegressor,
    )
    from estimator_spec.canned.boosted_trees import (
        BoostedTreesClassifier as BoostedTreesClassifier,
        BoostedTreesEstimator as BoostedTreesEstimator,
        BoostedTreesRegressor as BoostedTreesRegressor,
    )
    from estimator_spec.canned.dnn import (
        DNNClassifier as DNNClassifier,
        DNNEstimator as DNNEstimator,
        DNNRegressor as DNNRegressor,
        dnn_logit_fn_builder as dnn_logit_fn_builder,
    )
    from estimator_spec.canned.dnn_linear_combined import (
        DNNLinearCombinedClassifier as DNNLinearCombinedClassifier,
        DNNLinearCombinedEstimator as DNNLinearCombinedEstimator,
        DNNLinearCombinedRegressor as DNNLinearCombinedRegressor,
    )
    from estimator_spec.canned.linear import (
        LinearClassifier as LinearClassifier,
        LinearEstimator as LinearEstimator,
        LinearRegressor as LinearRegressor,
        linear_logit_fn_builder as linear_logit_fn_builder,
    )
else:
    __getattr__, __dir__, __all__ = lazy_names.attach(__name__, "v1")
