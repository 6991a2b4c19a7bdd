# SPDX-License-Identifier: Apache-2.0
"""The model's way back from its loss, made once.

A host core asks for the gradients of what its tables gave after the model's own optimizer asked
for those of the model's variables, and each time `tf.gradients` makes the whole way back anew. When
a session starts, TensorFlow merges equal ops, too. But two ops that shall be put beside different
ones are different to it, and so is each gradient that an optimizer held back until its siblings
were there (`tf1.train.Optimizer.GATE_OP`): it merges the first few, and a deep model runs twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from estimator_spec import _tensorflow as private

# Larger constants aren't compared: no gradient makes one.
_MOST_ELEMENTS = 1024


def with_earlier_ops(graph: tf.Graph, made_again: Sequence[Any]) -> int:
    """Makes whatever reads an op read an equal one that was there before.

    Where an optimizer holds the equal one's output back until its siblings are there, so does this:
    updates of tables that run beside the products of the model's last step back would keep one of
    the threads waiting that share such a product.

    Two ops are equal if they are of the same kind, have the same attributes, read equal values and
    are on the same device. Only ops without state and outside of control flow count.

    Args:
      graph: finished.
      made_again: the ops that may have equals, in the order in which they were made. What reads
        them must not care when they run.

    Returns:
      For how many of them there was one.
    """
    if not made_again:
        return 0
    again = frozenset(made_again)
    kinds = {op.type for op in made_again}
    same: dict[str, str] = {}  # by the name of a tensor, that of the first one of this value
    held_back: dict[str, Any] = {}  # by the same, the tensor that waits for siblings
    known: dict[Any, list[Any]] = {}
    merged = 0
    for op in graph.get_operations():
        if op.type == "Identity" and not _may_change(op.inputs[0]):
            value = same.get(op.inputs[0].name, op.inputs[0].name)
            same[op.outputs[0].name] = value
            if op.control_inputs:
                held_back.setdefault(value, op.outputs[0])
            continue
        key = _key(op, same) if op.type in kinds else None
        if key is None:
            continue
        others = known.setdefault(key, [])
        equal = _equal(op, others)
        if equal is None:
            others.append(op)
            continue
        for mine, earlier in zip(op.outputs, equal.outputs, strict=True):
            same[mine.name] = earlier.name
            if op in again:
                private.replace_output(mine, held_back.get(earlier.name, earlier))
        merged += op in again
    return merged


def _key(op: Any, same: dict[str, str]) -> Any:
    """What equal ops have in common beside their attributes; None for one that has no equal."""
    if not op.outputs or not _is_pure(op) or not all(map(_is_pure, op.control_inputs)):
        return None
    values = op.outputs if op.type == "Const" else op.inputs
    if not values or any(map(_may_change, values)):
        return None
    if op.type == "Const":
        (value,) = values
        if value.shape.num_elements() > _MOST_ELEMENTS:
            return None
        return op.type, op.device, value.dtype, tuple(value.shape)
    return op.type, op.device, tuple(same.get(value.name, value.name) for value in values)


def _is_pure(op: Any) -> bool:
    """Whether it has no state, and runs once a step."""
    return not op.op_def.is_stateful and private.control_flow_context(op) is None


def _may_change(value: Any) -> bool:
    """Whether it is a reference variable's memory, which holds one value now and another later."""
    return bool(value.dtype != value.dtype.base_dtype)


def _equal(op: Any, others: Sequence[Any]) -> Any:
    """The first of these ops with the attributes of `op`, or None."""
    if not others:
        return None
    attributes = _attributes(op)
    return next((other for other in others if _attributes(other) == attributes), None)


def _attributes(op: Any) -> dict[str, Any]:
    """What its kind declares; others, beginning with _, are notes of how and where it runs."""
    return {name: value for name, value in op.node_def.attr.items() if not name.startswith("_")}
