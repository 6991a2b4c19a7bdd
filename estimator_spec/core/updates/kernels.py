# SPDX-License-Identifier: Apache-2.0
"""TensorFlow's ops that update rows of a table: their inputs, and the native rule of each."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from estimator_spec.core._tensorflow import graph_surgery
from estimator_spec.core.updates import dependencies
from tpu_columns import graphs, shared_state
from tpu_columns.kernels import calls


@dataclasses.dataclass(frozen=True)
class Kernel:
    """Op type that updates a table and its slot variables.

    Attributes:
        variables: names of the inputs that the op writes; the table is the first.
        rule: update rule of the native ops that does the same, of
            `tpu_columns/kernels/cpp/update_rules.h`.
        hyperparameters: the rule's, in its order: names of inputs, a number, or `use_nesterov`,
            an attribute.
        required_attributes: attributes and the values for which the rule holds.
    """

    variables: tuple[str, ...]
    rule: str
    hyperparameters: tuple[str | float, ...]
    required_attributes: tuple[tuple[str, Any], ...] = ()


def find_kernel(op: Any) -> Kernel | None:
    """Returns the description of an op; None if its type or attributes aren't supported."""
    kernel = _KERNELS.get(op.type.removeprefix("Resource"))
    if kernel is None:
        return None
    for name, value in kernel.required_attributes:
        if op.get_attr(name) != value:
            return None
    return kernel


@dataclasses.dataclass(frozen=True, eq=False)
class RowUpdate:
    """Op that updates rows of a table and of its slot variables.

    Attributes:
        op: the op.
        kernel: what its type does.
        inputs: its inputs by the name in this module: `var`, `grad`, `indices` and others.
    """

    op: Any
    kernel: Kernel
    inputs: Mapping[str, Any]

    @property
    def variables(self) -> list[Any]:
        """Handles of, or references to, the table and its slot variables."""
        return [self.inputs[name] for name in self.kernel.variables]

    def hyperparameters(self) -> list[Any]:
        """Returns those of the native rule, as float32 scalars in the rule's order."""
        values = []
        for each in self.kernel.hyperparameters:
            if each == _NESTEROV:
                values.append(tf.constant(float(self.op.get_attr(_NESTEROV))))
            elif isinstance(each, float):
                values.append(tf.constant(each))
            else:
                # The global step is an integer.
                values.append(tf.cast(self.inputs[each], tf.float32))
        return values

    def disable(self, replacement: Any) -> None:
        """Makes the op update no rows, after its replacement: a hook may fetch it."""
        table_width = graphs.static_shape(self.variables[0])[1:]
        for name in ("indices", "grad"):
            # Sums over replicas have no static width.
            static = self.inputs[name].shape.as_list()[1:]
            width = table_width if None in static else static
            no_rows = _no_rows(self.op.graph, static, width, self.inputs[name].dtype)
            graph_surgery.replace_input(self.op, no_rows, list(self.inputs).index(name))
        graph_surgery.add_control_input(self.op, replacement)


def find_update(op: Any) -> RowUpdate | None:
    """Returns an op as an update of rows; None if its type or attributes aren't supported."""
    kernel = find_kernel(op)
    if kernel is None:
        return None
    names = [_CANONICAL_NAMES.get(arg.name, arg.name) for arg in op.op_def.input_arg]
    return RowUpdate(op, kernel, dict(zip(names, op.inputs, strict=True)))


def are_unique(ids: Any) -> bool:
    """Returns whether the ids in a tensor are known to differ."""
    while ids.op.type in _SAME_IDS:
        ids = ids.op.inputs[0]
    if ids.op.type == calls.ROW_GRADIENTS:
        return True
    return ids.op.type in _UNIQUE and ids.value_index == 0


def before_summing(rows: Any, ids: Any) -> tuple[Any, Any, list[Any]]:
    """Returns gradients and their ids before an optimizer summed those of equal ids.

    Args:
        rows: gradients of distinct rows.
        ids: the rows.

    Returns:
        Gradients and ids, and the ops that sum them: `rows` and `ids`, and none, if nothing does.
    """
    summed, unique = rows.op, ids.op
    is_sum = summed.type == "UnsortedSegmentSum" and unique.type == "Unique"
    if (
        not is_sum
        or summed.inputs[1].op is not unique
        or summed.inputs[0].shape.rank != 2
        or graph_surgery.control_flow_context(summed) is not None
    ):
        return rows, ids, []
    return summed.inputs[0], unique.inputs[0], [summed, unique]


def _no_rows(graph: tf.Graph, static: list[Any], width: list[int], dtype: Any) -> Any:
    """Returns a tensor without rows; the same one for all ops of a graph that can share it."""
    tensors = graph.get_collection_ref(shared_state.NO_ROWS)
    for known, known_width in tensors:
        if (known.dtype, known.shape.as_list()[1:], known_width) == (dtype, static, width):
            return known
    with graph.as_default(), tf.control_dependencies(None):
        # TensorFlow requires that a new input has the static shape of the old one.
        made = tf.compat.v1.placeholder_with_default(tf.zeros([0, *width], dtype), [None, *static])
    tensors.append((made, width))
    return made


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


# Ops that don't change ids.
_SAME_IDS = frozenset({"Reshape", "Identity"})
# UniqueV2 and UniqueWithCountsV2 may compare whole rows.
_UNIQUE = frozenset({"Unique", "UniqueWithCounts"})

# Names that some ops have for an argument.
_CANONICAL_NAMES = {"ref": "var", "resource": "var", "updates": "grad", "alpha": "lr"}

_NESTEROV = "use_nesterov"
_MOMENTUM = ("lr", "momentum", _NESTEROV)
_ALL_SLOTS = (("update_slots", True),)
_LINEAR_WITHOUT_RATE = (("multiply_linear_by_lr", False),)

_KERNELS = {
    # An addition is a descent of rate -1.
    "ScatterAdd": Kernel(("var",), "sgd", (-1.0,)),
    "ScatterSub": Kernel(("var",), "sgd", (1.0,)),
    "SparseApplyAdadelta": Kernel(
        ("var", "accum", "accum_update"), "adadelta", ("lr", "rho", "epsilon")
    ),
    "SparseApplyAdagrad": Kernel(("var", "accum"), "adagrad", ("lr",), _ALL_SLOTS),
    "SparseApplyAdagradDA": Kernel(
        ("var", "gradient_accumulator", "gradient_squared_accumulator"),
        "adagrad_da",
        ("lr", "l1", "l2", "global_step"),
    ),
    "SparseApplyAdagradV2": Kernel(("var", "accum"), "adagrad_v2", ("lr", "epsilon"), _ALL_SLOTS),
    "SparseApplyCenteredRMSProp": Kernel(
        ("var", "mg", "ms", "mom"), "centered_rms_prop", ("lr", "rho", "momentum", "epsilon")
    ),
    "SparseApplyFtrl": Kernel(
        ("var", "accum", "linear"), "ftrl", ("lr", "l1", "l2", "lr_power"), _LINEAR_WITHOUT_RATE
    ),
    "SparseApplyFtrlV2": Kernel(
        ("var", "accum", "linear"),
        "ftrl_v2",
        ("lr", "l1", "l2", "lr_power", "l2_shrinkage"),
        _LINEAR_WITHOUT_RATE,
    ),
    "SparseApplyKerasMomentum": Kernel(("var", "accum"), "keras_momentum", _MOMENTUM),
    "SparseApplyMomentum": Kernel(("var", "accum"), "momentum", _MOMENTUM),
    "SparseApplyProximalAdagrad": Kernel(("var", "accum"), "proximal_adagrad", ("lr", "l1", "l2")),
    "SparseApplyProximalGradientDescent": Kernel(("var",), "proximal_sgd", ("lr", "l1", "l2")),
    "SparseApplyRMSProp": Kernel(
        ("var", "ms", "mom"), "rms_prop", ("lr", "rho", "momentum", "epsilon")
    ),
}
