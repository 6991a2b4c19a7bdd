# SPDX-License-Identifier: Apache-2.0
"""Writes the layouts of a graph's tables, and what trains them, into records of checkpoints."""

from __future__ import annotations

import os

import tensorflow as tf

from estimator_spec.core.checkpoints import records, state_file
from estimator_spec.core.cores import stacked_tables
from estimator_spec.core.cores.interface import TablesListener
from estimator_spec.core.embedding.spec import EmbeddingConfigSpec
from tpu_columns import engine, partition, storage

tf1 = tf.compat.v1

_BASENAME = "model.ckpt"  # the default of CheckpointSaverHook


class TableRecordListener(TablesListener):
    """Writes a record beside each checkpoint, and removes the records of deleted checkpoints."""

    def __init__(self, model_dir: str, spec: EmbeddingConfigSpec) -> None:
        self._model_dir = model_dir
        self._spec = spec

    def begin(self) -> None:
        """Reads the layouts and the engine of the finished graph."""
        graph = tf1.get_default_graph()
        layouts = storage.layouts(graph)
        keys = records.keys_of(self._spec, layouts)
        shapes = {partition.unsharded_name(v.op.name): v.shape for v in tf1.global_variables()}
        shapes.update({name: part.shape for name, part in stacked_tables.slices(graph).items()})
        tables = {
            name: records.TableRecord(layout, int(shapes[name][-1]), keys.get(name))
            for name, layout in layouts.items()
        }
        found = engine.found_in(graph)
        spec = records.describe_spec(self._spec)
        self._record = records.CheckpointRecord(tables, spec, found)
        self._log_change(found)

    def _log_change(self, current: str) -> None:
        """Logs that another engine trained the checkpoint that this training starts from."""
        latest = tf.train.latest_checkpoint(self._model_dir)
        found = records.read(latest) if latest is not None else None
        if found is not None and found.engine not in (None, current):
            tf1.logging.info(
                "%s was trained by %s, and training goes on by %s: the last digits may differ.",
                *(latest, found.engine, current),
            )

    def before_save(self, session: tf1.Session, global_step_value: int) -> None:
        """Writes the record first, so that no checkpoint is ever without one."""
        self._previous = self._latest()
        self._before = self._checkpoints()
        if self._record.tables:
            records.write_ahead(self._default_prefix(global_step_value), self._record)

    def after_save(self, session: tf1.Session, global_step_value: int) -> None:
        """Completes the record, and writes one for a checkpoint of another name."""
        latest = self._latest()
        prefix = self._default_prefix(global_step_value)
        if self._record.tables:
            if tf.io.gfile.exists(prefix + ".index"):
                records.finalize(prefix)
            # The hook may write elsewhere: an old checkpoint here may belong to another graph.
            known = latest is None or latest == self._previous
            if not known and not tf.io.gfile.exists(records.path_of(str(latest))):
                records.write(str(latest), self._record)
        for deleted in self._before - self._checkpoints():
            records.remove_orphan(deleted)

    def _latest(self) -> str | None:
        """Returns the prefix of the latest checkpoint that the state file names."""
        state = state_file.read(self._model_dir)
        return None if state is None else str(state.model_checkpoint_path)

    def _checkpoints(self) -> set[str]:
        """Returns the prefixes that the state file names."""
        state = state_file.read(self._model_dir)
        return set() if state is None else set(state.all_model_checkpoint_paths)

    def _default_prefix(self, step: int) -> str:
        return os.path.join(self._model_dir, f"{_BASENAME}-{step}")
