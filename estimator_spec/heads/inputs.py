# SPDX-License-Identifier: Apache-2.0
"""Checks logits, labels and weights, and brings them to one rank.

Logits have the shape `[D0, …, DN, logits_dimension]`, most often `[B, logits_dimension]`. Labels
and weights may lack the last dimension. Shapes are checked at once in eager mode, and in a graph
where the next op would refuse them; the others by assertions when the graph runs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from estimator_spec.core._tensorflow import private
from estimator_spec.core.user_functions.batch_errors import BatchError
from tpu_columns.layer_inputs import check_features_of


def verified(tensor: Any, *checks: Callable[[], Any]) -> Any:
    """Returns the tensor after checks: at once where values are known, or when the graph runs.

    Args:
        tensor: any tensor.
        *checks: functions that call `tf.debugging.assert_*` and return its result.

    Raises:
        BatchError: a check fails at once.
    """
    try:
        assertions = [op for op in (check() for check in checks) if op is not None]
    except tf.errors.InvalidArgumentError as error:
        raise BatchError(error.node_def, error.op, error.message) from error
    with tf.control_dependencies(assertions):
        return tf.identity(tensor) if assertions else tensor


def with_shape(
    name: str,
    tensor: Any,
    expected: Any,
    message: str,
    reported: tuple[str, Any],
    given_shape: Any = None,
) -> Any:
    """Returns the tensor, after a check of its shape: in a graph when it runs.

    Errors have the key words of TensorFlow's own heads.

    Args:
        name: of the tensor, such as 'labels'.
        tensor: the tensor.
        expected: its shape, an int32 tensor.
        message: what the shape must be.
        reported: name and value of a further shape to report.
        given_shape: the shape that the user gave it, to report; None: the tensor's.

    Raises:
        ValueError: the shape is another one, in eager mode.
    """
    known, static = tensor.shape, tf.get_static_value(expected)
    if static is not None and known.is_fully_defined():
        if known.as_list() == list(static):
            return tensor
        if tf.executing_eagerly():
            raise ValueError(
                f"{message.rstrip('. ')}, expected_{name}_shape: {list(static)}. "
                f"{name}_shape: {known}."
            )
    found = tf.shape(tensor)
    # The second op compares by broadcasting.
    is_right = tf.logical_and(
        tf.equal(tf.size(found), tf.size(expected)),
        tf.reduce_all(tf.raw_ops.Equal(x=found, y=expected, incompatible_shape_error=False)),
    )
    shown = found if given_shape is None else given_shape
    data = [message, f"{reported[0]}: ", reported[1], f"{name}_shape: ", shown]
    return verified(tensor, lambda: tf.debugging.Assert(is_right, data))


def static_int(value: Any) -> int:
    """Returns the known value of an int or of a tensor as an int."""
    return int(tf.get_static_value(value) if tf.is_tensor(value) else value)


def check_logits(logits: Any, expected_logits_dimension: Any) -> Any:
    """Returns float logits, after a check of their shape.

    Args:
        logits: numeric tensor `[D0, …, DN, expected_logits_dimension]`.
        expected_logits_dimension: the expected size of the last dimension; an int, or a tensor
            whose value is known.

    Returns:
        The logits as a float32 tensor.

    Raises:
        ValueError: the static shape is another one.
    """
    with tf.name_scope("logits"):
        logits = tf.cast(tf.convert_to_tensor(logits), tf.float32)
        known, expected_logits_dimension = logits.shape, static_int(expected_logits_dimension)
        message = "logits shape must be [D0, D1, ... DN, logits_dimension]"
        _check_rank("logits", logits)
        if known.rank is not None and known[-1] is not None:
            if known[-1] != expected_logits_dimension:
                raise ValueError(
                    f"{message}, got {known}. The head's logits_dimension is "
                    f"{expected_logits_dimension}."
                )
            return logits
        return verified(
            logits,
            lambda: tf.debugging.assert_rank_at_least(logits, 2, message=message),
            lambda: tf.debugging.assert_equal(
                tf.shape(logits)[-1], expected_logits_dimension, message=message
            ),
        )


def _check_rank(name: str, tensor: Any) -> None:
    rank = tensor.shape.rank
    if rank is not None and rank < 2:
        raise ValueError(
            f"{name} shape must be [D0, D1, ... DN, D]: {name} must have rank at least 2.  "
            f"Received rank {rank}, shape {tensor.shape}"
        )


def check_labels_given(labels: Any) -> None:
    """Checks that there are labels, or raises a ValueError."""
    if labels is None:
        raise ValueError(
            "You must provide a labels Tensor. Given: None. Check that the data have the label's "
            "feature, and that the input_fn parses and returns it as the labels."
        )


def dense_labels(labels: Any, logits: Any, expected_labels_dimension: int) -> Any:
    """Returns labels of the logits' rank, after a check of their shape.

    Args:
        labels: tensor `[D0, …, DN, expected_labels_dimension]`, or without that dimension if it
            is 1.
        logits: tensor `[D0, …, DN, logits_dimension]`.
        expected_labels_dimension: the expected size of the labels' last dimension.

    Returns:
        A tensor `[D0, …, DN, expected_labels_dimension]`.

    Raises:
        ValueError: there are no labels, they are sparse, or their static shape is another one.
    """
    check_labels_given(labels)
    dimension = expected_labels_dimension
    shape = f"[D0, D1, ... DN, {dimension}]"
    with tf.name_scope("labels") as scope:
        if isinstance(labels, (tf.SparseTensor, tf.compat.v1.SparseTensorValue)):
            raise ValueError(
                "SparseTensor labels are not supported. Labels must be a Tensor of shape "
                f"{shape}, e.g. [batch_size, {dimension}]. Let the input_fn call "
                f"tf.sparse.to_dense, if each example has {dimension} label value(s)."
            )
        if isinstance(labels, tf.RaggedTensor):
            raise ValueError(
                f"RaggedTensor labels are not supported, got {labels.dtype.name} of shape "
                f"{labels.shape}. Labels must be a Tensor of shape {shape}: call to_tensor() in "
                "input_fn."
            )
        labels = tf.convert_to_tensor(labels)
        labels = _with_last_dimension(labels, logits, dimension == 1)
        _check_rank("labels", labels)
        known = labels.shape
        if known.rank is not None and known[-1] is not None and known[-1] != dimension:
            raise ValueError(
                f"Mismatched label shape. Expected labels dimension={dimension}.  "
                f"Received {known[-1]}. If the labels are one-hot vectors, pass class ids instead, "
                "and check n_classes; otherwise check the shape of the labels, or label_dimension."
            )
        expected = tf.concat([tf.shape(logits)[:-1], [dimension]], 0)
        message = f"labels shape must be {shape}"
        # Key words of TensorFlow's losses: of class ids, and of other labels.
        words = f"logits and labels must have the same shape, and {message}"
        if logits.shape.rank and logits.shape[-1] != dimension:
            words = (
                f"Shape mismatch: The shape of labels (received {known[:-1]}) should equal the "
                f"shape of logits except for the last dimension (received {logits.shape}). "
                f"{message}"
            )
        _check_known_shape("Labels", labels, _known_shape(logits, dimension), words)
        reported = ("expected_labels_shape", expected)
        return tf.identity(with_shape("labels", labels, expected, message, reported), scope)


def _with_last_dimension(tensor: Any, logits: Any, may_lack_it: bool) -> Any:
    """Returns the tensor with the logits' rank, if only the last dimension, of size 1, lacks."""
    rank, wanted = tensor.shape.rank, logits.shape.rank
    if not may_lack_it:
        return tensor
    if rank is not None and wanted is not None:
        return tensor[..., tf.newaxis] if rank == wanted - 1 else tensor
    return tf.cond(
        tf.equal(tf.rank(tensor), tf.rank(logits) - 1),
        lambda: tensor[..., tf.newaxis],
        lambda: tensor,
    )


def _known_shape(logits: Any, last: int | None) -> list[int | None] | None:
    """Returns the logits' shape with another last dimension, as far as the graph knows it."""
    if logits.shape.rank is None:
        return None
    return [*logits.shape.as_list()[:-1], last]


def _check_known_shape(
    name: str, tensor: Any, expected: list[int | None] | None, message: str
) -> None:
    """Checks a tensor's shape as far as it is known, before an op fails for it.

    Raises:
        ValueError: it is another one, and in a graph can't be broadcast to the expected one.
    """
    wanted = tf.TensorShape(expected)
    if not tf.executing_eagerly() and _broadcasts(tensor.shape, wanted):
        return
    if not tensor.shape.is_compatible_with(wanted):
        raise ValueError(
            f"{name} don't fit the examples: {message}, here {wanted}; got {tensor.shape}. "
            "Return as many as examples in input_fn."
        )


def _broadcasts(shape: Any, other: Any) -> bool:
    """Returns whether tensors of two shapes, as far as they are known, can be multiplied."""
    try:
        tf.broadcast_static_shape(shape, other)
    except ValueError:
        return False
    return True


def check_weight_column(weight_column: Any) -> None:
    """Checks the argument `weight_column` of a head.

    Raises:
        TypeError: it is neither a name, a numeric column nor None.
        ValueError: it is an empty name.
    """
    if weight_column is None or isinstance(weight_column, private.NumericColumn):
        return
    if isinstance(weight_column, str):
        if not weight_column:
            raise ValueError("weight_column must be the name of a feature, but is empty.")
        return
    raise TypeError(
        "Weight column must be either a string or NumericColumn. "
        f"Given type: {type(weight_column)}."
    )


def weight_key(weight_column: Any) -> str | None:
    """Returns the key of the feature that has the weights, or None.

    Args:
        weight_column: name of a feature, a numeric column, or None.
    """
    return weight_column if isinstance(weight_column, str) else getattr(weight_column, "key", None)


def example_weights(
    features: Any, weight_column: Any, logits: Any, allow_per_logit_weights: bool = False
) -> Any:
    """Returns the weights of the examples, of the logits' rank.

    Args:
        features: tensors by name.
        weight_column: name of a feature, a numeric column, or None for weights of 1.
        logits: tensor `[D0, …, DN, logits_dimension]`.
        allow_per_logit_weights: whether a weight for each logit is accepted.

    Returns:
        A float tensor `[D0, …, DN, 1]` (or `[D0, …, DN, logits_dimension]`); the number 1.0 without
        a column.

    Raises:
        ValueError: the weights are no numbers, or their static shape is another one.
    """
    if weight_column is None:
        return 1.0
    if isinstance(weight_column, str):
        weight_column = tf.feature_column.numeric_column(weight_column, shape=(1,))
    with tf.name_scope("weights") as scope:
        key = weight_column.key
        features = features or {}
        if key not in features:
            raise ValueError(
                f"Feature {key} is not in features dictionary. It is the weight_column; the "
                f"features are {sorted(name for name in features if isinstance(name, str))}."
            )
        check_features_of(weight_column, features)
        cache = private.feature_transformation_cache(features)
        weights = weight_column.get_dense_tensor(cache, None)
        if not (weights.dtype.is_floating or weights.dtype.is_integer):
            raise ValueError(
                f"Weight column should be castable to float. Given dtype: {weights.dtype}"
            )
        given_shape = tf.shape(weights)
        weights = _with_last_dimension(tf.cast(weights, tf.float32), logits, True)
        shape = tf.shape(logits)
        expected = tf.concat([shape[:-1], [1]], 0)
        message = "weights shape must be [D0, D1, ... DN] or [D0, D1, ... DN, 1]"
        if allow_per_logit_weights:
            message = (
                "weights shape must be [D0, D1, ... DN], [D0, D1, ... DN, 1] or "
                "[D0, D1, ... DN, logits_dimension]"
            )
            one_each = weights.shape.rank is not None and weights.shape[-1] == 1
            known = _known_shape(logits, 1 if one_each else logits.shape[-1])
            if weights.shape.rank is not None and weights.shape[-1] is not None:
                _check_known_shape(f"Weights (feature {key!r})", weights, known, message)
            last = tf.shape(weights)[-1:]
            if not one_each:
                is_one = tf.equal(last, 1)
                expected = tf.concat([shape[:-1], tf.where(is_one, last, shape[-1:])], 0)
        else:
            known = _known_shape(logits, 1)
            _check_known_shape(f"Weights (feature {key!r})", weights, known, message)
        reported = ("logits_shape", shape)
        checked = with_shape("weights", weights, expected, message, reported, given_shape)
        return tf.identity(checked, scope)
