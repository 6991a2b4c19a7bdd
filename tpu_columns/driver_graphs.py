# SPDX-License-Identifier: Apache-2.0
"""Overrides gradients in graphs that the driver builds, which alone may have such ops.

Other programs may save their graphs, and load them where these gradients aren't registered.
"""

from __future__ import annotations

import contextlib
from typing import Any

import tensorflow as tf

from tpu_columns import optimizations, placement
from tpu_columns.optimizations import Optimization


def is_building() -> bool:
    """Returns whether the driver builds the default graph."""
    return not tf.executing_eagerly() and placement.current() is not None


def uses_native_kernels() -> bool:
    """Returns whether the driver will replace lookups of the default graph by native kernels."""
    graph = tf.compat.v1.get_default_graph()
    return (
        is_building()
        and placement.updates_tables()
        and not graph.building_function
        and not tf.distribute.has_strategy()
        and optimizations.is_used(Optimization.NATIVE_KERNELS)
    )


def override_gradients(kinds: dict[str, str]) -> contextlib.AbstractContextManager[Any]:
    """Overrides gradients of ops that are made within, in the driver's graphs only.

    Args:
        kinds: name of the registered gradient by type of op.
    """
    if not is_building():
        return contextlib.nullcontext()
    return tf.compat.v1.get_default_graph().gradient_override_map(kinds)
