# SPDX-License-Identifier: Apache-2.0
"""Replaces functions of `tf.compat.v1.tpu` while a program written for a TPU runs on the host.

The host is one replica: a computation runs as it is, and a sum over replicas is its argument.
`config.host_fallback` decides when the host is used.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from estimator_spec.core._tensorflow import cross_shard, private

tf1 = tf.compat.v1


class CrossShardOptimizer(tf1.tpu.CrossShardOptimizer):
    """`tf.compat.v1.tpu.CrossShardOptimizer` that works without a TPU.

    On one replica it calls the wrapped optimizer, in the replicas of a strategy it averages or sums
    over these, and in another computation of several replicas it is TensorFlow's. The wrapped
    optimizer names the slot variables in all cases.

    Args:
        opt: the `tf.compat.v1.train.Optimizer` to wrap.
        reduction: MEAN or SUM of `tf.compat.v1.losses.Reduction`.
        name: name of the ops on several replicas.
        group_assignment: lists of replicas that train together, or None.

    Raises:
        ValueError: `reduction` is neither MEAN nor SUM.
        TypeError: `opt` is no `tf.compat.v1.train.Optimizer`.
    """

    def __init__(
        self,
        opt: Any,
        reduction: str = tf1.losses.Reduction.MEAN,
        name: str = "CrossShardOptimizer",
        group_assignment: Any = None,
    ) -> None:
        reductions = (tf1.losses.Reduction.SUM, tf1.losses.Reduction.MEAN)
        if reduction not in reductions:
            raise ValueError(
                f"Argument `reduction` should be one of {reductions}. Received: {reduction}"
            )
        if not isinstance(opt, tf1.train.Optimizer):
            raise TypeError(
                "CrossShardOptimizer only works with tf.compat.v1.train.Optimizer and not Keras "
                f"Optimizer. Received: {opt}."
            )
        # Not by super(): TensorFlow's __init__ calls its own class by name, which is ours now.
        tf1.train.Optimizer.__init__(self, False, name)
        self._opt = opt
        self._reduction = reduction
        self._group_assignment = group_assignment

    def compute_gradients(self, loss: Any, var_list: Any = None, **kwargs: Any) -> Any:
        """See `tf.compat.v1.train.Optimizer.compute_gradients`."""
        if cross_shard.in_replicas():
            return cross_shard.compute_gradients(self, loss, var_list, **kwargs)
        if _replicas() > 1:
            return super().compute_gradients(loss, var_list=var_list, **kwargs)
        return self._opt.compute_gradients(loss, var_list=var_list, **kwargs)

    def apply_gradients(
        self, grads_and_vars: Any, global_step: Any = None, name: str | None = None
    ) -> Any:
        """See `tf.compat.v1.train.Optimizer.apply_gradients`."""
        if cross_shard.in_replicas():
            return cross_shard.apply_gradients(self, grads_and_vars, global_step, name)
        if _replicas() > 1:
            return super().apply_gradients(grads_and_vars, global_step, name)
        return self._opt.apply_gradients(grads_and_vars, global_step, name)


def _replicas() -> int:
    """Returns the number of replicas of the computation that is being built."""
    return private.tpu_function.get_tpu_context().number_of_shards or 1


class TPUClusterResolver(tf.distribute.cluster_resolver.ClusterResolver):
    """Cluster resolver of this process alone, without TPUs.

    It takes the arguments of `tf.distribute.cluster_resolver.TPUClusterResolver` and ignores the
    TPU that they name.
    """

    def __init__(self, tpu: Any = None, *args: Any, **kwargs: Any) -> None:
        del args, kwargs
        self.tpu = tpu

    @staticmethod
    def connect(tpu: Any = None, zone: Any = None, project: Any = None) -> TPUClusterResolver:
        """Returns a resolver; connects to nothing."""
        del zone, project
        return TPUClusterResolver(tpu)

    def __enter__(self) -> TPUClusterResolver:
        return self

    def __exit__(self, *exc_info: object) -> None:
        """Does nothing."""

    def master(self, task_type: Any = None, task_id: Any = None, rpc_layer: Any = None) -> str:
        """Returns '', the address of a session in this process."""
        del task_type, task_id, rpc_layer
        return ""

    def get_master(self) -> str:
        """Returns ''; see `master`."""
        return ""

    def get_job_name(self) -> str | None:
        """Returns None: there is no job of TPU workers."""
        return None

    def cluster_spec(self) -> Any:
        """Returns a `tf.train.ClusterSpec` without jobs."""
        return tf.train.ClusterSpec({})

    def num_accelerators(
        self, task_type: Any = None, task_id: Any = None, config_proto: Any = None
    ) -> dict[str, int]:
        """Returns the number of TPU cores, as keyword argument of a strategy: none."""
        del task_type, task_id, config_proto
        return {"TPU": 0}


# tf.compat.v1.tpu, for one replica on the host.


def cross_replica_sum(x: Any, group_assignment: Any = None, name: str | None = None) -> Any:
    """Returns `x`, the sum over one replica."""
    del group_assignment
    return tf.identity(x, name=name)


def outside_compilation(computation: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Calls `computation`, as everything runs on the host."""
    return computation(*args, **kwargs)


def rewrite(
    computation: Callable[..., Any], inputs: Sequence[Any] | None = None, *args: Any, **kwargs: Any
) -> Any:
    """Calls `computation` on `inputs`; returns the outputs as `tf.compat.v1.tpu.rewrite` does.

    Operations that `computation` returns run with its tensors. Other operations that it builds
    don't run, unlike on a TPU.

    Args:
        computation: function that builds a part of the graph.
        inputs: its arguments.
        *args: ignored arguments of `tf.compat.v1.tpu.rewrite`.
        **kwargs: ignored arguments of `tf.compat.v1.tpu.rewrite`.

    Returns:
        A list of tensors, a nested structure as it is, or an operation if there are no tensors.
    """
    del args, kwargs
    return _as_replica_output(computation(*_tensors(inputs)))


def replicate(
    computation: Callable[..., Any],
    inputs: Sequence[Sequence[Any]] | None = None,
    *args: Any,
    **kwargs: Any,
) -> list[Any]:
    """Calls `computation` for one replica.

    Args:
        computation: function that builds a part of the graph.
        inputs: a list with the arguments of the one replica.
        *args: ignored arguments of `tf.compat.v1.tpu.replicate`.
        **kwargs: ignored arguments of `tf.compat.v1.tpu.replicate`.

    Returns:
        A list with the outputs of the replica, as `rewrite` returns them.

    Raises:
        ValueError: `inputs` has arguments for several replicas.
    """
    del args, kwargs
    replicas = [[]] if inputs is None else list(inputs)
    if len(replicas) != 1:
        raise ValueError(
            f"tpu.replicate got inputs for {len(replicas)} replicas. The host is one: give it the "
            "inputs of all of them in one batch."
        )
    return [_as_replica_output(computation(*_tensors(replicas[0])))]


def shard(
    computation: Callable[..., Any],
    inputs: Sequence[Any] | None = None,
    num_shards: int = 1,
    *args: Any,
    **kwargs: Any,
) -> list[Any]:
    """Calls `computation` on the whole `inputs`, as one shard.

    Args:
        computation: function that builds a part of the graph.
        inputs: its arguments.
        num_shards: ignored number of shards on a TPU; must be positive.
        *args: ignored arguments of `tf.compat.v1.tpu.shard`.
        **kwargs: ignored arguments of `tf.compat.v1.tpu.shard`.

    Returns:
        A list of the outputs.

    Raises:
        ValueError: `num_shards` is not positive.
    """
    del args, kwargs
    if num_shards <= 0:
        raise ValueError(f"num_shards must be a positive integer, got {num_shards}.")
    outputs = _as_replica_output(computation(*_tensors(inputs)))
    return [outputs] if isinstance(outputs, tf.Operation) else list(outputs)


batch_parallel = shard  # it shards by the batch, of which one replica gets all


def initialize_system(*args: Any, **kwargs: Any) -> Any:
    """Returns an empty string tensor in place of a TPU system's topology."""
    del args, kwargs
    return tf.constant(b"", name="initialize_system")


def shutdown_system(*args: Any, **kwargs: Any) -> Any:
    """Returns a no-op."""
    del args, kwargs
    return tf.no_op(name="shutdown_system")


def _tensors(inputs: Sequence[Any] | None) -> list[Any]:
    return [tf.convert_to_tensor(value) for value in inputs or ()]


def _as_replica_output(outputs: Any) -> Any:
    """Converts outputs to a list of tensors, a nested structure or an operation, as `rewrite` does.

    The operations that a computation returned run with each of its tensors.
    """
    flat = [] if outputs is None else tf.nest.flatten(outputs)
    operations = [item for item in flat if isinstance(item, tf.Operation)]
    with tf.control_dependencies(operations):
        if len(operations) == len(flat):
            return tf.no_op(name="output")
        if _is_nested(outputs):
            return tf.nest.map_structure(tf.identity, outputs)
        return [tf.identity(item) for item in flat if not isinstance(item, tf.Operation)]


def _is_nested(outputs: Any) -> bool:
    if isinstance(outputs, (list, tuple)):
        return any(isinstance(item, (list, tuple, dict)) for item in outputs)
    return isinstance(outputs, dict)
