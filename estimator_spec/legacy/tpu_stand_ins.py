# SPDX-License-Identifier: Apache-2.0
"""Replaces functions of `tf.compat.v1.tpu` while a program written for a TPU runs on the host.

The host is one replica: a computation runs as it is, and a sum over replicas is its argument.
`config.host_fallback` decides when the host is used.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from estimator_spec._tensorflow import private

tf1 = tf.compat.v1


class CrossShardOptimizer(tf1.tpu.CrossShardOptimizer):
    """TensorFlow's optimizer that sums gradients over replicas; the wrapped one if there is one.

    TensorFlow's own needs a TPU even then. Slots are named by the wrapped optimizer, on both.

    Args:
        opt: the `tf.compat.v1.train.Optimizer` to wrap.
        reduction: MEAN or SUM of `tf.compat.v1.losses.Reduction`.
        name: of the ops that a TPU adds.
        group_assignment: lists of replicas that train together, or None.

    Raises:
        ValueError: another reduction.
        TypeError: `opt` is a Keras optimizer, or none at all.
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
        if _replicas() > 1:
            return super().compute_gradients(loss, var_list=var_list, **kwargs)
        return self._opt.compute_gradients(loss, var_list=var_list, **kwargs)

    def apply_gradients(
        self, grads_and_vars: Any, global_step: Any = None, name: str | None = None
    ) -> Any:
        """See `tf.compat.v1.train.Optimizer.apply_gradients`."""
        if _replicas() > 1:
            return super().apply_gradients(grads_and_vars, global_step, name)
        return self._opt.apply_gradients(grads_and_vars, global_step, name)


def _replicas() -> int:
    """How many replicas the computation has that is being built."""
    return private.tpu_function.get_tpu_context().number_of_shards or 1


class TPUClusterResolver(tf.distribute.cluster_resolver.ClusterResolver):
    """The resolver of a cluster without TPUs: this process.

    It takes the arguments of `tf.distribute.cluster_resolver.TPUClusterResolver`, and asks nobody
    about the TPU that they name.
    """

    def __init__(self, tpu: Any = None, *args: Any, **kwargs: Any) -> None:
        del args, kwargs
        self.tpu = tpu

    @staticmethod
    def connect(tpu: Any = None, zone: Any = None, project: Any = None) -> TPUClusterResolver:
        """A resolver; there is nothing to connect to."""
        del zone, project
        return TPUClusterResolver(tpu)

    def __enter__(self) -> TPUClusterResolver:
        return self

    def __exit__(self, *exc_info: object) -> None:
        """Does nothing."""

    def master(self, task_type: Any = None, task_id: Any = None, rpc_layer: Any = None) -> str:
        """The address of the session master: this process."""
        del task_type, task_id, rpc_layer
        return ""

    def get_master(self) -> str:
        """The same."""
        return ""

    def get_job_name(self) -> str | None:
        """The job of the TPU workers: none."""
        return None

    def cluster_spec(self) -> Any:
        """A `tf.train.ClusterSpec` without jobs."""
        return tf.train.ClusterSpec({})

    def num_accelerators(
        self, task_type: Any = None, task_id: Any = None, config_proto: Any = None
    ) -> dict[str, int]:
        """How many TPU cores there are."""
        del task_type, task_id, config_proto
        return {"TPU": 0}


# tf.compat.v1.tpu, for one replica on the host.


def cross_replica_sum(x: Any, group_assignment: Any = None, name: str | None = None) -> Any:
    """The sum over replicas, of which there is one."""
    del group_assignment
    return tf.identity(x, name=name)


def outside_compilation(computation: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Calls `computation`: everything runs on the host."""
    return computation(*args, **kwargs)


def rewrite(
    computation: Callable[..., Any], inputs: Sequence[Any] | None = None, *args: Any, **kwargs: Any
) -> Any:
    """Calls `computation` on `inputs`; returns what a TPU's rewrite does.

    That is a list of tensors, even of one; a nested structure as it is; and for what has no tensors
    an operation. Operations that `computation` returned run with its tensors; others that it built
    don't, as they would on a TPU.

    Args:
        computation: a function that builds a part of the graph.
        inputs: its arguments.
        *args: the other arguments of `tf.compat.v1.tpu.rewrite` have no effect.
        **kwargs: the same.
    """
    del args, kwargs
    return _as_replica_output(computation(*_tensors(inputs)))


def replicate(
    computation: Callable[..., Any],
    inputs: Sequence[Sequence[Any]] | None = None,
    *args: Any,
    **kwargs: Any,
) -> list[Any]:
    """Calls `computation` for the one replica that there is.

    Args:
        computation: a function that builds a part of the graph.
        inputs: a list of arguments for each replica: one.
        *args: the other arguments of `tf.compat.v1.tpu.replicate` have no effect.
        **kwargs: the same.

    Raises:
        ValueError: inputs for several replicas.
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
    """Calls `computation` on the whole `inputs`, the one shard that there is.

    Args:
        computation: a function that builds a part of the graph.
        inputs: its arguments.
        num_shards: into how many parts a TPU would cut them; no effect.
        *args: the other arguments of `tf.compat.v1.tpu.shard` have no effect.
        **kwargs: the same.

    Returns:
        A list of its outputs.
    """
    del args, kwargs
    if num_shards <= 0:
        raise ValueError(f"num_shards must be a positive integer, got {num_shards}.")
    outputs = _as_replica_output(computation(*_tensors(inputs)))
    return [outputs] if isinstance(outputs, tf.Operation) else list(outputs)


def batch_parallel(
    computation: Callable[..., Any],
    inputs: Sequence[Any] | None = None,
    num_shards: int = 1,
    *args: Any,
    **kwargs: Any,
) -> list[Any]:
    """Calls `computation` on the whole batch; see `shard`."""
    return shard(computation, inputs, num_shards, *args, **kwargs)


def initialize_system(*args: Any, **kwargs: Any) -> Any:
    """The topology of the TPU system: a string tensor, empty."""
    del args, kwargs
    return tf.constant(b"", name="initialize_system")


def shutdown_system(*args: Any, **kwargs: Any) -> Any:
    """An operation that does nothing."""
    del args, kwargs
    return tf.no_op(name="shutdown_system")


def _tensors(inputs: Sequence[Any] | None) -> list[Any]:
    return [tf.convert_to_tensor(value) for value in inputs or ()]


def _as_replica_output(outputs: Any) -> Any:
    """What a TPU's rewrite gives back: a list of tensors, a nested structure, or an operation.

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
