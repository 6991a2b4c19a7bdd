# SPDX-License-Identifier: Apache-2.0
"""Builds the train op of a head from an optimizer or from a function of the loss."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import tensorflow as tf

from estimator_spec.heads import losses

tf1 = tf.compat.v1


def make_train_op(
    loss: Any,
    optimizer: Any = None,
    train_op_fn: Callable[[Any], Any] | None = None,
    update_ops: Iterable[Any] | None = None,
    trainable_variables: Sequence[Any] | None = None,
    loss_reduction: str | None = None,
    takes_any_minimize: bool = False,
) -> Any:
    """Returns the op of one training step.

    Args:
        loss: a scalar, regularization losses included.
        optimizer: a `tf.compat.v1.train.Optimizer`, whose step also increments the global step, or
            a `tf.keras.optimizers.legacy.Optimizer`, whose step increments its `iterations`.
        train_op_fn: function of the loss that returns the op, instead of an optimizer.
        update_ops: ops to run in each step beside the optimizer's, such as those of batch
            normalization.
        trainable_variables: variables that the optimizer moves. Keras optimizers need them; None
            stands for the graph's trainable variables with others.
        loss_reduction: as for `divide_by_replicas`, of a Keras optimizer's loss.
        takes_any_minimize: whether the optimizer may be any object with a `minimize` that takes the
            loss and `global_step`, as for heads of TensorFlow 1.

    Returns:
        An op.

    Raises:
        ValueError: both `optimizer` and `train_op_fn` are given, or neither; a Keras optimizer
            gets no variables; or the optimizer is of another kind.
    """
    if optimizer is not None and train_op_fn is not None:
        raise ValueError("train_op_fn and optimizer cannot both be set; pass one of them.")
    if optimizer is None and train_op_fn is None:
        raise ValueError("train_op_fn and optimizer cannot both be None; training needs one.")
    if train_op_fn is not None:
        train_op = train_op_fn(loss)
    elif isinstance(optimizer, tf1.train.Optimizer) or takes_any_minimize:
        # Optimizers of users may take these two arguments only.
        options = {} if trainable_variables is None else {"var_list": trainable_variables}
        train_op = optimizer.minimize(loss, global_step=tf1.train.get_global_step(), **options)
    else:
        variables = _check_keras_optimizer(optimizer, trainable_variables)
        loss = divide_by_replicas(loss, loss_reduction)
        updates = optimizer.get_updates(loss, variables)
        train_op = updates[0] if len(updates) == 1 else tf.group(*updates)
    return train_op if not update_ops else tf.group(train_op, *update_ops)


def divide_by_replicas(loss: Any, loss_reduction: str | None) -> Any:
    """Returns a replica's part of the loss: replicas add up the gradients of Keras optimizers.

    Args:
        loss: a scalar.
        loss_reduction: the head's; a mean is divided by the number of replicas, a sum isn't.
    """
    replicas = tf.distribute.get_strategy().num_replicas_in_sync
    is_mean = loss_reduction in (losses.AUTO, losses.SUM_OVER_BATCH_SIZE)
    return loss / replicas if replicas > 1 and is_mean else loss


def _check_keras_optimizer(optimizer: Any, trainable_variables: Any) -> list[Any]:
    """Returns the variables that a Keras optimizer moves, after a check of both."""
    if not callable(getattr(optimizer, "get_updates", None)):
        raise ValueError(
            "The given optimizer is not a tf.keras.optimizers.Optimizer instance that builds TF1 "
            "graphs. Use one of tf.keras.optimizers.legacy, or a tf.compat.v1.train.Optimizer. "
            f"Received optimizer of type {type(optimizer)}"
        )
    if trainable_variables is None:
        raise ValueError(
            "trainable_variables cannot be None. Given None. A Keras optimizer needs the variables "
            "of the model, for instance model.trainable_variables."
        )
    if not isinstance(trainable_variables, (list, tuple)):
        raise ValueError(
            f"trainable_variables should be a list or a tuple. Given type: "
            f"{type(trainable_variables)}."
        )
    return list(trainable_variables)
