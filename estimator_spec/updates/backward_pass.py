# SPDX-License-Identifier: Apache-2.0
"""Removes the duplicate backward pass.

`tf.gradients` builds the whole backward pass twice: for the model's variables, and for the
activations of the host core's tables. Grappler merges equal ops, but ops with different colocation
attributes (`_class`) aren't equal to it, nor are gradients that an optimizer delays until those of
the same op exist (`tf1.train.Optimizer.GATE_OP`). So it merges the first few ops, and the rest of a
deep model runs twice.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import tensorflow as tf

from estimator_spec._tensorflow import graph_surgery
from estimator_spec.updates import variables

# Gradients create no larger constants, so these aren't compared.
_MAX_ELEMENTS = 1024
# A backward pass with one of these op types isn't rewritten. In conditions and loops of TF1 control
# inputs may decide whether an op runs at all, and the gradient of a loop of TF2 adds outputs to the
# loop itself.
_BRANCHES = frozenset(
    {"Switch", "RefSwitch", "Merge", "RefMerge", "Enter", "RefEnter", "Exit", "RefExit"}
    | {"If", "StatelessIf", "Case", "StatelessCase", "While", "StatelessWhile"}
)


def remove_duplicate_backward_pass(
    graph: tf.Graph, gradient_ops: Sequence[Any], step: Collection[Any]
) -> int:
    """Replaces ops of a second backward pass by equal ops of the first.

    Ops are equal if they have the same type, attributes and device, and read equal values. Stateful
    ops and ops within control flow have no equal.

    Where an optimizer delays an output until all gradients of an op exist (`GATE_OP`), the
    replacement is the delayed output: updates of tables would otherwise compete for threads with
    the last matrix products of the backward pass.

    Args:
        graph: the finished graph.
        gradient_ops: the ops of the second `tf.gradients`, in order of creation. Their consumers
            must not depend on when they run.
        step: the ops of a training step. Other ops are no replacements: they may wait for ops that
            no step runs.

    Returns:
        The number of replaced ops.
    """
    types = {op.type for op in gradient_ops}
    if not types or types & _BRANCHES:
        return 0
    second = frozenset(gradient_ops)
    values = _ValueNumbering()
    replaced: dict[Any, Any] = {}
    for op in graph.get_operations():
        is_candidate = (op in step or op in second) and (op.type in types or op.type == "Identity")
        equal = values.add(op) if is_candidate else None
        if op not in second:
            continue
        # Replaced ops must not run as control inputs either.
        graph_surgery.redirect_control_inputs(op, replaced)
        # A second constant costs nothing, and the first may wait for ops that need not run.
        if equal is not None and op.type != "Const":
            replaced[op] = equal
            for mine, earlier in zip(op.outputs, equal.outputs, strict=True):
                graph_surgery.replace_output(mine, values.delayed.get(earlier.name, earlier))
    return len(replaced)


class _ValueNumbering:
    """Finds ops and tensors of a graph with equal values.

    Attributes:
        delayed: the delayed copy (see `GATE_OP`) of a value, by the name of its first tensor.
    """

    def __init__(self) -> None:
        self.delayed: dict[str, Any] = {}
        self._first: dict[str, str] = {}  # name of the first tensor with the value of a tensor
        self._snapshots: set[str] = set()  # names of tensors read from reference variables
        self._known: dict[Any, dict[Any, Any]] = {}  # ops by key, then by attributes
        self._stateful: dict[str, bool] = {}  # by op type

    def add(self, op: Any) -> Any:
        """Adds an op; returns an earlier one that is equal, or None."""
        if self._is_stateful(op) or graph_surgery.control_flow_context(op) is not None:
            return None
        if op.type == "Identity":
            self._add_identity(op)
            return None
        key = self._key(op)
        if key is None:
            return None
        # Attributes are serialized only if there is an op to compare them with.
        others = self._known.setdefault(key, {})
        if not others:
            others[None] = op
            return None
        if None in others:
            first = others.pop(None)
            others[_attributes(first)] = first
        equal = others.setdefault(_attributes(op), op)
        if equal is op:
            return None
        for mine, earlier in zip(op.outputs, equal.outputs, strict=True):
            self._first[mine.name] = earlier.name
        return equal

    def _is_stateful(self, op: Any) -> bool:
        if op.type not in self._stateful:
            self._stateful[op.type] = op.op_def.is_stateful
        return self._stateful[op.type]

    def _add_identity(self, op: Any) -> None:
        """Adds an `Identity`, which has its input's value."""
        (given,), (output,) = op.inputs, op.outputs
        if variables.is_reference(given):
            self._snapshots.add(output.name)
            return
        first = self._first.get(given.name, given.name)
        self._first[output.name] = first
        if given.name in self._snapshots:
            self._snapshots.add(output.name)
        if _waits_for_siblings(op):
            self.delayed.setdefault(first, output)

    def _key(self, op: Any) -> Any:
        """Returns what equal ops have in common beside attributes; None for ops without equals."""
        if op.type == "Const":
            (value,) = op.outputs
            if value.shape.num_elements() > _MAX_ELEMENTS:
                return None
            return op.type, op.device, value.dtype, tuple(value.shape.as_list())
        if not op.inputs or not op.outputs or any(map(variables.is_reference, op.inputs)):
            return None
        names = [value.name for value in op.inputs]
        after: frozenset[str] = frozenset()
        if not self._snapshots.isdisjoint(names):
            # The op may read the memory of a reference variable when it runs, after a write: its
            # control inputs determine the value.
            after = frozenset(other.name for other in op.control_inputs)
        return op.type, op.device, tuple(self._first.get(name, name) for name in names), after


def _waits_for_siblings(op: Any) -> bool:
    """Returns whether `tf.tuple` created an `Identity`."""
    if len(op.control_inputs) != 1:
        return False
    (gate,) = op.control_inputs
    return gate.type == "NoOp" and op.inputs[0].op in gate.control_inputs


def _attributes(op: Any) -> tuple[tuple[str, bytes], ...]:
    """Returns the attributes of an op's type, without those of its execution (`_class` etc.)."""
    return tuple(
        (name, value.SerializeToString(deterministic=True))
        for name, value in sorted(op.node_def.attr.items())
        if not name.startswith("_")
    )
