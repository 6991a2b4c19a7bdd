# SPDX-License-Identifier: Apache-2.0
"""Finds the checkpoint that a run starts from, and checks its files.

If TensorFlow can't read the latest checkpoint it behaves as if there were none, and a program then
trains from step 0 and overwrites its results. Here a damaged checkpoint is an error. Nothing in
this module deletes or changes a checkpoint.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

import tensorflow as tf

from estimator_spec.core.checkpoints import state_file
from estimator_spec.core.checkpoints.errors import DamagedCheckpointError
from estimator_spec.core.driver.errors import (
    CheckpointError,
    ModelDirError,
    find_file_fault,
    first_line,
)
from tpu_columns import shared_state

_STEP = tf.compat.v1.GraphKeys.GLOBAL_STEP
_WHAT_TO_DO = (
    "Nothing was changed. Restore the file, or name another checkpoint in {state!r}, or move the "
    "directory away to start over."
)


def find_latest(model_dir: str) -> str | None:
    """Returns the prefix of the latest checkpoint in a directory.

    Returns:
        The checkpoint prefix, such as '/models/census/model.ckpt-200'; None if the directory has no
        checkpoint.

    Raises:
        CheckpointError: the state file, which names the latest checkpoint, is missing or damaged,
            or a file of that checkpoint is.
    """
    prefix = state_file.find_latest(model_dir)
    if prefix is not None:
        check_files(prefix, _WHAT_TO_DO.format(state=state_file.path_of(model_dir)))
    return prefix


def check_files(prefix: str, what_to_do: str = "Nothing was changed.") -> None:
    """Checks that no file of a checkpoint is missing, truncated or unreadable.

    The tensors are not read.

    Args:
        prefix: the checkpoint prefix, without '.index' or '.data-…'.
        what_to_do: the last sentence of an error's message.

    Raises:
        CheckpointError: names the file.
    """
    index = prefix + ".index"
    if not tf.io.gfile.exists(index):
        # Checkpoints of TensorFlow 1.0 and before are one file without an index.
        if tf.io.gfile.exists(prefix) and not tf.io.gfile.isdir(prefix):
            return
        raise CheckpointError(
            index,
            f"{prefix!r} is not a valid checkpoint: the file {index!r} is missing. {what_to_do}",
        )
    # Imported when used: it isn't needed at start.
    from estimator_spec.core.checkpoints.bundle import Checkpoint

    try:
        # Not TensorFlow's reader, which ends the process at some contents of an index.
        Checkpoint(prefix).close()
    except DamagedCheckpointError as error:
        raise _damage(prefix, error.path, error.reason, what_to_do) from None


def _damage(prefix: str, path: str, reason: str, what_to_do: str) -> CheckpointError:
    """Returns the error of a damaged checkpoint."""
    return CheckpointError(path, f"The checkpoint {prefix!r} is damaged: {reason} {what_to_do}")


def choose_checkpoint(checkpoint_path: str | None, model_dir: str) -> str | None:
    """Returns the given checkpoint, or the latest in a directory, after checking its files.

    Returns:
        Its prefix; None if no path is given and the directory has no checkpoint.

    Raises:
        CheckpointError: a file is missing or damaged.
    """
    if checkpoint_path:
        path = os.fspath(checkpoint_path)
        check_files(path, "Give the path without '.index', '.data-…' or '.meta'.")
        return path
    return find_latest(model_dir)


def record_for_graph(prefix: str | None) -> None:
    """Records the checkpoint that the sessions of the default graph will restore, if any.

    Args:
        prefix: the checkpoint prefix, or None.
    """
    graph = tf.compat.v1.get_default_graph()
    graph.get_collection_ref(shared_state.CHECKPOINT)[:] = [] if prefix is None else [prefix]


def recorded_for_graph() -> str | None:
    """Returns the prefix of the checkpoint that was recorded for the default graph, or None.

    Models that are built from values of the checkpoint, not from variables, read it.
    """
    recorded = tf.compat.v1.get_collection(shared_state.CHECKPOINT)
    return recorded[0] if recorded else None


def require_latest(model_dir: str) -> str:
    """Returns the prefix of the latest checkpoint in a directory that must have one.

    Raises:
        ValueError: the directory has no checkpoint.
        CheckpointError: a file is missing or damaged.
    """
    prefix = find_latest(model_dir)
    if prefix is None:
        raise ValueError(
            f"Could not find trained model in model_dir: {model_dir}. Train first, or check the "
            "path."
        )
    return prefix


def read_global_step(prefix: str | None) -> int:
    """Returns the global step in a checkpoint; 0 without a checkpoint or a global step in it."""
    if prefix is None:
        return 0
    if not tf.io.gfile.exists(prefix + ".index"):  # the format of TensorFlow 1.0 and before
        reader = tf.train.load_checkpoint(prefix)
        return int(reader.get_tensor(_STEP)) if reader.has_tensor(_STEP) else 0
    # Imported when used: it isn't needed at start.
    from estimator_spec.core.checkpoints.bundle import Checkpoint

    with Checkpoint(prefix) as checkpoint:
        return checkpoint.read_global_step() or 0


def list_variables(prefix: str) -> list[str]:
    """Returns the sorted names of a checkpoint's variables.

    If TensorFlow's reader can't read the index, it says that there are none.

    Raises:
        CheckpointError: the checkpoint is damaged.
        OSError: the disk can't read it.
    """
    if not tf.io.gfile.exists(prefix + ".index"):  # the format of TensorFlow 1.0 and before
        return [name for name, _ in tf.train.list_variables(prefix)]
    from estimator_spec.core.checkpoints.bundle import Checkpoint

    with Checkpoint(prefix) as checkpoint:
        return sorted(checkpoint.variables)


@contextlib.contextmanager
def explain_damage(prefix: str | None) -> Iterator[None]:
    """Explains errors of a block that restores a checkpoint.

    Args:
        prefix: the checkpoint that the block restores, if any.

    Raises:
        CheckpointError: the checkpoint is damaged; names it.
        OSError: the disk can't read a file, or permits no reading; names it.
    """
    try:
        yield
    except (tf.errors.UnknownError, tf.errors.PermissionDeniedError) as error:
        fault = find_file_fault(error)
        if fault is None or error.op is None or not error.op.type.startswith("Restore"):
            raise
        raise fault.error("The file can't be read; nothing was changed") from None
    except (tf.errors.DataLossError, tf.errors.OutOfRangeError) as error:
        if prefix is None and isinstance(error, tf.errors.DataLossError):
            raise CheckpointError(
                "",
                f"A checkpoint that initial values come from is damaged: {first_line(error)}. "
                "Check it by `python -m estimator_spec checkpoint verify`, and take another.",
            ) from None
        if prefix is None:
            raise
        # Imported when used: it isn't needed at start.
        from estimator_spec.core.checkpoints import verification

        # TensorFlow names neither file nor variable.
        faults = verification.verify(prefix, progress=lambda done, total: None).faults
        if not faults:  # another op of the block failed
            raise
        what_to_do = "Nothing was changed. Restore the file, or name another checkpoint."
        raise _damage(prefix, prefix, faults[0], what_to_do) from None


def check_model_dir(model_dir: str, writable: bool) -> None:
    """Checks that `model_dir` can be used.

    Args:
        model_dir: the directory.
        writable: whether it will be written; then it is created, if need be.

    Raises:
        ModelDirError: it is a file, can't be created, is read-only, or TensorFlow would treat its
            name as a pattern.
    """
    if "[" in model_dir or "\\" in model_dir:
        raise ModelDirError(
            model_dir,
            f"model_dir {model_dir!r} has a '[' or a backslash in it. TensorFlow reads that as a "
            "pattern of file names and would not find its own checkpoints. Give another name.",
        )
    if writable and ("*" in model_dir or "?" in model_dir):
        raise ModelDirError(
            model_dir,
            f"model_dir {model_dir!r} has a '*' or '?' in it. TensorFlow reads that as a pattern "
            "of file names and would delete checkpoints of other directories. Give another name.",
        )
    if tf.io.gfile.exists(model_dir) and not tf.io.gfile.isdir(model_dir):
        raise ModelDirError(
            model_dir, f"model_dir must be a directory, but {model_dir!r} is a file."
        )
    if not writable:
        return
    try:
        tf.io.gfile.makedirs(model_dir)
    except tf.errors.OpError as error:
        raise ModelDirError(
            model_dir,
            f"model_dir {model_dir!r} can't be written: {error.message} Give a directory that "
            "this user can create and write.",
        ) from error
    if "://" not in model_dir and not os.access(model_dir, os.W_OK | os.X_OK):
        raise ModelDirError(
            model_dir,
            f"model_dir {model_dir!r} can't be written: it is read-only for this user. Change "
            "its permissions, or give another directory.",
        )
