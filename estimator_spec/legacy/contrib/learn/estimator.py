# SPDX-License-Identifier: Apache-2.0
"""Defines the `Estimator` of `tf.contrib.learn`, around that of `estimator_spec`."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

import numpy as np
import tensorflow as tf

from estimator_spec.core.common.signatures import argument_names, takes_any_keyword
from estimator_spec.legacy.contrib.learn import arrays, exports, metric_spec, monitor_hooks
from estimator_spec.legacy.contrib.learn import model_fn_ops as ops_lib
from estimator_spec.legacy.contrib.learn.core import Core, NotFittedError, StopAfterConstants
from estimator_spec.legacy.contrib.learn.model_fn_ops import ModeKeys, ModelFnOps
from estimator_spec.legacy.contrib.learn.run_config import RunConfig

tf1 = tf.compat.v1

_Estimator = TypeVar("_Estimator", bound="Estimator")


class Estimator:
    """A model that is trained, evaluated and used for predictions.

    Args:
        model_fn: function of features, labels, and any of `mode`, `params`, `config` and
            `model_dir`, that returns a `ModelFnOps`, an `EstimatorSpec`, or a triple of
            predictions, loss and train op.
        model_dir: directory of checkpoints and summaries. None: that of `config`, or else a
            temporary one.
        config: a `RunConfig`; None: the default one.
        params: hyperparameters for `model_fn`.
        feature_engineering_fn: function of features and labels that returns both as the model
            takes them, or None.

    Raises:
        ValueError: the arguments name different directories, or `params` are given to a `model_fn`
            that takes none.
        TypeError: `model_fn` isn't callable.
    """

    def __init__(
        self,
        model_fn: Callable[..., Any] | None = None,
        model_dir: Any = None,
        config: Any = None,
        params: Any = None,
        feature_engineering_fn: Callable[..., Any] | None = None,
    ) -> None:
        if not callable(model_fn):
            raise TypeError(f"model_fn must be a function. Got {model_fn!r}.")
        names = argument_names(model_fn)
        if params is not None and "params" not in names and not takes_any_keyword(model_fn):
            raise ValueError(
                f"Estimator's model_fn ({model_fn}) has less than 4 arguments, but not None params "
                f"({params}) are passed. Add the argument params to it."
            )
        self._model_fn = model_fn
        self._params = params
        self._feature_engineering_fn = feature_engineering_fn
        self._label_specs: Any = None
        self._core = Core(lambda features: None, model_dir, config or RunConfig())
        self._core.outer = self

    @property
    def model_dir(self) -> str:
        """Directory of checkpoints and summaries."""
        return self._core.model_dir

    @property
    def config(self) -> Any:
        """A copy of the configuration."""
        return self._core.config

    @property
    def params(self) -> Any:
        """A copy of the hyperparameters."""
        return copy.deepcopy(self._params)

    @property
    def model_fn(self) -> Callable[..., Any]:
        """The model function."""
        return self._model_fn

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Returns the hyperparameters, as scikit-learn's estimators do."""
        del deep
        return dict(self._params or {})

    def get_variable_names(self) -> list[str]:
        """Returns the names of all variables in the latest checkpoint."""
        return self._core.get_variable_names()

    def get_variable_value(self, name: str) -> Any:
        """Returns the value of a variable in the latest checkpoint."""
        return self._core.get_variable_value(name)

    def fit(
        self: _Estimator,
        x: Any = None,
        y: Any = None,
        input_fn: Callable[..., Any] | None = None,
        steps: int | None = None,
        batch_size: int | None = None,
        monitors: Any = None,
        max_steps: int | None = None,
    ) -> _Estimator:
        """Trains the model, from the latest checkpoint if there is one.

        Args:
            x: features, instead of `input_fn`: an array, or arrays by name.
            y: labels, an array.
            input_fn: function that returns (features, labels).
            steps: number of steps of this call. None: until the input ends; arrays don't end.
            batch_size: examples of a step, of arrays. None: all.
            monitors: monitors of `tf.contrib.learn.monitors` and `SessionRunHook`s.
            max_steps: global step to stop at.

        Returns:
            The estimator itself.

        Raises:
            ValueError: arguments exclude each other, or as for `estimator_spec.Estimator.train`.
            TypeError: as there.
        """
        if steps is not None and max_steps is not None:
            raise ValueError("Can not provide both steps and max_steps.")
        arrays.check_inputs(x, y, input_fn, None, batch_size)
        if input_fn is None:
            input_fn = arrays.input_fn_of(x, y, batch_size, shuffle=True, repeat=True)
        self.train_with(input_fn, monitors, steps, max_steps)
        return self

    def train_with(
        self, input_fn: Any, monitors: Any, steps: Any, max_steps: Any, saving_listeners: Any = None
    ) -> None:
        """Trains the model on what an `input_fn` returns; see `fit`, and `Experiment`."""
        hooks = monitor_hooks.replace_monitors_with_hooks(monitors, self)
        self._core.train(input_fn, hooks, steps, max_steps, saving_listeners)

    def partial_fit(
        self: _Estimator,
        x: Any = None,
        y: Any = None,
        input_fn: Callable[..., Any] | None = None,
        steps: int | None = 1,
        batch_size: int | None = None,
        monitors: Any = None,
    ) -> _Estimator:
        """Trains the model for one more step; the arguments are those of `fit`."""
        return self.fit(x, y, input_fn, steps, batch_size, monitors)

    def evaluate(
        self,
        x: Any = None,
        y: Any = None,
        input_fn: Callable[..., Any] | None = None,
        feed_fn: Any = None,
        batch_size: int | None = None,
        steps: int | None = None,
        metrics: Mapping[Any, Any] | None = None,
        name: str | None = None,
        checkpoint_path: str | None = None,
        hooks: Iterable[Any] | None = None,
        log_progress: bool = True,
    ) -> dict[str, Any]:
        """Evaluates a checkpoint.

        Args:
            x: features, as for `fit`, as the two arguments below.
            y: labels.
            input_fn: function that returns (features, labels).
            feed_fn: must be None.
            batch_size: examples of a batch, of arrays. None: all.
            steps: number of batches. None: until the input ends.
            metrics: further metrics by name: `MetricSpec`s.
            name: suffix of the summaries' directory.
            checkpoint_path: prefix of the checkpoint. None: the latest.
            hooks: `SessionRunHook`s.
            log_progress: ignored.

        Returns:
            The metrics by name, with `loss` and `global_step`.

        Raises:
            NotFittedError: there is no checkpoint.
            ValueError: arguments exclude each other, or a metric doesn't fit.
        """
        del log_progress
        arrays.check_inputs(x, y, input_fn, feed_fn, batch_size)
        if input_fn is None:
            input_fn = arrays.input_fn_of(x, y, batch_size)
        self._require_checkpoint(checkpoint_path)
        core = self._core_with(metrics=metrics)
        return core.evaluate(input_fn, steps, hooks, checkpoint_path, name)

    def predict(
        self,
        x: Any = None,
        input_fn: Callable[..., Any] | None = None,
        batch_size: int | None = None,
        outputs: Iterable[str] | None = None,
        as_iterable: bool = True,
        iterate_batches: bool = False,
    ) -> Any:
        """Returns predictions.

        As in TensorFlow 1.15, tensors of an `input_fn` that no queue fills are taken for constants,
        and give one batch. A dataset gives all of its batches.

        Args:
            x: features, as for `fit`.
            input_fn: function that returns features, or (features, labels).
            batch_size: examples of a batch, of arrays. None: all.
            outputs: names of the wanted predictions. None: all.
            as_iterable: whether the predictions are an iterator over examples. False: arrays of
                all examples.
            iterate_batches: whether the iterator yields whole batches.

        Raises:
            NotFittedError: there is no checkpoint.
            ValueError: arguments exclude each other, or the model has none of the outputs.
        """
        arrays.check_inputs(x, None, input_fn, None, batch_size)
        self._require_checkpoint(None)
        is_array = input_fn is None
        if input_fn is None:
            input_fn = arrays.input_fn_of(x, None, batch_size)
        core = self._core_with(outputs=outputs, has_labels=True)
        hooks = [] if is_array else [StopAfterConstants()]
        single = as_iterable and not iterate_batches
        found = core.predict(input_fn, hooks=hooks, yield_single_examples=single)
        return found if as_iterable else _concatenated(found)

    def export_savedmodel(
        self,
        export_dir_base: Any,
        serving_input_fn: Callable[[], Any] | None,
        default_output_alternative_key: str | None = None,
        assets_extra: Mapping[str, str] | None = None,
        as_text: bool = False,
        checkpoint_path: str | None = None,
        graph_rewrite_specs: Any = None,
        strip_default_attrs: bool = False,
    ) -> bytes:
        """Writes a SavedModel for serving.

        Args:
            export_dir_base: its parent directory.
            serving_input_fn: function that returns an `InputFnOps`.
            default_output_alternative_key: name of the default output of a model that has several.
            assets_extra: files to copy, by their destination below `assets.extra`.
            as_text: writes the graph as text.
            checkpoint_path: prefix of the checkpoint. None: the latest.
            graph_rewrite_specs: must be None, the default graph.
            strip_default_attrs: leaves out attributes that have their default value.

        Returns:
            The path of the SavedModel, as bytes.

        Raises:
            ValueError: there is no function, checkpoint or default output.
        """
        if serving_input_fn is None:
            raise ValueError("serving_input_fn must be defined.")
        if graph_rewrite_specs is not None:
            raise ValueError("graph_rewrite_specs isn't restored. Leave it out.")
        core = self._core_with()

        def signatures(spec: Any, receiver: Any) -> dict[str, Any]:
            del spec
            return exports.build_signatures(receiver, core.ops, default_output_alternative_key)

        return core.export(
            export_dir_base,
            {ModeKeys.INFER: exports.receiver_fn(serving_input_fn)},
            assets_extra=assets_extra,
            as_text=as_text,
            checkpoint_path=checkpoint_path,
            strip_default_attrs=strip_default_attrs,
            signatures=signatures,
        )

    def export(self, *args: Any, **kwargs: Any) -> Any:
        """Raises an error: TensorFlow 1's exports before SavedModels aren't restored.

        Raises:
            NotImplementedError: always.
        """
        del args, kwargs
        raise NotImplementedError(
            "Estimator.export wrote a format that came before SavedModels. Call "
            "export_savedmodel(export_dir_base, serving_input_fn)."
        )

    def call_model_fn(
        self, features: Any, labels: Any, mode: str, config: Any, metrics: Any = None
    ) -> ModelFnOps:
        """Returns the model of a mode in the default graph.

        Args:
            features: features.
            labels: labels, or None.
            mode: one of `ModeKeys`.
            config: the configuration.
            metrics: further metrics of an evaluation, or None.
        """
        if mode != ModeKeys.INFER:
            self._label_specs = tf.nest.map_structure(_spec, labels)
        if self._feature_engineering_fn is not None:
            features, labels = self._feature_engineering_fn(features, labels)
        offered = {
            "mode": mode,
            "params": copy.deepcopy(self._params),
            "config": config,
            "model_dir": self.model_dir,
        }
        names = argument_names(self._model_fn)
        chosen = {name: value for name, value in offered.items() if name in names}
        ops = ops_lib.from_result(self._model_fn(features, labels, **chosen), mode)
        if mode == ModeKeys.EVAL:
            made = metric_spec.make_metric_ops(metrics, features, labels, ops.predictions)
            ops = ops._replace(eval_metric_ops={**ops.eval_metric_ops, **made})
        return ops

    def label_placeholders(self) -> Any:
        """Returns placeholders like the labels of the last training or evaluation, or None.

        As in TensorFlow 1.15, model_fns get them in predictions: most compute a loss in all modes.
        """
        return tf.nest.map_structure(_placeholder, self._label_specs)

    def _core_with(self, **options: Any) -> Core:
        """Returns a copy of the estimator that runs the model, with options of one call."""
        core = copy.copy(self._core)
        for name, value in options.items():
            setattr(core, name, value)
        return core

    def _require_checkpoint(self, checkpoint_path: str | None) -> None:
        if checkpoint_path is None and self._core.latest_checkpoint() is None:
            raise NotFittedError(
                f"Couldn't find trained model at {self.model_dir}. Call fit first."
            )


def _spec(labels: Any) -> Any:
    return None if labels is None else tf.type_spec_from_value(labels)


def _placeholder(spec: Any) -> Any:
    if spec is None:
        return None
    if isinstance(spec, tf.SparseTensorSpec):
        return tf1.sparse_placeholder(spec.dtype, spec.shape)
    return tf1.placeholder(spec.dtype, spec.shape)


def _concatenated(batches: Iterator[Any]) -> Any:
    """Returns all batches as one."""
    found = list(batches)
    if isinstance(found[0], dict):
        return {key: np.concatenate([batch[key] for batch in found], 0) for key in found[0]}
    return np.concatenate(found, 0)
