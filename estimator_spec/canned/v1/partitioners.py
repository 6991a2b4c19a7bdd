# SPDX-License-Identifier: Apache-2.0
"""Chooses how variables are partitioned over parameter servers.

Without any the only partition is `part_0`, a suffix of the variable's name in the graph.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

# Tables smaller than this many bytes are not partitioned.
_MIN_TABLE_BYTES = 64 << 20


def for_layers(config: Any) -> Any:
    """Returns the partitioner of hidden layers, for a `RunConfig`."""
    return tf.compat.v1.min_max_variable_partitioner(max_partitions=config.num_ps_replicas)


def for_columns(config: Any, given: Any = None) -> Any:
    """Returns the given partitioner of the columns' variables, or one for a `RunConfig`."""
    return given or tf.compat.v1.min_max_variable_partitioner(
        max_partitions=config.num_ps_replicas, min_slice_size=_MIN_TABLE_BYTES
    )
