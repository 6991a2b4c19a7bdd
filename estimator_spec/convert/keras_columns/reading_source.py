# SPDX-License-Identifier: Apache-2.0
"""Writes how a plan's features are read, for programs of any library of layers."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import tensorflow as tf

from estimator_spec.convert.keras_columns import function_source, numpy_functions
from estimator_spec.convert.keras_columns.expressions import Merged, Name, call, names_in, render
from estimator_spec.convert.keras_columns.kind import count
from estimator_spec.convert.keras_columns.plan import FEATURES, ModelPlan
from estimator_spec.convert.keras_columns.readings import NUMPY, TENSORFLOW, Reading
from estimator_spec.convert.keras_columns.statements import WIDTH, function_text, statement

_GROUPS = {
    "numeric": "Returns the numbers of {names}.",
    "buckets": "Returns the buckets of {names}.",
    "categories": "Returns the ids of {names}, with their weights.",
    "crosses": "Returns the ids of crossed values with their weights: {names}.",
    "sequences": "Returns the steps of {names}, with their lengths.",
}


class ReadingText(NamedTuple):
    """Source of the reading of features.

    Attributes:
        helpers: functions and classes that read.
        functions: the program's normalizers.
        constants: vocabularies, classes, and what `read_features` checks.
        groups: functions that read the columns of a kind.
        preprocess: the function that reads all.
    """

    helpers: list[str]
    functions: list[str]
    constants: list[str]
    groups: list[str]
    preprocess: str


def write_reading(plan: ModelPlan, reading: Reading, used: Iterable[str] = ()) -> ReadingText:
    """Returns the source of a plan's reading.

    Args:
        plan: the plan.
        reading: how it reads features.
        used: names of further functions of the reading that the program uses.

    Raises:
        ValueError: the source of a function of the program can't be written.
    """
    functions = [
        function_source.write_function(function, name, _what(name))
        for name, function in plan.functions.items()
    ]
    constants = _constants(plan)
    used = {*used, *_used(plan)}
    if reading == NUMPY:
        functions = [
            numpy_functions.in_numpy(text, _what(name))
            for text, name in zip(functions, plan.functions, strict=True)
        ]
        _check_losses(plan)
        if plan.examples:
            constants.append(f"FEATURES = {render(_kinds(plan), before=11, width=WIDTH)}")
            used.add("read_features")
    return ReadingText(
        select_texts(reading.definitions(), used),
        functions,
        constants,
        [_group(name, parts, reading) for name, parts in plan.groups.items()],
        _preprocess(plan, reading),
    )


def _used(plan: ModelPlan) -> Iterable[str]:
    """Yields the names that the reading of features, labels and weights uses."""
    of_heads = [
        part for each in plan.objectives for part in (each.labels, each.weights, each.of_classes)
    ]
    groups = [part for parts in plan.groups.values() for part in parts]
    for part in (*plan.constants.values(), *groups, *of_heads):
        yield from names_in(part)


def _what(name: str) -> str:
    return f"the normalizer_fn of {name.removesuffix('_normalizer')!r}"


def _check_losses(plan: ModelPlan) -> None:
    """Raises a ValueError if the program has a loss function of its own."""
    for name, function in plan.losses.items():
        raise ValueError(
            f"the loss_fn {getattr(function, '__name__', name)!r} is a function of TensorFlow's "
            "tensors, which nothing calls without TensorFlow. Use a loss of the head, or to-keras "
            "without --without-tensorflow."
        )


def _kinds(plan: ModelPlan) -> dict[str, tuple[str, int | str | None]]:
    """Returns what `read_features` checks of each feature: its kind and its form."""
    kinds: dict[str, tuple[str, int | str | None]] = {}
    for key, example in sorted(plan.examples.items()):
        form = "matrix" if key in plan.crossed else None
        if hasattr(example, "default_value"):  # a normalizer may change the shape
            function = plan.functions.get(f"{key}_normalizer")
            is_plain = function is None or _keeps_shape(function, example)
            kinds[key] = ("numbers", count(example.shape) if is_plain else None)
        elif example.dtype == tf.string:
            kinds[key] = ("text" if key in plan.typed else "words", form)
        else:
            kinds[key] = ("integers" if example.dtype.is_integer else "numbers", form)
    return kinds


def _keeps_shape(normalizer: Any, example: Any) -> bool:
    """Returns whether a normalizer returns numbers of the shape that it gets."""
    with tf.Graph().as_default():
        given = tf.zeros([2, *example.shape], example.dtype)
        try:
            made = tf.convert_to_tensor(normalizer(given))
        except Exception:  # of the program, of any class
            return False
        return bool(made.shape.as_list() == given.shape.as_list())


def write_imports(body: str, third: Iterable[str]) -> str:
    """Returns the imports of what a module uses of Python's library, and further ones."""
    names = names_of(body)
    abstract = [name for name in ("Callable", "Mapping", "Sequence") if name in names]
    abstract = sorted({*abstract, "Mapping"})
    modules = ("collections", "functools", "itertools", "math")
    standard = [f"import {name}" for name in modules if name in names]
    standard += ["import pathlib", *(["import re"] if "re" in names else [])]
    standard += [f"from collections.abc import {', '.join(abstract)}"]
    typing = sorted({"Any", "NamedTuple"} & {"Any", *names})
    standard += [f"from typing import {', '.join(typing)}"]
    return "\n".join([*standard, "", *sorted(third)])


def names_of(text: str) -> set[str]:
    """Returns the names that a source uses."""
    return {node.id for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name)}


def select_texts(definitions: Mapping[str, Any], used: set[str]) -> list[str]:
    """Returns the sources of the definitions that are used, and of those that these use."""
    texts = {name: textwrap.dedent(inspect.getsource(own)) for name, own in definitions.items()}
    todo = [name for name in texts if name in used]
    needed = set(todo)
    while todo:
        for name in names_of(texts[todo.pop()]):
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
