# SPDX-License-Identifier: Apache-2.0
"""What a SavedModel takes in: receivers, and functions that make them.

A receiver pairs the placeholders that a client feeds with the features that the model gets from
them, after parsing for example.
"""

from __future__ import annotations

import collections
from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

tf1 = tf.compat.v1

_FEATURE = "feature"
_LABEL = "label"
_INPUT = "input"


def _is_tensor(value: Any) -> bool:
    return isinstance(value, (tf.Tensor, tf.SparseTensor, tf.RaggedTensor))


def _check_tensor(value: Any, what: str) -> None:
    if not _is_tensor(value):
        raise ValueError(f"{what} must be a Tensor, SparseTensor, or RaggedTensor; got {value!r}.")


def _named(
    tensors: Any, what: str, default_name: str, integer_keys: bool = False
) -> dict[Any, Any]:
    """Gives a lone tensor its default name, and checks names and tensors."""
    if tensors is None:
        raise ValueError(f"{what}s must be defined.")
    if not isinstance(tensors, Mapping):
        tensors = {default_name: tensors}
    for name, tensor in tensors.items():
        if not isinstance(name, (str, int) if integer_keys else str):
            kinds = "strings or ints" if integer_keys else "strings"
            raise ValueError(f"{what} keys must be {kinds}: {name!r}.")
        _check_tensor(tensor, f"{what} {name}")
    return tensors  # type: ignore[return-value]


def _alternatives(groups: Any) -> dict[str, Any] | None:
    if groups is None:
        return None
    if not isinstance(groups, Mapping):
        raise ValueError(f"receiver_tensors_alternatives must be a dict: {groups}.")
    return {
        name: _named(tensors, "receiver_tensors_alternative", _INPUT)
        for name, tensors in groups.items()
    }


_Receiver = collections.namedtuple(
    "_Receiver", ["features", "receiver_tensors", "receiver_tensors_alternatives"]
)


class ServingInputReceiver(_Receiver):
    """The inputs of a model that is served.

    Args:
        features: what `model_fn` gets: tensors by name. A lone tensor becomes `{'feature':
            tensor}`.
        receiver_tensors: what a client feeds: tensors by name, or a lone one, named 'input'.
        receiver_tensors_alternatives: other sets of tensors to feed, by name; each gives every
            output a signature `<name>:<output>`.

    Raises:
        ValueError: something is missing, or is no tensor or name.
    """

    __slots__ = ()

    def __new__(
        cls, features: Any, receiver_tensors: Any, receiver_tensors_alternatives: Any = None
    ) -> ServingInputReceiver:
        """Checks the values; see the class."""
        return super().__new__(
            cls,
            _named(features, "feature", _FEATURE, integer_keys=True),
            _named(receiver_tensors, "receiver_tensor", _INPUT),
            _alternatives(receiver_tensors_alternatives),
        )


class TensorServingInputReceiver(_Receiver):
    """The inputs of a served model whose `model_fn` takes one tensor, not a dict.

    Args:
        features: that tensor.
        receiver_tensors: as for `ServingInputReceiver`.
        receiver_tensors_alternatives: as for `ServingInputReceiver`.

    Raises:
        ValueError: something is missing, or is no tensor or name.
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
            _named(receiver_tensors, "receiver_tensor", _INPUT),
            _alternatives(receiver_tensors_alternatives),
        )


class UnsupervisedInputReceiver(ServingInputReceiver):
    """The inputs of a training or evaluation graph that needs no labels.

    Args:
        features: as for `ServingInputReceiver`.
        receiver_tensors: as for `ServingInputReceiver`.

    Raises:
        ValueError: something is missing, or is no tensor or name.
    """

    __slots__ = ()

    def __new__(  # type: ignore[override]
        cls, features: Any, receiver_tensors: Any
    ) -> UnsupervisedInputReceiver:
        """Checks the values; see the class."""
        return super().__new__(cls, features, receiver_tensors)  # type: ignore[return-value]


class SupervisedInputReceiver(
    collections.namedtuple("SupervisedInputReceiver", ["features", "labels", "receiver_tensors"])
):
    """The inputs of an exported training or evaluation graph.

    Args:
        features: what `model_fn` gets as features: a tensor, or tensors by name.
        labels: what it gets as labels, likewise.
        receiver_tensors: as for `ServingInputReceiver`.

    Raises:
        ValueError: something is missing, or is no tensor or name.
    """

    __slots__ = ()

    def __new__(cls, features: Any, labels: Any, receiver_tensors: Any) -> SupervisedInputReceiver:
        """Checks the values; see the class."""
        _named(features, "feature", _FEATURE, integer_keys=True)
        _named(labels, "label", _LABEL, integer_keys=True)
        named = _named(receiver_tensors, "receiver_tensor", _INPUT)
        return super().__new__(cls, features, labels, named)


def build_parsing_serving_input_receiver_fn(
    feature_spec: Mapping[str, Any], default_batch_size: int | None = None
) -> Callable[[], ServingInputReceiver]:
    """Makes a function for models that are fed serialized `tf.train.Example`s.

    Args:
        feature_spec: how to parse them, as `tf.io.parse_example` takes it.
        default_batch_size: examples in a request; None, the default, takes any number.

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
    """A placeholder like `tensor`, of another batch size."""
    shape = tf.TensorShape([batch_size]).concatenate(tensor.shape[1:])
    # A tensor of an eager program has no op, and hence no name to take over.
    op = None if hasattr(tensor, "numpy") else tensor.op
    return tf1.placeholder(tensor.dtype, shape=shape, name=op.name if op is not None else None)


def _placeholders(tensors: Any, batch_size: int | None) -> Any:
    if not isinstance(tensors, Mapping):
        return _placeholder(tensors, batch_size)
    return {name: _placeholder(tensor, batch_size) for name, tensor in tensors.items()}


def build_raw_serving_input_receiver_fn(
    features: Mapping[str, Any], default_batch_size: int | None = None
) -> Callable[[], ServingInputReceiver]:
    """Makes a function for models that are fed their features as they are.

    Args:
        features: tensors by name, for their types and shapes.
        default_batch_size: examples in a request; None, the default, takes any number.

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
    """Makes a function for exported training or evaluation graphs.

    Args:
        features: a tensor, or tensors by name, for their types and shapes.
        labels: likewise.
        default_batch_size: examples in a batch; None, the default, takes any number.

    Returns:
        A receiver function. Lone tensors are fed as 'input' and 'label'.

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
