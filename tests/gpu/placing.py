# SPDX-License-Identifier: Apache-2.0
"""Places the ops of a graph as a session with a GPU does, on a machine that has none.

The rules are those of TensorFlow's placer without soft placement: ops that share a variable, or
that ask to be colocated, are on one device; each op's kernel must be there; a GPU is preferred.
Its heuristics for ops that cost nothing are left out.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf
from tensorflow.python.framework import kernels  # lists kernels; has no public counterpart

DEVICES = ("GPU", "CPU")


def place(graph: tf.Graph) -> dict[str, str]:
    """Returns the device of each op, by its name.

    Raises:
        ValueError: ops that must be on one device have no kernel in common there.
    """
    groups = _Groups()
    for op in graph.get_operations():
        groups.find(op.name)
        for other in op.colocation_groups():
            groups.join(op.name, other.decode().removeprefix("loc:@"))
        for source in op.inputs:
            if source.dtype == tf.resource or source.dtype._is_ref_dtype:
                groups.join(op.name, source.op.name)
    members: dict[str, list[Any]] = {}
    for op in graph.get_operations():
        members.setdefault(groups.find(op.name), []).append(op)
    found: dict[str, str] = {}
    for ops in members.values():
        possible = [device for device in DEVICES if all(_can_be_on(op, device) for op in ops)]
        if not possible:
            listed = ", ".join(f"{op.name} ({op.type}) on {op.device or 'any'}" for op in ops)
            raise ValueError(f"No device has kernels for all of: {listed}")
        found.update((op.name, possible[0]) for op in ops)
    return found


class _Groups:
    """Disjoint sets of names."""

    def __init__(self) -> None:
        self._parents: dict[str, str] = {}

    def find(self, name: str) -> str:
        parent = self._parents.setdefault(name, name)
        while parent != self._parents[parent]:
            parent = self._parents[parent]
        self._parents[name] = parent
        return parent

    def join(self, one: str, other: str) -> None:
        self._parents[self.find(one)] = self.find(other)


def _can_be_on(op: Any, device: str) -> bool:
    asked = tf.compat.v1.DeviceSpec.from_string(op.device).device_type
    if asked not in (None, device):
        return False
    registered = kernels.get_registered_kernels_for_op(op.type).kernel
    return not registered or any(
        kernel.device_type in (device, "DEFAULT") and _takes(kernel, op) for kernel in registered
    )


def _takes(kernel: Any, op: Any) -> bool:
    """Returns whether the types of an op are those of a kernel."""
    for constraint in kernel.constraint:
        allowed = {tf.as_dtype(number) for number in constraint.allowed_values.list.type}
        value = op.get_attr(constraint.name)
        values = value if isinstance(value, list) else [value]
        if allowed and not allowed.issuperset(map(tf.as_dtype, values)):
            return False
    return True
