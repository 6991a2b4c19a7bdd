# SPDX-License-Identifier: Apache-2.0
"""Defines the errors about a checkpoint's files."""

from __future__ import annotations

_ADVICE = "Nothing was changed. Take another checkpoint, or a backup of this one."


class CheckpointError(RuntimeError, ValueError):
    """A checkpoint is missing or can't be read.

    It is a `ValueError` too, as that is what a wrong `checkpoint_path` has always raised.

    Attributes:
        path: the file, or the checkpoint prefix, that the error is about.
    """

    def __init__(self, path: str, message: str) -> None:
        super().__init__(message)
        self.path = path


class MissingStateFileError(CheckpointError):
    """A directory has checkpoints, but no state file that names the latest one."""


class DamagedCheckpointError(CheckpointError):
    """Bytes of a checkpoint are missing or wrong.

    Attributes:
        path: the file.
        reason: what is wrong, a sentence.
    """

    def __init__(self, path: str, reason: str, advice: str = _ADVICE) -> None:
        super().__init__(path, f"{reason} {advice}")
        self.reason = reason
