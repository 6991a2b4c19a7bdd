# SPDX-License-Identifier: Apache-2.0
"""Finds out whether a table is on the CPU, where the native kernels run.

TensorFlow puts an op without a device on a GPU if the session has one and all ops that it shares
variables with have a kernel there. So a table is on the CPU if the session has no GPU, if the
program says so (`with tf.device("/cpu:0")`), or if its optimizer has no kernel for GPUs.
`docs/gpu.md` has the table.
"""

from __future__ import annotations

import contextlib
from typing import Any

import tensorflow as tf

from tpu_columns import shared_state

tf1 = tf.compat.v1

# Ops that update rows of tables and have no kernel for GPUs, in TensorFlow 2.15 to 2.21.
CPU_ONLY_UPDATES = frozenset(
    f"{prefix}SparseApply{rule}"
    for prefix in ("", "Resource")
    for rule in ("AdagradDA", "CenteredRMSProp", "Momentum", "ProximalGradientDescent", "RMSProp")
)


def record_session(config: Any) -> None:
    """Records whether the sessions of the default graph will have a GPU.

    Args:
        config: their `tf.compat.v1.ConfigProto`, or None. `device_count={"GPU": 0}` hides GPUs.
    """
    hidden = config is not None and config.device_count.get("GPU") == 0
    has_gpu = not hidden and bool(tf.config.get_visible_devices("GPU"))
    tf1.get_default_graph().get_collection_ref(shared_state.SESSION_HAS_GPU)[:] = [has_gpu]


def is_on_cpu(variable: Any, update: Any = None) -> bool:
    """Returns whether a table is on the CPU.

    Args:
        variable: the op that makes the variable or its handle.
        update: the op that updates the table, if it is known.
    """
    device = tf1.DeviceSpec.from_string(variable.device)
    if device.device_type is not None:
        return bool(device.device_type == "CPU")
    if update is not None and update.type in CPU_ONLY_UPDATES:
        return True
    return not _has_gpu(variable.graph)


def record_own_variables() -> None:
    """Records that all variables of the default graph are in the process that runs it.

    Each process of a `MultiWorkerMirroredStrategy` has copies, on devices that name its task.
    """
    tf1.get_default_graph().get_collection_ref(shared_state.HAS_OWN_VARIABLES)[:] = [True]


def is_of_another_task(variable: Any) -> bool:
    """Returns whether a variable may be on another task of a cluster, as a parameter server.

    Args:
        variable: the op that makes the variable or its handle.
    """
    has_task = tf1.DeviceSpec.from_string(variable.device).job not in (None, "localhost")
    return has_task and not variable.graph.get_collection(shared_state.HAS_OWN_VARIABLES)


def on_host() -> contextlib.AbstractContextManager[Any]:
    """Returns a scope that puts the tables of the host's embedding core on the CPU.

    Without a GPU they are there; a strategy has devices of its own.
    """
    if tf.distribute.has_strategy() or not _has_gpu(tf1.get_default_graph()):
        return contextlib.nullcontext()
    return tf.device("/device:CPU:0")


def _has_gpu(graph: tf.Graph) -> bool:
    recorded = graph.get_collection(shared_state.SESSION_HAS_GPU)
    return bool(recorded[0] if recorded else tf.config.get_visible_devices("GPU"))
