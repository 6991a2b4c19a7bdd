# SPDX-License-Identifier: Apache-2.0
"""Imports `fcntl`, which locks files, or says which systems have it."""

from __future__ import annotations

try:
    import fcntl
except ImportError:
    raise ImportError(
        "Training, checkpoints and exports need Linux or macOS: this Python has no module fcntl, "
        "which locks files. On Windows, use the Windows Subsystem for Linux."
    ) from None

__all__ = ["fcntl"]
