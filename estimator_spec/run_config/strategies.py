# SPDX-License-Identifier: Apache-2.0
"""Tells strategies of several processes apart: collective ones, and those of parameter servers."""

from __future__ import annotations

from typing import Any

import tensorflow as tf


def is_collective(strategy: Any) -> bool:
    """Returns whether each process of a strategy has all variables, and gradients are averaged.

    Args:
        strategy: a `tf.distribute.Strategy`, or None.
    """
    # The classes are loaded only if there is a strategy: most runs have none.
    return strategy is not None and isinstance(
        strategy,
        (
            tf.distribute.MultiWorkerMirroredStrategy,
            tf.compat.v1.distribute.experimental.MultiWorkerMirroredStrategy,
        ),
    )


def is_parameter_server(strategy: Any) -> bool:
    """Returns whether a strategy places variables on parameter servers, as a cluster does."""
    return strategy is not None and isinstance(
        strategy, tf.compat.v1.distribute.experimental.ParameterServerStrategy
    )
