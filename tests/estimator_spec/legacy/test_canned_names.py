# SPDX-License-Identifier: Apache-2.0
"""Restored names of canned estimators: which generation each spelling gives."""

from __future__ import annotations

import importlib

import pytest

import estimator_spec
from estimator_spec import canned
from estimator_spec.canned import v1
from estimator_spec.experimental import KMeans, SavedModelEstimator
from estimator_spec.legacy.contrib import factorization as contrib_factorization

CANNED = "tensorflow_estimator.python.estimator.canned"


@pytest.fixture(autouse=True)
def installed():
    """Our names in place of TensorFlow's, for the test."""
    with estimator_spec.install(replace=True):
        yield


@pytest.mark.parametrize(
    ("module", "name", "ours"),
    [
        ("tensorflow.estimator", "DNNClassifier", canned.DNNClassifier),
        ("tensorflow.compat.v2.estimator", "LinearRegressor", canned.LinearRegressor),
        ("tensorflow_estimator.estimator", "BaselineEstimator", v1.BaselineEstimator),
        ("tensorflow.compat.v1.estimator", "DNNClassifier", v1.DNNClassifier),
        ("tensorflow.contrib.estimator", "LinearEstimator", v1.LinearEstimator),
        ("tensorflow.compat.v1.estimator.experimental", "KMeans", KMeans),
        (f"{CANNED}.kmeans", "KMeansClustering", KMeans),
        ("tensorflow.contrib.learn", "KMeansClustering", contrib_factorization.KMeansClustering),
        ("tensorflow.contrib.estimator", "SavedModelEstimator", SavedModelEstimator),
        (f"{CANNED}.saved_model_estimator", "SavedModelEstimator", SavedModelEstimator),
        ("tensorflow.contrib.estimator", "dnn_logit_fn_builder", v1.dnn_logit_fn_builder),
        ("tensorflow.python.estimator.estimator_lib", "DNNRegressor", v1.DNNRegressor),
        ("tensorflow.estimator", "BoostedTreesClassifier", canned.BoostedTreesClassifier),
        (f"{CANNED}.boosted_trees", "BoostedTreesRegressor", canned.BoostedTreesRegressor),
        (f"{CANNED}.dnn", "DNNClassifier", v1.DNNClassifier),
        (f"{CANNED}.dnn", "DNNClassifierV2", canned.DNNClassifier),
        (f"{CANNED}.dnn", "dnn_logit_fn_builder_v2", canned.dnn_logit_fn_builder),
        (f"{CANNED}.linear", "linear_logit_fn_builder", v1.linear_logit_fn_builder),
        (f"{CANNED}.baseline", "BaselineClassifier", v1.BaselineClassifier),
        (
            f"{CANNED}.dnn_linear_combined",
            "DNNLinearCombinedClassifierV2",
            canned.DNNLinearCombinedClassifier,
        ),
    ],
)
def test_spellings(module, name, ours):
    """Each spelling gives the class of the generation that it gave in TensorFlow 2.15."""
    assert getattr(importlib.import_module(module), name) is ours


@pytest.mark.parametrize(
    ("module", "name", "instead"),
    [
        ("tensorflow.contrib.boosted_trees", "learner_pb2", "xgboost"),
        ("tensorflow.estimator.experimental", "RNNClassifier", "sequence_input_layer"),
        ("tensorflow.estimator.experimental", "KMeans", "compat.v1.estimator.experimental"),
        ("tensorflow.estimator.experimental", "LinearSDCA", "Ftrl"),
        ("tensorflow.contrib.timeseries", "ARRegressor", "tfp.sts"),
        ("tensorflow.contrib.factorization", "GMM", "GaussianMixture"),
        ("tensorflow.contrib.tensor_forest", "random_forest", "lightgbm"),
    ],
)
def test_other_canned_estimators_are_refused(module, name, instead):
    """The use of an estimator of another kind is refused with what to use instead."""
    scope = {}
    exec(f"from {module} import {name} as found", scope)
    with pytest.raises(AttributeError, match=f"{name} isn't among .*{instead}"):
        scope["found"]()
