# SPDX-License-Identifier: Apache-2.0
"""Reimplements functions of `tensorflow.contrib.estimator` that extend estimators."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import tensorflow as tf

from estimator_spec.core.driver.estimator import Estimator
from estimator_spec.core.driver.extenders import extend
from estimator_spec.core.export.export_outputs import PredictOutput
from estimator_spec.core.user_functions.model_spec import EstimatorSpec, ModeKeys
from estimator_spec.heads.keys import PREDICT_SIGNATURE
from estimator_spec.legacy.contrib.opt import WrappingOptimizer


class _ClippingOptimizer(WrappingOptimizer):
    """Optimizer that clips gradients by their global norm and passes them to another one."""

    def __init__(self, optimizer: Any, clip_norm: Any) -> None:
        super().__init__(optimizer, f"Clipped{optimizer.get_name()}")
        self._clip_norm = clip_norm

    def apply_gradients(
        self, grads_and_vars: Iterable[Any], global_step: Any = None, name: str | None = None
    ) -> Any:
        """Applies the clipped gradients; see `tf.compat.v1.train.Optimizer`."""
        gradients, variables = zip(*grads_and_vars, strict=True)
        clipped, _ = tf.clip_by_global_norm(gradients, self._clip_norm)
        pairs = list(zip(clipped, variables, strict=True))
        return self._optimizer.apply_gradients(pairs, global_step, name)


def clip_gradients_by_norm(optimizer: Any, clip_norm: Any) -> Any:
    """Returns an optimizer that scales gradients down if their global norm is too large.

    Args:
        optimizer: a `tf.compat.v1.train.Optimizer`.
        clip_norm: the largest norm of all gradients together; a positive number or scalar tensor.
    """
    return _ClippingOptimizer(optimizer, clip_norm)


def forward_features(
    estimator: Any,
    keys: str | Iterable[str] | None = None,
    sparse_default_values: Mapping[str, Any] | None = None,
) -> Estimator:
    """Returns an estimator whose predictions include features, by which batch jobs join rows.

    The features are added to the exported predictions of the signatures `serving_default` and
    `predict`, too, as in TensorFlow 1.14.

    Args:
        estimator: an `Estimator` with predictions by name.
        keys: name or names of the features. None: all of them.
        sparse_default_values: values of missing entries by the names of sparse features, which are
            forwarded as dense tensors.

    Raises:
        TypeError: `keys` aren't strings, or (in a prediction) a feature is no tensor.
        ValueError: (in a prediction) a key is no feature, or the name of a prediction.
    """
    if isinstance(keys, str):
        keys = [keys]
    elif keys is not None:
        keys = list(keys)
        for key in keys:
            if not isinstance(key, str):
                raise TypeError(f"All items in keys should be string. Given: {key!r}")
    wanted = keys
    defaults = dict(sparse_default_values or {})

    def add(spec: EstimatorSpec, features: Any, labels: Any, mode: str, config: Any) -> Any:
        del labels, config
        if mode != ModeKeys.PREDICT:
            return spec
        _check_by_name("Features", features)
        _check_by_name("Predictions", spec.predictions)
        forwarded = {
            key: _dense(key, features, defaults) for key in (features if wanted is None else wanted)
        }
        taken = sorted(set(forwarded) & set(spec.predictions))
        if taken:
            raise ValueError(
                f"Key {taken[0]} is already in predictions. The name of a forwarded feature must "
                "not be that of a prediction: rename the feature, or leave it out of `keys`."
            )
        return spec._replace(
            predictions={**spec.predictions, **forwarded},
            export_outputs=_with_features(spec.export_outputs, forwarded),
        )

    return extend(estimator, add)


def _check_by_name(what: str, values: Any) -> None:
    if not isinstance(values, Mapping):
        raise ValueError(f"{what} should be a dict. Given: {values!r}")


def _dense(key: str, features: Mapping[str, Any], defaults: Mapping[str, Any]) -> Any:
    """Returns a feature as a dense tensor."""
    if key not in features:
        raise ValueError(
            f"keys should be exist in features. Key {key} is not in features {sorted(features)}."
        )
    feature = features[key]
    if isinstance(feature, tf.SparseTensor) and key in defaults:
        return tf.sparse.to_dense(feature, default_value=defaults[key])
    if not isinstance(feature, tf.Tensor):
        raise ValueError(
            "Feature should be a Tensor. Please use keys argument of forward_features to filter "
            "unwanted features, or sparse_default_values for sparse ones. Type of "
            f"features[{key}] is {type(feature)}."
        )
    return feature


def _with_features(outputs: Any, forwarded: Mapping[str, Any]) -> Any:
    """Returns export outputs of which those of predictions have the features, too."""
    keys = (tf.saved_model.DEFAULT_SERVING_SIGNATURE_DEF_KEY, PREDICT_SIGNATURE)
    extended = {
        key: PredictOutput({**output.outputs, **forwarded})
        for key, output in (outputs or {}).items()
        if key in keys and isinstance(output, PredictOutput)
    }
    return {**outputs, **extended} if extended else outputs


def export_saved_model_for_mode(
    estimator: Estimator,
    export_dir_base: Any,
    input_receiver_fn: Callable[[], Any],
    assets_extra: Mapping[str, str] | None = None,
    as_text: bool = False,
    checkpoint_path: str | None = None,
    mode: str = ModeKeys.PREDICT,
) -> bytes:
    """Writes a SavedModel of one mode by `Estimator.export_saved_model`; takes its arguments."""
    return estimator.export_saved_model(
        export_dir_base, input_receiver_fn, assets_extra, as_text, checkpoint_path, mode
    )


def export_all_saved_models(estimator: Estimator, *args: Any, **kwargs: Any) -> bytes:
    """Writes a SavedModel of several modes by `Estimator.experimental_export_all_saved_models`."""
    return estimator.experimental_export_all_saved_models(*args, **kwargs)
