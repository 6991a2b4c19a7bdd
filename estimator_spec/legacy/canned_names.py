# SPDX-License-Identifier: Apache-2.0
"""Table of restored names: canned estimators, whose two generations have the same names.

`tf.estimator` had the second generation, `tf.compat.v1.estimator` and
`tensorflow_estimator.estimator` the first. A program of
TensorFlow 1, whose `tf` is `tf.compat.v1`, gets the first.
"""

from __future__ import annotations

from estimator_spec.legacy.name_rows import Row, parse_rows


def _family(module: str, family: str) -> tuple[Row, ...]:
    """Returns the names of a family of estimators.

    The module that defined them had both generations, the second with the suffix V2.

    Args:
        module: that module's name.
        family: the first part of the names.
    """
    place = f"estimator_py.canned.{module}"
    return parse_rows(
        f"""
        [estimator_spec.canned]
        estimator_v2: {family}Classifier {family}Regressor {family}Estimator
        {place}:
          {family}ClassifierV2={family}Classifier {family}RegressorV2={family}Regressor
          {family}EstimatorV2={family}Estimator

        [estimator_spec.canned.v1]
        estimator_v1 estimator_py.estimator_lib {place}: {family}Classifier {family}Regressor
        estimator_v1 estimator_py.estimator_lib {place} contrib.estimator: {family}Estimator
        """
    )


CANNED = (
    *_family("baseline", "Baseline"),
    *_family("dnn", "DNN"),
    *_family("dnn_linear_combined", "DNNLinearCombined"),
    *_family("linear", "Linear"),
    *parse_rows(
        """
        [estimator_spec.canned]
        estimator_py.canned.dnn: dnn_logit_fn_builder_v2=dnn_logit_fn_builder
        estimator_py.canned.linear: linear_logit_fn_builder_v2=linear_logit_fn_builder

        [estimator_spec.canned.v1]
        estimator_v1.experimental contrib.estimator estimator_py.canned.dnn \
          estimator_py.estimator_lib:
          dnn_logit_fn_builder
        estimator_v1.experimental contrib.estimator estimator_py.canned.linear \
          estimator_py.estimator_lib:
          linear_logit_fn_builder

        [estimator_spec.canned]
        estimator estimator_py.estimator_lib estimator_py.canned.boosted_trees contrib.estimator:
          BoostedTreesClassifier BoostedTreesEstimator BoostedTreesRegressor

        [estimator_spec.canned.kmeans]
        estimator_v1.experimental: KMeans=KMeansClustering
        estimator_py.canned.kmeans: KMeansClustering

        [estimator_spec.canned.saved_model_estimator]
        estimator_py.canned.saved_model_estimator contrib.estimator \
          contrib.estimator.python.estimator.saved_model_estimator:
          SavedModelEstimator

        [estimator_spec.canned.optimizers]
        estimator_py.canned.optimizers:
          get_optimizer_instance=tf1_optimizer get_optimizer_instance_v2=keras_optimizer
        """
    ),
)
