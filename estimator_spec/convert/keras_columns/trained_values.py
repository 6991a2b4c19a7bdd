# SPDX-License-Identifier: Apache-2.0
"""Loads the variables of a checkpoint into the layers of a Keras model."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from estimator_spec import checkpoints
from estimator_spec.convert import checks
from estimator_spec.convert.keras_columns.plan import ModelPlan, ModelVariable
from estimator_spec.convert.keras_tables import table_variable
from estimator_spec.core.checkpoints.bundle import Checkpoint


def find_variables(
    plan: ModelPlan, checkpoint: Any, given: Mapping[str, str] | None = None
) -> dict[ModelVariable, str]:
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
        if not _fits(shapes[name], variable.shape):
            raise checkpoints.CheckpointError(
                prefix,
                f"Layer {variable.layer!r} needs {variable.attribute} of shape "
                f"{list(variable.shape)}, but {name!r} of {prefix!r} has {list(shapes[name])}. "
                "Is it the checkpoint of another model? A vocabulary or a dimension differs.",
            )
        found[variable] = name
    return found


def load(model: Any, checkpoint: Any, found: Mapping[ModelVariable, str]) -> None:
    """Assigns the checkpoint's values to a model's variables, large tables in blocks of rows.

    Args:
        model: the Keras model.
        checkpoint: as for `find_variables`.
        found: result of `find_variables`.
    """
    with Checkpoint(checkpoint) as opened:
        for variable, blocks in read_variables(opened, found):
            target = find_weight(model, variable)
            in_place = getattr(target.value, "scatter_update", None)
            # Other backends have no updates of rows.
            if variable.attribute != "embeddings" or in_place is None:
                target.assign(np.concatenate([rows for _, rows in blocks]))
            else:
                for first, rows in blocks:
                    in_place(tf.IndexedSlices(rows, np.arange(first, first + len(rows))))


def load_slots(
    plan: ModelPlan, model: Any, checkpoint: Any, found: Mapping[ModelVariable, str]
) -> None:
    """Assigns the checkpoint's slots and step to the optimizer of a compiled model.

    Slots that the checkpoint hasn't have initial values, which is a difference of the plan.

    Args:
        plan: the plan.
        model: the Keras model.
        checkpoint: as for `find_variables`.
        found: result of `find_variables`.
    """
    model.optimizer.build(model.trainable_variables)
    with Checkpoint(checkpoint) as opened:
        step = opened.read_global_step() or 0
        for target in model.optimizer.variables:
            if target.path.endswith("/iteration"):
                target.assign(step)
        for slot, target in find_slots(plan, model, opened, found):
            target.assign(slot.read(opened))


class StoredSlot(NamedTuple):
    """A slot of a variable in a checkpoint.

    Attributes:
        variable: the variable.
        name: Keras' name of the slot.
        sources: names of the slot's parts in the checkpoint.
        factor: what the checkpoint's values are multiplied by.
    """

    variable: ModelVariable
    name: str
    sources: list[str]
    factor: float

    def read(self, checkpoint: Checkpoint) -> np.ndarray:
        """Returns the checkpoint's values, as Keras has them."""
        return read_values(checkpoint, self.sources) * np.float32(self.factor)


def read_variables(
    checkpoint: Checkpoint, found: Mapping[ModelVariable, str]
) -> Iterator[tuple[ModelVariable, Iterable[tuple[int, np.ndarray]]]]:
    """Yields variables, and blocks of their rows, float32, with the number of the first row.

    Only tables have several blocks.
    """
    tables = sorted({name for each, name in found.items() if each.attribute == "embeddings"})
    for variable, name in found.items():
        if variable.attribute == "embeddings":
            blocks = checkpoints.iterate_table(checkpoint.prefix, name, tables=tables)
            yield variable, ((first, rows.astype(np.float32)) for first, rows in blocks)
        else:
            yield variable, [(0, read_values(checkpoint, [name]))]


def read_values(checkpoint: Checkpoint, names: Iterable[str]) -> np.ndarray:
    """Returns the values of variables, one below the other, float32.

    Each of several has its own rows only, or is a slice of the whole.
    """
    rows = []
    for stored in (checkpoint.variables[name] for name in names):
        for piece in stored.pieces:
            values = checkpoint.read_piece(stored, piece).view(stored.dtype.as_numpy_dtype)
            rows.append(values.reshape(piece.shape).astype(np.float32))
    return np.concatenate(rows)


def find_slots(
    plan: ModelPlan, model: Any, checkpoint: Checkpoint, found: Mapping[ModelVariable, str]
) -> Iterator[tuple[StoredSlot, Any]]:
    """Yields the slots in a checkpoint and in Keras' optimizer; arguments as for `load_slots`."""
    targets = {variable.path: variable for variable in model.optimizer.variables}
    for slot in stored_slots(plan, checkpoint, found):
        path = f"/{find_weight(model, slot.variable).path.replace('/', '_')}_{slot.name}"
        matches = [target for key, target in targets.items() if key.endswith(path)]
        if len(matches) == 1:
            yield slot, matches[0]
        else:
            plan.differ("the optimizer", found[slot.variable], _NO_SLOTS)


def stored_slots(
    plan: ModelPlan, checkpoint: Checkpoint, found: Mapping[ModelVariable, str]
) -> Iterator[StoredSlot]:
    """Yields the slots that a checkpoint has; others are differences of the plan."""
    for variable, name in found.items():
        endings = plan.slots.get(variable.part, {}) if variable.trainable else {}
        for slot, ending in endings.items():
            sources = _slot_names(name, ending, checkpoint.variables)
            if sources:
                factor = plan.slot_factors.get(variable.part, 1.0)
                yield StoredSlot(variable, slot, sources, factor)
            else:
                plan.differ("the optimizer", name, _NO_SLOTS)


_NO_SLOTS = "no slots in the checkpoint: initial values"


def find_weight(model: Any, variable: ModelVariable) -> Any:
    """Returns the model's variable."""
    if variable.within:
        return table_variable(model.get_layer(variable.within), variable.layer)
    return getattr(model.get_layer(variable.layer), variable.attribute)


def _slot_names(name: str, ending: str, variables: Iterable[str]) -> list[str]:
    """Returns the names of a variable's slot, by part: beside it, or below an optimizer's scope.

    Those of partitioned variables are called `part_0` or `t_0`, and so on.
    """
    pattern = re.compile(rf"(?:.*/)?{re.escape(name)}(?:/(?:t|part)_(\d+))?{re.escape(ending)}")
    found = {match: other for other in variables if (match := pattern.fullmatch(other))}
    return [found[match] for match in sorted(found, key=lambda match: int(match[1] or 0))]


def _fits(shape: tuple[int, ...], expected: tuple[int | None, ...]) -> bool:
    """Returns whether a shape is the expected one, of which None may be any number."""
    return len(shape) == len(expected) and all(
        known in (None, size) for known, size in zip(expected, shape, strict=True)
    )


def _find(
    variable: ModelVariable, shapes: Mapping[str, Any], prefix: str, given: str | None
) -> str:
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
