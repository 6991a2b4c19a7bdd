# SPDX-License-Identifier: Apache-2.0
"""Lets a `tf.distribute` strategy reduce the gradients of `CrossShardOptimizer`.

TensorFlow's class sums gradients over replicas before the wrapped optimizer does so again in the
replicas of a strategy, and needs a TPU for it. The functions here replace its methods there: they
read its private attributes, since it has no public ones.

Models may be built in several threads at once, so the class is changed once, for good: its methods
are TensorFlow's own wherever `reduced_by_strategy` isn't in effect.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import tensorflow as tf

from tpu_columns import shared_state

tf1 = tf.compat.v1

_LOCK = threading.Lock()


def reduced_by_strategy() -> AbstractContextManager[None]:
    """Lets the current strategy reduce the gradients of each `CrossShardOptimizer` in the block.

    Replicas in threads of their own need a copy of the block's context.
    """
    with _LOCK:
        _adapt_class()
    return shared_state.setting(shared_state.REDUCED_BY_STRATEGY, True)


@functools.cache
def _adapt_class() -> None:
    """Makes TensorFlow's class call the functions of this module in `reduced_by_strategy`."""
    # `install()` puts a subclass in the place of TensorFlow's class.
    classes = tf1.tpu.CrossShardOptimizer.__mro__
    kind = next(each for each in classes if each.__module__.startswith("tensorflow."))
    for function in (compute_gradients, apply_gradients):
        own = vars(kind)[function.__name__]
        setattr(kind, function.__name__, _choosing(own, function))


def _choosing(own: Callable[..., Any], other: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a method that is `other` in `reduced_by_strategy`, and `own` elsewhere."""

    @functools.wraps(own)
    def method(optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        chosen = other if shared_state.REDUCED_BY_STRATEGY.get() else own
        return chosen(optimizer, *args, **kwargs)

    return method


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
    """Keeps TF1's optimizers from dividing the loss; see `private.average_losses`.

    They divide no loss that is a sum, by a note of the graph. (The strategy, which other threads
    may build models with, has a switch, too.)
    """
    graph = tf1.get_default_graph()
    reduction = graph._last_loss_reduction
    graph._last_loss_reduction = tf1.losses.Reduction.SUM
    try:
        yield
    finally:
        graph._last_loss_reduction = reduction
