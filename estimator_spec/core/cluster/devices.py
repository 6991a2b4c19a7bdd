# SPDX-License-Identifier: Apache-2.0
"""Places the ops of a training graph on the tasks of a cluster."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from estimator_spec.core.cluster import roles
from estimator_spec.core.run_config import RunConfig, TaskType
from tpu_columns.partition import shard_name

# Ops that hold state which all training processes share.
_SHARED_STATE = (
    "AutoReloadVariable",
    "MutableDenseHashTable",
    "MutableDenseHashTableV2",
    "MutableHashTable",
    "MutableHashTableOfTensors",
    "MutableHashTableOfTensorsV2",
    "MutableHashTableV2",
    "VarHandleOp",
    "Variable",
    "VariableV2",
)


def device_function(config: RunConfig) -> Any:
    """Returns the device function of a training graph, for `tf.Graph.device`.

    Variables are placed on the parameter servers by `BytesBalance`, all other ops on this task.
    Graphs of all training processes have the same placement of variables if they create the same
    variables in the same order.

    Args:
        config: the `RunConfig`; its `device_fn` takes precedence.

    Returns:
        A function of an op for one graph, or None without parameter servers.
    """
    if config.device_fn is not None:
        return config.device_fn
    if not roles.is_distributed(config) or not config.num_ps_replicas:
        return None
    return tf.compat.v1.train.replica_device_setter(
        ps_tasks=config.num_ps_replicas,
        ps_device=f"/job:{TaskType.PS}",
        worker_device=f"/job:{config.task_type}/task:{config.task_id}",
        ps_ops=list(_SHARED_STATE),
        ps_strategy=BytesBalance(config.num_ps_replicas),
    )


class BytesBalance:
    """Placement strategy that balances the bytes of variables over parameter servers.

    Shard k of a partitioned variable is placed on server k modulo their number, any other variable
    on the server with the fewest bytes so far, the first of several. The reference places variables
    round robin, whatever their size.
    """

    def __init__(self, num_servers: int) -> None:
        self._loads = [0] * num_servers
        self._placed: list[Any] = []

    def __call__(self, op: Any) -> int:
        """Returns the index of the server of an op that holds shared state."""
        self._add_loads()
        self._placed.append(op)
        name = shard_name(op.name)
        if name:
            return name.shard % len(self._loads)
        return self._loads.index(min(self._loads))

    def _add_loads(self) -> None:
        """Adds the sizes of the ops placed before.

        Not in `__call__`: a slot variable is moved to the device of its variable afterwards.
        """
        for op in self._placed:
            device = tf.DeviceSpec.from_string(op.device)
            if device.job == TaskType.PS and device.task is not None:
                self._loads[device.task] += _size(op)
        self._placed.clear()


def _size(op: Any) -> int:
    """Returns the bytes of a variable op; 0 for hash tables and unknown shapes."""
    if op.type not in ("VarHandleOp", "Variable", "VariableV2"):
        return 0
    shape = tf.TensorShape(op.get_attr("shape"))
    return int((shape.num_elements() or 0) * op.get_attr("dtype").size)
