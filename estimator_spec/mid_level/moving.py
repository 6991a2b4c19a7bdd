# SPDX-License-Identifier: Apache-2.0
"""Reads and assigns the tables of embedding objects; writes checkpoints of Estimators.

An Estimator's checkpoint becomes one of an embedding object by
`estimator_spec.checkpoints.convert(…, objects="tpu_embedding")`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, NamedTuple

import tensorflow as tf

from estimator_spec.core._tensorflow import tpu_embedding
from estimator_spec.core.embedding.mid_level_slots import mid_level_slot_names
from estimator_spec.core.embedding.optimizers import slot_names
from estimator_spec.core.embedding.spec import (
    EmbeddingConfigSpec,
    table_optimizer,
    tables_and_features,
)
from estimator_spec.mid_level import stacking

_LAYOUTS = "_sparse_core_table_layouts"
_VALUE = "/.ATTRIBUTES/VARIABLE_VALUE"

_Values = dict[str, dict[str, Any]]


def read_tables(embedding: Any) -> _Values:
    """Returns the values of tables and slots, in the order of ids and without padding.

    Args:
        embedding: a `TPUEmbedding` or `TPUEmbeddingV2` of ours, off a TPU.

    Returns:
        By name of the table, then of the slot ('parameters' for the table itself): float32 [V, D].
    """
    found: _Values = {}
    for table, where in _places(embedding).items():
        found[table] = {}
        for slot, variable in embedding.variables[where.variable].items():
            value = variable.read_value()
            if where.rows is not None:
                value = tf.gather(value, where.rows)[:, : where.width]
            found[table][slot] = value
    return found


def read_sparse_core_checkpoint(path: str, root: str = "embedding") -> _Values:
    """Returns the tables and slots of a `TPUEmbeddingV2`'s checkpoint, of any number of chips.

    Args:
        path: prefix of a checkpoint that `tf.train.Checkpoint(embedding=…)` wrote.
        root: the keyword.

    Returns:
        As `read_tables`, for `load_tables`.

    Raises:
        ValueError: the checkpoint has no such object under the root.
    """
    reader = tf.train.load_checkpoint(path)
    names = reader.get_variable_to_shape_map()
    layouts = _layouts_of(reader, root)
    if not layouts:
        raise ValueError(
            f"{path} has no stacked tables of a TPUEmbeddingV2 under {root!r}. It has "
            f"{sorted(names)[:5]}, …."
        )
    found: _Values = {}
    for table, layout in layouts.items():
        rows, width = layout.unsharded_shape
        places = stacking.positions(layout, tf.range(rows, dtype=tf.int64)).numpy()
        stack = f"{root}/{_escaped(layout.stacked_table_name)}"
        found[table] = {}
        for name in names:
            start, _, rest = name.partition(_VALUE)
            if rest or not name.endswith(_VALUE):
                continue
            if start == stack or start.startswith(f"{stack}.S"):
                slot = start[len(stack) + 2 :] or "parameters"
                if "." not in slot:
                    found[table][slot] = tf.constant(reader.get_tensor(name)[places][:, :width])
    return found


def check_layouts(path: str, layouts: Mapping[str, Any]) -> None:
    """Checks that a checkpoint has tables in the layouts of an object.

    Raises:
        ValueError: it hasn't.
    """
    reader = tf.train.load_checkpoint(path)
    roots = {
        name.split(f"/{_LAYOUTS}")[0]
        for name in reader.get_variable_to_shape_map()
        if _LAYOUTS in name
    }
    found = [_layouts_of(reader, root) for root in sorted(roots)]
    if any(_same(each, layouts) for each in found):
        return
    has = "other layouts, of another number of chips" if found else "tables that aren't stacked"
    raise ValueError(
        f"The checkpoint {path} has {has}. Load it by estimator_spec.mid_level.load_tables, from "
        "read_sparse_core_checkpoint, or from read_tables of a TPUEmbedding that has restored it."
    )


def load_tables(embedding: Any, values: Mapping[str, Mapping[str, Any]]) -> None:
    """Assigns values to tables and slots.

    Args:
        embedding: a `TPUEmbedding` or `TPUEmbeddingV2` of ours, off a TPU.
        values: as `read_tables` returns them; tables and slots that aren't there stay.

    Raises:
        ValueError: there is no such table or slot, or it has another shape. Nothing is assigned.
    """
    places = _places(embedding)
    assignments = []
    for table, slots in values.items():
        if table not in places:
            raise ValueError(f"There is no table {table!r}; the object has {sorted(places)}.")
        where = places[table]
        variables = embedding.variables[where.variable]
        for slot, value in slots.items():
            if slot not in variables:
                raise ValueError(
                    f"Table {table!r} has no {slot!r}; its optimizer makes {sorted(variables)}."
                )
            value = tf.convert_to_tensor(value, tf.float32)
            if tuple(value.shape) != where.shape:
                raise ValueError(
                    f"Table {table!r}: {slot!r} has the shape {where.shape}, and is given "
                    f"{tuple(value.shape)}."
                )
            assignments.append((variables[slot], where, value))
    for variable, where, value in assignments:
        if where.rows is None:
            variable.assign(value)
        else:
            padding = variable.shape[1] - where.width
            rows = tf.pad(value, [[0, 0], [0, padding]])
            variable.scatter_update(tf.IndexedSlices(rows, where.rows))


def estimator_values(
    embedding: Any, spec: EmbeddingConfigSpec, variable_names: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Returns the values of tables and slots by the names that an Estimator of a spec gives them.

    Args:
        embedding: a `TPUEmbedding` or `TPUEmbeddingV2` of ours, off a TPU, whose tables have the
            names of the spec's keys.
        spec: the spec.
        variable_names: full name of each table's variable by key, as
            `estimator_spec.checkpoints.tables_of` returns them for a checkpoint of the Estimator;
            None: the keys, as in specs without columns.

    Returns:
        float32 [V, D] by name of the variable.

    Raises:
        ValueError: the object lacks a table of the spec or a slot of its optimizer.
    """
    names = dict(variable_names or {})
    values = read_tables(embedding)
    found: dict[str, Any] = {}
    for key, config in tables_and_features(spec)[0].items():
        if key not in values:
            raise ValueError(f"The object has no table {key!r} of the spec, but {sorted(values)}.")
        name, slots = names.get(key, key), values[key]
        found[name] = slots["parameters"]
        parameters = table_optimizer(spec, config)
        if parameters is None:
            continue
        own = mid_level_slot_names(parameters)
        for slot, full in slot_names(parameters, name).items():
            if own.get(slot) not in slots:
                raise ValueError(
                    f"Table {key!r}: the object has no slot {slot!r} of the spec's "
                    f"{type(parameters).__name__}; it has {sorted(slots)}."
                )
            found[full] = slots[own[slot]]
    return found


def save_for_estimator(
    prefix: str,
    embedding: Any,
    spec: EmbeddingConfigSpec,
    global_step: int,
    variable_names: Mapping[str, str] | None = None,
    others: Mapping[str, Any] | None = None,
) -> None:
    """Writes a checkpoint that an Estimator of a spec restores, or a tool compares.

    Args:
        prefix: of the checkpoint, `model_dir/model.ckpt-7` for one. If its directory has no file
            `checkpoint`, one is written that names it.
        embedding: as for `estimator_values`.
        spec: the spec.
        global_step: step of the checkpoint.
        variable_names: as for `estimator_values`.
        others: further values by name of the variable: those of the model.

    Raises:
        ValueError: the object lacks a table of the spec or a slot of its optimizer, or the
            checkpoint exists.
    """
    if tf.compat.v1.train.checkpoint_exists(prefix):
        raise ValueError(f"The checkpoint {prefix} exists. Take another prefix, or remove it.")
    found = {name: tf.convert_to_tensor(value) for name, value in (others or {}).items()}
    found.update(estimator_values(embedding, spec, variable_names))
    found["global_step"] = tf.constant(global_step, tf.int64)
    directory = os.path.dirname(prefix)
    if directory:
        os.makedirs(directory, exist_ok=True)
    tf.raw_ops.SaveV2(
        prefix=prefix,
        tensor_names=list(found),
        shape_and_slices=[""] * len(found),
        tensors=list(found.values()),
    )
    if not os.path.exists(os.path.join(directory, "checkpoint")):
        tf.compat.v1.train.update_checkpoint_state(directory, prefix)


class _TablePlace(NamedTuple):
    """Position of a table in the variables of an embedding object.

    Attributes:
        variable: key of its variables.
        shape: its shape.
        rows: rows of its variable, int64 [V]; None: all.
    """

    variable: str
    shape: tuple[int, int]
    rows: Any = None

    @property
    def width(self) -> int:
        """Columns of the table."""
        return self.shape[1]


def _places(embedding: Any) -> dict[str, _TablePlace]:
    """Returns where each table of an embedding object is, by its name."""
    layouts = getattr(embedding, "embedding_layouts", None)
    if layouts is None:
        return {
            config.name: _TablePlace(config.name, (config.vocabulary_size, config.dim))
            for config in tpu_embedding.table_configs(embedding)
        }
    found = {}
    for name, layout in layouts.items():
        rows, width = layout.unsharded_shape
        ids = tf.range(rows, dtype=tf.int64)
        places = stacking.positions(layout, ids)
        found[name] = _TablePlace(layout.stacked_table_name, (rows, width), places)
    return found


def _layouts_of(reader: Any, root: str) -> dict[str, Any]:
    """Returns the layouts of an object in a checkpoint by name of the table; {} if it has none."""
    name = f"{root}/{_LAYOUTS}{_VALUE}"
    if not reader.has_tensor(name):
        return {}
    return stacking.parse_layouts(bytes(reader.get_tensor(name)))


def _same(first: Mapping[str, Any], second: Mapping[str, Any]) -> bool:
    """Returns whether layouts have each row of each table at the same place."""

    def places(layouts: Mapping[str, Any]) -> Any:
        return {
            table: (
                each.stacked_table_name,
                each.num_sparse_cores,
                each.total_rows_per_sparse_core_shard,
                each.sparse_core_shard_row_offset,
                each.sparse_core_shard_rotation,
                *each.unsharded_shape,
            )
            for table, each in layouts.items()
        }

    return bool(places(first) == places(second))


def _escaped(name: str) -> str:
    """Returns a name as keys of checkpoints have it."""
    return name.replace(".", "..").replace("/", ".S")
