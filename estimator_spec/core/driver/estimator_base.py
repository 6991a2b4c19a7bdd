# SPDX-License-Identifier: Apache-2.0
"""Defines `EstimatorBase`: the settings of an estimator, and the methods that programs override."""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Callable, Collection
from typing import Any, TypeVar

import tensorflow as tf

from estimator_spec.core.cluster import roles
from estimator_spec.core.common.checks import check_callable
from estimator_spec.core.driver import (
    checkpoint_state,
    graph_builder,
    input_pipeline,
    model_calls,
    prediction,
    saved_models,
    strategy_graphs,
    training,
)
from estimator_spec.core.driver import hooks as hooks_lib
from estimator_spec.core.driver.embeddings import PlainEmbeddings
from estimator_spec.core.driver.graph_builder import BuiltGraph, RunSetup
from estimator_spec.core.run_config import RunConfig, get_default_session_config, path_to_str
from estimator_spec.core.run_config.run_config import distributed_session_config
from estimator_spec.core.user_functions import batches
from estimator_spec.core.user_functions.model_spec import ModeKeys
from estimator_spec.core.user_functions.warm_start import WarmStartSettings
from tpu_columns.optimizations import Optimization

tf1 = tf.compat.v1

_MAY_BE_OVERRIDDEN = frozenset({"model_fn", "latest_checkpoint"})

_Estimator = TypeVar("_Estimator", bound="EstimatorBase")


class EstimatorBase:
    """Settings and protected methods of an estimator.

    Other modules have them from `setup_of`.
    """

    _config: RunConfig
    _model_dir: str
    _session_config: Any  # for programs
    _model_fn: Callable[..., Any]
    _params: Any
    _warm_start_settings: WarmStartSettings | None
    _optimizations: frozenset[Optimization]
    _invalid_ids: str | int | None
    _run_embeddings = PlainEmbeddings(None)

    @property
    def model_dir(self) -> str:
        """Directory of checkpoints and summaries."""
        return self._model_dir

    @property
    def config(self) -> Any:
        """A copy of the configuration, with the `model_dir` and `session_config` in use."""
        return copy.deepcopy(self._config)

    @property
    def params(self) -> Any:
        """A copy of the hyperparameters."""
        return copy.deepcopy(self._params)

    # Methods that programs override.

    def _call_input_fn(
        self, input_fn: Callable[..., Any], mode: str, input_context: Any = None
    ) -> Any:
        """Calls the user's `input_fn` with the arguments that it takes."""
        return batches.call_input_fn(input_fn, mode, self.params, self.config, input_context)

    def _call_model_fn(self, features: Any, labels: Any, mode: str, config: Any) -> Any:
        """Calls the user's `model_fn` with the arguments it takes; returns an `EstimatorSpec`."""
        return model_calls.call_model_fn(
            self._model_fn, features, labels, mode, self.params, config
        )

    def _create_global_step(self, graph: tf.Graph) -> Any:
        """Creates the global step."""
        return tf1.train.create_global_step(graph)

    def _create_and_assert_global_step(self, graph: tf.Graph) -> Any:
        """Creates the global step, and checks it."""
        step = self._create_global_step(graph)
        if step is not tf1.train.get_global_step(graph) or not step.dtype.is_integer:
            raise ValueError(
                "_create_global_step must return the graph's global step, an integer variable in "
                f"the collection {tf1.GraphKeys.GLOBAL_STEP!r}; got {step}."
            )
        return step

    def _get_features_and_labels_from_input_fn(
        self, input_fn: Callable[..., Any], mode: str
    ) -> tuple[Any, Any, list[Any]]:
        """Returns (features, labels or None, hooks) of a training or an evaluation."""
        return input_pipeline.parse_result(self._call_input_fn(input_fn, mode), input_fn)

    def _extract_keys(self, predictions: Any, predict_keys: Collection[str] | None) -> Any:
        """Returns the predictions of some keys; public predict loops call it."""
        return prediction.select_predictions(predictions, predict_keys)

    def _get_features_from_input_fn(
        self, input_fn: Callable[..., Any], mode: str
    ) -> tuple[Any, list[Any]]:
        """Returns (features, hooks) of a prediction."""
        result = self._call_input_fn(input_fn, mode)
        features, _, hooks = input_pipeline.parse_result(result, input_fn)
        input_pipeline.warn_if_endless()
        return features, hooks

    def _get_iterator_from_input_fn(
        self, input_fn: Callable[..., Any], mode: str, distribution: Any = None
    ) -> tuple[Any, list[Any]]:
        """Returns the iterator of the dataset that `input_fn` returns, and its hooks."""
        if distribution is not None:
            raise ValueError(
                "_get_iterator_from_input_fn has no iterators of a tf.distribute.Strategy. Leave "
                "`distribution` out."
            )
        result = self._call_input_fn(input_fn, mode)
        if not isinstance(result, tf.data.Dataset):
            raise ValueError(
                f"input_fn {batches.describe(input_fn)} must return a tf.data.Dataset: the "
                "training loop takes several batches at a time. It returned "
                f"{type(result).__name__}."
            )
        iterator = batches.initializable_iterator(result, input_fn)
        return iterator, [hooks_lib.IteratorInitializer(iterator)]

    def _convert_train_steps_to_hooks(self, steps: int | None, max_steps: int | None) -> list[Any]:
        """Returns the hooks that end the training."""
        if steps is None and max_steps is None:
            return []
        return [hooks_lib.StopAtStep(steps, max_steps)]

    def _convert_eval_steps_to_hooks(self, steps: int | None) -> list[Any]:
        """Returns the hooks that end an evaluation."""
        hooks_lib.check_batches(steps)
        return [] if steps is None else [hooks_lib.StopAfterBatches(steps)]

    def _train_model(
        self, input_fn: Callable[..., Any], hooks: list[Any], saving_listeners: list[Any]
    ) -> Any:
        """Builds the training graph and runs it; returns the last loss."""
        listeners = [*self._run_embeddings.listeners(self._config), *saving_listeners]
        return training.train(setup_of(self), input_fn, hooks, self._speed_hooks(), listeners)

    def _export_all_saved_models(self, *args: Any, **kwargs: Any) -> bytes:
        """Writes one SavedModel; the arguments are those of `saved_models.export`."""
        return saved_models.export(setup_of(self), *args, **kwargs)

    # Methods that estimators of this package extend.

    def _check_before_graph(self, mode: str, input_fn: Callable[..., Any]) -> None:
        """Checks what can be checked before a graph is built."""
        check_callable("input_fn", input_fn)
        if mode == ModeKeys.TRAIN:  # Evaluations and predictions always run in one process.
            roles.check_cluster(self._config)
        checkpoint_state.check_model_dir(self._model_dir, writable=mode != ModeKeys.PREDICT)

    def _build(
        self, graph: tf.Graph, input_fn: Callable[..., Any], mode: str, one_device: bool = False
    ) -> BuiltGraph:
        """Builds the graph of a run in `graph`, which is empty and the default graph.

        Args:
            graph: the graph.
            input_fn: the user's function.
            mode: one of `ModeKeys`.
            one_device: builds without replicas, even if runs of this mode have some.
        """
        strategy = None if one_device else strategy_graphs.find_strategy(self._config, mode)
        if strategy is None:
            return graph_builder.build(setup_of(self), graph, input_fn, mode)
        return strategy_graphs.build(setup_of(self), graph, input_fn, mode, strategy)

    def _speed_hooks(self) -> list[Any]:
        """Returns the hooks that log steps per second."""
        every = self._config.log_step_count_steps
        if every is None:
            return []
        return [hooks_lib.StepsPerSecond(every, output_dir=self._model_dir)]

    def _checkpoint_for(self, task: str, checkpoint_path: str | None) -> str | None:
        """Returns the prefix of the checkpoint to evaluate or predict with, or None."""
        checkpoint = checkpoint_state.choose_checkpoint(checkpoint_path, self._model_dir)
        if checkpoint is None:
            tf1.logging.info(
                "Could not find trained model in model_dir: %s, running initialization to %s.",
                self._model_dir,
                task,
            )
        return checkpoint


def setup_of(estimator: EstimatorBase) -> RunSetup:
    """Returns the settings and methods of an estimator by which its graphs are built and run."""
    return RunSetup(
        config=estimator._config,
        model_dir=estimator._model_dir,
        warm_start=estimator._warm_start_settings,
        optimizations=estimator._optimizations,
        invalid_ids=estimator._invalid_ids,
        embeddings=estimator._run_embeddings,
        call_input_fn=estimator._call_input_fn,
        call_model_fn=lambda features, labels, mode: estimator._call_model_fn(
            features, labels, mode, estimator.config
        ),
        create_global_step=estimator._create_and_assert_global_step,
        read_batch=estimator._get_features_and_labels_from_input_fn,
        read_features=estimator._get_features_from_input_fn,
        check=estimator._check_before_graph,
        build=estimator._build,
        evaluation_hooks=estimator._convert_eval_steps_to_hooks,
        find_checkpoint=estimator._checkpoint_for,
    )


def copy_with(
    estimator: _Estimator,
    *,
    model_dir: str | None = None,
    config: RunConfig | None = None,
    optimizations: frozenset[Optimization] | None = None,
) -> _Estimator:
    """Returns a copy of an estimator with other settings.

    Args:
        estimator: the estimator.
        model_dir: directory that it writes to. None: as before, even if `config` has another.
        config: its configuration. None: as before.
        optimizations: as of `optimizations.choose`. None: as before.
    """
    found = copy.copy(estimator)
    if model_dir is not None:
        found._model_dir = model_dir
    if config is not None:
        found._config = config
        found._session_config = config.session_config
    if optimizations is not None:
        found._optimizations = optimizations
    return found


def check_overridden_members(cls: type, estimator: Any) -> None:
    """Checks that an estimator's class overrides no public method.

    Args:
        cls: the class whose methods are public.
        estimator: an instance of it or of a subclass.

    Raises:
        ValueError: it overrides one.
    """
    overridden = sorted(
        name
        for name in dir(cls)
        if not name.startswith("_")
        and name not in _MAY_BE_OVERRIDDEN
        and getattr(type(estimator), name) is not getattr(cls, name)
    )
    if overridden:
        raise ValueError(
            f"Subclasses of Estimator cannot override members of Estimator. {type(estimator)} "
            f"does override {overridden}. Put the change into the model_fn, or into a method "
            "of another name."
        )


def check_config(config: Any) -> None:
    """Checks the type of the argument `config` of an estimator.

    Raises:
        ValueError: it is neither a `RunConfig` nor None.
    """
    if config is not None and not isinstance(config, RunConfig):
        raise ValueError(f"config must be an instance of `RunConfig`, but provided {config}.")


def resolve_config(config: RunConfig | None, model_dir: Any) -> RunConfig:
    """Returns the configuration with its `session_config` and `model_dir` set.

    Sessions in a cluster of parameter servers connect to these and to this task only, unless
    `config` has a `session_config`: the chief may have ended.

    Args:
        config: the configuration, or None.
        model_dir: the estimator's argument.

    Raises:
        ValueError: `config` has another type or a strategy that can't run here, or both
            arguments name different directories.
    """
    check_config(config)
    if config is None:
        config = RunConfig()
        tf1.logging.info("Using default config.")
    strategy_graphs.check_strategies(config)
    if config.session_config is None:
        found = None  # only a `TPURunConfig` has none in a cluster
        if config.num_ps_replicas:
            found = distributed_session_config(config.task_type, config.task_id)
        config = config.replace(session_config=found or get_default_session_config())
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
