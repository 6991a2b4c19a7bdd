# SPDX-License-Identifier: Apache-2.0
"""Loads the variables of a checkpoint into the layers of a Keras model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from estimator_spec import checkpoints
from estimator_spec.checkpoints.bundle import Checkpoint
from estimator_spec.convert import checks
from estimator_spec.convert.keras_columns.plan import Plan, Variable


def find_variables(
    plan: Plan, checkpoint: Any, given: Mapping[str, str] | None = None
) -> dict[Variable, str]:
    """Returns the checkpoint's variable for each variable of a plan.

    Args:
        plan: the plan.
        checkpoint: prefix of the checkpoint, or a directory, whose latest one is taken.
        given: names of the checkpoint's variables by name of the layer, where they aren't found.

    Raises:
        CheckpointError: the checkpoint is missing or damaged, lacks a variable, or has one of
            another shape.
        ValueError: several variables match, or `given` names an unknown layer.
    """
    given = dict(given or {})
    layers = [variable.layer for variable in plan.variables]
    checks.known("variable_names", "layer", given, layers)
    with Checkpoint(checkpoint) as opened:
        shapes = {name: tuple(found.shape) for name, found in opened.variables.items()}
        prefix = opened.prefix
    found = {}
    for variable in plan.variables:
        name = _find(variable, shapes, prefix, given.get(variable.layer))
        if shapes[name] != variable.shape:
            raise checkpoints.CheckpointError(
                prefix,
                f"Layer {variable.layer!r} needs {variable.attribute} of shape "
                f"{list(variable.shape)}, but {name!r} of {prefix!r} has {list(shapes[name])}. "
                "Is it the checkpoint of another model? A vocabulary or a dimension differs.",
            )
        found[variable] = name
    return found


def load(model: Any, checkpoint: Any, found: Mapping[Variable, str]) -> None:
    """Assigns the checkpoint's values to a model's variables, large tables in blocks of rows.

    Args:
        model: the Keras model.
        checkpoint: as for `find_variables`.
        found: result of `find_variables`.
    """
    tables = [name for variable, name in found.items() if variable.attribute == "embeddings"]
    with Checkpoint(checkpoint) as opened:
        for variable, name in found.items():
            target = getattr(model.get_layer(variable.layer), variable.attribute)
            in_place = getattr(target.value, "scatter_update", None)
            if variable.attribute != "embeddings":
                target.assign(opened.value(name).astype(np.float32))
            elif in_place is None:  # a backend without updates of rows
                blocks = _blocks(variable, opened.prefix, name, tables)
                target.assign(np.concatenate([rows for _, rows in blocks]))
            else:
                for first, rows in _blocks(variable, opened.prefix, name, tables):
                    in_place(tf.IndexedSlices(rows, np.arange(first, first + len(rows))))


def _blocks(
    variable: Variable, prefix: str, name: str, tables: list[str]
) -> Iterator[tuple[int, np.ndarray]]:
    for first, rows in checkpoints.iterate_table(prefix, name, tables=sorted(set(tables))):
        values = rows.astype(np.float32)
        if variable.max_norm is not None:
            norms = np.linalg.norm(values, axis=1, keepdims=True)
            values *= variable.max_norm / np.maximum(norms, variable.max_norm)
        yield first, values


def _find(variable: Variable, shapes: Mapping[str, Any], prefix: str, given: str | None) -> str:
    if given is not None:
        if given in shapes:
            return given
        raise checkpoints.CheckpointError(
            prefix, f"There is no variable {given!r} in {prefix!r}, which variable_names names."
        )
    for source in variable.sources:
        names = [name for name in shapes if name == source or name.endswith(f"/{source}")]
        if len(names) == 1:
            return names[0]
        if names:
            raise ValueError(
                f"Layer {variable.layer!r} could have several variables of {prefix!r}: "
                f"{sorted(names)}. Say which: variable_names={{{variable.layer!r}: …}}."
            )
    raise checkpoints.CheckpointError(
        prefix,
        f"Layer {variable.layer!r} has no variable in {prefix!r}: none ends with "
        f"{' or '.join(map(repr, variable.sources))}. The checkpoint's are {sorted(shapes)}. If it "
        f"isn't that of another model, say variable_names={{{variable.layer!r}: …}}.",
    )
