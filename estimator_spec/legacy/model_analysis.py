# SPDX-License-Identifier: Apache-2.0
"""Reimplements the exports of TensorFlow Model Analysis (TFMA): SavedModels that it evaluates.

TFMA 0.46 and newer have neither the functions nor a reader of the format that they wrote. These
write a graph with the tag 'eval' and signatures of serialized examples that today's TFMA calls:

| signature | outputs |
|---|---|
| `eval` | `features/<key>`, `labels` (or `labels/<key>`), `predictions/<key>`, `weights` |
| `transformed_features` | the features by key, and `weights`: TFMA takes weights from features |
| `transformed_labels` | `labels`, or labels by key: what `label_key` names |
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import tensorflow as tf

from estimator_spec.core.driver import saved_models
from estimator_spec.core.driver.estimator_base import setup_of
from estimator_spec.core.driver.signatures import build_signatures
from estimator_spec.core.export.exporters import FinalExporter, LatestExporter
from estimator_spec.core.user_functions.model_spec import ModeKeys
from estimator_spec.heads.description import describe
from estimator_spec.heads.inputs import weight_key

tf1 = tf.compat.v1

_LABELS, _WEIGHTS = "labels", "weights"


class EvalInputReceiver(NamedTuple):
    """Inputs of an evaluated model.

    Attributes:
        features: tensors by key for the `model_fn`.
        labels: a tensor, tensors by key, or None.
        receiver_tensors: what is fed: serialized examples, by any name.
        input_refs: the example of each row; ignored: a batch has one row an example.
        iterator_initializer: ignored.
    """

    features: Any
    labels: Any
    receiver_tensors: Any
    input_refs: Any = None
    iterator_initializer: Any = None


def build_parsing_eval_input_receiver_fn(
    feature_spec: Mapping[str, Any], label_key: str | None
) -> Callable[[], EvalInputReceiver]:
    """Returns a function that parses serialized tf.Examples for an evaluation.

    Args:
        feature_spec: features by key, as `tf.io.parse_example` takes them.
        label_key: the feature that is the label, and that stays a feature. None: there is none.

    Raises:
        ValueError: no feature has the label's key.
    """
    if label_key is not None and label_key not in feature_spec:
        raise ValueError(
            f"label_key {label_key!r} isn't in feature_spec, which has {sorted(feature_spec)}."
        )

    def eval_input_receiver_fn() -> EvalInputReceiver:
        serialized = tf1.placeholder(tf.string, [None], "input_example_tensor")
        features = tf.io.parse_example(serialized, feature_spec)
        labels = None if label_key is None else features[label_key]
        return EvalInputReceiver(features, labels, {"examples": serialized})

    return eval_input_receiver_fn


def export_eval_saved_model(
    estimator: Any,
    export_dir_base: Any,
    eval_input_receiver_fn: Callable[[], Any],
    serving_input_receiver_fn: Callable[[], Any] | None = None,
    assets_extra: Mapping[str, str] | None = None,
    checkpoint_path: str | None = None,
) -> bytes:
    """Writes a SavedModel that TensorFlow Model Analysis evaluates.

    Args:
        estimator: an `Estimator` of this project.
        export_dir_base: parent directory of the SavedModel, whose name is the time of the export.
        eval_input_receiver_fn: returns an `EvalInputReceiver`.
        serving_input_receiver_fn: returns a `ServingInputReceiver`, for a graph that is served, in
            the same SavedModel. None: there is none.
        assets_extra: files to copy, by their destination below `assets.extra`.
        checkpoint_path: prefix of the checkpoint. None: the latest.

    Returns:
        The path of the SavedModel, as bytes.

    Raises:
        ValueError: there is no receiver function or checkpoint, or a tensor has no name.
    """
    if eval_input_receiver_fn is None:
        raise ValueError("An eval_input_receiver_fn must be defined.")
    receivers = {ModeKeys.EVAL: eval_input_receiver_fn}
    if serving_input_receiver_fn is not None:
        receivers[ModeKeys.PREDICT] = serving_input_receiver_fn
    weights = _weight_key(estimator)

    def signatures(spec: Any, receiver: Any) -> dict[str, Any]:
        if spec.mode != ModeKeys.EVAL:
            return build_signatures(spec, receiver, spec.mode)
        return _eval_signatures(spec, receiver, weights)

    return saved_models.export(
        setup_of(estimator),
        export_dir_base,
        receivers,
        assets_extra=assets_extra,
        checkpoint_path=checkpoint_path,
        signatures=signatures,
    )


def _weight_key(estimator: Any) -> str | None:
    """Returns the feature with the weights of a canned estimator's examples, or None."""
    model = getattr(estimator, "canned_model", None)
    if model is None:
        return None
    try:
        keys = {weight_key(each.weight_column) for each in describe(model.head)}
    except ValueError:  # a head of the program's own
        return None
    return keys.pop() if len(keys) == 1 else None


def _eval_signatures(spec: Any, receiver: Any, weights: str | None) -> dict[str, Any]:
    """Returns the signatures of an evaluation's graph; see the module."""
    features = _by_key(receiver.features, "feature")
    if weights in features:
        features = {**features, _WEIGHTS: features[weights]}
    labels = {} if receiver.labels is None else _by_key(receiver.labels, _LABELS)
    predictions = _by_key(spec.predictions, "predictions")
    outputs = {f"features/{key}": value for key, value in features.items() if key != _WEIGHTS}
    outputs |= {
        key if key == _LABELS else f"{_LABELS}/{key}": value for key, value in labels.items()
    }
    outputs |= {f"predictions/{key}": value for key, value in predictions.items()}
    if _WEIGHTS in features:
        outputs[_WEIGHTS] = features[_WEIGHTS]
    inputs = _by_key(receiver.receiver_tensors, "examples")
    groups = {"eval": outputs, "transformed_features": features, "transformed_labels": labels}
    return {
        name: tf1.saved_model.predict_signature_def(inputs, found)
        for name, found in groups.items()
        if found
    }


def _by_key(tensors: Any, default_key: str) -> dict[str, Any]:
    """Returns tensors by key, those of other kinds as dense ones.

    Args:
        tensors: a tensor, or tensors by key.
        default_key: the key of a tensor without one.
    """
    if not isinstance(tensors, Mapping):
        tensors = {default_key: tensors}
    return {str(key): _dense(value) for key, value in tensors.items()}


def _dense(value: Any) -> Any:
    if isinstance(value, (tf.SparseTensor, tf1.SparseTensorValue)):
        return tf.sparse.to_dense(value)
    if isinstance(value, tf.RaggedTensor):
        return value.to_tensor()
    return tf.convert_to_tensor(value)


class _EvalExport:
    """An estimator as an exporter sees it, whose exports are those of TFMA."""

    def __init__(self, estimator: Any, eval_input_receiver_fn: Callable[[], Any]) -> None:
        self._estimator = estimator
        self._eval_input_receiver_fn = eval_input_receiver_fn
        self.model_dir = estimator.model_dir

    def export_saved_model(
        self,
        export_dir_base: Any,
        serving_input_receiver_fn: Callable[[], Any] | None,
        assets_extra: Mapping[str, str] | None,
        as_text: bool,
        checkpoint_path: str | None,
    ) -> bytes:
        """Writes a SavedModel; see `export_eval_saved_model`."""
        del as_text
        return export_eval_saved_model(
            self._estimator,
            os.fspath(export_dir_base),
            self._eval_input_receiver_fn,
            serving_input_receiver_fn,
            assets_extra,
            checkpoint_path,
        )


class EvalFinalExporter(FinalExporter):
    """Exports for TFMA once, when training has reached `TrainSpec.max_steps`.

    Args:
        name: directory of the export, below `<model_dir>/export`.
        eval_input_receiver_fn: returns an `EvalInputReceiver`.
        serving_input_receiver_fn: as for `export_eval_saved_model`.
        assets_extra: as for `export_eval_saved_model`.
    """

    def __init__(
        self,
        name: str,
        eval_input_receiver_fn: Callable[[], Any],
        serving_input_receiver_fn: Callable[[], Any] | None = None,
        assets_extra: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(name, serving_input_receiver_fn, assets_extra)
        self._eval_input_receiver_fn = eval_input_receiver_fn

    def export(self, estimator: Any, *args: Any, **kwargs: Any) -> Any:
        """Exports the checkpoint, or skips it; see `estimator_spec.Exporter.export`."""
        return super().export(_EvalExport(estimator, self._eval_input_receiver_fn), *args, **kwargs)


class EvalLatestExporter(LatestExporter):
    """Exports for TFMA after each evaluation.

    Args:
        name: directory of the exports, below `<model_dir>/export`.
        eval_input_receiver_fn: returns an `EvalInputReceiver`.
        serving_input_receiver_fn: as for `export_eval_saved_model`.
        exports_to_keep: number of exports to keep; older ones are deleted. None keeps all.

    Raises:
        ValueError: `exports_to_keep` isn't positive.
    """

    def __init__(
        self,
        name: str,
        eval_input_receiver_fn: Callable[[], Any],
        serving_input_receiver_fn: Callable[[], Any] | None = None,
        exports_to_keep: int | None = 5,
    ) -> None:
        super().__init__(name, serving_input_receiver_fn, exports_to_keep=exports_to_keep)
        self._eval_input_receiver_fn = eval_input_receiver_fn

    def export(self, estimator: Any, *args: Any, **kwargs: Any) -> Any:
        """Exports the checkpoint; see `estimator_spec.Exporter.export`."""
        return super().export(_EvalExport(estimator, self._eval_input_receiver_fn), *args, **kwargs)


def adapt_to_remove_metrics(exporter: Any, remove_metrics: Any) -> Any:
    """Returns the exporter: what it writes has no metrics to remove; TFMA computes its own.

    Args:
        exporter: an exporter of this module.
        remove_metrics: ignored.
    """
    del remove_metrics
    return exporter
