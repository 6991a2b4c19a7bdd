# SPDX-License-Identifier: Apache-2.0
"""Formulas of TensorFlow's ops that update rows of a table.

They follow TensorFlow's documentation of the ops (`tf.raw_ops.ResourceSparseApply*`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from estimator_spec._tensorflow import graph_surgery
from estimator_spec.updates import dependencies, gathers

tf1 = tf.compat.v1

Rows = dict[str, Any]

# A tuple, so that TensorFlow leaves the collection out of exported graphs.
_NO_ROWS = ("estimator_spec", "no_rows")


@dataclasses.dataclass(frozen=True)
class Kernel:
    """Formula of an op type that updates a table and its slot variables.

    Attributes:
        variables: names of the inputs that the op writes; the table is the first.
        formula: maps (rows of each variable, gradient, the op's inputs, its attributes) to the new
            rows of each variable that changes.
        required_attributes: attributes and the values for which the formula holds.
    """

    variables: tuple[str, ...]
    formula: Callable[[Rows, Any, dict[str, Any], Callable[[str], Any]], Rows]
    required_attributes: tuple[tuple[str, Any], ...] = ()


def find_kernel(op: Any) -> Kernel | None:
    """Returns the kernel of an op, or None if its type or attributes aren't supported."""
    kernel = _KERNELS.get(op.type.removeprefix("Resource"))
    if kernel is None:
        return None
    for name, value in kernel.required_attributes:
        if op.get_attr(name) != value:
            return None
    return kernel


def variables_of(kind: str) -> tuple[str, ...]:
    """Returns the names of the inputs that ops of a type write."""
    return _KERNELS[kind.removeprefix("Resource")].variables


def kinds() -> tuple[str, ...]:
    """Returns the op types that `find_kernel` supports, without the prefix `Resource`."""
    return tuple(_KERNELS)


def canonical_name(argument: str) -> str:
    """Returns the name that an argument has in this module, the same for all op types."""
    return _CANONICAL_NAMES.get(argument, argument)


def inputs_by_name(op: Any) -> dict[str, Any]:
    """Returns an op's inputs by canonical name: `var`, `grad`, `indices` and others."""
    names = [canonical_name(arg.name) for arg in op.op_def.input_arg]
    return dict(zip(names, op.inputs, strict=True))


def replace_input(op: Any, name: str, value: Any) -> None:
    """Replaces the input of an op by its canonical name."""
    graph_surgery.replace_input(op, value, list(inputs_by_name(op)).index(name))


def disable_update(op: Any, replacement: Any) -> None:
    """Makes a replaced op update no rows, after its replacement: a hook may fetch it.

    Args:
        op: an op that `find_kernel` supports.
        replacement: the op that replaces it.
    """
    inputs = inputs_by_name(op)
    for name in ("indices", "grad"):
        width = inputs[name].shape.as_list()[1:]
        replace_input(op, name, _no_rows(op.graph, width, inputs[name].dtype))
    graph_surgery.add_control_input(op, replacement)


def _no_rows(graph: tf.Graph, width: list[Any], dtype: Any) -> Any:
    """Returns a tensor without rows; the same one for all ops of a graph."""
    tensors = graph.get_collection_ref(_NO_ROWS)
    for known in tensors:
        if known.dtype == dtype and known.shape.as_list()[1:] == width:
            return known
    with graph.as_default(), tf.control_dependencies(None):
        # TensorFlow requires that a new input has the static shape of the old one.
        tensors.append(tf1.placeholder_with_default(tf.zeros([0, *width], dtype), [None, *width]))
    return tensors[-1]


def may_follow_an_update(gather: Any, before_updates: set[Any]) -> bool:
    """Returns whether a gather runs after an update of its table, or of one it waits for.

    Args:
        gather: the op.
        before_updates: ops that are known to follow no update; those found are added. Lookups
            have many ops in common, which are searched once.
    """
    ancestors = dependencies.collect_ancestors(gather, before_updates)
    if any(map(find_kernel, ancestors)):
        return True
    before_updates |= ancestors
    return False


def apply_formula(op: Any, inputs: dict[str, Any], rows: Any = None) -> Any:
    """Creates ops that read rows, compute new ones and write them.

    Args:
        op: an op that `find_kernel` supports.
        inputs: its inputs by canonical name; `indices` must be unique.
        rows: the table's rows at `indices`, if the step has read them already.

    Returns:
        An op.
    """
    kernel = find_kernel(op)
    assert kernel is not None
    table, *slots = kernel.variables
    inputs = inputs | {name: _beside(inputs[table], inputs[name]) for name in ("indices", "grad")}
    ids, gradient = inputs["indices"], inputs["grad"]
    # Like a kernel, read variables after all other inputs are available.
    others = (value for name, value in inputs.items() if name not in kernel.variables)
    with tf.control_dependencies([value for value in others if not _is_constant(value)]):
        old_rows = {
            table: gathers.gather_rows(inputs[table], ids, gradient.dtype) if rows is None else rows
        }
        old_rows |= {name: gathers.gather_rows(inputs[name], ids, gradient.dtype) for name in slots}
        new_rows = kernel.formula(old_rows, gradient, inputs, op.get_attr)
        return tf.group(*[_scatter(inputs[name], ids, value) for name, value in new_rows.items()])


def _beside(variable: Any, value: Any) -> Any:
    """Returns a value on the device of a variable.

    Ops there that wait for the value itself would each have a message from its device.
    """
    return value if value.op.device == variable.op.device else tf.identity(value)


def _is_constant(value: Any) -> bool:
    """Returns whether a value is a constant without control inputs."""
    return value.op.type == "Const" and not value.op.control_inputs


def _scatter(variable: Any, ids: Any, rows: Any) -> Any:
    if variable.dtype == tf.resource:
        return tf.raw_ops.ResourceScatterUpdate(resource=variable, indices=ids, updates=rows)
    return tf.raw_ops.ScatterUpdate(ref=variable, indices=ids, updates=rows).op


def _adagrad(rows: Rows, g: Any, p: dict[str, Any], attribute: Any) -> Rows:
    a = rows["accum"]
    new = {}
    if attribute("update_slots"):
        a = new["accum"] = a + g * g
    new["var"] = rows["var"] - (p["lr"] * g) * tf.math.rsqrt(a)
    return new


def _adagrad_v2(rows: Rows, g: Any, p: dict[str, Any], attribute: Any) -> Rows:
    a = rows["accum"]
    new = {}
    if attribute("update_slots"):
        a = new["accum"] = a + g * g
    new["var"] = rows["var"] - p["lr"] * g / (tf.sqrt(a) + p["epsilon"])
    return new


def _proximal_adagrad(rows: Rows, g: Any, p: dict[str, Any], attribute: Any) -> Rows:
    a = rows["accum"] + g * g
    rate = p["lr"] * tf.math.rsqrt(a)
    moved = rows["var"] - g * rate
    shrunk = tf.sign(moved) * tf.maximum(tf.abs(moved) - rate * p["l1"], 0.0)
    return {"var": shrunk / (1.0 + p["l2"] * rate), "accum": a}


def _momentum(rows: Rows, g: Any, p: dict[str, Any], attribute: Any) -> Rows:
    accum = rows["accum"] * p["momentum"] + g
    if attribute("use_nesterov"):
        moved = g * p["lr"] + accum * p["momentum"] * p["lr"]
    else:
        moved = accum * p["lr"]
    return {"var": rows["var"] - moved, "accum": accum}


def _keras_momentum(rows: Rows, g: Any, p: dict[str, Any], attribute: Any) -> Rows:
    accum = rows["accum"] * p["momentum"] - p["lr"] * g
    moved = accum * p["momentum"] - p["lr"] * g if attribute("use_nesterov") else accum
    return {"var": rows["var"] + moved, "accum": accum}


def _rms_prop(rows: Rows, g: Any, p: dict[str, Any], attribute: Any) -> Rows:
    ms = rows["ms"] * p["rho"] + g * g * (1 - p["rho"])
    mom = rows["mom"] * p["momentum"] + tf.math.rsqrt(ms + p["epsilon"]) * p["lr"] * g
    return {"var": rows["var"] - mom, "ms": ms, "mom": mom}


def _centered_rms_prop(rows: Rows, g: Any, p: dict[str, Any], attribute: Any) -> Rows:
    ms = rows["ms"] * p["rho"] + g * g * (1 - p["rho"])
    mg = rows["mg"] * p["rho"] + g * (1 - p["rho"])
    spread = ms + p["epsilon"] - mg * mg
    mom = rows["mom"] * p["momentum"] + tf.math.rsqrt(spread) * p["lr"] * g
    return {"var": rows["var"] - mom, "mg": mg, "ms": ms, "mom": mom}


def _ftrl(rows: Rows, g: Any, p: dict[str, Any], attribute: Any) -> Rows:
    w, a = rows["var"], rows["accum"]
    shrinkage = p.get("l2_shrinkage")
    in_linear = g if shrinkage is None else g + 2.0 * shrinkage * w
    new_a = a + g * g
    if tf.get_static_value(p["lr_power"]) == -0.5:
        root, new_root = tf.sqrt(a), tf.sqrt(new_a)
    else:
        power = -p["lr_power"]
        root, new_root = tf.pow(a, power), tf.pow(new_a, power)
    linear = rows["linear"] + in_linear - (new_root - root) / p["lr"] * w
    curvature = new_root / p["lr"] + 2.0 * p["l2"]
    shrunk = tf.clip_by_value(linear, -p["l1"], p["l1"]) - linear
    return {"var": shrunk / curvature, "accum": new_a, "linear": linear}


def _add(rows: Rows, g: Any, p: dict[str, Any], attribute: Any) -> Rows:
    return {"var": rows["var"] + g}


def _subtract(rows: Rows, g: Any, p: dict[str, Any], attribute: Any) -> Rows:
    return {"var": rows["var"] - g}


# Argument names of the ops that add to rows.
_CANONICAL_NAMES = {"ref": "var", "resource": "var", "updates": "grad"}

_LINEAR_WITHOUT_RATE = (("multiply_linear_by_lr", False),)

_KERNELS = {
    "ScatterAdd": Kernel(("var",), _add),
    "ScatterSub": Kernel(("var",), _subtract),
    "SparseApplyAdagrad": Kernel(("var", "accum"), _adagrad),
    "SparseApplyAdagradV2": Kernel(("var", "accum"), _adagrad_v2),
    "SparseApplyProximalAdagrad": Kernel(("var", "accum"), _proximal_adagrad),
    "SparseApplyMomentum": Kernel(("var", "accum"), _momentum),
    "SparseApplyKerasMomentum": Kernel(("var", "accum"), _keras_momentum),
    "SparseApplyRMSProp": Kernel(("var", "ms", "mom"), _rms_prop),
    "SparseApplyCenteredRMSProp": Kernel(("var", "mg", "ms", "mom"), _centered_rms_prop),
    "SparseApplyFtrl": Kernel(("var", "accum", "linear"), _ftrl, _LINEAR_WITHOUT_RATE),
    "SparseApplyFtrlV2": Kernel(("var", "accum", "linear"), _ftrl, _LINEAR_WITHOUT_RATE),
}
