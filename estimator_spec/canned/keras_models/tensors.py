# SPDX-License-Identifier: Apache-2.0
"""Brings features and labels into the order of a Keras model's inputs and outputs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import tensorflow as tf

_FEATURES, _WEIGHTS = "features", "sample_weights"


def split_weights(features: Any) -> tuple[Any, Any]:
    """Returns the features and the weights of the examples, or None.

    Args:
        features: what the `input_fn` returned; examples have weights if it is a dictionary of
            exactly `features` and `sample_weights`.
    """
    if isinstance(features, Mapping) and set(features) == {_FEATURES, _WEIGHTS}:
        return features[_FEATURES], features[_WEIGHTS]
    return features, None


def in_order(
    values: Any, names: Sequence[str] | None, kind: str, dtypes: Sequence[Any] = ()
) -> list[Any] | None:
    """Returns tensors in the order of a model's inputs or outputs.

    Args:
        values: a tensor, a list of tensors, tensors by name, or None.
        names: the model's names; None if it has none, as subclassed models haven't. Tensors by
            name are then in the order of `input_1`, `input_2` and so on.
        kind: 'input' or 'output', for messages.
        dtypes: dtypes of the inputs; numbers are cast to them.

    Raises:
        ValueError: `values` lacks a name, or is another number of tensors. Other names are ignored.
    """
    if values is None:
        return None
    if isinstance(values, Mapping):
        expected = names or [f"input_{number}" for number in range(1, len(values) + 1)]
        _check_names(values, expected, kind)
        tensors = [values[name] for name in expected]
    elif isinstance(values, (list, tuple)):
        tensors = list(values)
    else:
        tensors = [values]
    if names is not None and len(tensors) != len(names):
        raise ValueError(
            f"The model has {len(names)} {kind}s, {list(names)}, but the input_fn returned "
            f"{len(tensors)} {_word(kind)}s. Return a dictionary of tensors with these names."
        )
    tensors = [tf.convert_to_tensor(x) if not _is_composite(x) else x for x in tensors]
    if len(dtypes) == len(tensors):
        tensors = [_cast(tensor, dtype) for tensor, dtype in zip(tensors, dtypes, strict=True)]
    return tensors


def by_name(features: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Returns features for a model that takes a dictionary.

    Args:
        features: tensors by name.
        names: those that the model takes.

    Raises:
        ValueError: `features` lacks a name.
    """
    expected = list(names)
    _check_names(features, expected, "input")
    tensors = in_order([features[name] for name in expected], None, "input") or []
    return dict(zip(expected, tensors, strict=True))


def _word(kind: str) -> str:
    return "feature" if kind == "input" else "label"


def _check_names(values: Mapping[str, Any], expected: Sequence[str], kind: str) -> None:
    missing = [name for name in expected if name not in values]
    if missing:
        raise ValueError(
            f"The dictionary of {_word(kind)}s does not cover requested {kind}s: the Keras model "
            f"has {list(expected)}, but {missing} is not in {sorted(values)}. Rename them in the "
            "input_fn, or name the layers so."
        )


def _is_composite(value: Any) -> bool:
    return isinstance(value, (tf.SparseTensor, tf.RaggedTensor))


def _cast(tensor: Any, dtype: Any) -> Any:
    """Returns a tensor of numbers with the dtype that an input of the model has."""
    wanted = tf.as_dtype(dtype)
    if tensor.dtype == wanted or tensor.dtype == tf.string or wanted == tf.string:
        return tensor
    return tf.cast(tensor, wanted)
