# SPDX-License-Identifier: Apache-2.0
"""Writes the source of a plan for PyTorch: `model.py`, `reading.py` and `tf_examples.py`."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping
from typing import Any

from estimator_spec.convert.keras_columns import reading_source, serving_source
from estimator_spec.convert.keras_columns.expressions import (
    FunctionCall,
    Merged,
    Name,
    call,
    render,
)
from estimator_spec.convert.keras_columns.plan import ModelPlan, Objective, output_name
from estimator_spec.convert.keras_columns.readings import NUMPY
from estimator_spec.convert.keras_columns.statements import WIDTH, function_text, statement
from estimator_spec.convert.keras_columns.step_functions import STEP
from estimator_spec.convert.torch_columns.table_groups import TableGroup, rule_of
from estimator_spec.convert.torch_columns.translation import Translation, module_name
from estimator_spec.heads.description import HeadDescription

_READING = '''\
"""Reads the features of {title} by NumPy and pyfarmhash.

`preprocess` returns the inputs of the model in model.py.
"""

from __future__ import annotations

{imports}

HERE = pathlib.Path(__file__).resolve().parent

# How feature columns read features.


{helpers}


# The features of this model.


{constants}


{groups}
'''

_MODEL = '''\
"""PyTorch model of {title}.

`Model` takes what `preprocess` in reading.py returns, as tensors. Made by `python -m estimator_spec
to-torch`; it is yours, and needs torch, numpy and pyfarmhash only.
"""

from __future__ import annotations

import pathlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

import heads
import layers
import optimizers
import tensors

HERE = pathlib.Path(__file__).resolve().parent
WEIGHTS = HERE / "weights.safetensors"
SLOTS = HERE / "optimizer.safetensors"

# Shapes without the batch, and types.
INPUTS: dict[str, Any] = {inputs}

{heads}


class Model(nn.Module):
    """The model: tables, layers, and what the estimator predicts."""

{init}

{forward}


{functions}
'''

_LOAD = '''\
def load_model() -> Model:
    """Returns the trained model."""
    model = Model()
    found = tensors.read(WEIGHTS)
    model.load_state_dict({name: torch.from_numpy(values) for name, values in found.items()})
    return model.eval()'''

_LOAD_OPTIMIZERS = '''\
def load_optimizers(model: Model) -> list[optimizers.RowOptimizer]:
    """Returns the optimizers with the estimator's slots, which go on from its last step."""
    found = make_optimizers(model)
    optimizers.load(SLOTS, model, found)
    return found'''

_NO_OPTIMIZER = (
    'raise ValueError("The optimizer of the estimator has no counterpart, as report.md says: return'
    ' one of your choice here.")'
)

_EXAMPLES = '''\
"""What the features of serialized tf.Examples are."""

from __future__ import annotations

from typing import Any

import records

FEATURES: dict[str, Any] = {features}

# Labels, by name of the head.
LABELS: dict[str, Any] = {labels}
'''

# NumPy's functions of learning rates, by Keras'.
_IN_NUMPY = {"keras.ops.cast": "np.asarray", "keras.ops.rsqrt": "optimizers.rsqrt"}

# Functions of schedules by the names of Keras' classes.
_SCHEDULES = {
    "ExponentialDecay": "exponential_decay",
    "InverseTimeDecay": "inverse_time_decay",
    "PiecewiseConstantDecay": "piecewise_constant_decay",
    "PolynomialDecay": "polynomial_decay",
    "CosineDecay": "cosine_decay",
    "CosineDecayRestarts": "cosine_decay_restarts",
}


def write_examples(plan: ModelPlan) -> str:
    """Returns the text of `tf_examples.py`."""
    features = serving_source.example_features(plan, NUMPY)
    labels = {each.head: _label(each.description) for each in plan.objectives}
    return _EXAMPLES.format(
        features=render(features, before=27, width=WIDTH),
        labels=render(labels, before=25, width=WIDTH),
    )


def _label(head: HeadDescription) -> FunctionCall:
    """Returns the expression of what a head's label is in a tf.Example."""
    one = head.kind in ("binary", "classes")
    numbers = "int64" if one or head.kind == "labels" else "float32"
    dtype = "string" if one and head.label_vocabulary is not None else numbers
    return call("records.FixedLen", [1 if one else head.logits_dimension], dtype)


def write_reading(plan: ModelPlan, title: str) -> str:
    """Returns the text of `reading.py`.

    Args:
        plan: the plan.
        title: what it is a model of, such as "census.py's LinearClassifier".

    Raises:
        ValueError: the source of a function of the program can't be written.
    """
    used = {"unit_weights"} if any(each.weights is None for each in plan.objectives) else ()
    read = reading_source.write_reading(plan, NUMPY, used)
    functions = [*read.groups, read.preprocess, *_batch_functions(plan)]
    body = "\n".join((*read.helpers, *read.constants, *functions))
    text = _READING.format(
        title=title,
        imports=reading_source.write_imports(body, [NUMPY.imports]),
        helpers="\n\n\n".join(read.helpers),
        constants="\n\n\n".join([*read.functions, *read.constants]).strip(),
        groups="\n\n\n".join(functions),
    )
    return re.sub(r"\n{4,}", "\n\n\n", text).rstrip() + "\n"


def _batch_functions(plan: ModelPlan) -> list[str]:
    """Returns the functions of labels and of predictions."""
    classes = [each.of_classes for each in plan.objectives if each.of_classes is not None]
    found = [
        function_text(
            "predictions(outputs: Mapping[str, Any]) -> dict[str, Any]",
            "Returns the estimator's predictions, of the model's outputs as arrays.",
            [statement("return", Merged((Name("outputs"), *classes)))],
        )
    ]
    if not plan.objectives:
        return found
    lines = ["numbers_of: dict[str, Any] = {}", "weights: dict[str, Any] = {}"]
    for each in plan.objectives:
        own = f'numbers_of["{each.head}"]'
        lines.append(statement(own, each.labels))
        weights = each.weights or call("unit_weights", Name(own))
        lines.append(statement(f'weights["{each.head}"]', weights))
    lines.append("return preprocess(features), numbers_of, weights")
    batch = function_text(
        "training_batch(features: Mapping[str, Any], labels: Any) -> tuple[Any, ...]",
        "Returns the inputs of a batch, and labels and weights by name of the head.",
        lines,
    )
    return [*found, batch]


def write_model(model: Translation, title: str) -> str:
    """Returns the text of `model.py`.

    Args:
        model: the layers of a plan.
        title: as for `write_reading`.

    Raises:
        ValueError: the schedule of an optimizer has no counterpart in PyTorch.
    """
    plan, width = model.plan, WIDTH - 4
    made = [statement(f"self.{name}", each, width) for name, each in model.modules.items()]
    init = function_text("__init__(self) -> None", "", ["super().__init__()", *made])
    calls = [statement(name, each, width) for name, each in model.statements]
    forward = function_text(
        "forward(self, inputs: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]",
        "Returns the outputs for a batch of inputs.",
        [*calls, statement("return", model.outputs, width)],
    )
    functions = [_rate(name, rate) for name, rate in plan.rates.items()]
    functions.append(_LOAD)
    if plan.objectives or plan.optimizers:
        functions += [_optimizers(plan, model.groups), _LOAD_OPTIMIZERS]
    inputs = {name: (each.shape, each.dtype) for name, each in plan.inputs.items()}
    own = [_head(each, plan.generation) for each in plan.objectives]
    text = _MODEL.format(
        title=title,
        inputs=render(inputs, before=25, width=WIDTH),
        heads=f"HEADS: list[heads.Head] = {render(own, before=26, width=WIDTH)}",
        init=textwrap.indent(init.replace('    """"""\n', ""), "    "),
        forward=textwrap.indent(forward, "    "),
        functions="\n\n\n".join(functions),
    )
    for line, word in _IF_USED.items():
        if not re.search(word, text.replace(line, "")):
            text = text.replace(line, "")
    return text


_IF_USED = {
    "from typing import Any\n": r"\bAny\b",
    "import numpy as np\n": r"\bnp\.",
    "from torch.nn import functional\n": r"\bfunctional\.",
    "import layers\n": r"\blayers\.",
    "import optimizers\n": r"\boptimizers\.",
}


def _head(objective: Objective, generation: int) -> FunctionCall:
    head = objective.description
    only = head.kind == "numbers" and head.inverse_link_fn is None
    key = output_name(head.name, "predictions" if only else "logits")
    values = {
        "logits": (key, "logits"),
        "name": (head.name, ""),
        "weight": (head.weight, 1.0),
        "reduction": (head.loss_reduction, "sum_over_batch_size"),
        "full_loss": (head.full_loss, True) if head.kind == "poisson" else (True, True),
        "thresholds": (head.thresholds, ()),
        "class_metrics": (head.metrics_of_classes, ()),
        "trapezoids": (generation == 1, False),
    }
    options = {name: value for name, (value, default) in values.items() if value != default}
    return call("heads.Head", head.kind, head.logits_dimension, **options)


def _rate(name: str, rate: Any) -> str:
    """Returns the function of a learning rate that depends on the step."""
    docstring = "Returns the learning rate of a step."
    signature = f"{name}({STEP.text}: int) -> float"
    return function_text(signature, docstring, [statement("return", _in_numpy(rate))])


def _in_numpy(expression: Any) -> Any:
    """Returns an expression of Keras' operations as one of NumPy's."""
    if not isinstance(expression, FunctionCall):
        return expression
    assert isinstance(expression.function, Name)
    name = expression.function.text
    known = _IN_NUMPY.get(name, name.replace("keras.ops", "np"))
    return call(known, *map(_in_numpy, expression.arguments))


def _optimizers(plan: ModelPlan, groups: Mapping[str, TableGroup]) -> str:
    lines = []
    found = []
    scopes: dict[str, list[str]] = {}
    for scope in plan.optimizers:
        scopes.setdefault(rule_of(scope, plan), []).append(scope)
    for equal in scopes.values():
        own = [each.layer for each in plan.variables if each.part in equal and each.trainable]
        names = {groups[each].name if each in groups else module_name(each) for each in own}
        parameters: Any = call("model.parameters")
        if len(scopes) > 1 or not plan.objectives:
            parameters = call("optimizers.parameters_of", Name("model"), sorted(names))
        found.append(_optimizer(plan.optimizers[equal[0]], parameters))
    lines.append(statement("return", found) if found else _NO_OPTIMIZER)
    return function_text(
        "make_optimizers(model: Model) -> list[optimizers.RowOptimizer]",
        "Returns new optimizers with the estimator's rules.",
        lines,
    )


def _optimizer(expression: FunctionCall, parameters: Any) -> FunctionCall:
    """Returns the expression of an optimizer of Keras as one of `optimizers.py`."""
    assert isinstance(expression.function, Name)
    options = dict(expression.named)
    rate = options["learning_rate"]
    if isinstance(rate, FunctionCall) and isinstance(rate.function, Name):
        name = rate.function.text.rpartition(".")[2]
        if name == "RateOfStep":
            options["learning_rate"] = rate.arguments[0]
        elif name in _SCHEDULES:
            named = dict(rate.named)
            first = named.pop("initial_learning_rate", None)
            arguments = rate.arguments if first is None else (first,)
            options["learning_rate"] = call(f"optimizers.{_SCHEDULES[name]}", *arguments, **named)
        else:
            raise ValueError(f"The schedule {name} of the learning rate has no counterpart here.")
    return call(f"optimizers.{expression.function.text}", parameters, **options)
