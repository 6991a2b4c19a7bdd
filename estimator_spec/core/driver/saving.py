# SPDX-License-Identifier: Apache-2.0
"""Makes savers keep a restored checkpoint's files, copy no tables, and explain failed writes."""

from __future__ import annotations

import contextlib
import glob
import numbers
import os
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import tensorflow as tf

from estimator_spec.core.checkpoints.errors import CheckpointError
from estimator_spec.core.common import own_files
from estimator_spec.core.cores import stacked_tables
from estimator_spec.core.driver import initial_values, patching
from estimator_spec.core.driver.errors import find_file_fault

tf1 = tf.compat.v1

_WRITING_OPS = ("SaveV2", "SaveSlices", "Save", "MergeV2Checkpoints")


def keep_checkpoint(saver: tf1.train.Saver, prefix: str | None) -> AbstractContextManager[None]:
    """Makes `saver.save` leave the files of a checkpoint as they are, until the block ends.

    A new session saves the checkpoint that it just restored. Its values are the same, but the files
    differ if the layout of a table or the list of variables does. As a save replaces the data
    before the index, an interruption between the two would leave neither checkpoint.

    Args:
        saver: a `tf.compat.v1.train.Saver`.
        prefix: checkpoint prefix; None, or a checkpoint without an index, protects nothing.
    """
    if prefix is None or not tf.io.gfile.exists(prefix + ".index"):
        return contextlib.nullcontext()

    def save_unless_kept(
        save: Any, session: Any, save_path: str, global_step: Any = None, **kw: Any
    ) -> Any:
        if isinstance(global_step, numbers.Integral):
            target = f"{save_path}-{global_step}"
            if os.path.normpath(target) == os.path.normpath(prefix):
                tf1.logging.info("The checkpoint %s was restored, and is kept as it is.", prefix)
                return target
        return save(session, save_path, global_step, **kw)

    return patching.wrap_method(saver, "save", save_unless_kept)


def disable_copy_on_read(graph: tf.Graph) -> tf.Operation | None:
    """Adds the op that lets the next reads of large variables share their memory.

    Since its first sparse update a resource variable is in a mode in which each read copies it. A
    save, which reads all variables at once, would take the memory of tables and slots again. The
    mode begins anew at the next sparse update, without a copy, as no read is left then.

    Args:
        graph: the finished graph of a training, to which ops are added.

    Returns:
        The op, to run before a save while no step runs; None if no variable has 1 MiB or more.
    """
    ops = []
    for _, handle in stacked_tables.large_variables(graph, initial_values.LARGE):
        if handle.type == "VarHandleOp":
            with graph.as_default(), tf1.device(handle.device):
                ops.append(tf.raw_ops.DisableCopyOnRead(resource=handle.outputs[0]))
    return tf.group(*ops, name="disable_copy_on_read") if ops else None


@contextlib.contextmanager
def guard_saves(
    scaffold: tf1.train.Scaffold,
    saver: Any,
    model_dir: str,
    before_saves: tf.Operation | None,
) -> Iterator[None]:
    """Keeps a training's saves from touching files of others, and makes them explain errors.

    Args:
        scaffold: the training's.
        saver: its saver, or the `tf.train.Checkpoint` of which it makes one when it is finalized.
        model_dir: the directory of the checkpoints.
        before_saves: an op to run before each save, or None.
    """
    with contextlib.ExitStack() as stack:

        def guard(saver: tf1.train.Saver) -> None:
            def save_guarded(save: Any, session: Any, *args: Any, **kw: Any) -> Any:
                if before_saves is not None:
                    session.run(before_saves)
                # TensorFlow reports a file that is too large as an `OutOfRangeError`, which
                # sessions treat as the end of the input.
                with _other_data_files_aside(saver), explain_write_errors():
                    return save(session, *args, **kw)

            stack.enter_context(patching.wrap_method(saver, "save", save_guarded))
            stack.enter_context(mark_saves(saver))
            stack.enter_context(keep_other_directories(saver, model_dir))

        if isinstance(saver, tf.train.Checkpoint):

            def finalize_and_guard(finalize: Any) -> Any:
                finalized = finalize()
                if scaffold.saver not in guarded:  # a lost session is created again
                    guarded.append(scaffold.saver)
                    guard(scaffold.saver)
                return finalized

            guarded: list[tf1.train.Saver] = []
            stack.enter_context(patching.wrap_method(scaffold, "finalize", finalize_and_guard))
        else:
            guard(saver)
        yield


def mark_saves(saver: tf1.train.Saver) -> AbstractContextManager[None]:
    """Makes `saver.save` mark the temporary directory that TensorFlow fills, until the block ends.

    TensorFlow removes it at the end of a save; what a killed save left there is removed by the next
    training. A directory of somebody else that has its name is put aside during the save:
    TensorFlow would write into it, and remove it if it is empty.

    Args:
        saver: a `tf.compat.v1.train.Saver`.
    """

    def save_marked(
        save: Any, session: Any, save_path: Any, global_step: Any = None, **kw: Any
    ) -> Any:
        target = os.fspath(save_path)
        if isinstance(global_step, numbers.Integral):
            target = f"{target}-{global_step}"
        elif global_step is not None:
            return save(session, save_path, global_step, **kw)
        with _marked(f"{target}_temp"):
            return save(session, save_path, global_step, **kw)

    return patching.wrap_method(saver, "save", save_marked)


@contextlib.contextmanager
def _marked(directory: str) -> Iterator[None]:
    """Creates and marks a directory of a save, and removes it when the block ends."""
    with contextlib.ExitStack() as stack:
        # Another error, such as that of a full disk, is TensorFlow's to report.
        with contextlib.suppress(OSError):
            if "://" not in directory:
                stack.enter_context(own_files.in_place_of_others(directory, own_files.Job.SAVE))
        yield


def keep_other_directories(saver: tf1.train.Saver, directory: str) -> AbstractContextManager[None]:
    """Makes `saver` delete no checkpoints outside a directory, until the block ends.

    The state file of a directory that was copied may have absolute paths, of the original's files:
    a saver takes all that it names for its own, and deletes the oldest.
    """

    def is_in_directory(path: str) -> bool:
        if "://" in path:
            return os.path.dirname(path) == directory.rstrip("/")
        return os.path.realpath(os.path.dirname(path)) == os.path.realpath(directory)

    def recover_own(recover: Any, checkpoint_paths: Any) -> None:
        recover([path for path in checkpoint_paths if is_in_directory(path)])

    return patching.wrap_method(saver, "recover_last_checkpoints", recover_own)


@contextlib.contextmanager
def _other_data_files_aside(saver: tf1.train.Saver) -> Iterator[None]:
    """Puts files aside that `saver` might delete for a checkpoint's own, until the block ends.

    It deletes data files by the pattern `<prefix>.data-*`, which files of others may match.
    """
    # A saver of the program's own may have no such list.
    known = getattr(saver, "last_checkpoints", None)
    with contextlib.ExitStack() as stack:
        for path in _other_data_files(known if isinstance(known, list) else []):
            with contextlib.suppress(OSError):  # a directory that can't be written
                stack.enter_context(own_files.put_aside(path))
        yield


def _other_data_files(prefixes: Iterable[str]) -> Iterator[str]:
    """Yields the files that are named like data of these checkpoints, and aren't theirs."""
    for prefix in prefixes:
        found = [] if "://" in prefix else glob.glob(f"{glob.escape(prefix)}.data-?????-of-?????")
        if len(found) < 2:
            continue
        # Imported when used: this loads most of the checkpoint tools.
        from estimator_spec.core.checkpoints.bundle import Checkpoint

        with contextlib.suppress(CheckpointError), Checkpoint(prefix) as checkpoint:
            yield from sorted({*found} - {*checkpoint.data_files})


@contextlib.contextmanager
def explain_write_errors() -> Iterator[None]:
    """Raises an `OSError` that names the file if TensorFlow can't write a file in the block.

    Raises:
        OSError: a full disk, for example; has `errno` and `filename`.
    """
    try:
        yield
    # Writers of event files raise the other two, for a full disk and for a file too large.
    except (tf.errors.OpError, RuntimeError, IndexError) as error:
        fault = find_file_fault(error)
        op = getattr(error, "op", None)
        if fault is None or (op is not None and op.type not in _WRITING_OPS):
            raise
        raise fault.error(
            "The file can't be written. Earlier checkpoints are unchanged: make room or permit "
            "writing, and run again to go on from the latest one"
        ) from None
