# SPDX-License-Identifier: Apache-2.0
"""Plans the layers that stand over several columns: `input_layer`, `linear_model`, sequences."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from estimator_spec.convert.keras_columns.categorical import CATEGORICAL, read_ids
from estimator_spec.convert.keras_columns.dense import add_dense, add_origin, is_sequence
from estimator_spec.convert.keras_columns.expressions import Name, call
from estimator_spec.convert.keras_columns.kind import class_name, count, unknown_column
from estimator_spec.convert.keras_columns.lookups import EmbeddingTable, lengths_of, look_up
from estimator_spec.convert.keras_columns.plan import ModelPlan
from estimator_spec.core.common.checks import check_positive_ints
from estimator_spec.heads.feature_columns import scope_name, sorted_columns

LAYERS = ("input_layer", "linear_model", "sequence_input_layer")
# For columns of which some are sequences.
_BOTH = "input_layer and sequence_input_layer"


def add_layer(
    plan: ModelPlan, columns: Any, layer: str | None, units: int, sparse_combiner: str
) -> None:
    """Plans a model whose output is one layer of feature columns.

    Args:
        plan: an empty plan.
        columns: feature columns.
        layer: one of `LAYERS`; None: 'linear_model' if a column is categorical only,
            'sequence_input_layer' if all are sequences, both layers if some are, else
            'input_layer'.
        units: outputs of a linear model.
        sparse_combiner: of a linear model.

    Raises:
        ValueError: a column can't move or doesn't belong into this layer.
    """
    columns = check_columns(columns)
    if layer is None:
        layer = layer_of(columns)
    if layer == _BOTH:
        sequences = [column for column in columns if is_sequence(column)]
        others = [column for column in columns if column not in sequences]
        plan.outputs["input_layer"] = add_input_layer(plan, others)
        _add_sequences(plan, sequences)
        return
    if layer not in LAYERS:
        raise ValueError(f"layer must be one of {', '.join(LAYERS)} or None, got {layer!r}.")
    if layer == "linear_model":
        plan.outputs["logits"] = add_linear_model(plan, columns, units, sparse_combiner)
    elif layer == "input_layer":
        plan.outputs["input_layer"] = add_input_layer(plan, columns)
    else:
        _add_sequences(plan, columns)


def check_columns(columns: Any) -> list[Any]:
    """Returns columns in the order of their names.

    Raises:
        ValueError: there is none, two have the same name, or one can't move.
    """
    if hasattr(columns, "name"):
        columns = [columns]
    if isinstance(columns, (str, bytes, Mapping)) or not isinstance(columns, Iterable):
        raise ValueError(
            "feature_columns must be a list of feature columns, got a "
            f"{type(columns).__name__}: {columns!r}."
        )
    columns = list(columns)
    for column in columns:
        if not hasattr(column, "name"):
            raise unknown_column(column)
    return sorted_columns(columns, tuple({type(column) for column in columns}), "feature column")


def add_input_layer(plan: ModelPlan, columns: Any) -> Name:
    """Adds dense columns, concatenated in the order of their names.

    Returns:
        The model's tensor, [B, sum of the columns' elements].

    Raises:
        ValueError: as `check_columns`, or a column isn't dense, or is a sequence.
    """
    tensors = []
    for column in check_columns(columns):
        if is_sequence(column):
            raise ValueError(
                f"Column {column.name!r} is a sequence, which input_layer can't take. Use "
                "layer='sequence_input_layer' for sequences, or a column without sequence_."
            )
        tensors.append(add_dense(column, plan))
    return _concatenated(plan, tensors, "input_layer")


def add_linear_model(plan: ModelPlan, columns: Any, units: int, sparse_combiner: str) -> Name:
    """Adds a linear model: weights of each column, summed, and a bias.

    Args:
        plan: the plan.
        columns: categorical and dense columns.
        units: number of logits.
        sparse_combiner: 'sum', 'mean' or 'sqrtn', for several ids of one column.

    Returns:
        The model's logits, [B, units].
    """
    if sparse_combiner not in ("sum", "mean", "sqrtn"):
        raise ValueError(
            f"sparse_combiner must be 'sum', 'mean' or 'sqrtn', got {sparse_combiner!r}."
        )
    check_positive_ints(units=units)
    terms = []
    for column in check_columns(columns):
        wanted = f"linear_{column.name}"
        name = plan.identifier(wanted, ("linear", column.name), kind="layer")
        plan.linear_layers[column.name] = name
        weights = f"linear_model/{scope_name(column)}/weights"
        kind = CATEGORICAL.get(class_name(column))
        if kind is not None:
            source = read_ids(column, plan)
            if source.is_sequence:
                raise ValueError(
                    f"Column {column.name!r} is a sequence, which linear_model can't take. Use a "
                    "categorical column without sequence_ in its name."
                )
            before = len(plan.layers)
            table = EmbeddingTable(
                wanted, units, sparse_combiner, (weights,), initializer="zeros", layer=name
            )
            ids = source.for_lookup(sparse_combiner)
            terms.append(look_up(ids, plan, table, f"{name}_sum"))
            add_origin(plan, column, kind, before)
        else:
            values = add_dense(column, plan)
            options = {"use_bias": False, "kernel_initializer": "zeros", "name": name}
            dense = call("keras.layers.Dense", units, **options)
            terms.append(plan.layer(f"{name}_sum", dense, values))
            shape = (dense_size(column), units)
            plan.variable(name, "kernel", shape, (weights,))
    total = terms[0]
    if len(terms) > 1:
        total = plan.layer("linear_sum", call("Sum", name="linear_sum"), terms)
    return add_bias(plan, total, units, "linear_bias", ("linear_model/bias_weights",))


def add_bias(
    plan: ModelPlan, tensor: Name, units: int, name: str, sources: tuple[str, ...]
) -> Name:
    """Adds a bias to a tensor."""
    plan.variable(name, "bias", (units,), sources)
    return plan.layer(f"{name}_added", call("Bias", name=name), tensor)


def dense_size(column: Any) -> int:
    """Returns the number of a dense column's elements in an example."""
    if class_name(column) == "NumericColumn":
        return count(column.shape)
    if class_name(column) == "_SharedEmbeddingColumn":  # it has no public shape
        return int(column.dimension)
    shape = column.variable_shape
    return count(shape)


def _add_sequences(plan: ModelPlan, columns: list[Any]) -> None:
    tensors = []
    for column in columns:
        if not is_sequence(column):
            raise ValueError(
                f"Column {column.name!r} is no sequence, which sequence_input_layer takes only. "
                "Use a column made by a function with sequence_ in its name."
            )
        tensors.append(add_dense(column, plan))
    plan.outputs["sequence_input"] = _concatenated(plan, tensors, "sequence_input")
    plan.outputs["sequence_length"] = lengths_of(columns[0], plan)


def _concatenated(plan: ModelPlan, tensors: list[Any], name: str) -> Name:
    if len(tensors) == 1:
        return plan.layer(name, call("keras.layers.Identity", name=name), tensors[0])
    return plan.layer(name, call("keras.layers.Concatenate", name=name), tensors)


def layer_of(columns: list[Any]) -> str:
    """Returns the layer that fits columns."""
    if all(is_sequence(column) for column in columns):
        return "sequence_input_layer"
    only_categorical = any(
        class_name(column) in CATEGORICAL and class_name(column) != "BucketizedColumn"
        for column in columns
    )
    if only_categorical:
        return "linear_model"
    return _BOTH if any(map(is_sequence, columns)) else "input_layer"
