# SPDX-License-Identifier: Apache-2.0
"""What can be wrong with the files of a checkpoint."""

from __future__ import annotations


class CheckpointError(RuntimeError, ValueError):
    """A checkpoint that should be there is missing, or can't be read.

    It is a `ValueError` as well, because that is what a wrong `checkpoint_path` has always been.

    Attributes:
        path: the file (or the prefix of the files) at fault.
    """

    def __init__(self, path: str, message: str) -> None:
        super().__init__(message)
        self.path = path


class DamagedCheckpointError(CheckpointError):
    """Bytes of a checkpoint are missing or wrong."""
