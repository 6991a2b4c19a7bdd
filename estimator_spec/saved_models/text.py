# SPDX-License-Identifier: Apache-2.0
"""Prints what is recovered of a SavedModel."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import tensorflow as tf

from estimator_spec.convert.keras_columns.expressions import call, render
from estimator_spec.convert.keras_columns.serving_source import example_feature
from estimator_spec.core.common.terminal import format_table
from estimator_spec.saved_models.column_source import ColumnWriter
from estimator_spec.saved_models.columns import RecoveredColumn
from estimator_spec.saved_models.graph import GraphSignature, StoredTensor
from estimator_spec.saved_models.recovery import RecoveredModel

NOT_STORED = (
    "optimizers and their slots, dropout, weight_column, the reduction of losses, initializers, "
    "trainable=False"
)


def describe(model: RecoveredModel) -> str:
    """Returns the text that `saved-model show` prints."""
    return "\n".join(_lines(model))


def _lines(model: RecoveredModel) -> Iterator[str]:
    yield f"{model.path}: {model_kind(model)}, written by TensorFlow {model.version or '(unknown)'}"
    for signature in model.signatures.values():
        yield f"\nsignature {signature.name!r} ({signature.method})"
        yield from (f"  {line}" for line in signature_lines(signature))
    if model.parsing_spec:
        yield "\ntf.Examples are parsed by"
        spec = {key: example_feature(each) for key, each in model.parsing_spec.items()}
        yield render(spec, width=100)
    for title, columns in (("linear", model.linear), ("deep", model.deep)):
        if columns is not None:
            yield f"\ncolumns of the {title} part"
            yield from (f"  {line}" for line in column_lines(columns))
    if model.linear is not None:
        yield f"  sparse_combiner={model.sparse_combiner!r}"
    if model.layers is not None:
        yield f"\n{layers_text(model)}"
    yield from (f"\nhead: {head_text(head)}" for head in model.heads)
    yield f"\n{format_table(('variable', 'what', 'bytes'), variable_rows(model))}"
    if model.dead_ops:
        yield f"\nops that TensorFlow {tf.__version__} can't run: {', '.join(model.dead_ops)}"
        yield "  `saved-model check` says what can be done"
    yield f"\nnot in a SavedModel: {NOT_STORED}"
    yield from _unknown(model.unknown)


def model_kind(model: RecoveredModel) -> str:
    """Returns what a model is, in words."""
    names = {
        "linear": model.linear is not None,
        "deep": model.layers is not None,
        "baseline": model.is_baseline,
    }
    found = " and ".join(name for name, is_there in names.items() if is_there)
    generation = "tf.compat.v1.estimator" if model.generation == 1 else "tf.estimator"
    return f"a {found} model of {generation}" if found else "no model of a canned estimator"


def layers_text(model: RecoveredModel) -> str:
    """Returns the hidden layers as arguments of an estimator."""
    assert model.layers is not None
    function = model.layers.activation
    name = None if function is None else f"tf.nn.{function.__name__}"
    text = f"hidden_units={list(model.layers.units)}, activation_fn={name}"
    return f"{text}, batch_norm={model.layers.batch_norm}"


def head_text(head: Any) -> str:
    """Returns the source text of a head."""
    return render(call(f"heads.{head.kind}", **head.arguments()), width=10**6)


def variable_rows(model: RecoveredModel) -> list[tuple[str, str, str]]:
    """Returns the rows of the table of variables."""
    return [
        (name, f"{found.dtype.name} {list(found.shape)}", f"{found.num_bytes:,}")
        for name, found in model.variables.items()
    ]


def column_lines(columns: Sequence[RecoveredColumn]) -> Iterator[str]:
    """Yields the source text of columns; those of a shared table have one line."""
    for found, expression in ColumnWriter().expressions(columns):
        text, variable = render(expression, width=10**6), found.variable
        yield text if variable is None else f"{text}  # {variable}"


def signature_lines(signature: GraphSignature) -> Iterator[str]:
    """Yields a line for each input and output of a signature."""
    yield from _tensors("in ", signature.inputs)
    yield from _tensors("out", signature.outputs)


def _tensors(label: str, tensors: dict[str, StoredTensor]) -> Iterator[str]:
    for key, info in tensors.items():
        shape = "any shape" if info.shape is None else str(list(info.shape)).replace("None", "?")
        yield f"{label} {key}: {info.dtype.name} {shape}  # {info.tensor}"


def _unknown(unknown: Sequence[str]) -> Iterator[str]:
    yield "\nnot recovered:" if unknown else "\nAll of the model was recovered."
    yield from (f"  {text}" for text in unknown)
