# SPDX-License-Identifier: Apache-2.0
"""From a `model_fn` to a graph: the settings of an estimator, and one step each of building."""

from __future__ import annotations

import contextlib
import copy
import tempfile
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import tensorflow as tf

from estimator_spec import legacy_keras
from estimator_spec._tensorflow import private
from estimator_spec.config.run_config import RunConfig, get_default_session_config, path_to_str
from estimator_spec.driver import (
    checkpoint_state,
    cluster_roles,
    input_pipeline,
    model_calls,
    table_warm_start,
)
from estimator_spec.model.model_spec import ModeKeys, default_warm_start_settings
from tpu_columns import placement

tf1 = tf.compat.v1


class Built(NamedTuple):
    """A graph that is ready to be run.

    Attributes:
        spec: its `EstimatorSpec`.
        hooks: what its input and its embedding core need.
        config: the configuration of its sessions.
        running: makes a context around the run.
        first_hooks: hooks of training that must come before the one that saves.
        listeners: what must hear of checkpoints, before the user's.
        loop: whether one session call makes several steps.
    """

    spec: Any
    hooks: list[Any]
    config: Any
    running: Callable[[], Any] = contextlib.nullcontext
    first_hooks: tuple[Any, ...] = ()
    listeners: tuple[Any, ...] = ()
    loop: bool = False


class ModelGraphs:
    """What `Estimator` knows, and how it builds the graph of a mode.

    The arguments are `Estimator`'s. The attributes `_config`, `_model_dir`, `_session_config`,
    `_model_fn`, `_params` and `_warm_start_settings` have the names that subclasses know.
    """

    _fast_updates = True
    _adds_params = False  # whether a subclass passes params of its own to the user's functions

    def __init__(
        self,
        model_fn: Callable[..., Any],
        model_dir: Any = None,
        config: RunConfig | None = None,
        params: Any = None,
        warm_start_from: Any = None,
    ) -> None:
        model_calls.check_arguments(model_fn, params, self._adds_params)
        self._config = settled(config, model_dir)
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

    # What subclasses override.

    def _call_input_fn(
        self, input_fn: Callable[..., Any], mode: str, input_context: Any = None
    ) -> Any:
        """Calls the user's `input_fn`, with what it takes."""
        return input_pipeline.call_input_fn(input_fn, mode, self.params, self.config, input_context)

    def _call_model_fn(self, features: Any, labels: Any, mode: str, config: Any) -> Any:
        """Calls the user's `model_fn`, with what it takes; returns an `EstimatorSpec`."""
        return model_calls.call_model_fn(
            self._model_fn, features, labels, mode, self.params, config
        )

    def _create_global_step(self, graph: Any) -> Any:
        """Makes the step counter."""
        return tf1.train.create_global_step(graph)

    def _check_before_graph(self, mode: str, input_fn: Callable[..., Any]) -> None:
        """Everything that can be refused before a graph is built."""
        del input_fn
        if mode != ModeKeys.EVAL:  # An evaluation is always of one process.
            cluster_roles.check_single_process(self._config)
        checkpoint_state.check_model_dir(self._model_dir, writable=mode != ModeKeys.PREDICT)

    def _hardware(self, mode: placement.Mode) -> placement.Hardware:
        """What columns are told to run on."""
        del mode
        return placement.Hardware.CPU

    def _before_receivers(self) -> None:
        """What the graph of an export has before it has receivers."""

    def _build(self, graph: Any, input_fn: Callable[..., Any], mode: str) -> Built:
        """Builds input and model in `graph`, the default one."""
        self._start(graph)
        if mode == ModeKeys.TRAIN:
            private.get_or_create_global_step_read(graph)
        batch = self._batch(input_fn, mode)
        if mode == ModeKeys.PREDICT:
            input_pipeline.warn_if_endless()
        labels = None if mode == ModeKeys.PREDICT else batch.labels
        return Built(self._spec(batch.features, labels, mode), batch.hooks, self._config)

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

    def _batch(self, input_fn: Callable[..., Any], mode: str) -> input_pipeline.Inputs:
        with self._users_code(placement.Mode(mode)):
            return input_pipeline.parse_result(self._call_input_fn(input_fn, mode), input_fn)

    def _spec(self, features: Any, labels: Any, mode: str) -> Any:
        with self._users_code(placement.Mode(mode)):
            return self._call_model_fn(features, labels, mode, self.config)

    @contextlib.contextmanager
    def _users_code(self, mode: placement.Mode) -> Iterator[None]:
        """Around everything that the user wrote: the right Keras, and where columns look up."""
        legacy_keras.select_legacy_keras()
        with placement.running(mode, self._hardware(mode)):
            yield

    def _maybe_warm_start(self, checkpoint: str | None) -> None:
        """Takes initial values from elsewhere, unless a checkpoint will overwrite them."""
        if checkpoint or not self._warm_start_settings:
            return
        tf1.logging.info("Warm-starting with WarmStartSettings: %s", self._warm_start_settings)
        tf1.train.warm_start(*table_warm_start.relayout_checkpoint(self._warm_start_settings))


def settled(config: Any, model_dir: Any) -> Any:
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
