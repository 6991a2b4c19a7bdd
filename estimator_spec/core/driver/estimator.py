# SPDX-License-Identifier: Apache-2.0
"""Defines `Estimator`, which trains, evaluates, predicts with and exports a `model_fn`'s model.

Each method checks its arguments, and gives the estimator's `RunSetup` to `training`, `evaluation`,
`prediction` or `saved_models`.
"""

from __future__ import annotations

import contextlib
import copy
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, TypeVar

import tensorflow as tf

from estimator_spec.core.cluster import servers
from estimator_spec.core.common import argument_rules
from estimator_spec.core.common.checks import check_optional_flag
from estimator_spec.core.driver import (
    checkpoint_state,
    evaluation,
    model_calls,
    model_dir_lock,
    prediction,
    table_restore,
    training,
)
from estimator_spec.core.driver import hooks as hooks_lib
from estimator_spec.core.driver.estimator_base import (
    EstimatorBase,
    check_config,
    check_overridden_members,
    resolve_config,
    setup_of,
)
from estimator_spec.core.driver.progress import ProgressLine
from estimator_spec.core.run_config import RunConfig, TaskType
from estimator_spec.core.user_functions.model_spec import ModeKeys
from estimator_spec.core.user_functions.warm_start import (
    WarmStartSettings,
    default_warm_start_settings,
)
from tpu_columns import log_messages, optimizations
from tpu_columns.invalid_ids import check_policy

tf1 = tf.compat.v1

_Estimator = TypeVar("_Estimator", bound="Estimator")


class Estimator(EstimatorBase):
    """A model that is trained, evaluated, used for predictions and exported.

    Subclasses may add methods and override the protected methods `_call_model_fn`,
    `_call_input_fn`, `_train_model`, `_convert_train_steps_to_hooks` and
    `_convert_eval_steps_to_hooks`. As in `tf.estimator`, overriding a public method is an error,
    except in subclasses of `TPUEstimator`.

    Args:
        model_fn: function of `features`, and any of `labels`, `mode`, `params` and `config`, that
            builds the model and returns an `EstimatorSpec`.
        model_dir: directory of checkpoints and summaries, a string or path. None: that of
            `config`, or else a temporary directory.
        config: a `RunConfig`; None: the default configuration.
        params: hyperparameters for `model_fn` and `input_fn`. A deep copy is kept.
        warm_start_from: `WarmStartSettings`, or the path of a checkpoint or SavedModel that
            initializes the trainable variables of a new model.
        fast_updates: whether the optimizer's ops that update tables may be replaced by faster ones
            with the same results, and those that a cluster sends joined. None: yes, unless the
            environment variable TPU_COLUMNS_FAST_UPDATES is 0. Lookups don't depend on it.
        plain: whether all optimizations are off: lookups and updates by TensorFlow's own ops, all
            hooks called in every step. Slower, with the numbers of TensorFlow's own columns and
            estimators, bit for bit. None: no, unless the environment variable TPU_COLUMNS_PLAIN
            is 1.
        invalid_ids: policy of TPU embedding columns without one of their own for ids that are
            negative or beyond the vocabulary: 'error', 'drop', 'clip', 'mod', the number of a
            default row, or None; see `tpu_columns.invalid_ids`.

    Raises:
        ValueError: an argument has the wrong type or value, `model_dir` and the configuration's
            differ, `model_fn` takes unknown arguments, or a subclass overrides a public method.
        TypeError: `model_fn` isn't callable, or `fast_updates` no bool.
    """

    _adds_params = False  # whether a subclass adds entries to the params of the user's functions

    def __init__(
        self,
        model_fn: Callable[..., Any],
        model_dir: Any = None,
        config: RunConfig | None = None,
        params: Any = None,
        warm_start_from: str | WarmStartSettings | None = None,
        *,
        fast_updates: bool | None = None,
        plain: bool | None = None,
        invalid_ids: str | int | None = None,
    ) -> None:
        log_messages.install()
        # Through the class: programs replace the check by a function of the class.
        type(self)._assert_members_are_not_overridden(self)
        check_optional_flag("fast_updates", fast_updates)
        check_optional_flag("plain", plain)
        self._optimizations = optimizations.choose(plain, fast_updates)
        self._invalid_ids = check_policy(invalid_ids, "the estimator")
        check_config(config)  # before the model_fn, as in TensorFlow
        model_calls.check_arguments(model_fn, params, self._adds_params)
        self._config = resolve_config(config, model_dir)
        self._model_dir = str(self._config.model_dir)
        self._session_config = self._config.session_config
        self._model_fn = model_fn
        self._params = copy.deepcopy(params or {})
        self._warm_start_settings = default_warm_start_settings(warm_start_from)
        tf1.logging.info("Using config: %s", vars(self._config))

    @property
    def model_fn(self) -> Callable[..., Any]:
        """The model function with `params` bound: `model_fn(features, labels, mode, config)`."""

        def public_model_fn(features: Any, labels: Any, mode: str, config: Any) -> Any:
            return self._call_model_fn(features, labels, mode, config)

        return public_model_fn

    def get_variable_names(self) -> list[str]:
        """Returns the names of all variables in the latest checkpoint.

        Raises:
            ValueError: there is no checkpoint.
            CheckpointError: the checkpoint is damaged.
        """
        prefix = checkpoint_state.require_latest(self.model_dir)
        return checkpoint_state.list_variables(prefix)

    def get_variable_value(self, name: str) -> Any:
        """Returns the value of a variable in the latest checkpoint.

        Args:
            name: one of `get_variable_names()`.

        Returns:
            A NumPy array or scalar. The rows of a table and its slot variables are in the order of
            ids, whatever the layout in the checkpoint.

        Raises:
            ValueError: there is no checkpoint.
            CheckpointError: the checkpoint is damaged.
        """
        return table_restore.load_variable(checkpoint_state.require_latest(self.model_dir), name)

    def latest_checkpoint(self) -> str | None:
        """Returns the path of the latest checkpoint, or None.

        Raises:
            CheckpointError: the checkpoint is damaged.
        """
        return checkpoint_state.find_latest(self.model_dir)

    def eval_dir(self, name: str | None = None) -> str:
        """Returns the directory of an evaluation's summaries.

        Args:
            name: the `name` given to `evaluate`.

        Raises:
            TypeError: the name isn't a string.
        """
        argument_rules.check("evaluate", {"name": name})
        return os.path.join(self._model_dir, f"eval_{name}" if name else "eval")

    def train(
        self: _Estimator,
        input_fn: Callable[..., Any],
        hooks: Iterable[Any] | None = None,
        steps: int | None = None,
        max_steps: int | None = None,
        saving_listeners: Iterable[Any] | None = None,
    ) -> _Estimator:
        """Trains the model, from the latest checkpoint if there is one.

        In a chief or worker of a cluster in TF_CONFIG, the variables are those of the parameter
        servers. Workers wait until the chief has initialized or restored them; only the chief
        saves checkpoints and summaries.

        Args:
            input_fn: function of any of `mode`, `params` and `config` that returns a dataset of
                (features, labels), or a pair of tensors or structures of tensors.
            hooks: `SessionRunHook`s.
            steps: number of steps of this call. None: until the input ends.
            max_steps: global step to stop at; if the latest checkpoint has reached it, nothing
                runs.
            saving_listeners: `CheckpointSaverListener`s, called at every checkpoint.

        Returns:
            The estimator itself.

        Raises:
            ValueError: `steps` and `max_steps` are both given or not positive, the input is empty,
                or one of the two errors below.
            TypeError: a hook, listener or number of steps has another type, or `input_fn` isn't
                callable.
            ModelDirError: `model_dir` can't be written, or another training writes it.
            RuntimeError: the server of this task can't start.
            NotImplementedError: the cluster can't train this estimator.
            CheckpointError: the latest checkpoint is damaged, or no file names it.
            OSError: a checkpoint can't be written, as on a full disk.
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
        one_writer = model_dir_lock.hold(self._model_dir)
        with one_writer if self._config.is_chief else contextlib.nullcontext():
            if max_steps is not None:
                latest = training.checkpoint_to_continue(setup_of(self))
                if max_steps <= checkpoint_state.read_global_step(latest):
                    tf1.logging.info("Skipping training since max_steps has already saved.")
                    return self
            all_hooks.extend(self._convert_train_steps_to_hooks(steps, max_steps))
            all_hooks.append(ProgressLine(steps, max_steps))
            servers.start(self._config)
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
            steps: number of batches. None: until the input ends.
            hooks: `SessionRunHook`s.
            checkpoint_path: prefix of the checkpoint. None: the latest; if there is none, newly
                initialized variables are evaluated.
            name: suffix of the summaries' directory, to tell several evaluations apart.

        Returns:
            The metrics by name, with `loss` (the mean over the batches) and `global_step`.

        Raises:
            ValueError: `steps` isn't positive, or the input is empty.
            TypeError: a hook has another type.
            ModelDirError: `model_dir` can't be written.
            CheckpointError: the checkpoint is missing or damaged.
            OSError: the summaries can't be written, as on a full disk.
        """
        all_hooks = hooks_lib.check_hooks(hooks)
        hooks_lib.check_batches(steps)
        self._check_before_graph(ModeKeys.EVAL, input_fn)
        all_hooks.extend(self._convert_eval_steps_to_hooks(steps))
        return evaluation.evaluate(
            setup_of(self), input_fn, all_hooks, checkpoint_path, self.eval_dir(name)
        )

    def predict(
        self,
        input_fn: Callable[..., Any],
        predict_keys: Collection[str] | None = None,
        hooks: Iterable[Any] | None = None,
        checkpoint_path: str | None = None,
        yield_single_examples: bool = True,
    ) -> Iterator[Any]:
        """Yields predictions; batches are computed on demand.

        Nothing runs before the first prediction is requested. Other methods, also another
        `predict`, may be called between two predictions.

        Args:
            input_fn: as for `train`, but may return features alone; labels are ignored.
            predict_keys: names of the predictions to yield, if the model has several. None: all.
            hooks: `SessionRunHook`s.
            checkpoint_path: as for `evaluate`.
            yield_single_examples: False yields whole batches.

        Yields:
            The predictions of one example (or batch): an array or a dict of arrays, as the model's
            `predictions`.

        Raises:
            ValueError: the model lacks a key of `predict_keys`, or its predictions have different
                batch sizes, or none.
            TypeError: a hook has another type.
            CheckpointError: the checkpoint is missing or damaged.
        """
        all_hooks = hooks_lib.check_hooks(hooks)
        self._check_before_graph(ModeKeys.PREDICT, input_fn)
        yield from prediction.predict(
            setup_of(self),
            input_fn,
            all_hooks,
            checkpoint_path,
            select=lambda predictions: self._extract_keys(predictions, predict_keys),
            yield_single_examples=yield_single_examples,
        )

    def export_saved_model(
        self,
        export_dir_base: Any,
        serving_input_receiver_fn: Callable[[], Any] | None,
        assets_extra: Mapping[str, str] | None = None,
        as_text: bool = False,
        checkpoint_path: str | None = None,
        experimental_mode: str = ModeKeys.PREDICT,
        *,
        tables: str = "float32",
    ) -> bytes:
        """Writes a SavedModel of one mode.

        Args:
            export_dir_base: parent directory of the SavedModel, whose name is the time of the
                export in seconds since 1970.
            serving_input_receiver_fn: returns a `ServingInputReceiver` (or another receiver).
            assets_extra: files to copy, by their destination below `assets.extra`.
            as_text: writes the graph as text.
            checkpoint_path: prefix of the checkpoint. None: the latest.
            experimental_mode: another mode of the model, with a receiver that has labels.
            tables: dtype of the embedding tables: 'float32' (the default), 'float16' (half the
                size), or 'int8' (a quarter of the size, and 4 bytes a row for the row's scale).
                The quantization errors are logged, and written to `assets.extra/tables.json`.

        Returns:
            The path of the SavedModel, as bytes.

        Raises:
            ValueError: there is no receiver function or checkpoint, the checkpoint lacks
                variables, or quantized tables are requested of a model that has no tables, is
                trained, or has its own saver.
            CheckpointError: the checkpoint is missing or damaged.
        """
        if serving_input_receiver_fn is None:
            raise ValueError("An input_receiver_fn must be defined.")
        # Overrides of `_export_all_saved_models` may not take `tables`.
        quantized: Any = {} if tables == "float32" else {"tables": tables}
        return self._export_all_saved_models(
            export_dir_base,
            {experimental_mode: serving_input_receiver_fn},
            assets_extra=assets_extra,
            as_text=as_text,
            checkpoint_path=checkpoint_path,
            **quantized,
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

        `input_receiver_fn_map` has the receiver functions by mode. The other arguments are those of
        `export_saved_model`.

        Returns:
            The path of the SavedModel, as bytes.

        Raises:
            ValueError: no mode is known, there is no checkpoint, or it lacks variables.
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
        """Writes a SavedModel for serving: the older name of `export_saved_model`.

        `strip_default_attrs` leaves out attributes that have their default value, so that older
        servers can read the graph. The other arguments, the result and the errors are those of
        `export_saved_model`.
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

    def _assert_members_are_not_overridden(self) -> None:
        """Checks that the subclass overrides no public method of `Estimator`."""
        check_overridden_members(Estimator, self)
