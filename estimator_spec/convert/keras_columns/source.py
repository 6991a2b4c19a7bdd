# SPDX-License-Identifier: Apache-2.0
"""Writes the source of a plan: `model.py`, which needs no line of this project."""

from __future__ import annotations

import re
import textwrap
from typing import Any

from estimator_spec.convert.keras_columns import (
    function_source,
    reading_source,
    training_source,
)
from estimator_spec.convert.keras_columns.expressions import Name, call, names_in
from estimator_spec.convert.keras_columns.plan import ModelPlan
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


def write_model(plan: ModelPlan, title: str, reading: Reading = TENSORFLOW) -> str:
    """Returns the text of `model.py`.

    Args:
        plan: the plan.
        title: what it is a model of, such as "census.py's LinearClassifier".
        reading: how it reads features.

    Raises:
        ValueError: the source of a function of the program can't be written.
    """
    used = {name for part in _expressions(plan) for name in names_in(part)}
    read = reading_source.write_reading(plan, reading, used)
    written = [function_source.write_loss(each, name) for name, each in plan.losses.items()]
    written += [training_source.write_rate(name, rate) for name, rate in plan.rates.items()]
    training = training_source.write_training(plan)
    layers = reading_source.select_texts(reading.keras_classes(), used)
    body = "\n".join(
        (*read.helpers, *read.constants, *read.groups, *layers, training, _build(plan))
    )
    third = ["import keras", *(["import keras_rs"] if "keras_rs" in body else []), reading.imports]
    text = _MODEL.format(
        title=title,
        about=textwrap.fill(_ABOUT.format(*_ABOUT_READING[reading]), WIDTH),
        imports=reading_source.write_imports(body, third),
        helpers="\n\n\n".join(read.helpers),
        constants="\n\n\n".join([*read.functions, *written, *read.constants]).strip(),
        groups="\n\n\n".join(read.groups),
        preprocess=read.preprocess,
        layers="\n\n\n".join(layers),
        build=_build(plan),
        training=training,
    )
    return re.sub(r"\n{4,}", "\n\n\n", text).rstrip() + "\n"


def _expressions(plan: ModelPlan) -> list[Any]:
    return [
        *(expression for _, expression in plan.layers),
        *([call("unit_weights")] if training_source.has_some_weights(plan) else []),
        plan.optimizer,
        *plan.loss.values(),
        *plan.metrics.values(),
    ]


def _build(plan: ModelPlan) -> str:
    lines = []
    for name, made in plan.inputs.items():
        layer = call("keras.Input", made.shape, dtype=made.dtype, name=made.layer)
        lines.append(statement(name, layer))
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
