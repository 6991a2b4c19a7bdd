# SPDX-License-Identifier: Apache-2.0
"""Reads and writes `checkpoint`, the state file that names the checkpoints of a directory."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Sequence
from typing import Any

import tensorflow as tf
from google.protobuf import text_format

from estimator_spec.core.checkpoints import errors, files

_NAME = "checkpoint"
_INDEX = re.compile(r"(?P<base>.+)-(?P<step>\d+)\.index", re.DOTALL)
_DEFAULT_BASE = "model.ckpt"  # of CheckpointSaverHook


def path_of(directory: str) -> str:
    """Returns the path of a directory's state file."""
    return os.path.join(directory, _NAME)


def read(directory: str) -> Any:
    """Returns the `CheckpointState` of a directory; None if it has no state file.

    Raises:
        CheckpointError: the state file is damaged, or names no checkpoint.
        OSError: the disk can't read it.
    """
    path = path_of(directory)
    if not tf.io.gfile.exists(path):
        return None
    # Not tf.train.get_checkpoint_state, which returns None for whatever goes wrong.
    state = _state_type()()
    try:
        text_format.Parse(files.read_file(path).decode(), state)
    except (ValueError, text_format.ParseError):  # such as text that isn't UTF-8
        state.Clear()
    if state.model_checkpoint_path:
        state.model_checkpoint_path = os.path.join(directory, state.model_checkpoint_path)
        others = state.all_model_checkpoint_paths
        others[:] = [os.path.join(directory, other) for other in others]
        return state
    raise errors.CheckpointError(
        path,
        f"{path!r} should name the latest checkpoint, but it can't be read. Nothing was changed. "
        f"Write it anew by `{repair_command(directory)}`, or move the directory away to start "
        "over.",
    )


@functools.cache
def _state_type() -> type[Any]:
    """Returns the class of `CheckpointState` messages, which has no public name."""
    # Without the third argument it logs that the path isn't among the paths.
    return type(tf.compat.v1.train.generate_checkpoint_state_proto(".", _NAME, [_NAME]))


def find_latest(directory: str) -> str | None:
    """Returns the prefix that the state file of a directory names; None if it has no checkpoint.

    Raises:
        CheckpointError: the state file can't be read.
        MissingStateFileError: there are checkpoints, but no state file.
    """
    state = read(directory)
    if state is not None:
        return str(state.model_checkpoint_path)
    found = list_checkpoints(directory)
    if not found or all(map(_is_unfinished_first_save, found)):
        return None
    path = path_of(directory)
    raise errors.MissingStateFileError(
        path,
        f"{directory!r} has checkpoints, the last of them {os.path.basename(found[-1])!r}, but the "
        f"file {path!r}, which names the latest one, is missing. Nothing was changed. Write it by "
        f"`{repair_command(directory)}`, or move the checkpoints away to start over.",
    )


def _is_unfinished_first_save(prefix: str) -> bool:
    """Returns whether a checkpoint is of step 0 and its index unreadable: nothing was trained."""
    if not prefix.endswith("-0"):
        return False
    # Imported when used: it isn't needed at start.
    from estimator_spec.core.checkpoints import index_file

    path = prefix + ".index"
    try:
        index_file.read(files.read_file(path), path)
    except errors.DamagedCheckpointError:
        return True
    return False


def list_checkpoints(directory: str) -> list[str]:
    """Returns the prefixes of the checkpoints '<name>-<step>' in a directory, in order of step.

    If some are named 'model.ckpt-<step>', only these are listed. Files aren't opened.
    """
    if not tf.io.gfile.isdir(directory):
        return []
    names = tf.io.gfile.listdir(directory)
    data = {name.partition(".data-")[0] for name in names if ".data-" in name}
    found = [m for m in map(_INDEX.fullmatch, names) if m and m[0].removesuffix(".index") in data]
    default = [match for match in found if match["base"] == _DEFAULT_BASE]
    ordered = sorted(default or found, key=lambda match: (int(match["step"]), match["base"]))
    return [os.path.join(directory, match[0].removesuffix(".index")) for match in ordered]


def write(directory: str, prefixes: Sequence[str]) -> None:
    """Writes the state file of a directory atomically.

    Args:
        directory: the directory.
        prefixes: prefixes of its checkpoints, the latest one last.
    """
    names = [os.path.basename(prefix) for prefix in prefixes]
    state = tf.compat.v1.train.generate_checkpoint_state_proto(".", names[-1], names)
    files.write_atomically(path_of(directory), str(state).encode())


def repair_command(directory: str) -> str:
    """Returns the command line that writes a directory's state file anew."""
    return f"python -m estimator_spec checkpoint repair {directory}"
