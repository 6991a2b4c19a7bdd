# SPDX-License-Identifier: Apache-2.0
"""Reimplements `tensorflow.contrib.tfprof.model_analyzer` on `tf.compat.v1.profiler`."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

profiler = tf.compat.v1.profiler
_Options = profiler.ProfileOptionBuilder

TRAINABLE_VARS_PARAMS_STAT_OPTIONS: dict[str, Any] = _Options.trainable_variables_parameter()
FLOAT_OPS_OPTIONS: dict[str, Any] = _Options.float_operation()
PRINT_ALL_TIMING_MEMORY: dict[str, Any] = _Options.time_and_memory()


def print_model_analysis(
    graph: Any,
    run_meta: Any = None,
    op_log: Any = None,
    tfprof_cmd: str = "scope",
    tfprof_options: dict[str, Any] | None = None,
) -> Any:
    """Prints what the ops and variables of a graph need, and returns it as a message.

    Args:
        graph: the graph.
        run_meta: a `RunMetadata` of a step, for times and memory.
        op_log: not used: its type went with TensorFlow 1.
        tfprof_cmd: 'scope', 'graph', 'op' or 'code'.
        tfprof_options: what to print. None: the parameters of trainable variables.
    """
    options = tfprof_options or TRAINABLE_VARS_PARAMS_STAT_OPTIONS
    return profiler.profile(graph, run_meta, cmd=tfprof_cmd, options=options)
