# SPDX-License-Identifier: Apache-2.0
"""The model's way back from its loss, made once.

A host core asks for the gradients of what its tables gave after the model's own optimizer asked
for those of the model's variables, and each time `tf.gradients` makes the whole way back anew. When
a session starts, TensorFlow merges equal ops, too. But it takes ops that are colocated with
different ones (`_class`) for different, and so is each gradient to it that an optimizer held back
until its siblings were there (`tf1.train.Optimizer.GATE_OP`): it merges the first few, and the rest
of a deep model runs twice.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import tensorflow as tf

from estimator_spec._tensorflow import graph_surgery
from estimator_spec.updates import variables

# Larger constants aren't compared: no gradient makes one.
_MOST_ELEMENTS = 1024
# A gradient that goes through one of these is left as it is. In conditions and loops of TF1 an op
# may not run at all, for which its control inputs alone may be the reason; and the gradient of a
# loop of TF2 adds to what the loop itself hands on.
_BRANCHES = frozenset(
    {"Switch", "RefSwitch", "Merge", "RefMerge", "Enter", "RefEnter", "Exit", "RefExit"}
    | {"If", "StatelessIf", "Case", "StatelessCase", "While", "StatelessWhile"}
)


def with_earlier_ops(graph: tf.Graph, gradient_ops: Sequence[Any], asked: Collection[Any]) -> int:
    """Makes whatever reads an op of a gradient read an equal one that was there before.

    Two ops are equal if they are of the same kind, have the same attributes, read equal values and
    are on the same device. Only ops without state and outside of control flow count.

    Where an optimizer holds an output back until all gradients of an op are there (`GATE_OP`), what
    reads it here gets the held-back one, too: updates of tables that ran beside the last products
    of matrices on the way back would take threads from them.

    Args:
      graph: finished.
      gradient_ops: what a second `tf.gradients` made, in that order. What reads them must not care
        when they run.
      asked: the ops of a step. Others, that may wait for what no step runs, don't count.

    Returns:
      How many of them are left out.
    """
    kinds = {op.type for op in gradient_ops}
    if not kinds or kinds & _BRANCHES:
        return 0
    second = frozenset(gradient_ops)
    values = _Values()
    replaced: dict[Any, Any] = {}
    for op in graph.get_operations():
        known = op.type in kinds or op.type == "Identity"
        equal = values.add(op) if known and (op in asked or op in second) else None
        if op not in second:
            continue
        # So that nothing runs what it waited for.
        graph_surgery.redirect_control_inputs(op, replaced)
        # A constant more costs nothing, and an earlier one may wait for what need not run.
        if equal is not None and op.type != "Const":
            replaced[op] = equal
            for mine, earlier in zip(op.outputs, equal.outputs, strict=True):
                graph_surgery.replace_output(mine, values.held_back.get(earlier.name, earlier))
    return len(replaced)


class _Values:
    """Which tensors of a graph have the same value.

    Attributes:
      held_back: by the name of the first tensor of a value, the one that waits for its siblings.
    """

    def __init__(self) -> None:
        self.held_back: dict[str, Any] = {}
        self._first: dict[str, str] = {}  # by the name of a tensor, the first of the same value
        self._snapshots: set[str] = set()  # what was read of reference variables
        self._known: dict[Any, dict[Any, Any]] = {}  # by what equal ops share, by attributes
        self._stateful: dict[str, bool] = {}  # by kind

    def add(self, op: Any) -> Any:
        """Takes an op in; returns an earlier one that is equal, or None."""
        if self._is_stateful(op) or graph_surgery.control_flow_context(op) is not None:
            return None
        if op.type == "Identity":
            self._add_identity(op)
            return None
        key = self._key(op)
        if key is None:
            return None
        # Attributes are looked at when there is something to compare them with.
        others = self._known.setdefault(key, {})
        if not others:
            others[None] = op
            return None
        if None in others:
            alone = others.pop(None)
            others[_attributes(alone)] = alone
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
        """It has its input's value, perhaps later."""
        (given,), (output,) = op.inputs, op.outputs
        if variables.is_reference(given):
            self._snapshots.add(output.name)
            return
        first = self._first.get(given.name, given.name)
        self._first[output.name] = first
        if given.name in self._snapshots:
            self._snapshots.add(output.name)
        if _waits_for_siblings(op):
            self.held_back.setdefault(first, output)

    def _key(self, op: Any) -> Any:
        """What equal ops have in common beside their attributes; None for one that has no equal."""
        if op.type == "Const":
            (value,) = op.outputs
            if value.shape.num_elements() > _MOST_ELEMENTS:
                return None
            return op.type, op.device, value.dtype, tuple(value.shape.as_list())
        if not op.inputs or not op.outputs or any(map(variables.is_reference, op.inputs)):
            return None
        names = [value.name for value in op.inputs]
        after: frozenset[str] = frozenset()
        if not self._snapshots.isdisjoint(names):
            # The memory of a reference variable may be read when the op runs, and hold another
            # value by then: what it waits for says which.
            after = frozenset(other.name for other in op.control_inputs)
        return op.type, op.device, tuple(self._first.get(name, name) for name in names), after


def _waits_for_siblings(op: Any) -> bool:
    """Whether an `Identity` is of those that `tf.tuple` makes."""
    if len(op.control_inputs) != 1:
        return False
    (gate,) = op.control_inputs
    return gate.type == "NoOp" and op.inputs[0].op in gate.control_inputs


def _attributes(op: Any) -> tuple[tuple[str, bytes], ...]:
    """What its kind declares; others, beginning with _, are notes of how and where it runs."""
    return tuple(
        (name, value.SerializeToString(deterministic=True))
        for name, value in sorted(op.node_def.attr.items())
        if not name.startswith("_")
    )
