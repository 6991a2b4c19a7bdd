# SPDX-License-Identifier: Apache-2.0
"""Inputs of exported models: receivers, and functions that build them.

A receiver has the placeholders that a client feeds, and the features computed from them, by parsing
for example.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import tensorflow as tf

tf1 = tf.compat.v1

_FEATURE = "feature"
_LABEL = "label"
_INPUT = "input"


def _is_tensor(value: Any) -> bool:
    """Returns whether a value is a tensor, or an object that holds one and converts to it."""
    if isinstance(value, (tf.Tensor, tf.SparseTensor, tf.RaggedTensor)):
        return True
    if not hasattr(value, "tensor"):  # numbers, lists and arrays convert, too
        return False
    try:
        tf.convert_to_tensor(value)
    except (TypeError, ValueError):
        return False
    return True


def _check_tensor(value: Any, label: str) -> None:
    if not _is_tensor(value):
        raise ValueError(f"{label} must be a Tensor, SparseTensor, or RaggedTensor; got {value!r}.")


def _named_tensors(
    tensors: Any, label: str, default_name: str, integer_keys: bool = False
) -> dict[Any, Any]:
    """Returns tensors by name, a single tensor by its default name, after checks of both."""
    if tensors is None:
        raise ValueError(f"{label}s must be defined.")
    if not isinstance(tensors, Mapping):
        tensors = {default_name: tensors}
    for name, tensor in tensors.items():
        if not isinstance(name, (str, int) if integer_keys else str):
            kinds = "strings or ints" if integer_keys else "strings"
            raise ValueError(f"{label} keys must be {kinds}: {name!r}.")
        _check_tensor(tensor, f"{label} {name}")
    return tensors  # type: ignore[return-value]


def _alternatives(groups: Any) -> dict[str, Any] | None:
    if groups is None:
        return None
    if not isinstance(groups, Mapping):
        raise ValueError(f"receiver_tensors_alternatives must be a dict: {groups}.")
    return {
        name: _named_tensors(tensors, "receiver_tensors_alternative", _INPUT)
        for name, tensors in groups.items()
    }


class _ReceiverFields(NamedTuple):
    features: Any
    receiver_tensors: dict[str, Any]
    receiver_tensors_alternatives: dict[str, Any] | None


class ServingInputReceiver(_ReceiverFields):
    """Inputs of a served model.

    Args:
        features: tensors by name for `model_fn`. A single tensor gets the name 'feature'.
        receiver_tensors: tensors by name that a client feeds. A single tensor gets the name
            'input'.
        receiver_tensors_alternatives: other sets of tensors to feed, by name; each adds a signature
            `<name>:<output>` for every output.

    Raises:
        ValueError: an argument is missing, or has another type.
    """

    __slots__ = ()

    def __new__(
        cls, features: Any, receiver_tensors: Any, receiver_tensors_alternatives: Any = None
    ) -> ServingInputReceiver:
        """Checks the values; see the class."""
        return super().__new__(
            cls,
            _named_tensors(features, "feature", _FEATURE, integer_keys=True),
            _named_tensors(receiver_tensors, "receiver_tensor", _INPUT),
            _alternatives(receiver_tensors_alternatives),
        )


class TensorServingInputReceiver(_ReceiverFields):
    """Inputs of a served model whose `model_fn` takes one tensor, not a dict.

    Args:
        features: the tensor.
        receiver_tensors: as for `ServingInputReceiver`.
        receiver_tensors_alternatives: as for `ServingInputReceiver`.

    Raises:
        ValueError: an argument is missing, or has another type.
    """

    __slots__ = ()

    def __new__(
        cls, features: Any, receiver_tensors: Any, receiver_tensors_alternatives: Any = None
    ) -> TensorServingInputReceiver:
        """Checks the values; see the class."""
        if features is None:
            raise ValueError("features must be defined.")
        _check_tensor(features, "feature")
        return super().__new__(
            cls,
            features,
            _named_tensors(receiver_tensors, "receiver_tensor", _INPUT),
            _alternatives(receiver_tensors_alternatives),
        )


class UnsupervisedInputReceiver(ServingInputReceiver):
    """Inputs of an exported training or evaluation graph without labels.

    Args:
        features: as for `ServingInputReceiver`.
        receiver_tensors: as for `ServingInputReceiver`.

    Raises:
        ValueError: an argument is missing, or has another type.
    """

    __slots__ = ()

    def __new__(  # type: ignore[override]
        cls, features: Any, receiver_tensors: Any
    ) -> UnsupervisedInputReceiver:
        """Checks the values; see the class."""
        return super().__new__(cls, features, receiver_tensors)  # type: ignore[return-value]


class _SupervisedFields(NamedTuple):
    features: Any
    labels: Any
    receiver_tensors: dict[str, Any]


class SupervisedInputReceiver(_SupervisedFields):
    """Inputs of an exported training or evaluation graph.

    Args:
        features: features for `model_fn`: a tensor, or tensors by name.
        labels: labels for `model_fn`: a tensor, or tensors by name.
        receiver_tensors: as for `ServingInputReceiver`.

    Raises:
        ValueError: an argument is missing, or has another type.
    """

    __slots__ = ()

    def __new__(cls, features: Any, labels: Any, receiver_tensors: Any) -> SupervisedInputReceiver:
        """Checks the values; see the class."""
        _named_tensors(features, "feature", _FEATURE, integer_keys=True)
        _named_tensors(labels, "label", _LABEL, integer_keys=True)
        named = _named_tensors(receiver_tensors, "receiver_tensor", _INPUT)
        return super().__new__(cls, features, labels, named)


def build_parsing_serving_input_receiver_fn(
    feature_spec: Mapping[str, Any], default_batch_size: int | None = None
) -> Callable[[], ServingInputReceiver]:
    """Returns a `serving_input_receiver_fn` for serialized `tf.train.Example`s.

    Args:
        feature_spec: the features to parse, as for `tf.io.parse_example`.
        default_batch_size: number of examples in a request. None (the default): any number.

    Returns:
        A `serving_input_receiver_fn`; its one input is named 'examples'.
    """

    def serving_input_receiver_fn() -> ServingInputReceiver:
        serialized = tf1.placeholder(
            tf.string, shape=[default_batch_size], name="input_example_tensor"
        )
        features = tf.io.parse_example(serialized, feature_spec)
        return ServingInputReceiver(features, {"examples": serialized})

    return serving_input_receiver_fn


def _placeholder(tensor: Any, batch_size: int | None) -> Any:
    """Returns a placeholder of the dtype and shape of `tensor`, with another batch size."""
    if not isinstance(tensor, (tf.Tensor, tf.Variable)):
        raise TypeError(
            "Receivers of raw inputs need tensors or dicts of tensors, for their dtypes and "
            f"shapes; got {tensor!r}."
        )
    shape = tf.TensorShape([batch_size]).concatenate(tensor.shape[1:])
    # An eager tensor has no op, and so no name.
    op = None if hasattr(tensor, "numpy") else tensor.op
    return tf1.placeholder(tensor.dtype, shape=shape, name=op.name if op is not None else None)


def _placeholders(tensors: Any, batch_size: int | None) -> Any:
    if not isinstance(tensors, Mapping):
        return _placeholder(tensors, batch_size)
    return {name: _placeholder(tensor, batch_size) for name, tensor in tensors.items()}


def build_raw_serving_input_receiver_fn(
    features: Mapping[str, Any], default_batch_size: int | None = None
) -> Callable[[], ServingInputReceiver]:
    """Returns a `serving_input_receiver_fn` whose placeholders are the features themselves.

    Args:
        features: tensors by name, for their dtypes and shapes.
        default_batch_size: number of examples in a request. None (the default): any number.

    Returns:
        A `serving_input_receiver_fn`.
    """

    def serving_input_receiver_fn() -> ServingInputReceiver:
        placeholders = _placeholders(features, default_batch_size)
        return ServingInputReceiver(placeholders, placeholders)

    return serving_input_receiver_fn


def build_raw_supervised_input_receiver_fn(
    features: Any, labels: Any, default_batch_size: int | None = None
) -> Callable[[], SupervisedInputReceiver]:
    """Returns a receiver function for exported training or evaluation graphs.

    Args:
        features: a tensor, or tensors by name, for their dtypes and shapes.
        labels: a tensor, or tensors by name.
        default_batch_size: number of examples in a batch. None (the default): any number.

    Returns:
        A receiver function. Single tensors are fed as 'input' and 'label'.

    Raises:
        ValueError: a feature and a label have the same name.
    """
    feature_names = set(features) if isinstance(features, Mapping) else {_INPUT}
    label_names = set(labels) if isinstance(labels, Mapping) else {_LABEL}
    overlap = sorted(map(str, feature_names & label_names))
    if overlap:
        raise ValueError(
            f"Features and labels must have distinct keys. Found overlapping keys: {overlap}"
        )

    def supervised_input_receiver_fn() -> SupervisedInputReceiver:
        fed_features = _placeholders(features, default_batch_size)
        fed_labels = _placeholders(labels, default_batch_size)
        fed = dict(fed_features) if isinstance(features, Mapping) else {_INPUT: fed_features}
        fed.update(fed_labels if isinstance(labels, Mapping) else {_LABEL: fed_labels})
        return SupervisedInputReceiver(fed_features, fed_labels, fed)

    return supervised_input_receiver_fn
