# SPDX-License-Identifier: Apache-2.0
"""Converts TensorFlow's initializers to Keras' own, which a layer's config can hold."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np

from estimator_spec.convert.optional_packages import load_extra


def keras_initializer(initializer: Any, keras: Any = None) -> Any:
    """Returns the Keras initializer of the same distribution.

    TensorFlow's classes and Keras' share names and arguments. Any other callable is called as
    TensorFlow would call it.

    Args:
        initializer: an object with `get_config`, or a function of shape and dtype.
        keras: the Keras module; None: Keras 3.
    """
    initializers = (keras or load_extra("keras")).initializers
    kind = getattr(initializers, type(initializer).__name__, None)
    get_config = getattr(initializer, "get_config", None)
    if kind is None or get_config is None:
        return lambda shape, dtype="float32": np.asarray(initializer(shape, dtype=dtype))
    known = inspect.signature(kind).parameters
    return kind(**{name: value for name, value in get_config().items() if name in known})
