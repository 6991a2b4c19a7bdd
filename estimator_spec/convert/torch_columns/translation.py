# SPDX-License-Identifier: Apache-2.0
"""Translates the layers of a plan, which are Keras', to modules and functions of PyTorch.

`LAYERS` and `OPERATIONS` have a row for each that plans have.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from estimator_spec.convert.keras_columns.expressions import (
    DictItem,
    FunctionCall,
    Name,
    call,
    render,
)
from estimator_spec.convert.keras_columns.plan import ModelPlan, ModelVariable
from estimator_spec.convert.torch_columns.table_groups import TableGroup, group_tables, is_table

# What every nn.Module has; no layer can have these names.
_OF_MODULES = frozenset(
    (
        *("T_destination", "add_module", "apply", "bfloat16", "buffers", "call_super_init"),
        *("children", "compile", "cpu", "cuda", "double", "dump_patches", "eval", "extra_repr"),
        *("float", "forward", "get_buffer", "get_extra_state", "get_parameter", "get_submodule"),
        *("half", "ipu", "load_state_dict", "modules", "mtia", "named_buffers", "named_children"),
        *("named_modules", "named_parameters", "parameters", "register_backward_hook"),
        *("register_buffer", "register_forward_hook", "register_forward_pre_hook"),
        *("register_full_backward_hook", "register_full_backward_pre_hook"),
        *("register_load_state_dict_post_hook", "register_load_state_dict_pre_hook"),
        *("register_module", "register_parameter", "register_state_dict_post_hook"),
        *("register_state_dict_pre_hook", "requires_grad_", "set_extra_state", "set_submodule"),
        *("share_memory", "state_dict", "to", "to_empty", "train", "training", "type", "xpu"),
        "zero_grad",
    )
)

# Names of a layer's variables in PyTorch by Keras'.
_ATTRIBUTES = {
    "kernel": "weight",
    "bias": "bias",
    "gamma": "weight",
    "beta": "bias",
    "moving_mean": "running_mean",
    "moving_variance": "running_var",
}

_ACTIVATIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "relu": ("torch.relu", {}),
    "relu6": ("functional.relu6", {}),
    "tanh": ("torch.tanh", {}),
    "sigmoid": ("torch.sigmoid", {}),
    "elu": ("functional.elu", {}),
    "selu": ("functional.selu", {}),
    "softplus": ("functional.softplus", {}),
    "softsign": ("functional.softsign", {}),
    "silu": ("functional.silu", {}),
    "swish": ("functional.silu", {}),
    "gelu": ("functional.gelu", {}),
    "leaky_relu": ("functional.leaky_relu", {"negative_slope": 0.2}),
    "exponential": ("torch.exp", {}),
    "linear": ("", {}),
}


def module_name(layer: str) -> str:
    """Returns the name of a layer among a model's modules."""
    return f"{layer}_layer" if layer in _OF_MODULES else layer


class Translation:
    """The modules of a model, and the statements that call them.

    Args:
        plan: the plan.
        shapes: shapes of its variables in the checkpoint.

    Attributes:
        plan: the plan.
        shapes: the shapes by layer and attribute.
        modules: expressions of modules by name.
        statements: (variable, expression) in the order of the calls.
        outputs: expressions of the outputs by name.
        groups: result of `group_tables`.

    Raises:
        ValueError: an activation has no counterpart in PyTorch.
    """

    def __init__(self, plan: ModelPlan, shapes: Mapping[ModelVariable, tuple[int, ...]]) -> None:
        self.plan = plan
        self.modules: dict[str, FunctionCall] = {}
        self.statements: list[tuple[str, Any]] = []
        self.shapes = {(each.layer, each.attribute): shape for each, shape in shapes.items()}
        self._values: dict[str, Any] = {
            name: DictItem(Name("inputs"), name) for name in plan.inputs
        }
        self.groups = group_tables(plan)
        self._lookups: dict[str, tuple[TableGroup, dict[str, Any]]] = {}
        self._tables: dict[str, FunctionCall] = {}
        for variable, expression in plan.layers:
            if is_table(expression):
                self._values[variable] = expression  # columns share it
            elif table := self._table_of(expression):
                self._look_up(variable, table, expression.arguments)
            else:
                made = self.tensor(expression)
                if isinstance(made, Name) and made.text in dict(self.statements):
                    self._values[variable] = made  # a layer that changes nothing
                else:
                    self.statements.append((variable, made))
        self.statements[:0] = [
            (name, FunctionCall(Name(f"self.{group.name}"), (lookups,)))
            for name, (group, lookups) in self._lookups.items()
        ]
        tables = {group.name: group.module() for group in self.groups.values()}
        self.modules = tables | self.modules
        self.outputs = {name: self.tensor(value) for name, value in plan.outputs.items()}

    def tensor(self, expression: Any) -> Any:
        """Returns the expression of a tensor, or of a module, in PyTorch."""
        if isinstance(expression, Name):
            return self._values.get(expression.text, expression)
        if isinstance(expression, list):
            return [self.tensor(each) for each in expression]
        if isinstance(expression, DictItem) or not isinstance(expression, FunctionCall):
            return expression
        made = expression.function
        if isinstance(made, FunctionCall):
            assert isinstance(made.function, Name)
            return LAYERS[made.function.text](self, made, expression)
        assert isinstance(made, Name)
        name, *fixed = OPERATIONS[made.text]
        first, *others = expression.arguments
        if made.text == "keras.ops.split":
            others = [_sizes(others[0], self.shapes)]
        return call(name, self.tensor(first), *map(self.tensor, others), *fixed)

    def _table_of(self, expression: Any) -> FunctionCall | None:
        """Returns the table that an expression looks rows up in."""
        function = getattr(expression, "function", None)
        if isinstance(function, Name):
            function = self._values.get(function.text)
        return function if is_table(function) else None

    def _look_up(self, variable: str, table: FunctionCall, ids: Iterable[Any]) -> None:
        """Adds a lookup, of ids and weights, to the call of its table's group."""
        group = self.groups[table.named["name"]]
        name = self.plan.identifier(group.name, ("rows", group.name))
        arguments = (table.named["name"], *map(self.tensor, ids))
        self._lookups.setdefault(name, (group, {}))[1][variable] = arguments
        self._values[variable] = DictItem(Name(name), variable)
        self._tables[variable] = group.module(table.named["name"])

    def constructors(self, variables: Iterable[str]) -> str:
        """Returns the modules and functions that make variables of the plan, as Markdown."""
        values = {**self._values, **dict(self.statements)}
        texts: dict[str, None] = {}
        for name in variables:
            made: Any = self._tables.get(name)
            if made is None:
                made = values[name]
                while isinstance(made, FunctionCall):
                    made = made.function
                made = self.modules.get(made.text.removeprefix("self."), made)
            texts[f"`{render(made, width=10**6)}`"] = None
        return ", ".join(texts)

    def state_name(self, variable: ModelVariable) -> str:
        """Returns the name of a variable in the model's state."""
        if variable.layer in self.groups:
            return f"{self.groups[variable.layer].name}.{variable.layer}"
        return f"{module_name(variable.layer)}.{_ATTRIBUTES[variable.attribute]}"

    def call_module(self, made: FunctionCall, called: FunctionCall, module: FunctionCall) -> Any:
        """Adds the module of a layer; returns the expression of its call."""
        number = sum(name.startswith("dropout_") for name in self.modules)
        name = module_name(made.named.get("name", f"dropout_{number}"))
        self.modules[name] = module
        return FunctionCall(Name(f"self.{name}"), (self.tensor(called.arguments[0]),))


def _sizes(ends: list[int], shapes: Mapping[tuple[str, str], tuple[int, ...]]) -> list[int]:
    """Returns the sizes of the parts that a tensor of logits is split into."""
    (total,) = {shape[-1] for (layer, _), shape in shapes.items() if layer in _LOGITS}
    bounds = [0, *ends, total]
    return [end - first for first, end in itertools.pairwise(bounds)]


_LOGITS = ("logits_layer", "linear_bias", "baseline")


def _dense(model: Translation, made: FunctionCall, called: FunctionCall) -> Any:
    inputs, units = model.shapes[made.named["name"], "kernel"]
    options = {} if made.named.get("use_bias", True) else {"bias": False}
    outputs = model.call_module(made, called, call("nn.Linear", inputs, units, **options))
    activation = made.named.get("activation")
    if activation is None:
        return outputs
    if activation not in _ACTIVATIONS:
        known = ", ".join(sorted(_ACTIVATIONS))
        raise ValueError(
            f"activation_fn {activation!r} has no PyTorch counterpart here. Those of {known} have "
            "one. Pass one of these, or write the hidden layers of the model yourself."
        )
    function, arguments = _ACTIVATIONS[activation]
    return call(function, outputs, **arguments) if function else outputs


def _batch_norm(model: Translation, made: FunctionCall, called: FunctionCall) -> Any:
    (size,) = model.shapes[made.named["name"], "gamma"]
    arguments = (size, made.named["momentum"], made.named["epsilon"])
    return model.call_module(made, called, call("layers.BatchNorm", *arguments))


def _dropout(model: Translation, made: FunctionCall, called: FunctionCall) -> Any:
    return model.call_module(made, called, call("nn.Dropout", *made.arguments))


def _bias(model: Translation, made: FunctionCall, called: FunctionCall) -> Any:
    shape = model.shapes[made.named["name"], "bias"]
    return model.call_module(made, called, call("layers.Bias", *shape))


def _encoding(model: Translation, made: FunctionCall, called: FunctionCall) -> Any:
    ids = model.tensor(called.arguments[0])
    if made.named["output_mode"] == "one_hot":
        return call("layers.one_hot", ids, *made.arguments)
    weights = model.tensor(called.named["count_weights"])
    return call("layers.count_ids", ids, weights, *made.arguments)


def _joined(model: Translation, made: FunctionCall, called: FunctionCall) -> Any:
    return call("torch.cat", model.tensor(called.arguments[0]), -1)


def _sum(model: Translation, made: FunctionCall, called: FunctionCall) -> Any:
    return call("layers.total", model.tensor(called.arguments[0]))


def _same(model: Translation, made: FunctionCall, called: FunctionCall) -> Any:
    return model.tensor(called.arguments[0])


LAYERS: dict[str, Callable[[Translation, FunctionCall, FunctionCall], Any]] = {
    "keras.layers.Dense": _dense,
    "keras.layers.BatchNormalization": _batch_norm,
    "keras.layers.Dropout": _dropout,
    "keras.layers.CategoryEncoding": _encoding,
    "keras.layers.Flatten": _same,  # `one_hot` is flat already
    "keras.layers.Identity": _same,
    "keras.layers.Concatenate": _joined,
    "Bias": _bias,
    "Sum": _sum,
}
"""How a layer of Keras becomes one of PyTorch; tables are those of `layers.Tables`."""

# PyTorch's function for one of Keras, and what follows its arguments.
OPERATIONS: dict[str, tuple[Any, ...]] = {
    "keras.ops.sigmoid": ("torch.sigmoid",),
    "keras.ops.softmax": ("torch.softmax", -1),
    "keras.ops.concatenate": ("torch.cat", -1),
    "keras.ops.zeros_like": ("torch.zeros_like",),
    "keras.ops.argmax": ("torch.argmax", -1),
    "keras.ops.expand_dims": ("torch.unsqueeze",),
    "keras.ops.split": ("torch.split", -1),
    "keras.ops.exp": ("torch.exp",),
    "keras.ops.identity": ("torch.clone",),
    "keras.ops.softplus": ("functional.softplus",),
    "keras.ops.relu": ("torch.relu",),
    "keras.ops.square": ("torch.square",),
    "keras.ops.tanh": ("torch.tanh",),
    "keras.ops.one_hot": ("functional.one_hot",),
    "keras.ops.multiply": ("torch.mul",),
    "keras.ops.sum": ("torch.sum", -2),
}
