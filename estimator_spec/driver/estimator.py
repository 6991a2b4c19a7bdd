# SPDX-License-Identifier: Apache-2.0
"""Estimator: trains, evaluates, predicts with and exports a model that a `model_fn` builds.

This file keeps the state between calls and builds the graphs; running them is the work of
`training`, `evaluation`, `prediction` and `export`.
"""

from __future__ import annotations

import contextlib
import copy
import os
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any

import tensorflow as tf

from estimator_spec import _tensorflow, legacy_keras
from estimator_spec.driver import (
    checkpoints,
    evaluation,
    export,
    inputs,
    model,
    prediction,
    training,
)
from estimator_spec.driver import hooks as hooks_lib
from estimator_spec.driver.progress import ProgressLine
from estimator_spec.model_spec import ModeKeys, default_warm_start_settings
from estimator_spec.run_config import (
    RunConfig,
    TaskType,
    get_default_session_config,
    path_to_str,
)
from tpu_columns import placement

tf1 = tf.compat.v1

_MAY_BE_OVERRIDDEN = frozenset({"model_fn", "latest_checkpoint"})


class Estimator:
    """A model, its checkpoints, and what can be done with them.

    Subclasses add methods, and may override the protected ones `_call_model_fn`,
    `_call_input_fn`, `_train_model`, `_convert_train_steps_to_hooks` and
    `_convert_eval_steps_to_hooks`. Overriding a public method is refused, as it always was;
    `TPUEstimator`'s subclasses are free to.

    Args:
        model_fn: function of `features`, and any of `labels`, `mode`, `params` and `config`, that
            builds the model and returns an `EstimatorSpec`.
        model_dir: directory of checkpoints and summaries, a string or path. None: the
            configuration's; if it has none either, a temporary directory.
        config: a `RunConfig`; None makes a default one.
        params: hyperparameters for `model_fn` and `input_fn`. A deep copy is kept.
        warm_start_from: `WarmStartSettings`, or the path of a checkpoint or SavedModel whose
            trainable variables a new model starts from.

    Raises:
        ValueError: an argument has the wrong type or value, `model_dir` and the configuration's
            differ, `model_fn`'s arguments don't fit, or a subclass overrides a public method.
    """

    def __init__(
        self,
        model_fn: Callable[..., Any],
        model_dir: Any = None,
        config: RunConfig | None = None,
        params: Any = None,
        warm_start_from: Any = None,
    ) -> None:
        self._assert_members_are_not_overridden()
        model.check_arguments(model_fn, params)
        self._config = _settled(config, model_dir)
        self._model_dir = str(self._config.model_dir)
        self._session_config = self._config.session_config
        self._model_fn = model_fn
        self._params = copy.deepcopy(params or {})
        self._warm_start_settings = default_warm_start_settings(warm_start_from)
        tf1.logging.info("Using config: %s", vars(self._config))

    @property
    def model_dir(self) -> str:
        """Directory of checkpoints and summaries."""
        return self._model_dir

    @property
    def config(self) -> Any:
        """A copy of the configuration, with the directory and session that are in use."""
        return copy.deepcopy(self._config)

    @property
    def params(self) -> Any:
        """A copy of the hyperparameters."""
        return copy.deepcopy(self._params)

    @property
    def model_fn(self) -> Callable[..., Any]:
        """The model function with `params` bound: `model_fn(features, labels, mode, config)`."""

        def public_model_fn(features: Any, labels: Any, mode: str, config: Any) -> Any:
            return self._call_model_fn(features, labels, mode, config)

        return public_model_fn

    def get_variable_names(self) -> list[str]:
        """Names of all variables in the latest checkpoint.

        Raises:
            ValueError: there is no checkpoint.
            CheckpointError: it is damaged.
        """
        prefix = checkpoints.required(self.model_dir)
        return [name for name, _ in tf.train.list_variables(prefix)]

    def get_variable_value(self, name: str) -> Any:
        """The value of a variable in the latest checkpoint.

        Args:
            name: as `get_variable_names` gives it.

        Returns:
            A NumPy array or scalar.

        Raises:
            ValueError: there is no checkpoint.
            CheckpointError: it is damaged.
        """
        return tf.train.load_variable(checkpoints.required(self.model_dir), name)

    def latest_checkpoint(self) -> str | None:
        """The path of the latest checkpoint, or None.

        Raises:
            CheckpointError: there is one, but it is damaged.
        """
        return checkpoints.latest(self.model_dir)

    def eval_dir(self, name: str | None = None) -> str:
        """Directory of an evaluation's summaries.

        Args:
            name: the evaluation's name, as given to `evaluate`.
        """
        return os.path.join(self._model_dir, f"eval_{name}" if name else "eval")

    def train(
        self,
        input_fn: Callable[..., Any],
        hooks: Iterable[Any] | None = None,
        steps: int | None = None,
        max_steps: int | None = None,
        saving_listeners: Iterable[Any] | None = None,
    ) -> Any:
        """Trains, from the latest checkpoint if there is one.

        Args:
            input_fn: returns a dataset of (features, labels), or such tensors. It may take
                `mode`, `params` and `config`.
            hooks: `SessionRunHook`s.
            steps: how many steps this call makes. None: until the input ends.
            max_steps: the global step to stop at; nothing happens if a checkpoint has it.
            saving_listeners: `CheckpointSaverListener`s, called at every checkpoint.

        Returns:
            The estimator itself.

        Raises:
            ValueError: both or bad step counts, an input that yields nothing, or one of the
                errors below.
            TypeError: a hook or listener of another type.
            ModelDirError: `model_dir` can't be written.
            CheckpointError: the latest checkpoint is damaged.
        """
        if self._config.task_type in (TaskType.EVALUATOR, TaskType.PS):
            raise ValueError(
                "Train has been called wrong configuration. Please use train_and_evaluate which "
                "calls proper API according to given configuration. Current configuration: "
                f"{self._config}."
            )
        training.check_steps(steps, max_steps)
        all_hooks = hooks_lib.checked(hooks)
        listeners = hooks_lib.checked_listeners(saving_listeners)
        self._check_before_graph(ModeKeys.TRAIN, input_fn)
        if max_steps is not None:
            done = checkpoints.global_step(checkpoints.latest(self._model_dir))
            if max_steps <= done:
                tf1.logging.info("Skipping training since max_steps has already saved.")
                return self
        all_hooks.extend(self._convert_train_steps_to_hooks(steps, max_steps))
        all_hooks.append(ProgressLine(steps, max_steps))
        loss = self._train_model(input_fn, all_hooks, listeners)
        tf1.logging.info("Loss for final step: %s.", loss)
        return self

    def evaluate(
        self,
        input_fn: Callable[..., Any],
        steps: int | None = None,
        hooks: Iterable[Any] | None = None,
        checkpoint_path: str | None = None,
        name: str | None = None,
    ) -> dict[str, Any]:
        """Evaluates a checkpoint.

        Args:
            input_fn: as for `train`.
            steps: how many batches. None: until the input ends.
            hooks: `SessionRunHook`s.
            checkpoint_path: which checkpoint. None: the latest; without any, fresh variables.
            name: goes into the directory of the summaries, to tell several evaluations apart.

        Returns:
            The metrics by name, with `loss` (the mean over the batches) and `global_step`.

        Raises:
            ValueError: a bad step count, or an input that yields nothing.
            TypeError: a hook of another type.
            ModelDirError: `model_dir` can't be written.
            CheckpointError: the checkpoint is missing or damaged.
        """
        all_hooks = hooks_lib.checked(hooks)
        evaluation.check_steps(steps)
        self._check_before_graph(ModeKeys.EVAL, input_fn)
        all_hooks.extend(self._convert_eval_steps_to_hooks(steps))
        checkpoint = self._checkpoint_for("evaluate", checkpoint_path)
        with tf.Graph().as_default() as graph:
            self._start(graph)
            batch = self._batch(input_fn, ModeKeys.EVAL)
            spec = self._spec(batch.features, batch.labels, ModeKeys.EVAL)
            update_op, values = evaluation.metric_ops(spec)
            self._maybe_warm_start(checkpoint)
            results = evaluation.run(
                spec,
                update_op,
                values,
                config=self._config,
                checkpoint=checkpoint,
                input_fn=input_fn,
                hooks=[*batch.hooks, *all_hooks, *spec.evaluation_hooks],
            )
            evaluation.write_summaries(self.eval_dir(name), results, checkpoint)
        return results

    def predict(
        self,
        input_fn: Callable[..., Any],
        predict_keys: Collection[str] | None = None,
        hooks: Iterable[Any] | None = None,
        checkpoint_path: str | None = None,
        yield_single_examples: bool = True,
    ) -> Iterator[Any]:
        """Predicts, batch after batch as they are asked for.

        Nothing happens before the first prediction is asked for. Other calls may come between
        two predictions, another `predict` too.

        Args:
            input_fn: returns a dataset of features (or of pairs, whose second part is ignored),
                or such tensors.
            predict_keys: which predictions, if the model has several. None: all.
            hooks: `SessionRunHook`s.
            checkpoint_path: which checkpoint. None: the latest; without any, fresh variables.
            yield_single_examples: False yields whole batches.

        Yields:
            The predictions of one example (or batch), as the model gives them: an array or a
            dict of arrays.

        Raises:
            ValueError: `predict_keys` that the model doesn't have, or predictions of different
                lengths.
            TypeError: a hook of another type.
            CheckpointError: the checkpoint is missing or damaged.
        """
        all_hooks = hooks_lib.checked(hooks)
        self._check_before_graph(ModeKeys.PREDICT, input_fn)
        checkpoint = self._checkpoint_for("predict", checkpoint_path)
        graph = tf.Graph()
        with graph.as_default():
            self._start(graph)
            batch = self._batch(input_fn, ModeKeys.PREDICT)
            inputs.warn_if_endless(batch.features)
            spec = self._spec(batch.features, None, ModeKeys.PREDICT)
            self._maybe_warm_start(checkpoint)
            predictions = prediction.choose(spec.predictions, predict_keys)
        # Closed with this generator, not when the garbage collector finds it.
        with contextlib.closing(
            prediction.batches(
                graph,
                predictions,
                scaffold=spec.scaffold,
                config=self._config,
                checkpoint=checkpoint,
                hooks=[*batch.hooks, *all_hooks, *spec.prediction_hooks],
            )
        ) as batches:
            for values in batches:
                if yield_single_examples:
                    yield from prediction.examples(values)
                else:
                    yield values

    def export_saved_model(
        self,
        export_dir_base: Any,
        serving_input_receiver_fn: Callable[[], Any] | None,
        assets_extra: Mapping[str, str] | None = None,
        as_text: bool = False,
        checkpoint_path: str | None = None,
        experimental_mode: str = ModeKeys.PREDICT,
    ) -> bytes:
        """Writes a SavedModel of one mode.

        Args:
            export_dir_base: the SavedModel becomes a directory below it, named by the time.
            serving_input_receiver_fn: returns a `ServingInputReceiver` (or another receiver).
            assets_extra: files to copy, by their destination below `assets.extra`.
            as_text: writes the graph as text.
            checkpoint_path: which checkpoint. None: the latest.
            experimental_mode: another mode of the model, with a receiver that has labels.

        Returns:
            The path of the SavedModel, as bytes.

        Raises:
            ValueError: no receiver function, no checkpoint, or variables that it doesn't have.
            CheckpointError: the checkpoint is missing or damaged.
        """
        if serving_input_receiver_fn is None:
            raise ValueError("An input_receiver_fn must be defined.")
        return self._export_all_saved_models(
            export_dir_base,
            {experimental_mode: serving_input_receiver_fn},
            assets_extra=assets_extra,
            as_text=as_text,
            checkpoint_path=checkpoint_path,
        )

    def experimental_export_all_saved_models(
        self,
        export_dir_base: Any,
        input_receiver_fn_map: Mapping[str, Callable[[], Any]],
        assets_extra: Mapping[str, str] | None = None,
        as_text: bool = False,
        checkpoint_path: str | None = None,
    ) -> bytes:
        """Writes one SavedModel with a graph for each mode.

        Args:
            export_dir_base: as for `export_saved_model`.
            input_receiver_fn_map: receiver functions by mode.
            assets_extra: as for `export_saved_model`.
            as_text: as for `export_saved_model`.
            checkpoint_path: as for `export_saved_model`.

        Returns:
            The path of the SavedModel, as bytes.

        Raises:
            ValueError: no known mode, no checkpoint, or variables that it doesn't have.
            CheckpointError: the checkpoint is missing or damaged.
        """
        return self._export_all_saved_models(
            export_dir_base,
            input_receiver_fn_map,
            assets_extra=assets_extra,
            as_text=as_text,
            checkpoint_path=checkpoint_path,
        )

    def export_savedmodel(
        self,
        export_dir_base: Any,
        serving_input_receiver_fn: Callable[[], Any] | None,
        assets_extra: Mapping[str, str] | None = None,
        as_text: bool = False,
        checkpoint_path: str | None = None,
        strip_default_attrs: bool = False,
    ) -> bytes:
        """The older name of `export_saved_model`; it keeps default attributes in the graph.

        Args:
            export_dir_base: as for `export_saved_model`.
            serving_input_receiver_fn: as for `export_saved_model`.
            assets_extra: as for `export_saved_model`.
            as_text: as for `export_saved_model`.
            checkpoint_path: as for `export_saved_model`.
            strip_default_attrs: leaves out attributes that have their default value, so that
                older servers can read the graph.

        Returns:
            The path of the SavedModel, as bytes.

        Raises:
            ValueError: as for `export_saved_model`.
            CheckpointError: as for `export_saved_model`.
        """
        if serving_input_receiver_fn is None:
            raise ValueError("An input_receiver_fn must be defined.")
        return self._export_all_saved_models(
            export_dir_base,
            {ModeKeys.PREDICT: serving_input_receiver_fn},
            assets_extra=assets_extra,
            as_text=as_text,
            checkpoint_path=checkpoint_path,
            strip_default_attrs=strip_default_attrs,
        )

    # What subclasses override.

    def _assert_members_are_not_overridden(self) -> None:
        """Refuses a subclass that overrides a public method of `Estimator`."""
        overridden = sorted(
            name
            for name, member in vars(Estimator).items()
            if not name.startswith("_")
            and name not in _MAY_BE_OVERRIDDEN
            and getattr(type(self), name) is not member
        )
        if overridden:
            raise ValueError(
                f"Subclasses of Estimator cannot override members of Estimator. {type(self)} "
                f"does override {overridden}. Put the change into the model_fn, or into a method "
                "of another name."
            )

    def _call_input_fn(
        self, input_fn: Callable[..., Any], mode: str, input_context: Any = None
    ) -> Any:
        """Calls the user's `input_fn`, with what it takes."""
        return inputs.call(input_fn, mode, self.params, self.config, input_context)

    def _call_model_fn(self, features: Any, labels: Any, mode: str, config: Any) -> Any:
        """Calls the user's `model_fn`, with what it takes; returns an `EstimatorSpec`."""
        return model.call(self._model_fn, features, labels, mode, self.params, config)

    def _convert_train_steps_to_hooks(self, steps: int | None, max_steps: int | None) -> list[Any]:
        """What ends the training."""
        if steps is None and max_steps is None:
            return []
        return [tf1.train.StopAtStepHook(steps, max_steps)]

    def _convert_eval_steps_to_hooks(self, steps: int | None) -> list[Any]:
        """What ends an evaluation."""
        evaluation.check_steps(steps)
        return [] if steps is None else [hooks_lib.StopAfterBatches(steps)]

    def _create_global_step(self, graph: Any) -> Any:
        """Makes the step counter."""
        return tf1.train.create_global_step(graph)

    def _train_model(
        self, input_fn: Callable[..., Any], hooks: list[Any], saving_listeners: list[Any]
    ) -> Any:
        """Builds the training graph, and trains; returns the last loss."""
        checkpoint = checkpoints.latest(self._model_dir)
        with tf.Graph().as_default() as graph, graph.device(self._config.device_fn):
            self._start(graph)
            _tensorflow.get_or_create_global_step_read(graph)
            batch = self._batch(input_fn, ModeKeys.TRAIN)
            spec = self._spec(batch.features, batch.labels, ModeKeys.TRAIN)
            self._maybe_warm_start(checkpoint)
            return training.run(
                spec,
                config=self._config,
                checkpoint=checkpoint,
                input_fn=input_fn,
                input_hooks=batch.hooks,
                hooks=hooks,
                speed_hooks=self._speed_hooks(),
                saving_listeners=saving_listeners,
            )

    def _speed_hooks(self) -> list[Any]:
        """What logs steps per second."""
        every = self._config.log_step_count_steps
        if every is None:
            return []
        return [tf1.train.StepCounterHook(every_n_steps=every, output_dir=self._model_dir)]

    def _check_before_graph(self, mode: str, input_fn: Callable[..., Any]) -> None:
        """Everything that can be refused before a graph is built."""
        del input_fn
        checkpoints.check_directory(self._model_dir, writable=mode != ModeKeys.PREDICT)

    def _hardware(self) -> placement.Hardware:
        """What the graph is for."""
        return placement.Hardware.CPU

    # One step each on the way to a run.

    def _start(self, graph: Any) -> None:
        """What every graph begins with: the seed, and the step counter."""
        tf1.set_random_seed(self._config.tf_random_seed)
        step = self._create_global_step(graph)
        if step is not tf1.train.get_global_step(graph) or not step.dtype.is_integer:
            raise ValueError(
                "_create_global_step must return the graph's global step, an integer variable in "
                f"the collection {tf1.GraphKeys.GLOBAL_STEP!r}; got {step}."
            )

    def _batch(self, input_fn: Callable[..., Any], mode: str) -> inputs.Inputs:
        with self._users_code(placement.Mode(mode)):
            return inputs.parse(self._call_input_fn(input_fn, mode), input_fn)

    def _spec(self, features: Any, labels: Any, mode: str) -> Any:
        with self._users_code(placement.Mode(mode)):
            return self._call_model_fn(features, labels, mode, self.config)

    @contextlib.contextmanager
    def _users_code(self, mode: placement.Mode) -> Iterator[None]:
        """Around everything that the user wrote: the right Keras, and where columns look up."""
        legacy_keras.prefer()
        with placement.running(mode, self._hardware()):
            yield

    def _checkpoint_for(self, task: str, checkpoint_path: str | None) -> str | None:
        checkpoint = checkpoints.chosen(checkpoint_path, self._model_dir)
        if checkpoint is None:
            tf1.logging.info(
                "Could not find trained model in model_dir: %s, running initialization to %s.",
                self._model_dir,
                task,
            )
        return checkpoint

    def _maybe_warm_start(self, checkpoint: str | None) -> None:
        """Takes initial values from elsewhere, unless a checkpoint will overwrite them."""
        if checkpoint or not self._warm_start_settings:
            return
        tf1.logging.info("Warm-starting with WarmStartSettings: %s", self._warm_start_settings)
        tf1.train.warm_start(*self._warm_start_settings)

    def _export_all_saved_models(
        self,
        export_dir_base: Any,
        input_receiver_fn_map: Mapping[str, Callable[[], Any]],
        assets_extra: Mapping[str, str] | None = None,
        as_text: bool = False,
        checkpoint_path: str | None = None,
        strip_default_attrs: bool = True,
    ) -> bytes:
        checkpoint = checkpoints.chosen(checkpoint_path, self._model_dir)
        if checkpoint is None and self._warm_start_settings:
            checkpoint = export.warm_start_checkpoint(self._warm_start_settings)
        if checkpoint is None:
            raise ValueError(
                f"Couldn't find trained model at {self._model_dir}. Train first, or give "
                "checkpoint_path."
            )
        modes = export.modes_in_order(input_receiver_fn_map)
        with export.directory(export_dir_base, assets_extra) as writing:
            builder = tf1.saved_model.Builder(writing.temporary)
            for mode in modes:
                self._add_meta_graph_for_mode(
                    builder,
                    input_receiver_fn_map,
                    checkpoint,
                    save_variables=mode == modes[0],
                    mode=mode,
                    strip_default_attrs=strip_default_attrs,
                )
            builder.save(as_text)
        return tf.compat.as_bytes(writing.final)

    def _add_meta_graph_for_mode(
        self,
        builder: Any,
        input_receiver_fn_map: Mapping[str, Callable[[], Any]],
        checkpoint_path: str,
        save_variables: bool = True,
        mode: str = ModeKeys.PREDICT,
        strip_default_attrs: bool = True,
    ) -> None:
        """Builds the graph of a mode anew, and adds it to the SavedModel."""
        with tf.Graph().as_default() as graph:
            self._start(graph)
            with self._users_code(placement.Mode.SERVE):
                receiver = input_receiver_fn_map[mode]()
                labels = getattr(receiver, "labels", None)
                spec = self._call_model_fn(receiver.features, labels, mode, self.config)
            export.add_graph(
                builder,
                spec,
                receiver,
                mode=mode,
                session_config=self._session_config,
                checkpoint=checkpoint_path,
                save_variables=save_variables,
                strip_default_attrs=strip_default_attrs,
            )


def _settled(config: Any, model_dir: Any) -> Any:
    """The configuration with a directory and a session."""
    if config is None:
        config = RunConfig()
        tf1.logging.info("Using default config.")
    if not isinstance(config, RunConfig):
        raise ValueError(f"config must be an instance of `RunConfig`, but provided {config}.")
    for name in ("train_distribute", "eval_distribute"):
        if getattr(config, name, None) is not None:
            raise ValueError(
                f"RunConfig.{name} is set, but this version runs on one device only. Leave it out."
            )
    if config.session_config is None:
        config = config.replace(session_config=get_default_session_config())
    model_dir = path_to_str(model_dir)
    if model_dir is not None and config.model_dir not in (None, model_dir):
        raise ValueError(
            "`model_dir` are set both in constructor and `RunConfig`, but with different values. "
            f"In constructor: '{model_dir}', in `RunConfig`: '{config.model_dir}'"
        )
    if model_dir:
        return config.replace(model_dir=model_dir)
    if config.model_dir is None:
        temporary = tempfile.mkdtemp()
        tf1.logging.warning("Using temporary folder as model directory: %s", temporary)
        return config.replace(model_dir=temporary)
    return config
