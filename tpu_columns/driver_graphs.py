# SPDX-License-Identifier: Apache-2.0
"""Overrides gradients in graphs that the driver builds, which alone may have such ops.

Other programs may save their graphs, and load them where these gradients aren't registered.
"""

from __future__ import annotations

import contextlib
from typing import Any

import tensorflow as tf

from tpu_columns import placement


def is_building() -> bool:
    """Returns whether the driver builds the default graph."""
    return not tf.executing_eagerly() and placement.current() is not None


def override_gradients(kinds: dict[str, str]) -> contextlib.AbstractContextManager[Any]:
    """Overrides gradients of ops that are made within, in the driver's graphs only.

    Args:
        kinds: name of the registered gradient by type of op.
    """
    if not is_building():
        return contextlib.nullcontext()
    return tf.compat.v1.get_default_graph().gradient_override_map(kinds)
