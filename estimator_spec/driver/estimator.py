# SPDX-License-Identifier: Apache-2.0
"""Estimator: trains, evaluates, predicts with and exports a model that a `model_fn` builds.

Each method checks, lets `graphs` build, and lets `training`, `evaluation` or `prediction` run.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any, TypeVar

import tensorflow as tf

from estimator_spec import updates
from estimator_spec.config.run_config import RunConfig, TaskType
from estimator_spec.cores.interface import GRADIENT_OPS
from estimator_spec.driver import checkpoint_state, evaluation, prediction, table_restore, training
from estimator_spec.driver import hooks as hooks_lib
from estimator_spec.driver.progress import ProgressLine
from estimator_spec.driver.saved_models import ModelExports
from estimator_spec.model.model_spec import ModeKeys
from estimator_spec.model.warm_start import WarmStartSettings

tf1 = tf.compat.v1

_MAY_BE_OVERRIDDEN = frozenset({"model_fn", "latest_checkpoint"})

_Estimator = TypeVar("_Estimator", bound="Estimator")


class Estimator(ModelExports):
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
        fast_updates: whether ops by which the optimizer updates rows of tables, the gradients that
            lead there, and ops that read tables, may be replaced by faster ones that do the same.
            None: yes, unless the environment variable TPU_COLUMNS_FAST_UPDATES
            is 0. Trainings in loops (`host_replicas`, a TPU) keep the optimizer's ops.

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
        warm_start_from: str | WarmStartSettings | None = None,
        *,
        fast_updates: bool | None = None,
    ) -> None:
        self._assert_members_are_not_overridden()
        self._fast_updates = updates.should_optimize(fast_updates)
        super().__init__(model_fn, model_dir, config, params, warm_start_from)

    def get_variable_names(self) -> list[str]:
        """Names of all variables in the latest checkpoint.

        Raises:
            ValueError: there is no checkpoint.
            CheckpointError: it is damaged.
        """
        prefix = checkpoint_state.require_latest(self.model_dir)
        return [name for name, _ in tf.train.list_variables(prefix)]

    def get_variable_value(self, name: str) -> Any:
        """The value of a variable in the latest checkpoint.

        Args:
            name: as `get_variable_names` gives it.

        Returns:
            A NumPy array or scalar; of a table, and its slots, the rows in their own order.

        Raises:
            ValueError: there is no checkpoint.
            CheckpointError: it is damaged.
        """
        return table_restore.load_variable(checkpoint_state.require_latest(self.model_dir), name)

    def latest_checkpoint(self) -> str | None:
        """The path of the latest checkpoint, or None.

        Raises:
            CheckpointError: there is one, but it is damaged.
        """
        return checkpoint_state.find_latest(self.model_dir)

    def eval_dir(self, name: str | None = None) -> str:
        """Directory of an evaluation's summaries.

        Args:
            name: the evaluation's name, as given to `evaluate`.
        """
        return os.path.join(self._model_dir, f"eval_{name}" if name else "eval")

    def train(
        self: _Estimator,
        input_fn: Callable[..., Any],
        hooks: Iterable[Any] | None = None,
        steps: int | None = None,
        max_steps: int | None = None,
        saving_listeners: Iterable[Any] | None = None,
    ) -> _Estimator:
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
        hooks_lib.check_steps(steps, max_steps)
        all_hooks = hooks_lib.check_hooks(hooks)
        listeners = hooks_lib.check_listeners(saving_listeners)
        self._check_before_graph(ModeKeys.TRAIN, input_fn)
        if max_steps is not None:
            done = checkpoint_state.read_global_step(checkpoint_state.find_latest(self._model_dir))
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
        all_hooks = hooks_lib.check_hooks(hooks)
        hooks_lib.check_steps(steps)
        self._check_before_graph(ModeKeys.EVAL, input_fn)
        all_hooks.extend(self._convert_eval_steps_to_hooks(steps))
        checkpoint = self._checkpoint_for("evaluate", checkpoint_path)
        with tf.Graph().as_default() as graph:
            built = self._build(graph, input_fn, ModeKeys.EVAL)
            spec = built.spec
            update_op, values = evaluation.metric_ops(spec)
            if self._fast_updates:
                updates.optimize_inference_graph(graph)
            self._maybe_warm_start(checkpoint)
            with built.running():
                results = evaluation.run(
                    evaluation.add_default_local_init(spec.scaffold),
                    update_op,
                    values,
                    config=built.config,
                    checkpoint=checkpoint,
                    input_fn=input_fn,
                    hooks=[*built.hooks, *all_hooks, *spec.evaluation_hooks],
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
        all_hooks = hooks_lib.check_hooks(hooks)
        self._check_before_graph(ModeKeys.PREDICT, input_fn)
        checkpoint = self._checkpoint_for("predict", checkpoint_path)
        graph = tf.Graph()
        with graph.as_default():
            built = self._build(graph, input_fn, ModeKeys.PREDICT)
            spec = built.spec
            self._maybe_warm_start(checkpoint)
            predictions = prediction.select_predictions(spec.predictions, predict_keys)
            if self._fast_updates:
                updates.optimize_inference_graph(graph)
        # Closed with this generator, not when the garbage collector finds it.
        with (
            built.running(),
            contextlib.closing(
                prediction.predict_batches(
                    graph,
                    predictions,
                    scaffold=spec.scaffold,
                    config=built.config,
                    checkpoint=checkpoint,
                    hooks=[*built.hooks, *all_hooks, *spec.prediction_hooks],
                )
            ) as batches,
        ):
            for values in batches:
                if yield_single_examples:
                    yield from prediction.split_batch(values)
                else:
                    yield values

    # What subclasses override.

    def _assert_members_are_not_overridden(self) -> None:
        """Refuses a subclass that overrides a public method of `Estimator`."""
        overridden = sorted(
            name
            for name in dir(Estimator)
            if not name.startswith("_")
            and name not in _MAY_BE_OVERRIDDEN
            and getattr(type(self), name) is not getattr(Estimator, name)
        )
        if overridden:
            raise ValueError(
                f"Subclasses of Estimator cannot override members of Estimator. {type(self)} "
                f"does override {overridden}. Put the change into the model_fn, or into a method "
                "of another name."
            )

    def _convert_train_steps_to_hooks(self, steps: int | None, max_steps: int | None) -> list[Any]:
        """What ends the training."""
        if steps is None and max_steps is None:
            return []
        return [hooks_lib.StopAtStep(steps, max_steps)]

    def _convert_eval_steps_to_hooks(self, steps: int | None) -> list[Any]:
        """What ends an evaluation."""
        hooks_lib.check_steps(steps)
        return [] if steps is None else [hooks_lib.StopAfterBatches(steps)]

    def _train_model(
        self, input_fn: Callable[..., Any], hooks: list[Any], saving_listeners: list[Any]
    ) -> Any:
        """Builds the training graph, and trains; returns the last loss."""
        checkpoint = checkpoint_state.find_latest(self._model_dir)
        with tf.Graph().as_default() as graph, graph.device(self._config.device_fn):
            built = self._build(graph, input_fn, ModeKeys.TRAIN)
            spec = built.spec
            if self._fast_updates and not built.loop:
                train_op = updates.optimize_training_graph(
                    graph, spec.train_op, self._session_config, graph.get_collection(GRADIENT_OPS)
                )
                spec = spec._replace(train_op=train_op)
            self._maybe_warm_start(checkpoint)
            with built.running():
                return training.run(
                    spec,
                    config=built.config,
                    checkpoint=checkpoint,
                    input_fn=input_fn,
                    first_hooks=built.first_hooks,
                    input_hooks=built.hooks,
                    hooks=hooks,
                    speed_hooks=self._speed_hooks(),
                    saving_listeners=[*built.listeners, *saving_listeners],
                    loop=built.loop,
                )

    def _speed_hooks(self) -> list[Any]:
        """What logs steps per second."""
        every = self._config.log_step_count_steps
        if every is None:
            return []
        return [hooks_lib.StepsPerSecond(every, output_dir=self._model_dir)]

    def _checkpoint_for(self, task: str, checkpoint_path: str | None) -> str | None:
        checkpoint = checkpoint_state.choose_checkpoint(checkpoint_path, self._model_dir)
        if checkpoint is None:
            tf1.logging.info(
                "Could not find trained model in model_dir: %s, running initialization to %s.",
                self._model_dir,
                task,
            )
        return checkpoint
