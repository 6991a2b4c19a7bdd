# SPDX-License-Identifier: Apache-2.0
"""Variables of the tables of a `DistributedEmbedding`, and of their slots, by table key."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from estimator_spec.core.embedding.mid_level_slots import mid_level_slot_names

_Variables = dict[str, dict[str, Any]]


def variables_of(
    layer: Any, table_names: Mapping[str, str], optimizers: Mapping[str, Any]
) -> _Variables:
    """Returns variables of tables and slots.

    Args:
        layer: the layer, on the default device.
        table_names: keras_rs' name of each table by key.
        optimizers: Keras optimizer by table key. Those with the core's rules that are built have
            slots.

    Returns:
        By table key, then by the mid-level API's name of the slot ('parameters' for the table).
    """
    found = {}
    for table, name in table_names.items():
        variable = table_variable(layer, name)
        found[table] = {"parameters": variable}
        optimizer: Any = optimizers.get(table)
        if getattr(optimizer, "built", False) and hasattr(optimizer, "slot"):
            for own, theirs in mid_level_slot_names(optimizer.parameters).items():
                found[table][theirs] = optimizer.slot(own, variable)
    return found


def assign(found: _Variables, values: Mapping[str, Mapping[str, Any]]) -> None:
    """Assigns values to variables of tables and slots.

    Args:
        found: the variables.
        values: arrays in the same form; what isn't there stays.

    Raises:
        ValueError: there is no such table or slot, or it has another shape. Nothing is assigned.
    """
    assignments = []
    for table, slots in values.items():
        if table not in found:
            raise ValueError(f"There is no table {table!r}; the layer has {sorted(found)}.")
        for slot, value in slots.items():
            if slot not in found[table]:
                raise ValueError(
                    f"Table {table!r} has no {slot!r}, but {sorted(found[table])}. Slots need "
                    "to_distributed_embedding(…, optimizers='core') and a built optimizer: "
                    "model.optimizer.build(model.trainable_variables)."
                )
            variable, array = found[table][slot], np.asarray(value)
            if tuple(variable.shape) != array.shape:
                raise ValueError(
                    f"Table {table!r}: {slot!r} has the shape {tuple(variable.shape)}, and is "
                    f"given {array.shape}."
                )
            assignments.append((variable, array))
    for variable, array in assignments:
        variable.assign(array)


def table_variable(layer: Any, name: str) -> Any:
    """Returns the Keras variable of a table.

    Args:
        layer: the layer, on the default device.
        name: keras_rs' name of the table.

    Raises:
        ValueError: the table is on SparseCore and has no variable.
    """
    for variable in layer.weights:
        if variable.path.endswith(f"/{name}/embeddings"):
            return variable
    raise ValueError(
        f"Table {name!r} is on SparseCore, where weights can't be assigned. Convert outside of the "
        "TPUStrategy, save the weights, and load them within."
    )
