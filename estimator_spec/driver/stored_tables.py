# SPDX-License-Identifier: Apache-2.0
"""Tables of a graph and of a checkpoint: recording how they lie, and restoring them if they differ.

A graph notes how each of its tables lies (`tpu_columns.storage`), a record beside a checkpoint how
each lies there (`checkpoints.records`). Where the two differ, what is restored is a copy that fits.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
import weakref
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf

from estimator_spec.checkpoints import records
from estimator_spec.cores.interface import TablesListener
from tpu_columns import storage
from tpu_columns.partition import RowPartition

if TYPE_CHECKING:
    from estimator_spec.checkpoints.quantization import QuantizationStats
    from estimator_spec.checkpoints.relayout import AdaptedCheckpoint


tf1 = tf.compat.v1

_BASENAME = "model.ckpt"  # of a CheckpointSaverHook

_PART = re.compile(r"/part_\d+$")  # the end of a partitioned variable's shards' names

# A tuple, so that TensorFlow leaves the collection out of exported graphs.
_STRATEGY = ("estimator_spec", "partition_strategy")


def expect_strategy(strategy: str) -> None:
    """Says for the default graph how tables lie in checkpoints that have no record."""
    tf1.get_default_graph().get_collection_ref(_STRATEGY)[:] = [strategy]


class RecordTables(TablesListener):
    """Writes beside each checkpoint how its tables lie, and removes what is left of deleted ones.

    Args:
        model_dir: where checkpoints are written.
        spec: the `EmbeddingConfigSpec`.
    """

    def __init__(self, model_dir: str, spec: Any) -> None:
        self._model_dir = model_dir
        self._spec = spec

    def begin(self) -> None:
        """Reads the finished graph."""
        layouts = storage.layouts(tf1.get_default_graph())
        keys = records.keys_of(self._spec, layouts)
        widths = {_PART.sub("", v.op.name): v.shape for v in tf1.global_variables()}
        tables = {
            name: records.TableRecord(layout, int(widths[name][-1]), keys.get(name))
            for name, layout in layouts.items()
        }
        self._record = records.CheckpointRecord(tables, records.describe_spec(self._spec))

    def before_save(self, session: Any, global_step_value: int) -> None:
        """Writes the record first: no moment has a checkpoint without one."""
        del session
        self._before = tf.train.latest_checkpoint(self._model_dir)
        if self._record.tables:
            records.write_ahead(self._prefix(global_step_value), self._record)

    def after_save(self, session: Any, global_step_value: int) -> None:
        """Completes the record, records a checkpoint of another name, and clears away."""
        del session
        latest = tf.train.latest_checkpoint(self._model_dir)
        usual = self._prefix(global_step_value)
        if self._record.tables:
            if tf.io.gfile.exists(usual + ".index"):
                records.finalize(usual)
            # The hook may write elsewhere: what was here before is another graph's, perhaps.
            is_new = latest is not None and latest != self._before
            if is_new and not tf.io.gfile.exists(records.path_of(latest)):
                records.write(latest, self._record)
        records.remove_orphans(self._model_dir)

    def _prefix(self, step: int) -> str:
        return os.path.join(self._model_dir, f"{_BASENAME}-{step}")


def fit_when_restored(
    saver: Any, graph: Any, told: Callable[[AdaptedCheckpoint], None] | None = None
) -> None:
    """Makes a saver restore what fits the graph's tables.

    A variable that a record names is a table even if the graph didn't note it as one: then it holds
    its rows in their own order.

    Args:
        saver: a `tf.compat.v1.train.Saver`.
        graph: the graph, complete.
        told: called with what was restored in place of a checkpoint.
    """
    layouts = storage.layouts(graph)
    strategy = (graph.get_collection(_STRATEGY) or ["div"])[0]
    dtype = storage.dtype(graph)
    if getattr(saver, "fits_tables", False):
        return
    restore = saver.restore

    def restore_fitted(session: Any, save_path: str) -> None:
        if not _is_checkpoint(save_path):
            restore(session, save_path)  # which says what is wrong
            return
        wanted = {**_recorded(save_path, graph), **layouts}
        if not wanted:
            restore(session, save_path)
            return
        with _fitting().adapt_checkpoint(save_path, wanted, strategy, dtype) as found:
            restore(session, found.prefix)
            if told is not None:
                told(found)

    saver.restore = restore_fitted
    saver.fits_tables = True


def restore(saver: Any, session: Any, checkpoint: str) -> Mapping[str, QuantizationStats]:
    """Restores what fits the tables of the session's graph.

    Args:
        saver: a `tf.compat.v1.train.Saver`.
        session: a session of its graph.
        checkpoint: prefix of the checkpoint.

    Returns:
        What narrow tables lose, by table.

    Raises:
        CheckpointError: the checkpoint is damaged.
    """
    found: list[AdaptedCheckpoint] = []
    fit_when_restored(saver, session.graph, found.append)
    saver.restore(session, checkpoint)
    return found[0].quantization_stats if found else {}


def load_variable(checkpoint: str, name: str) -> Any:
    """The value of a variable; of a table, or what stands beside one, the rows in their own order.

    Args:
        checkpoint: its prefix.
        name: of the variable.
    """
    value = tf.train.load_variable(checkpoint, name)
    recorded = records.read(checkpoint)
    for table, found in (recorded.tables if recorded else {}).items():
        if found.layout.in_row_order or np.shape(value) != (found.layout.num_rows, found.width):
            continue
        if name == table or _slots().find_slots(table, [name]):
            return value[found.layout.permutation()]
    return value


def check_saver(saver: Any) -> None:
    """Refuses narrow tables that aren't there, or that a saver of the model's would fill.

    Args:
        saver: the model's own, or None.

    Raises:
        ValueError: says what to do.
    """
    graph = tf1.get_default_graph()
    dtype = storage.current().dtype
    if dtype == "float32":
        return
    if not storage.layouts(graph):
        raise ValueError(
            f"tables={dtype!r}, but the model makes no table of a TPU embedding column. Use "
            "tpu_columns.embedding_column, or leave `tables` out."
        )
    if saver is not None:
        raise ValueError(
            f"tables={dtype!r} needs TensorFlow's own saver, but the model's scaffold has one "
            "(for moving averages?), which could fill tables from other variables. Leave `tables` "
            "out, or copy the averages into a checkpoint of their own before."
        )


def report_losses(losses: Mapping[str, QuantizationStats], dtype: str, directory: str) -> None:
    """Logs what narrow tables lost, and writes it into a SavedModel that is being written.

    Args:
        losses: by table.
        dtype: what the tables are stored as.
        directory: of the SavedModel.
    """
    if not losses:
        return
    for name, loss in sorted(losses.items()):
        tf1.logging.info("Table %s is stored as %s: %s.", name, dtype, loss)
    path = os.path.join(directory, "assets.extra", "tables.json")
    tf.io.gfile.makedirs(os.path.dirname(path))
    data = {
        name: {
            "dtype": dtype,
            "largest_error": loss.largest,
            "rms_error": loss.rms,
            "rms_of_table": loss.table_rms,
        }
        for name, loss in sorted(losses.items())
    }
    with tf.io.gfile.GFile(path, "w") as file:
        file.write(json.dumps(data, indent=1) + "\n")


def fit_session(scaffold: Any, checkpoint: str | None) -> None:
    """Makes the session of the default graph restore what fits its tables.

    Args:
        scaffold: what the session will be made with, or None.
        checkpoint: what the session will restore, or None.
    """
    graph = tf1.get_default_graph()
    recorded = checkpoint is not None and tf.io.gfile.exists(records.path_of(checkpoint))
    if not storage.layouts(graph) and not recorded:
        return
    saver = scaffold.saver if scaffold is not None else None
    if saver is None:
        savers = tf1.get_collection_ref(tf1.GraphKeys.SAVERS)
        if not savers:
            # The one that a Scaffold would make; deferred, as not all variables need be there yet.
            savers.append(tf1.train.Saver(sharded=True, allow_empty=True, defer_build=True))
        saver = savers[0]
    fit_when_restored(saver, graph)


def fit_warm_start(settings: Any) -> Any:
    """Settings whose checkpoint fits the tables of the default graph.

    A copy lives as long as the graph does.

    Args:
        settings: `WarmStartSettings`.

    Raises:
        ValueError: a vocabulary is remapped over rows that mod sharding permuted.
    """
    graph = tf1.get_default_graph()
    layouts = storage.layouts(graph)
    path = settings.ckpt_to_initialize_from
    prefix = tf.train.latest_checkpoint(path) if tf.io.gfile.isdir(path) else path
    if not prefix or not _is_checkpoint(prefix):
        return settings
    previous = settings.var_name_to_prev_var_name or {}
    wanted = {previous.get(name, name): layout for name, layout in layouts.items()}
    recorded = records.read(prefix)
    for name, table in (recorded.tables if recorded else {}).items():
        wanted.setdefault(name, RowPartition("div", table.layout.num_rows))
    if not wanted:
        return settings
    for name in settings.var_name_to_vocab_info or {}:
        if name in layouts and not layouts[name].in_row_order:
            raise ValueError(
                f"{name!r} lies by {layouts[name].strategy!r} on {layouts[name].num_shards} "
                "shards, so its vocabulary can't be remapped while it is warm-started. Permute the "
                "rows by `python -m estimator_spec checkpoint convert --vocabulary` before."
            )
    with _fitting().adapt_checkpoint(prefix, wanted) as found:
        if found.prefix == prefix:
            return settings
        directory = tempfile.mkdtemp(prefix="warm-start-")
        weakref.finalize(graph, shutil.rmtree, directory, ignore_errors=True)
        kept = os.path.join(directory, "tables")
        shutil.move(os.path.dirname(found.prefix), kept)
        os.makedirs(os.path.dirname(found.prefix))
        return settings._replace(
            ckpt_to_initialize_from=os.path.join(kept, os.path.basename(prefix))
        )


def _recorded(prefix: str, graph: Any) -> dict[str, RowPartition]:
    """How variables of a graph lie that are tables by the record of a checkpoint.

    Those in one piece: how a program looks up in pieces of its own, nobody knows.
    """
    found = records.read(prefix)
    if found is None:
        return {}
    variables = graph.get_collection(tf1.GraphKeys.GLOBAL_VARIABLES)
    names = {variable.op.name for variable in variables}
    return {
        name: RowPartition("div", table.layout.num_rows)
        for name, table in found.tables.items()
        if name in names
    }


def _is_checkpoint(prefix: str) -> bool:
    return bool(tf.io.gfile.exists(str(prefix) + ".index"))


def _fitting() -> Any:
    """Most of the checkpoint tools; loaded where a checkpoint has to be fitted, not at start."""
    from estimator_spec.checkpoints import relayout

    return relayout


def _slots() -> Any:
    """What optimizers call their variables; loaded where somebody asks, too."""
    from estimator_spec.checkpoints import slots

    return slots
