# SPDX-License-Identifier: Apache-2.0
"""Writes local files, whole or not at all."""

from __future__ import annotations

import contextlib
import os
import tempfile


def write_atomically(path: str, data: bytes, mode: int = 0o644) -> None:
    """Writes a temporary file with these permissions beside a path, and renames it.

    Raises:
        OSError: it can't be written; an older file is as it was.
    """
    directory, name = os.path.split(os.path.abspath(path))
    descriptor, temporary = tempfile.mkstemp(prefix=f".{name}.", dir=directory)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, mode)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
