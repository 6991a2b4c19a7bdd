# SPDX-License-Identifier: Apache-2.0
"""Defines what canned estimators of `tf.contrib.learn` share: predictions, parts of models."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from estimator_spec.canned.hidden_layers import HiddenLayers
from estimator_spec.legacy.contrib.learn.estimator import Estimator
from estimator_spec.legacy.contrib.learn.model_fn_ops import PredictionKey
from estimator_spec.legacy.contrib.learn.models import DeepPart, LinearPart


class _Predicting(Estimator):
    """Base of the canned estimators: how they return predictions."""

    def predict(
        self,
        x: Any = None,
        input_fn: Callable[..., Any] | None = None,
        batch_size: int | None = None,
        outputs: Iterable[str] | None = None,
        as_iterable: bool = True,
        iterate_batches: bool = False,
    ) -> Any:
        """Returns the likeliest classes, or the numbers; or `outputs` by name.

        The arguments are those of `Estimator.predict`.
        """
        if not outputs:
            return self._predict_main(x, input_fn, batch_size, as_iterable)
        return super().predict(x, input_fn, batch_size, outputs, as_iterable, iterate_batches)

    def _predict_main(self, *args: Any) -> Any:
        """Returns the predictions without `outputs`."""
        raise NotImplementedError

    def _predict_one(
        self,
        key: str,
        x: Any = None,
        input_fn: Any = None,
        batch_size: Any = None,
        as_iterable: bool = True,
    ) -> Any:
        """Returns one prediction of each example; takes the arguments of `Estimator.predict`."""
        found = super().predict(x, input_fn, batch_size, [key], as_iterable)
        return (prediction[key] for prediction in found) if as_iterable else found[key]


class Classifier(_Predicting):
    """Methods of the estimators that classify."""

    def predict_classes(self, *args: Any, **kwargs: Any) -> Any:
        """Returns the likeliest class of each example; takes the arguments of `_predict_one`."""
        return self._predict_one(PredictionKey.CLASSES, *args, **kwargs)

    def predict_proba(self, *args: Any, **kwargs: Any) -> Any:
        """Returns the probabilities of all classes, [classes] an example; see above."""
        return self._predict_one(PredictionKey.PROBABILITIES, *args, **kwargs)

    def _predict_main(self, *args: Any) -> Any:
        return self.predict_classes(*args)


class Regressor(_Predicting):
    """Methods of the estimators of regressions."""

    def predict_scores(self, *args: Any, **kwargs: Any) -> Any:
        """Returns the predicted number of each example; takes the arguments of `_predict_one`."""
        return self._predict_one(PredictionKey.SCORES, *args, **kwargs)

    def _predict_main(self, *args: Any) -> Any:
        return self.predict_scores(*args)


def deep_part(
    columns: Any,
    hidden_units: Any,
    optimizer: Any,
    activation_fn: Any,
    dropout: float | None,
    embedding_lr_multipliers: Any,
    min_slice_size: int | None,
) -> DeepPart:
    """Returns the deep part of a model, from arguments of an estimator.

    Raises:
        ValueError: there are no columns, or an argument isn't restored.
        TypeError: the hidden units are no list.
    """
    if embedding_lr_multipliers:
        raise ValueError(
            "embedding_lr_multipliers aren't restored. Leave them out, or multiply the gradients "
            "in a model_fn."
        )
    if not columns:
        raise ValueError("feature_columns of a deep model must not be empty.")
    layers = HiddenLayers.of(hidden_units, activation_fn, dropout, batch_norm=False)
    return DeepPart(list(columns), layers, optimizer, min_slice_size)


def linear_part(columns: Any, optimizer: Any, joint_weights: Any) -> LinearPart:
    """Returns the linear part of a model, from arguments of an estimator.

    Raises:
        ValueError: there are no columns, or an argument isn't restored.
    """
    if joint_weights:
        raise ValueError(
            "_joint_weights=True isn't restored: it puts the weights of all columns into one "
            "variable. Leave it out; the numbers are the same."
        )
    if not columns:
        raise ValueError("feature_columns of a linear model must not be empty.")
    return LinearPart(list(columns), optimizer)
