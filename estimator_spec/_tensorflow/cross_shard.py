# SPDX-License-Identifier: Apache-2.0
"""Lets a `tf.distribute` strategy reduce the gradients of `CrossShardOptimizer`.

TensorFlow's class sums gradients over replicas before the wrapped optimizer does so again in the
replicas of a strategy, and needs a TPU for it. The functions here replace its methods there: they
read its private attributes, since it has no public ones.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import tensorflow as tf

tf1 = tf.compat.v1


def in_replicas() -> bool:
    """Returns whether a replica of a strategy with several is being built."""
    return _num_replicas() > 1 and not tf.distribute.in_cross_replica_context()


def compute_gradients(optimizer: Any, loss: Any, var_list: Any = None, **kwargs: Any) -> Any:
    """Computes gradients of a replica's loss, divided by the number of replicas for MEAN.

    Args:
        optimizer: the `CrossShardOptimizer`.
        loss: scalar.
        var_list: see `tf.compat.v1.train.Optimizer.compute_gradients`.
        **kwargs: see there.
    """
    if optimizer._reduction == tf1.losses.Reduction.MEAN:
        loss = loss * (1.0 / _num_replicas())
    with _without_scaling():
        return optimizer._opt.compute_gradients(loss, var_list=var_list, **kwargs)


def apply_gradients(
    optimizer: Any, grads_and_vars: Any, global_step: Any = None, name: str | None = None
) -> Any:
    """Applies gradients by the wrapped optimizer, which sums them over the replicas.

    Args:
        optimizer: the `CrossShardOptimizer`.
        grads_and_vars: see `tf.compat.v1.train.Optimizer.apply_gradients`.
        global_step: see there.
        name: see there.
    """
    return optimizer._opt.apply_gradients(grads_and_vars, global_step, name)


def _num_replicas() -> int:
    return int(tf.distribute.get_strategy().num_replicas_in_sync)


@contextlib.contextmanager
def _without_scaling() -> Iterator[None]:
    """Keeps TF1's optimizers from dividing the loss; see `private.average_losses`."""
    strategy = tf.distribute.get_strategy()
    scales = strategy._scale_loss_for_estimator
    strategy._scale_loss_for_estimator = False
    try:
        yield
    finally:
        strategy._scale_loss_for_estimator = scales
