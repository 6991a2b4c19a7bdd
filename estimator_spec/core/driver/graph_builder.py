# SPDX-License-Identifier: Apache-2.0
"""Builds the graph of one mode from an estimator's `input_fn` and `model_fn`."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Protocol

import tensorflow as tf

from estimator_spec.core._tensorflow import private
from estimator_spec.core.cluster import probing, roles
from estimator_spec.core.common import legacy_keras
from estimator_spec.core.driver import table_warm_start
from estimator_spec.core.driver.standstill import StepWatch
from estimator_spec.core.run_config import RunConfig
from estimator_spec.core.user_functions.model_spec import EstimatorSpec, ModeKeys, WarmStartSettings
from tpu_columns import engine, invalid_ids, optimizations, placement
from tpu_columns.kernels import devices
from tpu_columns.optimizations import Optimization

tf1 = tf.compat.v1


class EstimatorMethods(Protocol):
    """The settings and methods of an estimator that its parts use.

    The parts call these methods on the estimator, so that the overrides of subclasses take effect.
    """

    _config: Any
    _model_dir: str
    _session_config: Any
    _warm_start_settings: WarmStartSettings | None
    _optimizations: frozenset[Optimization]
    _invalid_ids: str | int | None

    @property
    def config(self) -> RunConfig:
        """A copy of the configuration."""

    def _call_input_fn(
        self, input_fn: Callable[..., Any], mode: str, input_context: Any = None
    ) -> Any: ...

    def _call_model_fn(self, features: Any, labels: Any, mode: str, config: Any) -> Any: ...

    def _create_and_assert_global_step(self, graph: tf.Graph) -> Any: ...

    def _get_features_and_labels_from_input_fn(
        self, input_fn: Callable[..., Any], mode: str
    ) -> tuple[Any, Any, list[Any]]: ...

    def _get_features_from_input_fn(
        self, input_fn: Callable[..., Any], mode: str
    ) -> tuple[Any, list[Any]]: ...

    def _hardware(self, mode: placement.Mode) -> placement.Hardware: ...

    def _before_receivers(self) -> None: ...


class BuiltGraph(NamedTuple):
    """A finished graph, and what its sessions need.

    Attributes:
        spec: the model's `EstimatorSpec`.
        hooks: session hooks of the input and the embedding core.
        config: the configuration of the sessions.
        running: returns a context manager that keeps the system initialized during the run.
        first_hooks: training hooks that must precede the hook that saves checkpoints.
        listeners: checkpoint listeners that must precede the user's.
        loop: whether one session call makes several steps.
        loss_weight: weight of a batch's loss in the mean loss of an evaluation; None: all weigh
            equally.
    """

    spec: EstimatorSpec
    hooks: list[Any]
    config: RunConfig
    running: Callable[[], contextlib.AbstractContextManager[None]] = contextlib.nullcontext
    first_hooks: tuple[Any, ...] = ()
    listeners: tuple[Any, ...] = ()
    loop: bool = False
    loss_weight: Any = None


def start(estimator: EstimatorMethods, graph: tf.Graph, mode: str | None = None) -> None:
    """Sets the seed and creates the global step in an empty graph.

    Args:
        estimator: creates the global step.
        graph: the default graph.
        mode: one of `ModeKeys`; None for an exported graph.

    Raises:
        ValueError: the estimator didn't create a global step.
    """
    tf1.set_random_seed(estimator._config.tf_random_seed)
    step = estimator._create_and_assert_global_step(graph)
    if mode == ModeKeys.TRAIN and step is not None:  # the model_fn may load it from a SavedModel
        private.get_or_create_global_step_read(graph)


def build(
    estimator: EstimatorMethods, graph: tf.Graph, input_fn: Callable[..., Any], mode: str
) -> BuiltGraph:
    """Builds the global step, the input and the model on one device, in this order.

    Args:
        estimator: creates the global step and calls the user's functions.
        graph: the default graph, empty.
        input_fn: the user's function.
        mode: one of `ModeKeys`.
    """
    start(estimator, graph, mode)
    with user_code(estimator, placement.Mode(mode)):
        if mode == ModeKeys.PREDICT:
            features, hooks = estimator._get_features_from_input_fn(input_fn, mode)
            labels = None
        else:
            features, labels, hooks = estimator._get_features_and_labels_from_input_fn(
                input_fn, mode
            )
        spec = estimator._call_model_fn(features, labels, mode, estimator.config)
    return BuiltGraph(spec, hooks, estimator._config)


@contextlib.contextmanager
def user_code(
    estimator: EstimatorMethods, mode: placement.Mode, hardware: placement.Hardware | None = None
) -> Iterator[None]:
    """Selects the Keras, the lookup devices and the optimizations for the user's functions.

    Args:
        estimator: has the optimizations and the policy of invalid ids.
        mode: the mode that columns look up in.
        hardware: the hardware that columns look up on; None: the estimator's in this mode.
    """
    legacy_keras.select_legacy_keras()
    devices.record_session(estimator._session_config)
    with (
        placement.running(mode, hardware or estimator._hardware(mode)),
        optimizations.using(usable_optimizations(estimator, mode)),
        invalid_ids.using(estimator._invalid_ids),
    ):
        yield


def usable_optimizations(
    estimator: EstimatorMethods, mode: placement.Mode
) -> frozenset[Optimization]:
    """Returns an estimator's optimizations, without native kernels where there are none.

    Args:
        estimator: has the optimizations.
        mode: mode of the graph.
    """
    chosen = estimator._optimizations
    is_native = engine.of_mode(mode, chosen).is_native
    config = estimator.config
    has_servers = roles.is_distributed(config) and not roles.is_collective(config)
    if is_native and mode is placement.Mode.TRAIN and has_servers:
        # They run ops of this process' graph.
        is_native = _servers_have_kernels(config)
    return chosen if is_native else chosen - {Optimization.NATIVE_KERNELS}


# By cluster: all graphs of a process have the same answer.
_answers: dict[str, bool] = {}


def _servers_have_kernels(config: RunConfig) -> bool:
    if config.device_fn is not None or not config.num_ps_replicas:
        return False  # variables may be anywhere
    key = str(roles.training_jobs(config))
    if key not in _answers:
        with StepWatch(config):
            _answers[key] = probing.servers_have_kernels(config)
    return _answers[key]


def warm_start(settings: WarmStartSettings | None, checkpoint: str | None) -> None:
    """Warm-starts the variables of the default graph, unless a checkpoint will be restored.

    Args:
        settings: the estimator's, or None.
        checkpoint: prefix of the checkpoint that the session will restore, or None.
    """
    if checkpoint or not settings:
        return
    tf1.logging.info("Warm-starting with WarmStartSettings: %s", settings)
    table_warm_start.start(settings)
