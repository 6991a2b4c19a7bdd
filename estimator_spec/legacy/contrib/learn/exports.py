# SPDX-License-Identifier: Apache-2.0
"""Exports models of `tf.contrib.learn` as SavedModels, at the end of an `Experiment`, too."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import tensorflow as tf

from estimator_spec.core.export import exporters, listed_files
from estimator_spec.legacy.contrib.learn import column_layers
from estimator_spec.legacy.contrib.learn.model_fn_ops import (
    InputFnOps,
    ModelFnOps,
    PredictionKey,
    ProblemType,
    get_output_alternatives,
)

tf1 = tf.compat.v1

DEFAULT_INPUT_KEY = "default_input_alternative"
_SERVING = tf.saved_model.DEFAULT_SERVING_SIGNATURE_DEF_KEY
_CLASSES = (ProblemType.CLASSIFICATION, ProblemType.LOGISTIC_REGRESSION)


class _ContribReceiver(NamedTuple):
    """Receiver of an export, as the driver takes it."""

    features: Any
    inputs: InputFnOps


def receiver_fn(serving_input_fn: Callable[[], Any]) -> Callable[[], _ContribReceiver]:
    """Returns the receiver function of an export, from a function that returns `InputFnOps`.

    A program's function may also return a `ServingInputReceiver` of `tf.estimator`.
    """

    def function() -> _ContribReceiver:
        inputs = serving_input_fn()
        if hasattr(inputs, "receiver_tensors"):
            inputs = InputFnOps(inputs.features, None, inputs.receiver_tensors)
        if not isinstance(inputs, tuple) or len(inputs) != 3:
            raise ValueError(
                "serving_input_fn must return a tf.contrib.learn.InputFnOps (features, labels, "
                f"default_inputs). It returned {inputs!r}."
            )
        inputs = InputFnOps(*inputs)
        return _ContribReceiver(inputs.features, inputs)

    return function


def get_input_alternatives(inputs: InputFnOps) -> tuple[dict[str, Any], Any]:
    """Returns the sets of tensors that a request may have, by name, and the features.

    Args:
        inputs: an `InputFnOps`.

    Raises:
        ValueError: there are no default inputs or no features.
    """
    features = inputs.features
    if features is None or (isinstance(features, dict) and not features):
        raise ValueError("Features must be defined: the serving_input_fn's result has none.")
    if not inputs.default_inputs:
        raise ValueError("default_inputs must be defined: the tensors of a request, by name.")
    return {DEFAULT_INPUT_KEY: inputs.default_inputs}, features


def build_standardized_signature_def(
    input_tensors: Mapping[str, Any], output_tensors: Mapping[str, Any], problem_type: Any
) -> Any:
    """Returns the signature of inputs and outputs.

    Args:
        input_tensors: tensors by name. A single one of strings is taken for serialized examples.
        output_tensors: tensors by name.
        problem_type: a `ProblemType`. Classifications and regressions of serialized examples have
            signatures of these kinds, others that of predictions.
    """
    tensors = list(input_tensors.values())
    takes_examples = len(tensors) == 1 and tensors[0].dtype == tf.string
    if takes_examples and problem_type in _CLASSES:
        classes = output_tensors.get(PredictionKey.CLASSES)
        if classes is not None and classes.dtype != tf.string:
            classes = None
        scores = output_tensors.get(
            PredictionKey.PROBABILITIES, output_tensors.get(PredictionKey.SCORES)
        )
        return tf1.saved_model.classification_signature_def(tensors[0], classes, scores)
    if (
        takes_examples
        and problem_type == ProblemType.LINEAR_REGRESSION
        and len(output_tensors) == 1
    ):
        return tf1.saved_model.regression_signature_def(tensors[0], *output_tensors.values())
    return tf1.saved_model.predict_signature_def(input_tensors, output_tensors)


def build_signatures(receiver: Any, ops: ModelFnOps, default_key: str | None) -> dict[str, Any]:
    """Returns the signatures of an export: one for each inputs and outputs, and the default.

    Args:
        receiver: what the function of `receiver_fn` returned.
        ops: the model.
        default_key: name of the default output, or None.
    """
    inputs, _ = get_input_alternatives(receiver.inputs)
    outputs, default = get_output_alternatives(ops, default_key)

    def signature(output_key: str | None) -> Any:
        problem_type, tensors = outputs[output_key]
        return build_standardized_signature_def(inputs[DEFAULT_INPUT_KEY], tensors, problem_type)

    found = {f"{DEFAULT_INPUT_KEY}:{key or 'None'}": signature(key) for key in outputs}
    return {**found, _SERVING: signature(default)}


def build_parsing_serving_input_fn(
    feature_spec: Mapping[str, Any], default_batch_size: int | None = None
) -> Callable[[], InputFnOps]:
    """Returns a serving_input_fn of serialized examples.

    Args:
        feature_spec: specification of the features for `tf.io.parse_example`.
        default_batch_size: number of examples of a request. None: any.
    """

    def input_fn() -> InputFnOps:
        examples = tf1.placeholder(tf.string, [default_batch_size], "input_example_tensor")
        features = tf1.parse_example(examples, dict(feature_spec))
        return InputFnOps(features, None, {"examples": examples})

    return input_fn


def build_default_serving_input_fn(
    features: Mapping[str, Any], default_batch_size: int | None = None
) -> Callable[[], InputFnOps]:
    """Returns a serving_input_fn with a placeholder for each feature.

    Args:
        features: tensors by name, whose dtypes and shapes but for the batch the placeholders have.
        default_batch_size: number of examples of a request. None: any.
    """

    def input_fn() -> InputFnOps:
        made = {
            name: tf1.placeholder(t.dtype, [default_batch_size, *t.shape[1:]], t.op.name)
            for name, t in features.items()
        }
        return InputFnOps(made, None, made)

    return input_fn


class ExportStrategy(NamedTuple):
    """A way to export an estimator.

    Attributes:
        name: the directory's name below `export` in the estimator's.
        export_fn: function of the estimator, the directory, and any of `checkpoint_path` and
            `eval_result` that returns the path of the export.
        strip_default_attrs: passed to `export_fn` if it takes it and this is set.
    """

    name: str
    export_fn: Callable[..., Any]
    strip_default_attrs: bool | None = None

    def export(
        self, estimator: Any, export_path: Any, checkpoint_path: Any = None, eval_result: Any = None
    ) -> Any:
        """Exports an estimator, and returns the path.

        Args:
            estimator: the estimator.
            export_path: directory of the exports.
            checkpoint_path: prefix of the checkpoint. None: the latest.
            eval_result: the last evaluation's metrics, or None.
        """
        names = inspect.signature(self.export_fn).parameters
        offered = {
            "checkpoint_path": checkpoint_path,
            "eval_result": eval_result,
            "strip_default_attrs": self.strip_default_attrs,
        }
        chosen = {
            name: value for name, value in offered.items() if name in names and value is not None
        }
        return self.export_fn(estimator, export_path, **chosen)


def make_export_strategy(
    serving_input_fn: Callable[[], Any],
    default_output_alternative_key: str | None = None,
    assets_extra: Mapping[str, str] | None = None,
    as_text: bool = False,
    exports_to_keep: int | None = 5,
    strip_default_attrs: bool | None = None,
) -> ExportStrategy:
    """Returns the strategy 'Servo', which exports SavedModels.

    Args:
        serving_input_fn: function that returns an `InputFnOps`, or for an estimator of
            `tf.estimator` a `ServingInputReceiver`.
        default_output_alternative_key: as for `Estimator.export_savedmodel`; None for an estimator
            of `tf.estimator`.
        assets_extra: files to copy, by their destination below `assets.extra`.
        as_text: writes the graph as text.
        exports_to_keep: number of exports to keep; older ones are removed. None keeps all.
        strip_default_attrs: leaves out attributes that have their default value.
    """

    def export_fn(
        estimator: Any,
        export_dir_base: Any,
        checkpoint_path: Any = None,
        strip_default_attrs: bool | None = False,
    ) -> Any:
        options: dict[str, Any] = {
            "assets_extra": assets_extra,
            "as_text": as_text,
            "checkpoint_path": checkpoint_path,
            "strip_default_attrs": bool(strip_default_attrs),
        }
        if default_output_alternative_key is not None:
            options["default_output_alternative_key"] = default_output_alternative_key
        path = estimator.export_savedmodel(export_dir_base, serving_input_fn, **options)
        if exports_to_keep is not None:
            listed_files.list_files(tf.compat.as_str_any(path))
            garbage_collect_exports(export_dir_base, exports_to_keep)
        return path

    return ExportStrategy("Servo", export_fn, strip_default_attrs)


def make_parsing_export_strategy(
    feature_columns: Any,
    default_output_alternative_key: str | None = None,
    assets_extra: Mapping[str, str] | None = None,
    as_text: bool = False,
    exports_to_keep: int | None = 5,
    target_core: bool = False,
    strip_default_attrs: bool | None = None,
) -> ExportStrategy:
    """Returns the strategy of `make_export_strategy` for serialized examples.

    Args:
        feature_columns: columns of the features in them.
        default_output_alternative_key: as for `make_export_strategy`, as the arguments below.
        assets_extra: see there.
        as_text: see there.
        exports_to_keep: see there.
        target_core: ignored; both kinds of estimators take the function.
        strip_default_attrs: see there.
    """
    del target_core
    if column_layers.is_contrib(feature_columns):
        spec = column_layers.create_feature_spec_for_parsing(feature_columns)
    else:
        spec = tf.feature_column.make_parse_example_spec(feature_columns)
    return make_export_strategy(
        build_parsing_serving_input_fn(spec),
        *(default_output_alternative_key, assets_extra, as_text, exports_to_keep),
        strip_default_attrs,
    )


def garbage_collect_exports(export_dir_base: Any, exports_to_keep: int | None) -> None:
    """Removes the oldest exports of a directory, of those that a strategy of this version wrote.

    Args:
        export_dir_base: the directory.
        exports_to_keep: number of exports to keep. None keeps all.
    """
    if exports_to_keep is not None:
        exporters.remove_old_exports(tf.compat.as_str_any(export_dir_base), exports_to_keep)
