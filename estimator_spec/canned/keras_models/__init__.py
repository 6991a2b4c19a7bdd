# SPDX-License-Identifier: Apache-2.0
"""Trains compiled Keras 2 models by an Estimator: `model_to_estimator`."""

from estimator_spec.canned.keras_models.conversion import model_to_estimator

__all__ = ["model_to_estimator"]
