# SPDX-License-Identifier: Apache-2.0
"""Writes the source of a plan: `model.py`, which needs no line of this project."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Iterable, Mapping
from typing import Any

import tensorflow as tf

from estimator_spec.convert.keras_columns import (
    function_source,
    keras_layers,
    numpy_functions,
    training_source,
)
from estimator_spec.convert.keras_columns.expressions import (
    FunctionCall,
    Merged,
    Name,
    call,
    names_in,
    render,
)
from estimator_spec.convert.keras_columns.kind import count
from estimator_spec.convert.keras_columns.plan import FEATURES, ModelPlan
from estimator_spec.convert.keras_columns.readings import NUMPY, TENSORFLOW, Reading
from estimator_spec.convert.keras_columns.statements import WIDTH, function_text, statement

_MODEL = '''\
"""Keras 3 model of {title}, and the reading of its features.

{about}
"""

from __future__ import annotations

{imports}

HERE = pathlib.Path(__file__).resolve().parent
WEIGHTS = HERE / "weights.keras"

# How feature columns read features.


{helpers}


# The features of this model.


{constants}


{groups}


{preprocess}


# The model.


{layers}


{build}


{training}
'''

_ABOUT = (
    "`preprocess` reads raw features by {}. `build_model` makes a model over the ids, weights and "
    "numbers that it returns: pure Keras 3, for any backend. Made by `python -m estimator_spec "
    "to-keras`; it is yours, and needs {} only."
)
_ABOUT_READING = {
    TENSORFLOW: (
        "TensorFlow ops, in tf.data or for serving",
        "keras, keras_rs and tensorflow",
    ),
    NUMPY: ("NumPy, without TensorFlow", "keras, keras_rs, numpy, pyfarmhash and protobuf"),
}

_GROUPS = {
    "numeric": "Returns the numbers of {names}.",
    "buckets": "Returns the buckets of {names}.",
    "categories": "Returns the ids of {names}, with their weights.",
    "crosses": "Returns the ids of crossed values with their weights: {names}.",
    "sequences": "Returns the steps of {names}, with their lengths.",
}


def write_model(plan: ModelPlan, title: str, reading: Reading = TENSORFLOW) -> str:
    """Returns the text of `model.py`.

    Args:
        plan: the plan.
        title: what it is a model of, such as "census.py's LinearClassifier".
        reading: how it reads features.

    Raises:
        ValueError: the source of a function of the program can't be written.
    """
    written = [
        function_source.write_function(function, name, _what(name))
        for name, function in plan.functions.items()
    ]
    if reading == NUMPY:
        written = [
            numpy_functions.in_numpy(text, _what(name))
            for text, name in zip(written, plan.functions, strict=True)
        ]
        _check_losses(plan)
    written += [
        function_source.write_loss(function, name) for name, function in plan.losses.items()
    ]
    written += [training_source.write_rate(name, rate) for name, rate in plan.rates.items()]
    groups = [_group(name, parts, reading) for name, parts in plan.groups.items()]
    training = training_source.write_training(plan)
    constants = _constants(plan)
    if reading == NUMPY and plan.examples:
        constants.append(f"FEATURES = {render(_kinds(plan), before=11, width=WIDTH)}")
    used = {name for part in _expressions(plan) for name in names_in(part)}
    used |= {"read_features"} if reading == NUMPY and plan.examples else set()
    layers = _texts(keras_layers.definitions(reading == TENSORFLOW), used)
    helpers = _texts(reading.definitions(), used)
    body = "\n".join((*helpers, *constants, *groups, *layers, training, _build(plan)))
    text = _MODEL.format(
        title=title,
        about=textwrap.fill(_ABOUT.format(*_ABOUT_READING[reading]), WIDTH),
        imports=_imports(body, reading),
        helpers="\n\n\n".join(helpers),
        constants="\n\n\n".join([*written, *constants]).strip(),
        groups="\n\n\n".join(groups),
        preprocess=_preprocess(plan, reading),
        layers="\n\n\n".join(layers),
        build=_build(plan),
        training=training,
    )
    return re.sub(r"\n{4,}", "\n\n\n", text).rstrip() + "\n"


def _what(name: str) -> str:
    return f"the normalizer_fn of {name.removesuffix('_normalizer')!r}"


def _expressions(plan: ModelPlan) -> list[Any]:
    return [
        *plan.constants.values(),
        *(part for parts in plan.groups.values() for part in parts),
        *(expression for _, expression in plan.layers),
        *(
            part
            for each in plan.objectives
            for part in (each.labels, each.weights, each.of_classes)
        ),
        *([call("unit_weights")] if training_source.has_some_weights(plan) else []),
        plan.optimizer,
        *plan.loss.values(),
        *plan.metrics.values(),
    ]


def _check_losses(plan: ModelPlan) -> None:
    """Raises a ValueError if the program has a loss function of its own."""
    for name, function in plan.losses.items():
        raise ValueError(
            f"the loss_fn {getattr(function, '__name__', name)!r} is a function of TensorFlow's "
            "tensors, which nothing calls without TensorFlow. Use a loss of the head, or convert "
            "without --without-tensorflow."
        )


def _kinds(plan: ModelPlan) -> dict[str, tuple[str, int | str | None]]:
    """Returns what `read_features` checks of each feature: its kind and its form."""
    kinds: dict[str, tuple[str, int | str | None]] = {}
    for key, example in sorted(plan.examples.items()):
        form = "matrix" if key in plan.crossed else None
        if hasattr(example, "default_value"):  # a normalizer may change the shape
            is_plain = f"{key}_normalizer" not in plan.functions
            kinds[key] = ("numbers", count(example.shape) if is_plain else None)
        elif example.dtype == tf.string:
            kinds[key] = ("text" if key in plan.typed else "words", form)
        else:
            kinds[key] = ("integers" if example.dtype.is_integer else "numbers", form)
    return kinds


def _imports(body: str, reading: Reading) -> str:
    names = set(_names([body]))
    abstract = [name for name in ("Callable", "Mapping", "Sequence") if name in names]
    abstract = sorted({*abstract, "Mapping"})
    standard = [f"import {name}" for name in ("itertools", "math") if name in names]
    standard += ["import pathlib", *(["import re"] if "re" in names else [])]
    standard += [f"from collections.abc import {', '.join(abstract)}"]
    typing = sorted({"Any", "NamedTuple"} & {"Any", *names})
    standard += [f"from typing import {', '.join(typing)}"]
    third = ["import keras", reading.imports]
    if "keras_rs" in names:
        third.insert(1, "import keras_rs")
    return "\n".join([*standard, "", *sorted(third)])


def _names(texts: Iterable[str]) -> Iterable[str]:
    for text in texts:
        yield from function_source.functions_of(ast.parse(text))


def _texts(definitions: Mapping[str, Any], used: set[str]) -> list[str]:
    """Returns the sources of the definitions that are used, and of those that these use."""
    texts = {name: textwrap.dedent(inspect.getsource(own)) for name, own in definitions.items()}
    todo = [name for name in texts if name in used]
    needed = set(todo)
    while todo:
        for name in _names([texts[todo.pop()]]):
            if name in texts and name not in needed:
                needed.add(name)
                todo.append(name)
    return [text.rstrip() for name, text in texts.items() if name in needed]


def _constants(plan: ModelPlan) -> list[str]:
    lines = []
    if plan.vocabularies:
        lines.append(
            "def vocabulary_path(name: str) -> str:\n"
            '    """Returns the path of a vocabulary file."""\n'
            '    return str(HERE / "vocabularies" / name)'
        )
    tables = [
        f"{name} = {render(expression, before=len(name) + 3, width=WIDTH)}"
        for name, expression in plan.constants.items()
    ]
    tables.append(f"TABLES = {render([Name(name) for name in plan.constants], 0, 9, width=WIDTH)}")
    tables += [
        f"{each.classes} = {render(list(each.class_names), before=10, width=WIDTH)}"
        for each in plan.objectives
        if each.class_names is not None and each.of_classes is not None
    ]
    return [*lines, "\n".join(tables)]


def _group(name: str, parts: list[Any], reading: Reading) -> str:
    expression = parts[0] if len(parts) == 1 else Merged(tuple(parts))
    if all(isinstance(part, dict) for part in parts):
        expression = {key: value for part in parts for key, value in part.items()}
    keys = ", ".join(_group_names(parts))
    docstring = _GROUPS[name].format(names=keys)
    if len(docstring) > WIDTH - 10:
        docstring = _GROUPS[name].format(names=f"{len(_group_names(parts))} columns")
    signature = f"{name}(features: Mapping[str, Any]) -> dict[str, {reading.array}]"
    return function_text(signature, docstring, [statement("return", expression)])


def _group_names(parts: list[Any]) -> list[str]:
    names: list[str] = []
    for part in parts:
        names += list(part) if isinstance(part, dict) else [str(part.arguments[0])]
    return names


def _preprocess(plan: ModelPlan, reading: Reading) -> str:
    parts = tuple(call(name, FEATURES) for name in plan.groups)
    expression = parts[0] if len(parts) == 1 else Merged(parts)
    lines = [statement("return", expression)]
    if reading == NUMPY and plan.examples:
        lines.insert(0, "features = read_features(features, FEATURES)")
    users = "for tf.data and for the model" if reading == TENSORFLOW else "for the model"
    return function_text(
        f"preprocess(features: Mapping[str, Any]) -> dict[str, {reading.array}]",
        f"Returns the ids, weights and numbers of raw features, {users}.",
        lines,
    )


def _build(plan: ModelPlan) -> str:
    lines = []
    for name, made in plan.inputs.items():
        options = {"dtype": made.dtype, "name": made.layer}
        lines.append(statement(name, FunctionCall(Name("keras.Input"), (made.shape,), options)))
    lines += [statement(name, expression) for name, expression in plan.layers]
    lines.append(statement("inputs", {name: Name(name) for name in plan.inputs}))
    outputs: Any = dict(plan.outputs)
    if len(outputs) == 1 and not plan.objectives:
        (outputs,) = outputs.values()
    lines.append(statement("outputs", outputs))
    lines.append("return keras.Model(inputs, outputs)")
    has_tables = any("initializer" in names_in(expression) for _, expression in plan.layers)
    argument = 'initializer: str = "uniform"' if has_tables else ""
    signature = f"build_model({argument}) -> keras.Model"
    return function_text(signature, "Returns a new model over what `preprocess` returns.", lines)
