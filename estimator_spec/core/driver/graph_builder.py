# SPDX-License-Identifier: Apache-2.0
"""Builds the graph of one mode, from the `RunSetup` that an estimator makes."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import tensorflow as tf

from estimator_spec.core._tensorflow import private
from estimator_spec.core.cluster import probing, roles
from estimator_spec.core.common import legacy_keras
from estimator_spec.core.driver import table_warm_start
from estimator_spec.core.driver.embeddings import PlainEmbeddings
from estimator_spec.core.driver.standstill import StepWatch
from estimator_spec.core.run_config import RunConfig
from estimator_spec.core.user_functions.model_spec import EstimatorSpec, ModeKeys
from estimator_spec.core.user_functions.warm_start import WarmStartSettings
from tpu_columns import engine, invalid_ids, optimizations, placement
from tpu_columns.kernels import devices
from tpu_columns.optimizations import Optimization


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


@dataclasses.dataclass(frozen=True)
class RunSetup:
    """Settings and methods of an estimator, for the code that builds and runs its graphs.

    The functions are methods of the estimator, so that the overrides of subclasses take effect.

    Attributes:
        config: the configuration.
        model_dir: directory of checkpoints and summaries.
        warm_start: what initializes the variables of a new model, or None.
        optimizations: those that arguments and environment leave on.
        invalid_ids: policy of columns without one of their own.
        embeddings: the tables of the embedding specification.
        call_input_fn: calls an `input_fn`, given the mode and perhaps a `tf.distribute`
            `InputContext`.
        call_model_fn: calls the `model_fn`, given features, labels and the mode.
        create_global_step: creates the global step of a graph, and checks it.
        read_batch: returns features, labels and hooks, given an `input_fn` and the mode.
        read_features: returns features and hooks, for predictions.
        check: checks what can be checked before a graph, given the mode and the `input_fn`.
        build: builds a run in an empty graph, given that, the `input_fn`, the mode, and whether
            to build without replicas.
        evaluation_hooks: returns the hooks that end an evaluation, given its number of steps.
        find_checkpoint: returns the checkpoint to 'evaluate' or 'predict' with, or None, given
            the user's.
    """

    config: RunConfig
    model_dir: str
    warm_start: WarmStartSettings | None
    optimizations: frozenset[Optimization]
    invalid_ids: str | int | None
    embeddings: PlainEmbeddings
    call_input_fn: Callable[..., Any]
    call_model_fn: Callable[[Any, Any, str], EstimatorSpec]
    create_global_step: Callable[[tf.Graph], Any]
    read_batch: Callable[[Callable[..., Any], str], tuple[Any, Any, list[Any]]]
    read_features: Callable[[Callable[..., Any], str], tuple[Any, list[Any]]]
    check: Callable[[str, Callable[..., Any]], None]
    build: Callable[..., BuiltGraph]
    evaluation_hooks: Callable[[int | None], list[Any]]
    find_checkpoint: Callable[[str, str | None], str | None]


def start(setup: RunSetup, graph: tf.Graph, mode: str | None = None) -> None:
    """Sets the seed and creates the global step in an empty graph.

    Args:
        setup: creates the global step.
        graph: the default graph.
        mode: one of `ModeKeys`; None for an exported graph.

    Raises:
        ValueError: the estimator didn't create a global step.
    """
    tf.compat.v1.set_random_seed(setup.config.tf_random_seed)
    step = setup.create_global_step(graph)
    if mode == ModeKeys.TRAIN and step is not None:  # the model_fn may load it from a SavedModel
        private.get_or_create_global_step_read(graph)


def build(setup: RunSetup, graph: tf.Graph, input_fn: Callable[..., Any], mode: str) -> BuiltGraph:
    """Builds the global step, the input and the model on one device, in this order.

    Args:
        setup: creates the global step and calls the user's functions.
        graph: the default graph, empty.
        input_fn: the user's function.
        mode: one of `ModeKeys`.
    """
    start(setup, graph, mode)
    with user_code(setup, placement.Mode(mode)):
        if mode == ModeKeys.PREDICT:
            features, hooks = setup.read_features(input_fn, mode)
            labels = None
        else:
            features, labels, hooks = setup.read_batch(input_fn, mode)
        spec = setup.call_model_fn(features, labels, mode)
    return BuiltGraph(spec, hooks, setup.config)


@contextlib.contextmanager
def user_code(
    setup: RunSetup, mode: placement.Mode, hardware: placement.Hardware | None = None
) -> Iterator[None]:
    """Selects the Keras, the lookup devices and the optimizations for the user's functions.

    Args:
        setup: has the optimizations and the policy of invalid ids.
        mode: the mode that columns look up in.
        hardware: the hardware that columns look up on; None: the embeddings' in this mode.
    """
    legacy_keras.select_legacy_keras()
    devices.record_session(setup.config.session_config)
    with (
        placement.running(mode, hardware or setup.embeddings.hardware(mode)),
        optimizations.using(usable_optimizations(setup, mode)),
        invalid_ids.using(setup.invalid_ids),
    ):
        yield


def usable_optimizations(setup: RunSetup, mode: placement.Mode) -> frozenset[Optimization]:
    """Returns an estimator's optimizations, without native kernels where there are none.

    Args:
        setup: has the optimizations.
        mode: mode of the graph.
    """
    chosen = setup.optimizations
    is_native = engine.of_mode(mode, chosen).is_native
    config = setup.config
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
    tf.compat.v1.logging.info("Warm-starting with WarmStartSettings: %s", settings)
    table_warm_start.start(settings)
