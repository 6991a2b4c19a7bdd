# SPDX-License-Identifier: Apache-2.0
"""Restores tables whose layout or dtype in the checkpoint differs from the graph's.

The graph stores the layout of each of its tables (`tpu_columns.storage`), the record beside a
checkpoint those of the checkpoint's (`checkpoints.records`). Where they differ, the saver restores
a temporary copy of the checkpoint in the graph's layout.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf

from estimator_spec.core.checkpoints import records
from estimator_spec.core.driver import patching, shared_tables
from tpu_columns import shared_state, storage
from tpu_columns.partition import RowPartition

if TYPE_CHECKING:
    from estimator_spec.core.checkpoints.quantization import QuantizationStats

tf1 = tf.compat.v1


def set_default_strategy(strategy: str) -> None:
    """Sets the default graph's partition strategy for checkpoints without a record."""
    tf1.get_default_graph().get_collection_ref(shared_state.PARTITION_STRATEGY)[:] = [strategy]


@contextlib.contextmanager
def relayout_on_restore(
    saver: tf1.train.Saver, graph: tf.Graph, dtype: str = "float32"
) -> Iterator[Mapping[str, QuantizationStats]]:
    """Makes `saver.restore` restore tables of any layout, until the block ends.

    A variable that the record of a checkpoint lists is a table even if the graph stores no layout
    for it: its rows are then restored in row order.

    Args:
        saver: the saver.
        graph: its graph.
        dtype: dtype of the graph's tables.

    Yields:
        What quantized tables lose, by table; filled in by `saver.restore`.
    """
    layouts = storage.layouts(graph)
    strategy = (graph.get_collection(shared_state.PARTITION_STRATEGY) or ["div"])[0]
    losses: dict[str, QuantizationStats] = {}

    def restore_relaid(restore: Any, session: tf1.Session, save_path: str) -> None:
        def restore_by_names(prefix: str) -> None:
            if not (
                shared_tables.are_in(graph)
                and is_checkpoint(prefix)
                and shared_tables.restore(saver, graph, session, prefix)
            ):
                restore(session, prefix)

        wanted = {}
        if is_checkpoint(save_path):  # If not, `restore` raises an error that says why.
            variables = graph.get_collection(tf1.GraphKeys.GLOBAL_VARIABLES)
            # A partitioned variable without a layout has the shard names of its own program.
            names = {variable.op.name for variable in variables}
            recorded = recorded_layouts_in_row_order(save_path)
            wanted = {name: layout for name, layout in recorded.items() if name in names} | layouts
        if not wanted:
            restore_by_names(save_path)
            return
        # Imported when used: this loads most of the checkpoint tools.
        from estimator_spec.core.checkpoints import relayout

        with relayout.adapt_checkpoint(
            save_path, wanted, strategy, dtype if layouts else "float32"
        ) as found:
            restore_by_names(found.prefix)
            losses.update(found.quantization_stats)

    with patching.wrap_method(saver, "restore", restore_relaid):
        yield losses


def relayout_in_session(
    graph: tf.Graph, scaffold: tf1.train.Scaffold | None, checkpoint: str | None
) -> AbstractContextManager[Any]:
    """Makes the sessions created in the block restore tables of any layout.

    Args:
        graph: the default graph, finished.
        scaffold: the `Scaffold` of the session, or None.
        checkpoint: the checkpoint that the session will restore, or None.
    """
    recorded = checkpoint is not None and tf.io.gfile.exists(records.path_of(checkpoint))
    if not (storage.layouts(graph) or recorded or shared_tables.are_in(graph)):
        return contextlib.nullcontext()
    saver = scaffold.saver if scaffold is not None else None
    if saver is None:
        savers = graph.get_collection_ref(tf1.GraphKeys.SAVERS)
        if not savers:
            # As a Scaffold makes it; deferred, as later code may add variables.
            savers.append(tf1.train.Saver(sharded=True, allow_empty=True, defer_build=True))
        saver = savers[0]
    return relayout_on_restore(saver, graph)


def load_variable(checkpoint: str, name: str) -> Any:
    """Returns the value of a variable; rows of tables and slot variables are in row order.

    Raises:
        CheckpointError: the checkpoint is damaged.
    """
    if not is_checkpoint(checkpoint):  # the format of TensorFlow 1.0 and before
        return tf.train.load_variable(checkpoint, name)
    # Imported when used: they aren't needed at start.
    from estimator_spec.core.checkpoints import slots
    from estimator_spec.core.checkpoints.bundle import Checkpoint

    recorded = records.read(checkpoint)
    with Checkpoint(checkpoint) as opened:
        if recorded is not None:
            shapes = {other: variable.shape for other, variable in opened.variables.items()}
            records.check(checkpoint, recorded, shapes)
        variable = opened.variables.get(name)
        if variable is None or not variable.is_numbers or (variable.shape and not variable.is_rows):
            return tf.train.load_variable(checkpoint, name)
        value = opened.value(name)[()]
    for table, found in (recorded.tables if recorded else {}).items():
        if found.layout.in_row_order or np.shape(value) != (found.layout.num_rows, found.width):
            continue
        if name == table or slots.find_slots(table, [name]):
            return value[found.layout.permutation()]
    return value


def is_checkpoint(prefix: str) -> bool:
    """Returns whether a checkpoint with an index file has this prefix."""
    return bool(tf.io.gfile.exists(str(prefix) + ".index"))


def recorded_layouts_in_row_order(prefix: str) -> dict[str, RowPartition]:
    """Returns, for the tables in a checkpoint's record, a layout in row order on one shard."""
    recorded = records.read(prefix)
    return {
        name: RowPartition("div", table.layout.num_rows)
        for name, table in (recorded.tables if recorded else {}).items()
    }
