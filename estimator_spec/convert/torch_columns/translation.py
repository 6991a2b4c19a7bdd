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
    "embeddings": "weight",
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


def state_name(variable: ModelVariable) -> str:
    """Returns the name of a variable in a model's state."""
    return f"{module_name(variable.layer)}.{_ATTRIBUTES[variable.attribute]}"


class Translation:
    """The modules of a model, and the statements that call them.

    Args:
        plan: the plan.
        shapes: shapes of the variables in the checkpoint, by layer and attribute.

    Attributes:
        modules: expressions of modules by name.
        statements: (variable, expression) in the order of the calls.
        outputs: expressions of the outputs by name.

    Raises:
        ValueError: an activation has no counterpart in PyTorch.
    """

    def __init__(self, plan: ModelPlan, shapes: Mapping[tuple[str, str], tuple[int, ...]]) -> None:
        self.modules: dict[str, FunctionCall] = {}
        self.statements: list[tuple[str, Any]] = []
        self.shapes = shapes
        self._values: dict[str, Any] = {
            name: DictItem(Name("inputs"), name) for name in plan.inputs
        }
        for variable, expression in plan.layers:
            made = self.tensor(expression)
            if isinstance(expression, FunctionCall) and _is_table(expression):
                self._values[variable] = made  # a module that several columns share
            elif isinstance(made, Name) and made.text in dict(self.statements):
                self._values[variable] = made  # a layer that changes nothing
            else:
                self.statements.append((variable, made))
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
            if _is_table(made):
                return FunctionCall(self.add_table(made), (self.ids(*expression.arguments),))
            assert isinstance(made.function, Name)
            return LAYERS[made.function.text](self, made, expression)
        assert isinstance(made, Name)
        if _is_table(expression):
            return self.add_table(expression)
        if made.text in self._values:
            return FunctionCall(self._values[made.text], (self.ids(*expression.arguments),))
        name, *fixed = OPERATIONS[made.text]
        first, *others = expression.arguments
        if made.text == "keras.ops.split":
            others = [_sizes(others[0], self.shapes)]
        return call(name, self.tensor(first), *map(self.tensor, others), *fixed)

    def ids(self, ids: Name, weights: Name) -> Name:
        """Returns the ids of a column and their weights, as tables take them."""
        if ids.text not in dict(self.statements):
            made = call("layers.BatchIds", *map(self.tensor, (ids, weights)))
            self.statements.append((ids.text, made))
        return ids

    def constructors(self, variables: Iterable[str]) -> str:
        """Returns the modules and functions that make variables of the plan, as Markdown."""
        calls = dict(self.statements)
        texts = []
        for name in variables:
            made = calls.get(name, self._values.get(name))
            while isinstance(made, FunctionCall):
                made = made.function
            if isinstance(made, Name):
                module = self.modules.get(made.text.removeprefix("self."))
                texts.append(made.text if module is None else render(module, width=10**6))
        return ", ".join(f"`{text}`" for text in dict.fromkeys(texts))

    def module(self, name: str, expression: FunctionCall) -> Name:
        """Adds a module; returns its name."""
        found = module_name(name)
        self.modules[found] = expression
        return Name(f"self.{found}")

    def add_table(self, made: FunctionCall) -> Name:
        """Adds a table of embeddings."""
        options = dict(made.named)
        sizes = (*made.arguments, options["combiner"])
        named: dict[str, Any] = {}
        if "embeddings_constraint" in options:
            named["max_norm"] = options["embeddings_constraint"].arguments[0]
        if not options.get("trainable", True):
            named["trainable"] = False
        return self.module(options["name"], call("layers.WeightedEmbedding", *sizes, **named))


def _is_table(expression: Any) -> bool:
    function = getattr(expression, "function", None)
    return isinstance(function, Name) and function.text == "keras_rs.layers.EmbedReduce"


def _sizes(ends: list[int], shapes: Mapping[tuple[str, str], tuple[int, ...]]) -> list[int]:
    """Returns the sizes of the parts that a tensor of logits is split into."""
    (total,) = {shape[-1] for (layer, _), shape in shapes.items() if layer in _LOGITS}
    bounds = [0, *ends, total]
    return [end - first for first, end in itertools.pairwise(bounds)]


_LOGITS = ("logits_layer", "linear_bias", "baseline")


def _dense(model: Translation, made: FunctionCall, called: FunctionCall) -> Any:
    layer = made.named["name"]
    inputs, units = model.shapes[layer, "kernel"]
    options = {} if made.named.get("use_bias", True) else {"bias": False}
    module = model.module(layer, call("nn.Linear", inputs, units, **options))
    outputs = FunctionCall(module, (model.tensor(called.arguments[0]),))
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
    layer = made.named["name"]
    (size,) = model.shapes[layer, "gamma"]
    momentum, epsilon = made.named["momentum"], made.named["epsilon"]
    module = model.module(layer, call("layers.BatchNorm", size, momentum, epsilon))
    return FunctionCall(module, (model.tensor(called.arguments[0]),))


def _dropout(model: Translation, made: FunctionCall, called: FunctionCall) -> Any:
    number = sum(name.startswith("dropout_") for name in model.modules)
    module = model.module(f"dropout_{number}", call("nn.Dropout", *made.arguments))
    return FunctionCall(module, (model.tensor(called.arguments[0]),))


def _bias(model: Translation, made: FunctionCall, called: FunctionCall) -> Any:
    layer = made.named["name"]
    module = model.module(layer, call("layers.Bias", *model.shapes[layer, "bias"]))
    return FunctionCall(module, (model.tensor(called.arguments[0]),))


def _encoding(model: Translation, made: FunctionCall, called: FunctionCall) -> Any:
    ids = model.tensor(called.arguments[0])
    if made.named["output_mode"] == "one_hot":
        return call("layers.one_hot", ids, *made.arguments)
    weights = model.tensor(called.named["count_weights"])
    return call("layers.count_ids", ids, weights, *made.arguments)


def _joined(model: Translation, made: FunctionCall, called: FunctionCall) -> Any:
    return call("torch.cat", model.tensor(called.arguments[0]), -1)


def _sum(model: Translation, made: FunctionCall, called: FunctionCall) -> Any:
    return call("sum", model.tensor(called.arguments[0]))


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
"""How a layer of Keras becomes one of PyTorch; tables are `layers.WeightedEmbedding`."""

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
