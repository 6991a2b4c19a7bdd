# SPDX-License-Identifier: Apache-2.0
"""Defines the errors about a checkpoint's files."""

from __future__ import annotations


class CheckpointError(RuntimeError, ValueError):
    """A checkpoint is missing or can't be read.

    It is a `ValueError` too, as that is what a wrong `checkpoint_path` has always raised.

    Attributes:
        path: the file, or the checkpoint prefix, that the error is about.
    """

    def __init__(self, path: str, message: str) -> None:
        super().__init__(message)
        self.path = path


class DamagedCheckpointError(CheckpointError):
    """Bytes of a checkpoint are missing or wrong."""
