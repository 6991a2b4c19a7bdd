# SPDX-License-Identifier: Apache-2.0
"""Verifies the checksums of a checkpoint."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from estimator_spec.core.checkpoints import records
from estimator_spec.core.checkpoints.bundle import Checkpoint, CheckpointPath, find_prefix
from estimator_spec.core.checkpoints.errors import CheckpointError, DamagedCheckpointError
from estimator_spec.core.common.terminal import ByteProgress, format_size


@dataclasses.dataclass(frozen=True)
class Verification:
    """The result of `verify`; `str()` formats it as text.

    Attributes:
        path: checkpoint prefix.
        num_variables: number of variables that were read.
        num_bytes: number of their bytes.
        faults: one sentence for each damage, with file and variable.
    """

    path: str
    num_variables: int
    num_bytes: int
    faults: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Whether nothing is damaged."""
        return not self.faults

    def __str__(self) -> str:
        size = format_size(self.num_bytes)
        head = f"{self.path}: {self.num_variables} variables, {size}: "
        if self.ok:
            return head + "all checksums fit"
        return "\n".join([head + f"{len(self.faults)} damaged", *self.faults])


def verify(
    path: CheckpointPath, *, progress: Callable[[int, int], None] | None = None
) -> Verification:
    """Reads every byte of a checkpoint and compares checksums.

    Args:
        path: checkpoint prefix, or a directory, of which the latest checkpoint is read.
        progress: called with (bytes done, bytes in all). Default: a bar, on a terminal.

    Returns:
        The faults; printable.

    Raises:
        CheckpointError: there is no checkpoint.
    """
    prefix = find_prefix(path)
    faults: list[str] = []
    record = None
    try:
        record = records.read(prefix)
    except CheckpointError as error:
        faults.append(str(error))
    try:
        with Checkpoint(prefix) as checkpoint:
            variables = list(checkpoint.variables.values())
            try:
                if record is not None:
                    records.check(prefix, record, {v.name: v.shape for v in variables})
            except CheckpointError as error:
                faults.append(str(error))
            total = sum(variable.num_bytes for variable in variables)
            with ByteProgress(total, progress) as read:
                for variable in variables:
                    for piece in variable.pieces:
                        try:
                            checkpoint.verify(variable, piece)
                        except DamagedCheckpointError as error:
                            faults.append(str(error))
                        read.advance(piece.size)
    except DamagedCheckpointError as error:
        return Verification(prefix, 0, 0, (*faults, str(error)))
    return Verification(prefix, len(variables), total, tuple(faults))
