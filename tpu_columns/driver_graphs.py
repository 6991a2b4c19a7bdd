# SPDX-License-Identifier: Apache-2.0
"""Tells whether the driver builds a graph, which alone may have our ops and gradients.

Graphs of other programs may be saved, and loaded where these aren't registered.
"""

from __future__ import annotations

import tensorflow as tf

from tpu_columns import _tensorflow as private
from tpu_columns import optimizations, placement
from tpu_columns.optimizations import Optimization


def is_building() -> bool:
    """Returns whether the driver builds the default graph."""
    return not tf.executing_eagerly() and placement.current() is not None


def uses_native_kernels() -> bool:
    """Returns whether lookups in the default graph are native ops, if there are any."""
    graph = tf.compat.v1.get_default_graph()
    current = placement.current()
    return (
        is_building()
        and current is not None
        and current.mode is not placement.Mode.SERVE  # other programs load exports
        and not graph.building_function
        and private.control_flow_context(graph) is None
        and not tf.distribute.has_strategy()
        and optimizations.is_used(Optimization.NATIVE_KERNELS)
    )
