# SPDX-License-Identifier: Apache-2.0
"""Writes a directory's missing or damaged state file anew."""

from __future__ import annotations

import dataclasses
import errno
import os

from estimator_spec.core.checkpoints import state_file, verification
from estimator_spec.core.checkpoints.bundle import Checkpoint
from estimator_spec.core.checkpoints.errors import CheckpointError


@dataclasses.dataclass(frozen=True)
class Repair:
    """The result of `repair`; `str()` formats it as text.

    Attributes:
        path: path of the state file.
        latest: prefix of the checkpoint that it names as the latest.
        prefixes: prefixes of all checkpoints that it names, in order of step.
        skipped: one sentence for each damaged checkpoint, which is left as it is.
        is_needed: False if the state file was right, and is unchanged.
        dry_run: whether nothing was written.
    """

    path: str
    latest: str
    prefixes: tuple[str, ...]
    skipped: tuple[str, ...]
    is_needed: bool
    dry_run: bool

    def __str__(self) -> str:
        if not self.is_needed:
            return f"{self.path}: nothing to repair, {self.latest} is complete"
        would = "would name" if self.dry_run else "names"
        names = ", ".join(map(os.path.basename, self.prefixes))
        lines = [f"{self.path} {would} {self.latest} as the latest checkpoint, and in all: {names}"]
        lines += [f"left out: {sentence}" for sentence in self.skipped]
        if len(self.prefixes) > 1:
            lines.append(
                "note: training deletes the oldest of them when there are more than "
                "RunConfig.keep_checkpoint_max"
            )
        return "\n".join(lines)


def repair(directory: str | os.PathLike[str], *, dry_run: bool = False) -> Repair:
    """Writes a directory's state file, `checkpoint`, if it is missing, unreadable or wrong.

    The latest checkpoint is the last in order of step whose checksums all match. Of the earlier
    ones, the index and the sizes of the data files are checked. No checkpoint is changed.

    Args:
        directory: directory of the checkpoints, such as a `model_dir`.
        dry_run: whether to report only, and write nothing.

    Returns:
        What was done, or would be done; printable.

    Raises:
        CheckpointError: the directory has no complete checkpoint.
        OSError: the state file can't be written, or the disk can't read a checkpoint.
    """
    directory = os.fspath(directory)
    path = state_file.path_of(directory)
    try:
        state = state_file.read(directory)
    except CheckpointError:
        state = None
    if state is not None:
        latest = str(state.model_checkpoint_path)
        if _fault(latest, every_byte=True) is None:
            listed = (*state.all_model_checkpoint_paths,) or (latest,)
            return Repair(path, latest, listed, (), False, dry_run)
    found: list[str] = []
    skipped: list[str] = []
    for prefix in reversed(state_file.list_checkpoints(directory)):
        fault = _fault(prefix, every_byte=not found)
        if fault is None:
            found.insert(0, prefix)
        else:
            skipped.append(fault)
    if not found:
        reasons = "".join(f"\n{sentence}" for sentence in skipped)
        raise CheckpointError(
            directory,
            f"{directory!r} has no complete checkpoint named '<name>-<step>'. Nothing was changed."
            + reasons,
        )
    if not dry_run:
        state_file.write(directory, found)
    return Repair(path, found[-1], tuple(found), tuple(skipped), True, dry_run)


def _fault(prefix: str, every_byte: bool) -> str | None:
    """Returns what is wrong with a checkpoint; None if it is complete."""
    try:
        if every_byte:
            return next(iter(verification.verify(prefix).faults), None)
        Checkpoint(prefix).close()
    except OSError as error:
        if error.errno != errno.EIO:
            return str(error)
        # It may be whole: without it, training would repeat steps and overwrite it.
        raise OSError(
            error.errno,
            f"{os.strerror(error.errno)}. Nothing was changed: try again, or move the checkpoint "
            "away to go on from an earlier one",
            error.filename,
        ) from None
    except CheckpointError as error:
        return str(error)
    return None
