# SPDX-License-Identifier: Apache-2.0
"""Which checkpoint a run starts from, and whether its files are whole.

TensorFlow answers "there is none" when it can't read one, and a program then starts over beside
the ruins of weeks of work. Here a directory has no checkpoint, or a readable one, or is refused.
Nothing in this file deletes or changes a checkpoint.
"""

from __future__ import annotations

import contextlib
import math
import os
import re
from collections.abc import Iterator
from typing import Any

import tensorflow as tf

from estimator_spec.driver.errors import CheckpointError, ModelDirError

tf1 = tf.compat.v1

_STATE_FILE = "checkpoint"
_SHARD = re.compile(r"\.data-(\d+)-of-(\d+)$")
_WHAT_TO_DO = (
    "Nothing was changed. Restore the file, or name another checkpoint in {state!r}, or move the "
    "directory away to start over."
)


def latest(model_dir: str) -> str | None:
    """The newest checkpoint of a directory.

    Args:
        model_dir: the directory.

    Returns:
        The prefix of its files, such as '/models/census/model.ckpt-200'. None if the directory
        was never used for one.

    Raises:
        CheckpointError: the directory says that it has one, but a file is missing or damaged.
    """
    state_file = os.path.join(model_dir, _STATE_FILE)
    if not tf.io.gfile.exists(state_file):
        return None
    state = _read_state(model_dir, state_file)
    prefix = str(state.model_checkpoint_path)
    check(prefix, _WHAT_TO_DO.format(state=state_file))
    return prefix


def _read_state(model_dir: str, state_file: str) -> Any:
    try:
        state = tf.train.get_checkpoint_state(model_dir)
    except (ValueError, UnicodeDecodeError) as error:
        raise CheckpointError(state_file, _unreadable_state(state_file)) from error
    if state is None or not state.model_checkpoint_path:
        raise CheckpointError(state_file, _unreadable_state(state_file))
    return state


def _unreadable_state(state_file: str) -> str:
    return (
        f"{state_file!r} should name the latest checkpoint, but it can't be read. Nothing was "
        'changed. Write a line `model_checkpoint_path: "model.ckpt-<step>"` into it that names a '
        "checkpoint of this directory, or move the directory away to start over."
    )


def check(prefix: str, what_to_do: str = "Nothing was changed.") -> None:
    """Finds missing, cut and unreadable files of a checkpoint without reading its tensors.

    Args:
        prefix: the checkpoint's path, without '.index' or '.data-…'.
        what_to_do: the end of the error's message.

    Raises:
        CheckpointError: names the file.
    """
    index = prefix + ".index"
    if not tf.io.gfile.exists(index):
        # TensorFlow 1.0 and before wrote one file, without an index.
        if tf.io.gfile.exists(prefix) and not tf.io.gfile.isdir(prefix):
            return
        raise CheckpointError(
            index,
            f"{prefix!r} is not a valid checkpoint: the file {index!r} is missing. {what_to_do}",
        )
    try:
        reader = tf.train.load_checkpoint(prefix)
        shapes = reader.get_variable_to_shape_map()
        dtypes = reader.get_variable_to_dtype_map()
    except (tf.errors.OpError, RuntimeError, ValueError) as error:
        raise CheckpointError(
            index,
            f"The checkpoint {prefix!r} is damaged: {index!r} can't be read ({error}). "
            f"{what_to_do}",
        ) from error
    shards = _shards(prefix, what_to_do)
    # Strings have no fixed size, so this is a lower bound: it finds a file that was cut short.
    needed = sum(
        math.prod(shape) * dtypes[name].size
        for name, shape in shapes.items()
        if dtypes[name] != tf.string
    )
    found = sum(tf.io.gfile.stat(shard).length for shard in shards)
    if found < needed:
        raise CheckpointError(
            shards[-1],
            f"The checkpoint {prefix!r} is damaged: {', '.join(map(repr, shards))} has {found} "
            f"bytes, its variables need {needed}. {what_to_do}",
        )


def _shards(prefix: str, what_to_do: str) -> list[str]:
    """The data files of a checkpoint, all of them."""
    # glob would read brackets in a directory's name as a pattern.
    directory, base = os.path.split(prefix)
    names = [
        name
        for name in tf.io.gfile.listdir(directory or ".")
        if name.startswith(base + ".data-") and _SHARD.search(name)
    ]
    if not names:
        missing = prefix + ".data-00000-of-00001"
        raise CheckpointError(
            missing,
            f"The checkpoint {prefix!r} is damaged: its data file, such as {missing!r}, is "
            f"missing. {what_to_do}",
        )
    count = max(int(_SHARD.search(name)[2]) for name in names)  # type: ignore[index]
    wanted = [f"{base}.data-{shard:05d}-of-{count:05d}" for shard in range(count)]
    for name in wanted:
        if name not in names:
            missing = os.path.join(directory, name)
            raise CheckpointError(
                missing,
                f"The checkpoint {prefix!r} is damaged: {missing!r} is missing. {what_to_do}",
            )
    return [os.path.join(directory, name) for name in wanted]


def chosen(checkpoint_path: str | None, model_dir: str) -> str | None:
    """The checkpoint that a user named, or else the directory's latest; checked either way.

    Returns:
        Its prefix, or None if no path was given and the directory has none.

    Raises:
        CheckpointError: a file is missing or damaged.
    """
    if checkpoint_path:
        path = os.fspath(checkpoint_path)
        check(path, "Give the path without '.index', '.data-…' or '.meta'.")
        return path
    return latest(model_dir)


def required(model_dir: str) -> str:
    """The latest checkpoint of a directory that must have one.

    Raises:
        ValueError: it has none.
        CheckpointError: a file is missing or damaged.
    """
    prefix = latest(model_dir)
    if prefix is None:
        raise ValueError(
            f"Could not find trained model in model_dir: {model_dir}. Train first, or check the "
            "path."
        )
    return prefix


def global_step(prefix: str | None) -> int:
    """The step that a checkpoint was written at; 0 without one, or without a step in it."""
    if prefix is None:
        return 0
    reader = tf.train.load_checkpoint(prefix)
    if not reader.has_tensor(tf1.GraphKeys.GLOBAL_STEP):
        return 0
    return int(reader.get_tensor(tf1.GraphKeys.GLOBAL_STEP))


@contextlib.contextmanager
def restoring(prefix: str | None) -> Iterator[None]:
    """Around the making of a session: damage that only reading the tensors shows.

    Args:
        prefix: the checkpoint that is being restored, if any.

    Raises:
        CheckpointError: names the checkpoint.
    """
    try:
        yield
    except (tf.errors.DataLossError, tf.errors.OutOfRangeError) as error:
        if prefix is None:
            raise
        raise CheckpointError(
            prefix,
            f"The checkpoint {prefix!r} is damaged: its tensors can't be read ({error.message}). "
            "Nothing was changed.",
        ) from error


def check_directory(model_dir: str, writable: bool) -> None:
    """Refuses a `model_dir` that can't be used.

    Args:
        model_dir: the directory.
        writable: makes it, if need be, and refuses one that can't be written too.

    Raises:
        ModelDirError: it is a file, can't be made, is read-only, or has a name that TensorFlow
            misreads.
    """
    if "[" in model_dir or "\\" in model_dir:
        raise ModelDirError(
            model_dir,
            f"model_dir {model_dir!r} has a '[' or a backslash in it. TensorFlow reads that as a "
            "pattern of file names and would not find its own checkpoints. Give another name.",
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
            "can be made and written by this user.",
        ) from error
    if "://" not in model_dir and not os.access(model_dir, os.W_OK | os.X_OK):
        raise ModelDirError(
            model_dir,
            f"model_dir {model_dir!r} can't be written: it is read-only for this user. Change "
            "its permissions, or give another directory.",
        )
