# SPDX-License-Identifier: Apache-2.0
"""Converts checkpoints to other names, layouts, optimizers' slots and vocabularies."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping
from typing import Any

from estimator_spec.checkpoints import change_report, planning
from estimator_spec.checkpoints.objects import ObjectCheckpoint
from estimator_spec.checkpoints.options import ConversionOptions
from estimator_spec.checkpoints.renaming import Rename
from estimator_spec.core.checkpoints import output_variables, records, variable_roles, writing
from estimator_spec.core.checkpoints.bundle import Checkpoint, CheckpointPath, find_prefix
from estimator_spec.core.common import own_files
from estimator_spec.core.embedding.spec import EmbeddingConfigSpec


def convert(
    source: CheckpointPath,
    target: CheckpointPath,
    spec: EmbeddingConfigSpec | None = None,
    *,
    rename: Rename = None,
    strategy: str | None = None,
    shards: int | None = None,
    slots: str | None = None,
    grow: Mapping[str, int] | None = None,
    vocabulary: Mapping[str, Any] | None = None,
    initializers: Mapping[str, Callable[..., Any]] | None = None,
    drop: Collection[str] = (),
    seed: int = 0,
    source_strategy: str | None = None,
    source_shards: int | None = None,
    tables: Collection[str] | None = None,
    objects: str | None = None,
    root: str = "embedding",
    dry_run: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> change_report.ConversionReport:
    """Writes a changed copy of a checkpoint; the source is only read.

    The copy's index is written last, so an interrupted conversion leaves no checkpoint. Every byte
    of the source is checked. Memory use doesn't depend on the tables' sizes, except for a
    vocabulary's words, or 8 bytes per row of a permutation.

    A table is named by its full variable name, a part of it between slashes ('word_embedding'),
    its key in the spec ('tbl_word'), or a feature that looks it up ('word'). `inspect` lists them.

    Args:
        source: checkpoint prefix, or a directory, of which the latest checkpoint is read.
        target: prefix of the new checkpoint, on a local disk. If its directory has no file
            `checkpoint`, one is written that names the new checkpoint, so that training there
            continues from it.
        spec: the spec of the new checkpoint. It identifies the tables, and their layout in a source
            without a record; tables with more rows in the spec grow, by the spec's initializer.
        rename: new names by old names of variables or tables, or pairs of a regular expression and
            its replacement. Slots are renamed with their variable.
        strategy: 'div' or 'mod', the new layout. None keeps each table's.
        shards: new number of shards of each table. None keeps each table's.
        slots: 'tpu' names slots as an embedding core does, 'cpu' as TF1's optimizers do. None
            keeps their names.
        grow: new number of rows, by table.
        vocabulary: a pair of vocabulary files (old, new), or an array with the old row (or -1) of
            each new row, by table.
        initializers: functions that return new rows, by table; called as
            `initializer([rows, width], dtype=dtype)`. Default: the spec's initializer, or a
            truncated normal with standard deviation 1/√width.
        drop: regular expressions; variables whose names contain a match are left out.
        seed: random seed of new rows.
        source_strategy: 'div' or 'mod', the layout of a source without a record.
        source_shards: its number of shards. None: the number of slices that a table is stored in.
        tables: names of the tables, if neither record, spec nor their names identify them.
        objects: 'tpu_embedding' or 'serving': writes what `tf.train.Checkpoint(embedding=…).save`
            writes for the `tf.tpu.experimental.embedding.TPUEmbedding` or `TPUEmbeddingForServing`
            that `estimator_spec.convert` makes from the same spec: the tables, unsharded and in row
            order, and those slots that the object has.
        root: the keyword of `tf.train.Checkpoint` for `objects`.
        dry_run: whether to report only, and write nothing.
        progress: called with (bytes done, bytes in all). Default: a bar, on a terminal.

    Returns:
        What was done, or would be done; printable.

    Raises:
        CheckpointError: the source is missing or damaged.
        ValueError: an argument can't be met, or the target exists.
        OSError: the target can't be written.
        RuntimeError: another process is writing the same target.
    """
    options = ConversionOptions(
        rename,
        strategy,
        shards,
        slots,
        grow,
        vocabulary,
        initializers,
        tuple(drop),
        seed,
        objects=None if objects is None else ObjectCheckpoint(objects, root, spec),
    )
    prefix, new_prefix = find_prefix(source), os.fspath(target)
    if not dry_run:
        own_files.remove_left(os.path.dirname(new_prefix) or ".")
    writing.check_target(new_prefix)
    with Checkpoint(prefix) as checkpoint:
        found = variable_roles.classify(
            checkpoint,
            spec,
            source_strategy,
            source_shards,
            tables,
            may_grow=True,
            may_shrink=bool(vocabulary),
        )
        spec_data = records.describe_spec(spec) if spec is not None else None
        plan = planning.Planner(checkpoint, found, options).plan(spec_data)
        notes = plan.notes
        if not dry_run:
            notes += _write(new_prefix, plan, checkpoint, progress)
    return change_report.ConversionReport(prefix, new_prefix, plan.changes, notes, bool(dry_run))


def _write(
    prefix: str,
    plan: planning.ConversionPlan,
    source: Checkpoint,
    progress: Callable[[int, int], None] | None,
) -> tuple[str, ...]:
    """Writes a planned checkpoint; returns a note if its directory's runs use another one."""
    if output_variables.write_checkpoint(
        prefix, plan.outputs, plan.record, source, progress, latest=True
    ):
        return ()
    state = os.path.join(os.path.dirname(prefix), "checkpoint")
    return (f"{state!r} names another checkpoint; runs in that directory go on from that one.",)
