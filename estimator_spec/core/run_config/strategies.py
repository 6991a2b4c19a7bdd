# SPDX-License-Identifier: Apache-2.0
"""Sets the strategies of a configuration, and recognizes those that span several processes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import tensorflow as tf

from estimator_spec.core.run_config.task_type import TaskType

STANDALONE_CLIENT = "standalone_client"
INDEPENDENT_WORKER = "independent_worker"


def is_collective(strategy: Any) -> bool:
    """Returns whether each process of a strategy has all variables, and gradients are averaged.

    Args:
        strategy: a `tf.distribute.Strategy`, or None.
    """
    # The classes are loaded only if there is a strategy: most runs have none.
    return strategy is not None and isinstance(
        strategy,
        (
            tf.distribute.MultiWorkerMirroredStrategy,
            tf.compat.v1.distribute.experimental.MultiWorkerMirroredStrategy,
        ),
    )


def is_parameter_server(strategy: Any) -> bool:
    """Returns whether a strategy places variables on parameter servers, as a cluster does."""
    return strategy is not None and isinstance(
        strategy, tf.compat.v1.distribute.experimental.ParameterServerStrategy
    )


class CopyOfRunConfig(Protocol):
    """Methods that only a program's copy of TensorFlow's `RunConfig` has."""

    def _init_distributed_setting_from_environment_var(self, tf_config: dict[str, Any]) -> None:
        """Sets the properties of this process' task, but for those of the session."""

    def _maybe_overwrite_session_config_for_distributed_training(self) -> None:
        """Sets the default session configuration of a cluster's task."""


def mode(config: Any) -> str | None:
    """Returns the mode of the coordinator that gives a process its task; None without one."""
    return getattr(config, "_distribute_coordinator_mode", None)


def initialize_copy(config: CopyOfRunConfig, tf_config: dict[str, Any]) -> None:
    """Does the same as `initialize` for a program's copy of the old `RunConfig`."""

    def set_task(tf_config: dict[str, Any]) -> None:
        config._init_distributed_setting_from_environment_var(tf_config)
        config._maybe_overwrite_session_config_for_distributed_training()

    initialize(config, tf_config, set_task)


def _inner(given: Any, name: str, outer: Any) -> Any:
    """Returns a strategy of a `DistributeConfig`, or of the `RunConfig` that has it."""
    inner = getattr(given, name, None)
    if inner and outer:
        raise ValueError(f"Either `{name}` or `experimental_distribute.{name}` can be set.")
    return inner or outer


def initialize(
    config: Any, tf_config: dict[str, Any], set_task: Callable[[dict[str, Any]], None]
) -> None:
    """Sets the strategies of a configuration, the mode of their coordinator, and the cluster.

    Args:
        config: a `RunConfig`, or an object with the same attributes.
        tf_config: the content of TF_CONFIG.
        set_task: sets the properties of this process' task in the cluster of a TF_CONFIG.

    Raises:
        ValueError: a strategy or the cluster is given twice.
    """
    given = config._experimental_distribute
    config._train_distribute = _inner(given, "train_distribute", config._train_distribute)
    config._eval_distribute = _inner(given, "eval_distribute", config._eval_distribute)
    cluster = tf.train.ClusterSpec(tf_config.get("cluster", {}))
    remote = getattr(given, "remote_cluster", None)
    if config._train_distribute and remote:
        if cluster:
            raise ValueError(
                'Cannot set both "cluster_spec" of TF_CONFIG and '
                "`experimental_distribute.remote_cluster`"
            )
        set_task({})
        config._distribute_coordinator_mode = STANDALONE_CLIENT
        config._cluster_spec = remote
    elif config._train_distribute and cluster and TaskType.MASTER not in cluster.jobs:
        # The strategy's coordinator sets the task when it starts.
        set_task({})
        config._distribute_coordinator_mode = INDEPENDENT_WORKER
        config._cluster_spec = cluster
    else:
        config._distribute_coordinator_mode = None
        set_task(tf_config)
