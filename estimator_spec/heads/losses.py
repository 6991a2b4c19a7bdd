# SPDX-License-Identifier: Apache-2.0
"""Weights and reduces the losses of examples; checks and calls a user's loss function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from estimator_spec.core.common import argument_rules
from estimator_spec.core.common.signatures import argument_names
from estimator_spec.heads.inputs import with_shape

# Values of `tf.keras.losses.Reduction`; a read of these would choose a Keras for the program.
AUTO = "auto"
SUM = "sum"
SUM_OVER_BATCH_SIZE = "sum_over_batch_size"
REDUCTIONS = (AUTO, SUM, SUM_OVER_BATCH_SIZE)


def check_reduction(loss_reduction: Any) -> None:
    """Checks the argument `loss_reduction` of a head: its loss must be a scalar.

    Raises:
        ValueError: it isn't a reduction of Keras, or is 'none'.
    """
    if loss_reduction not in REDUCTIONS:
        raise ValueError(
            f"Invalid loss_reduction: {loss_reduction}. It must be one of "
            f"{', '.join(REDUCTIONS)}; see tf.keras.losses.Reduction."
        )


def weighted_loss(losses: Any, weights: Any, loss_reduction: str) -> Any:
    r"""Returns the sum of weighted losses, or that sum over the number of losses.

    $$\sum_i w_i l_i \quad\text{or}\quad \frac1n \sum_i w_i l_i$$

    Args:
        losses: tensor `[D0, …, DN, d]`.
        weights: tensor that can be broadcast to it, or a number.
        loss_reduction: one of `REDUCTIONS`; 'auto' is the mean.

    Returns:
        A scalar.
    """
    with tf.name_scope("weighted_loss"):
        total = tf.reduce_sum(losses * tf.cast(weights, losses.dtype))
        if loss_reduction == SUM:
            return total
        return tf.math.divide_no_nan(total, tf.cast(tf.size(losses), losses.dtype))


def regularized(loss: Any, regularization_losses: Any) -> Any:
    """Returns the loss plus the regularization losses.

    Args:
        loss: a scalar.
        regularization_losses: scalars, or None.
    """
    return tf.add_n([loss, *regularization_losses]) if regularization_losses else loss


def regularization_loss(regularization_losses: Any) -> Any:
    """Returns the sum of the regularization losses, or None without any.

    Args:
        regularization_losses: scalars, or None.
    """
    return tf.add_n(list(regularization_losses)) if regularization_losses else None


_OPTIONAL_ARGUMENTS = ("features", "loss_reduction")
_OPTIONAL_ARGUMENTS_V1 = ("features",)


def check_loss_fn(loss_fn: Callable[..., Any] | None, first_generation: bool = False) -> None:
    """Checks the arguments of a user's loss function.

    Args:
        loss_fn: function of `labels` and `logits`, and of any of `features` and `loss_reduction`;
            or None.
        first_generation: whether it belongs to a head of TensorFlow 1, which passes no
            `loss_reduction`.

    Raises:
        ValueError: it lacks one of the first two, or has others.
        TypeError: it isn't callable.
    """
    argument_rules.check("Head", {"loss_fn": loss_fn})
    if loss_fn is None:
        return
    names = argument_names(loss_fn)
    for required in ("labels", "logits"):
        if required not in names:
            raise ValueError(f"loss_fn must contain argument: {required}. Given arguments: {names}")
    optional = _OPTIONAL_ARGUMENTS_V1 if first_generation else _OPTIONAL_ARGUMENTS
    unexpected = sorted(set(names) - {"labels", "logits", *optional})
    if unexpected:
        raise ValueError(
            f"loss_fn has unexpected args: {unexpected}. Beside labels and logits it may take "
            f"{' and '.join(optional)}."
        )


def call_loss_fn(
    loss_fn: Callable[..., Any],
    labels: Any,
    logits: Any,
    features: Any,
    loss_reduction: str,
    dimension: int = 1,
) -> Any:
    """Calls a user's loss function, and checks the shape of its result when it runs.

    Args:
        loss_fn: as `check_loss_fn` accepts it.
        labels: processed labels `[D0, …, DN, d]`.
        logits: tensor `[D0, …, DN, logits_dimension]`.
        features: tensors by name.
        loss_reduction: the head's reduction, which happens later.
        dimension: the expected size of the last dimension of the result.

    Returns:
        The losses, a tensor `[D0, …, DN, dimension]`.
    """
    offered = {"features": features, "loss_reduction": loss_reduction}
    names = argument_names(loss_fn)
    chosen = {name: offered[name] for name in _OPTIONAL_ARGUMENTS if name in names}
    with tf.name_scope("call_loss_fn"):
        losses = tf.convert_to_tensor(loss_fn(labels=labels, logits=logits, **chosen))
        expected = tf.concat([tf.shape(logits)[:-1], [dimension]], 0)
        message = f"loss_fn must return Tensor of shape [D0, D1, ... DN, {dimension}]. "
        reported = ("logits_shape", tf.shape(logits))
        return with_shape("loss", losses, expected, message, reported)
